"""Forecasts: when cores are free, when tasks would start, and when a running task is late."""

from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.node.attempts import UnderWay
from dataward.node.forecast import (
    OVERDUE_SHARE,
    cores_free_in,
    expected_seconds,
    late_after_seconds,
    overrun_seconds,
    remaining_seconds,
    starts_in,
)
from dataward.node.learned_times import LearnedTimes
from node.fake_world import FakeWorld, a_queue_entry

NOTHING = LearnedTimes()


def an_attempt(seconds: float, started_at: float | None = 0.0, spread: float = 0.0) -> UnderWay:
    world = FakeWorld()
    fiber = world.kernel.spawn(world.wait_for_ever())
    entry = a_queue_entry("t", seconds=seconds, spread=spread)
    return UnderWay(fiber, entry, started_at=started_at)


def test_a_task_that_stores_its_outputs_has_no_core_and_is_not_behind() -> None:
    attempt = an_attempt(30.0)
    attempt.finish_run()

    assert cores_free_in([attempt], 1, 10.0, NOTHING) == [0.0]
    assert overrun_seconds(attempt, 100.0, NOTHING) == 0.0


def test_a_running_task_still_takes_what_is_left_of_its_estimate() -> None:
    assert remaining_seconds(an_attempt(60.0), 20.0, NOTHING) == 40.0


def test_a_task_that_has_not_started_takes_all_of_it() -> None:
    assert remaining_seconds(an_attempt(60.0, started_at=None), 20.0, NOTHING) == 60.0


def test_an_overdue_task_takes_a_share_of_what_it_has_taken() -> None:
    assert remaining_seconds(an_attempt(60.0), 100.0, NOTHING) == OVERDUE_SHARE * 100.0


def test_cores_without_a_task_are_free_now() -> None:
    attempts = [an_attempt(60.0), an_attempt(30.0), an_attempt(5.0, started_at=None)]

    assert sorted(cores_free_in(attempts, 4, 10.0, NOTHING)) == [0.0, 0.0, 20.0, 50.0]


def test_tasks_start_in_order_on_the_core_that_is_free_first() -> None:
    entries = [a_queue_entry(name, seconds=10.0, spread=0.0) for name in "abc"]

    assert starts_in(entries, [0.0, 5.0], NOTHING) == {"a": 0.0, "b": 5.0, "c": 10.0}


@given(
    st.lists(st.floats(0.1, 100.0), max_size=12),
    st.lists(st.floats(0.0, 100.0), min_size=1, max_size=4),
)
def test_nobody_starts_before_a_core_is_free_and_no_core_idles(
    runs: list[float], cores: list[float]
) -> None:
    entries = [a_queue_entry(f"t{i}", seconds=run, spread=0.0) for i, run in enumerate(runs)]
    free = sorted(cores)

    starts = starts_in(entries, free, NOTHING)

    assert all(start >= min(cores) for start in starts.values())
    assert sum(free) == pytest.approx(sum(cores) + sum(runs))


def test_a_task_of_certain_length_is_late_a_fifth_after_it() -> None:
    entry = a_queue_entry(seconds=60.0, spread=0.0)

    assert late_after_seconds(entry, NOTHING) == pytest.approx(72.0)


def test_the_less_certain_the_estimate_the_later_a_task_is_late() -> None:
    entry = a_queue_entry(seconds=60.0, spread=0.5)

    assert late_after_seconds(entry, NOTHING) == pytest.approx(60.0 * exp(1.0))


def test_a_task_without_an_estimate_is_late_by_its_type() -> None:
    times = LearnedTimes()
    for seconds in (10.0, 10.0, 10.0):
        times.learn("sort", seconds)
    entry = a_queue_entry(seconds=1.0, spread=inf, task_type="sort")

    assert late_after_seconds(entry, times) == pytest.approx(12.0)


def test_a_task_of_which_nothing_is_known_is_hardly_ever_late() -> None:
    entry = a_queue_entry(seconds=1.0, spread=inf)

    assert late_after_seconds(entry, NOTHING) > 1e8


def test_what_was_not_estimated_is_never_overrun() -> None:
    assert overrun_seconds(an_attempt(60.0), 100.0, NOTHING) == 40.0
    assert overrun_seconds(an_attempt(60.0), 50.0, NOTHING) == 0.0
    assert overrun_seconds(an_attempt(60.0, spread=inf), 1000.0, NOTHING) == 0.0
    assert overrun_seconds(an_attempt(60.0, started_at=None), 1000.0, NOTHING) == 0.0


def test_what_runs_on_a_slow_machine_as_long_as_it_must_there_is_not_late() -> None:
    slow = LearnedTimes(speed=0.5)
    entry = a_queue_entry(seconds=60.0, spread=0.0)

    assert expected_seconds(entry, slow) == 120.0
    assert late_after_seconds(entry, slow) == pytest.approx(144.0)
    assert overrun_seconds(an_attempt(60.0), 100.0, slow) == 0.0
    assert overrun_seconds(an_attempt(60.0), 130.0, slow) == 10.0
