import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.deadlines.local_schedule import Frame, TimeHole
from dataward.deadlines.reference_points import POINTS, reference_points
from dataward.deadlines.search import (
    NONE,
    best_class,
    cut_in_two,
    largest_class,
    serving_classes,
)
from dataward.deadlines.summary import (
    CLASS_LEVELS,
    CLASSES,
    LEVEL_LEAST,
    LEVEL_MOST,
    PAIR_ENDS,
    PAIR_SPANS,
    PAIRS,
    carried_over,
    class_of,
    classes_of,
    level_of,
    pair_limits,
    summary_of,
    summed,
    with_new_points,
)

NOW = 4 * 3600 + 33 * 60.0
SET = reference_points(NOW)
some_holes = st.tuples(st.floats(0, 90000), st.floats(1, 90000)).map(
    lambda both: TimeHole(NOW + both[0], NOW + both[0] + both[1])
)
speeds = st.floats(0.25, 4)


@pytest.mark.parametrize(("work", "level"), [(31.9, -1), (32, 5), (63.9, 5), (64, 6), (1e9, 17)])
def test_availability_is_rounded_down_to_a_power_of_two(work: float, level: int) -> None:
    assert level_of(work) == level


def test_there_are_as_many_spans_as_points_up_to_the_end_point() -> None:
    assert len(PAIRS) == POINTS * (POINTS + 1) // 2
    assert len(PAIRS) * (LEVEL_MOST - LEVEL_LEAST + 1) == CLASSES


def test_a_hole_between_two_points_has_a_span_of_one() -> None:
    minute = 60.0
    number = class_of(TimeHole(NOW + 8 * minute, NOW + 16 * minute), 1.0, NOW, SET)  # 4:41 to 4:49

    assert (PAIR_ENDS[number % len(PAIRS)], PAIR_SPANS[number % len(PAIRS)]) == (1, 1)
    assert CLASS_LEVELS[number] == 8  # 480 s


def test_a_hole_from_now_to_the_end_spans_all_points() -> None:
    number = class_of(TimeHole(0.0, 1e9), 1.0, NOW, SET)

    assert (PAIR_ENDS[number % len(PAIRS)], PAIR_SPANS[number % len(PAIRS)]) == (9, 10)


@given(some_holes, speeds)
def test_a_hole_lies_within_the_limits_of_its_class(hole: TimeHole, speed: float) -> None:
    number = class_of(hole, speed, NOW, SET)
    if number < 0:
        return
    end = min(hole.end, SET[-1])

    earliest, latest, sure_start, sure_end = (
        limit[number % len(PAIRS)] for limit in pair_limits(NOW, SET)
    )

    assert earliest <= hole.start <= sure_start
    assert sure_end <= end <= latest
    assert 2.0 ** CLASS_LEVELS[number] <= (end - hole.start) * speed


@given(st.lists(st.tuples(some_holes, speeds), max_size=8), st.integers(0, 8))
def test_aggregation_is_a_sum_and_the_order_of_branches_does_not_matter(
    nodes: list[tuple[TimeHole, float]], at: int
) -> None:
    rows = [summary_of(classes_of([hole], speed, NOW, SET)) for hole, speed in nodes]
    rows = rows or [summary_of([])]

    together = summed(rows)
    by_branch = summed([summed(rows[:at]), summed(rows[at:])])

    assert (together == by_branch).all()
    assert together.sum() == sum(class_of(h, s, NOW, SET) >= 0 for h, s in nodes)


@settings(max_examples=300)
@given(some_holes, speeds, st.floats(0, 40000), st.floats(60, 60000), st.floats(1, 40000))
def test_a_class_that_surely_serves_has_only_holes_that_do(
    hole: TimeHole, speed: float, start: float, wide: float, work: float
) -> None:
    number = class_of(hole, speed, NOW, SET)
    frame = Frame(NOW + start, NOW + start + wide)

    surely, possibly = serving_classes(
        np.array([frame.startline]), np.array([frame.deadline]), np.array([work]), NOW, SET
    )

    part = min(hole.end, SET[-1], frame.deadline) - max(hole.start, frame.startline)
    if number >= 0 and surely[0, number]:
        assert part * speed >= work - 1e-6
        assert possibly[0, number]


def test_rows_of_requests_are_served_each_for_itself() -> None:
    starts = np.array([NOW, NOW + 3600.0])
    ends = starts + 7200.0
    work = np.array([600.0, 60.0])

    both = serving_classes(starts, ends, work, NOW, SET)
    alone = [
        serving_classes(starts[i : i + 1], ends[i : i + 1], work[i : i + 1], NOW, SET)
        for i in range(2)
    ]

    assert (both.surely == np.vstack([each.surely for each in alone])).all()
    assert (both.possibly == np.vstack([each.possibly for each in alone])).all()


@given(st.sets(st.integers(0, CLASSES - 1), max_size=5), st.sets(st.integers(0, CLASSES - 1)))
def test_the_smallest_class_that_serves_is_chosen(have: set[int], serve: set[int]) -> None:
    counts, mask = np.zeros((1, CLASSES), dtype=np.int32), np.zeros((1, CLASSES), dtype=bool)
    counts[0, list(have)] = 2
    mask[0, list(serve)] = True

    assert best_class(counts, mask)[0] == min(have & serve, default=NONE)
    assert largest_class(counts, mask)[0] == max(have & serve, default=NONE)


@given(some_holes, speeds, st.floats(0, 20000))
def test_a_hole_stays_within_the_limits_of_its_class_under_later_points(
    hole: TimeHole, speed: float, passed: float
) -> None:
    later = (NOW + passed, reference_points(NOW + passed))
    number = class_of(hole, speed, NOW, SET)
    if number < 0:
        return

    moved = carried_over((NOW, SET), later)[number]

    if moved < 0:
        assert hole.end <= later[0]
    else:
        earliest, latest, _, _ = (limit[moved % len(PAIRS)] for limit in pair_limits(*later))
        assert max(hole.start, later[0]) >= earliest
        assert min(hole.end, SET[-1]) <= latest
        assert CLASS_LEVELS[moved] == CLASS_LEVELS[number]


def test_no_hole_is_lost_or_made_when_points_change() -> None:
    counts = np.arange(2 * CLASSES, dtype=np.int32).reshape(2, CLASSES)
    kinds = carried_over((NOW, SET), (NOW + 1800.0, reference_points(NOW + 1800.0)))

    moved = with_new_points(counts, kinds)

    assert (moved.sum(axis=1) == counts[:, kinds >= 0].sum(axis=1)).all()


@given(
    st.lists(st.floats(1, 100), min_size=1, max_size=6),
    st.floats(0, 10000),
    st.floats(1, 20000),
)
def test_a_sequence_is_cut_into_two_that_share_its_tasks_and_its_frame(
    work: list[float], start: float, wide: float
) -> None:
    frame = Frame(NOW + start, NOW + start + wide)
    cut = cut_in_two(frame, work, SET)
    if cut is None:
        assert len(work) == 1
        return

    count, first, second = cut

    assert 0 < count < len(work)
    assert first.startline == frame.startline < first.deadline == second.startline
    assert second.startline < second.deadline == frame.deadline
