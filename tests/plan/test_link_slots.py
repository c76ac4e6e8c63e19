"""Links that carry one file after another, against a search over every moment."""

from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataward.plan.gaps import Gap, first_start
from dataward.plan.link_slots import GAPS_MAX, LinkSlots, first_meeting, take, without

ALL = slice(None)


@st.composite
def gaps(draw: st.DrawFn) -> list[Gap]:
    """What is left of a link after some whole seconds were taken, by luck."""
    found: list[Gap] = [(0.0, inf)]
    for second in draw(st.lists(st.integers(0, 20), unique=True, max_size=12)):
        found = without(found, float(second), second + 1.0)
    return found


def is_free(gaps: list[Gap], start: float, end: float) -> bool:
    return any(first <= start and end <= last for first, last in gaps)


@given(gaps(), gaps(), st.integers(0, 22), st.integers(0, 6))
def test_two_links_meet_as_early_as_both_are_free(
    one: list[Gap], other: list[Gap], ready: int, seconds: int
) -> None:
    found = first_meeting(one, other, float(ready), float(seconds))

    both = (s for s in range(ready, 100) if is_free(one, s, s + seconds))
    assert found == next(s for s in both if is_free(other, s, s + seconds))


@given(st.lists(gaps(), min_size=1, max_size=4), st.integers(0, 22), st.integers(0, 6))
def test_all_links_are_asked_at_once(links: list[list[Gap]], ready: int, seconds: int) -> None:
    slots = LinkSlots(len(links))
    for link, free in enumerate(links):
        slots.put(link, free)

    starts = slots.first_starts(float(ready), np.full(len(links), float(seconds)), ALL)

    always: list[Gap] = [(0.0, inf)]
    expected = [first_meeting(free, always, float(ready), float(seconds)) for free in links]
    assert starts.tolist() == expected
    last = np.array([len(links) - 1])
    some = slots.first_starts(np.array([float(ready)]), np.full(1, float(seconds)), last)
    assert some.tolist() == expected[-1:]


def test_of_many_gaps_the_shortest_is_forgotten() -> None:
    slots = LinkSlots(1)
    many = [(100.0 * i, 100.0 * i + 50 - i) for i in range(GAPS_MAX + 3)]

    slots.put(0, [*many, (1e6, inf)])

    assert slots.gaps(0) == [*many[:GAPS_MAX], (1e6, inf)]
    assert slots.first_starts(100.0 * GAPS_MAX, np.array([1.0]), ALL).tolist() == [1e6]


def test_a_link_with_fewer_gaps_than_before_forgets_the_old_ones() -> None:
    slots = LinkSlots(1)
    slots.put(0, [(0.0, 1.0), (5.0, 6.0), (9.0, inf)])

    slots.put(0, [(9.0, inf)])

    assert slots.first_starts(0.0, np.array([1.0]), ALL).tolist() == [9.0]


@given(gaps(), st.integers(0, 22), st.integers(0, 6))
def test_taking_in_place_leaves_the_same(free: list[Gap], ready: int, seconds: int) -> None:
    start = first_start(free, float(ready), float(seconds))
    left = without(free, start, start + seconds)

    take(free, start, start + seconds)

    assert free == left


def test_taking_from_very_many_gaps_forgets_the_shortest() -> None:
    many = [(100.0 * i, 100.0 * i + 50 - i) for i in range(2 * GAPS_MAX)]

    take(many, 0.0, 0.0)
    assert len(many) == 2 * GAPS_MAX
    many.append((1e6, inf))
    take(many, 1e6, 1e6 + 1)

    assert many == [(100.0 * i, 100.0 * i + 50 - i) for i in range(GAPS_MAX)] + [(1e6 + 1, inf)]
