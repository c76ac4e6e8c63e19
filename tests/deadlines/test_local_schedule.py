from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.deadlines.local_schedule import (
    Frame,
    QueueSlot,
    TimeHole,
    best_hole,
    holes,
    is_kept,
    next_to_start,
    paced,
    pushed_starts,
    reserved,
    spread_back,
)


def a_queue(*slots: tuple[float, float]) -> list[QueueSlot]:
    """Slots as (deadline, seconds), with their places as tasks."""
    return [QueueSlot(float(d), float(s), place) for place, (d, s) in enumerate(slots)]


# The paper's Fig. 3: T1 runs until 10; T4 should have started by the deadline of T3.
FIGURE_3 = a_queue((30, 10), (60, 15), (70, 20))


def test_holes_are_those_of_the_papers_figure_3() -> None:
    assert pushed_starts(FIGURE_3) == [20, 35, 50]
    assert holes(FIGURE_3, 10, 100) == [TimeHole(10, 20), TimeHole(30, 35), TimeHole(70, 100)]


def test_an_idle_node_is_one_hole_from_now_on() -> None:
    assert holes([], 7, 100) == [TimeHole(7, 100)]
    assert holes([], 100, 100) == []


def test_a_deadline_is_spread_back_over_the_tasks_of_a_sequence() -> None:
    assert spread_back(100, [10, 20, 5]) == [75, 95, 100]


def test_a_task_that_others_wait_for_ends_by_its_share_of_the_frame() -> None:
    # A fork, its longest branch and the join: the other branches have from 30 to 80.
    assert paced(Frame(0, 90), [10, 10, 10], [True, False, False]) == [30, 80, 90]


def test_the_smallest_hole_that_serves_is_taken() -> None:
    found = [
        TimeHole(0, 10),
        TimeHole(20, 26),
        TimeHole(30, 37),
        TimeHole(50, 57),
        TimeHole(80, inf),
    ]

    assert best_hole(found, Frame(0, 100), 7) == TimeHole(30, 37)
    assert best_hole(found, Frame(34, 100), 7) == TimeHole(50, 57)
    assert best_hole(found, Frame(3, 9), 6) == TimeHole(3, 9)
    assert best_hole(found, Frame(3, 9), 6.1) is None


def test_a_ready_task_does_not_overtake_one_that_it_would_make_late() -> None:
    queue = a_queue((30, 10), (60, 15), (90, 5))

    assert next_to_start(queue, 0, lambda task: True) == 0
    assert next_to_start(queue, 0, lambda task: task != 0) == 1
    assert next_to_start(queue, 6, lambda task: task != 0) == 2  # 6 + 15 is after 20
    assert next_to_start(queue, 16, lambda task: task != 0) is None


queues = st.lists(st.tuples(st.floats(0, 50), st.floats(0.5, 10)), min_size=0, max_size=7).map(
    lambda gaps: _feasible(gaps)
)


def _feasible(gaps: list[tuple[float, float]]) -> list[QueueSlot]:
    """A queue whose deadlines can be kept from 0 on: each leaves room for those before."""
    slots, busy = [], 0.0
    deadline = 0.0
    for place, (slack, seconds) in enumerate(gaps):
        busy += seconds
        deadline = max(deadline, busy + slack)
        slots.append(QueueSlot(deadline, seconds, place))
    return slots


@settings(deadline=None)
@given(queues, st.floats(0, 100))
def test_holes_are_free_in_the_pushed_schedule_and_together_all_that_is_free(
    queue: list[QueueSlot], free_from: float
) -> None:
    until = 500.0
    found = holes(queue, free_from, until)
    starts = pushed_starts(queue)
    busy = [
        (max(start, free_from), max(start + slot.seconds, free_from))
        for start, slot in zip(starts, queue, strict=True)
    ]

    for hole in found:
        assert free_from <= hole.start < hole.end <= until
        assert all(end <= hole.start + 1e-6 or start >= hole.end - 1e-6 for start, end in busy)
    free = sum(hole.seconds for hole in found)
    assert free + sum(end - start for start, end in busy) == pytest.approx(until - free_from)


@settings(deadline=None, max_examples=300)
@given(
    queues,
    st.floats(0, 60),
    st.floats(1, 80),
    st.lists(st.floats(0.5, 8), min_size=1, max_size=4),
    st.data(),
)
def test_what_is_put_into_a_hole_makes_nobody_late(
    queue: list[QueueSlot], startline: float, wide: float, seconds: list[float], data: st.DataObject
) -> None:
    frame = Frame(startline, startline + wide)
    hole = best_hole(holes(queue, 0.0, 500.0), frame, sum(seconds))
    if hole is None:
        return
    flags = data.draw(st.lists(st.booleans(), min_size=len(seconds), max_size=len(seconds)))
    deadlines = paced(Frame(*hole), seconds, flags)

    both = reserved(
        queue, [QueueSlot(d, s, f"new {d}") for d, s in zip(deadlines, seconds, strict=True)]
    )

    assert is_kept(both, 0.0)
    latest = dict(zip([slot.task for slot in both], pushed_starts(both), strict=True))
    before = dict(zip([slot.task for slot in queue], pushed_starts(queue), strict=True))
    assert all(latest[task] >= start - 1e-6 for task, start in before.items())
    previous = hole.start
    for deadline, length in zip(deadlines, seconds, strict=True):
        assert deadline - length >= previous - 1e-6
        previous = deadline
    assert deadlines[-1] == pytest.approx(hole.end)


@settings(deadline=None, max_examples=300)
@given(queues, st.data())
def test_every_deadline_is_kept_whenever_tasks_become_ready_in_time(
    queue: list[QueueSlot], data: st.DataObject
) -> None:
    ready = {
        slot.task: data.draw(st.floats(0, max(start, 0)))
        for slot, start in zip(queue, pushed_starts(queue), strict=True)
    }
    left, now = list(queue), 0.0
    while left:
        place = next_to_start(left, now, lambda task, now=now: ready[task] <= now)
        if place is None:
            now = min(ready[slot.task] for slot in left if ready[slot.task] > now)
            continue
        slot = left.pop(place)
        now += slot.seconds
        assert now <= slot.deadline + 1e-6
