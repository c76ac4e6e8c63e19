"""Cores, and who is free first, against searches over everything."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.plan import firsts
from dataward.plan.first_free import LOOKED_AT, FirstFree
from dataward.plan.firsts import Firsts, FirstsByGroup
from dataward.plan.free_cores import HOLES_MAX, FreeCores
from dataward.plan.gaps import Gap, Gaps, first_start
from dataward.plan.link_slots import without


@st.composite
def things(draw: st.DrawFn, holes_most: int) -> list[list[Gap]]:
    """What is left of some things after whole seconds were taken, with so many holes at most."""
    found: list[list[Gap]] = []
    for _ in range(draw(st.integers(1, 5))):
        gaps: list[Gap] = [(0.0, inf)]
        for second in draw(st.lists(st.integers(0, 30), unique=True, max_size=8)):
            gaps = without(gaps, float(second), second + 1.0)
        left = holes_most - sum(len(each) - 1 for each in found)
        found.append([*gaps[:-1][: max(left, 0)], gaps[-1]])
    return found


def index_of(gaps_of: list[list[Gap]]) -> FirstFree:
    index = FirstFree()
    for who, gaps in enumerate(gaps_of):
        for gap in gaps:
            index.add(who, gap)
    return index


@given(things(holes_most=LOOKED_AT), st.integers(0, 35), st.integers(0, 9))
def test_one_of_those_found_is_free_first(
    gaps_of: list[list[Gap]], ready: int, seconds: int
) -> None:
    found = index_of(gaps_of).first(float(ready), float(seconds))

    starts = [first_start(gaps, float(ready), float(seconds)) for gaps in gaps_of]
    assert len(found) <= 3
    assert min(starts[who] for who in found) == min(starts)


@given(things(holes_most=99), st.integers(0, 35), st.integers(0, 9))
def test_those_found_are_never_later_than_the_first_that_is_free_for_good(
    gaps_of: list[list[Gap]], ready: int, seconds: int
) -> None:
    found = index_of(gaps_of).first(float(ready), float(seconds))

    starts = [first_start(gaps_of[who], float(ready), float(seconds)) for who in found]
    assert min(starts) <= max(min(gaps[-1][0] for gaps in gaps_of), ready)


@given(things(holes_most=99))
def test_what_was_removed_is_not_found(gaps_of: list[list[Gap]]) -> None:
    index = index_of(gaps_of)
    for gap in gaps_of[0]:
        index.remove(0, gap)
    index.add(9, (1000.0, inf))

    assert 0 not in index.first(0.0, 1.0)


@given(st.data())
def test_nodes_are_free_as_the_table_of_all_gaps_says(data: st.DataObject) -> None:
    cores = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    plain = Gaps(cores, [1, 2, 3])
    free = FreeCores(cores, [0] * len(cores), {1: 0.0, 2: 0.0, 3: 0.0})
    for _ in range(data.draw(st.integers(1, 10))):
        node = data.draw(st.integers(0, len(cores) - 1))
        width = data.draw(st.integers(1, cores[node]))
        ready, seconds = (float(data.draw(st.integers(0, 9))) for _ in range(2))

        start = free.start_on(node, width, ready, seconds)

        assert start == plain.start_on(node, width, ready, seconds)
        free.take(node, width, start, start + seconds)
        plain.take(node, width, start, start + seconds)


def test_gaps_in_which_no_task_fits_are_forgotten() -> None:
    free = FreeCores([1], [0], {1: 5.0})

    free.take(0, 1, 4.0, 10.0)
    free.take(0, 1, 15.0, 20.0)

    assert free.start_on(0, 1, 0.0, 1.0) == 10.0
    assert free.free_for_good(0, 1) == 20.0


def test_of_many_gaps_of_a_node_the_shortest_is_forgotten() -> None:
    free = FreeCores([1], [0], {1: 0.0})
    for at in range(HOLES_MAX + 1):
        free.take(0, 1, 100.0 * at + (1 if at == 7 else 50), 100.0 * (at + 1))

    assert free.start_on(0, 1, 700.0, 1.0) == 800.0
    assert free.start_on(0, 1, 600.0, 1.0) == 600.0


def test_a_kind_without_a_node_that_is_wide_enough_has_no_first() -> None:
    free = FreeCores([1, 2], [0, 1], {1: 0.0, 2: 0.0})

    assert free.first(2, 0, 0.0, 1.0) == []
    assert set(free.first(2, 1, 0.0, 1.0)) == {1}


# --- values that grow ----------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=firsts.UPDATES_MAX),
    st.integers(1, 4),
)
def test_the_lowest_are_found_though_values_have_grown(
    values: list[int], grown: list[tuple[int, int]], count: int
) -> None:
    heap = Firsts(lambda who: values[who], range(len(values)))
    for who, by in grown:
        values[who % len(values)] += by

    found = heap.first(count)

    assert found == sorted(range(len(values)), key=lambda who: (values[who], who))[:count]
    assert heap.first(count) == found


@pytest.mark.parametrize("members", [100, 10_000])
def test_a_question_looks_at_few_members_even_if_all_values_have_grown(members: int) -> None:
    values = [0.0] * members
    looked_at: list[int] = []
    heap = Firsts(lambda who: looked_at.append(who) or values[who], range(members))
    values[:] = [1.0] * members
    looked_at.clear()

    heap.first(2)

    assert len(looked_at) <= firsts.UPDATES_MAX + 2


def test_each_group_has_its_first() -> None:
    values = [3.0, 2.0, 1.0, 0.0]
    groups = FirstsByGroup(values.__getitem__, [0, 0, 1, 2], [0, 1, 2])

    groups.add(3)

    assert groups.first(1) == [1, 2, 3]
