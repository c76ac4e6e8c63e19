"""What a node learns of run times: means and spreads by type, and how wrong estimates were."""

from math import exp, inf, log
from random import Random
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.estimate import GUESS, UNKNOWN_SECONDS, Estimate, estimate_of
from dataward.node import learned_times as module
from dataward.node.learned_times import LEAST_SECONDS, LearnedTimes, RunningMean

CERTAIN, ROUGH = 0.0, 0.5
seconds = st.floats(0.01, 1e6)


def learned(**runs: list[float]) -> LearnedTimes:
    """What was learned from these run times, by type."""
    times = LearnedTimes()
    for task_type, found in runs.items():
        for one in found:
            times.learn(task_type, one)
    return times


def corrected(**runs: list[tuple[float, float]]) -> LearnedTimes:
    """What was learned from these pairs of measured and estimated run times, by type."""
    times = LearnedTimes()
    for task_type, found in runs.items():
        for measured, estimated in found:
            times.learn(task_type, measured, estimated)
    return times


# --- running means -------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=2))
def test_a_running_mean_has_the_mean_and_the_variance_of_its_numbers(numbers: list[float]) -> None:
    mean = RunningMean()
    for number in numbers:
        mean.add(number)

    assert mean.count == len(numbers)
    assert mean.mean == pytest.approx(fmean(numbers), rel=1e-9, abs=1e-6)
    assert mean.variance == pytest.approx(variance(numbers), rel=1e-6, abs=1e-3)


def test_a_running_mean_of_one_number_has_no_variance() -> None:
    mean = RunningMean()
    assert (mean.mean, mean.variance) == (0.0, 0.0)

    mean.add(7.0)

    assert (mean.mean, mean.variance) == (7.0, 0.0)


# --- means ---------------------------------------------------------------------------------------


def test_a_run_time_of_0_says_that_nothing_is_known() -> None:
    assert estimate_of(0.0, CERTAIN) == estimate_of(0.0, inf) == GUESS
    assert estimate_of(2.0, ROUGH) == Estimate(2.0, ROUGH)
    assert GUESS.seconds == UNKNOWN_SECONDS > 0


def test_a_type_is_expected_to_take_the_mean_of_its_runs() -> None:
    assert learned(sort=[1.0, 3.0], join=[100.0]).estimate("sort").seconds == 2.0


def test_a_type_that_has_not_run_takes_the_mean_of_all() -> None:
    times = learned(sort=[1.0, 3.0], join=[5.0])

    assert times.estimate("split").seconds == times.estimate(None).seconds == 3.0
    assert times.average_seconds == 3.0
    assert times.runs == 3


def test_of_nothing_a_guess_is_learned() -> None:
    assert LearnedTimes().estimate("sort") is GUESS
    assert LearnedTimes().average_seconds == 0.0
    assert LearnedTimes().runs == 0


def test_a_task_never_counts_as_nothing() -> None:
    assert learned(noop=[0.0, 0.0]).estimate("noop").seconds == LEAST_SECONDS > 0


def test_the_spread_of_runs_that_are_all_alike_is_0_and_of_one_run_is_not() -> None:
    assert learned(sort=[2.0, 2.0, 2.0]).estimate("sort").spread == 0.0
    assert 0 < learned(sort=[2.0]).estimate("sort").spread < inf


def test_the_spread_is_the_sigma_of_lognormal_run_times() -> None:
    random = Random(1)

    times = learned(sort=[random.lognormvariate(3.0, ROUGH) for _ in range(20_000)])

    assert times.estimate("sort").spread == pytest.approx(ROUGH, rel=0.05)


def test_a_node_that_has_seen_too_many_types_forgets_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TYPES_MAX", 2)

    times = learned(first=[1.0], second=[10.0], third=[100.0])

    assert times.estimate("first").seconds == 37.0  # as all
    assert times.estimate("second").seconds == 10.0


# --- corrections ---------------------------------------------------------------------------------


def test_estimates_that_were_right_are_not_corrected() -> None:
    assert corrected(sort=[(3.0, 3.0)] * 9).factor("sort") == 1.0
    assert LearnedTimes().factor("sort") == 1.0


def test_a_type_whose_estimates_were_three_times_too_short_is_corrected_by_nearly_that() -> None:
    few, many = (corrected(sort=[(30.0, 10.0)] * n).factor("sort") for n in (1, 100))

    assert 1.5 < few < 3.0
    assert many == pytest.approx(3.0, rel=0.02)


def test_a_type_that_has_not_run_is_corrected_as_all_are() -> None:
    times = corrected(sort=[(30.0, 10.0)] * 100)

    assert times.factor("join") == pytest.approx(3.0, rel=0.05)


def test_a_type_that_is_right_is_not_corrected_for_others_that_are_wrong() -> None:
    times = corrected(sort=[(1000.0, 10.0)] * 50, join=[(10.0, 10.0)] * 50)

    assert times.factor("join") == pytest.approx(1.0, rel=0.05)


def test_one_wild_run_does_not_spoil_the_estimates_of_its_type() -> None:
    times = corrected(sort=[(10.0, 10.0)] * 9 + [(10_000.0, 10.0)])

    assert 1.0 < times.factor("sort") < 2.5


def test_errors_to_both_sides_cancel_out() -> None:
    times = corrected(sort=[(20.0, 10.0), (5.0, 10.0)])

    assert times.factor("sort") == pytest.approx(1.0)


def test_runs_without_an_estimate_correct_nothing() -> None:
    assert learned(sort=[1000.0] * 9).factor("sort") == 1.0


@given(st.lists(st.tuples(seconds, seconds), min_size=1))
def test_a_correction_lies_between_none_and_the_worst_error_seen(
    runs: list[tuple[float, float]],
) -> None:
    errors = [log(measured / estimated) for measured, estimated in runs]

    factor = corrected(sort=runs).factor("sort")

    assert exp(min(*errors, 0.0)) * 0.999 <= factor <= exp(max(*errors, 0.0)) * 1.001


# --- both ----------------------------------------------------------------------------------------


def test_what_is_certain_is_believed() -> None:
    times = corrected(sort=[(30.0, 10.0)] * 9)

    assert times.expected_seconds(Estimate(10.0, CERTAIN), "sort") == 10.0


def test_what_is_estimated_is_corrected() -> None:
    times = corrected(sort=[(30.0, 10.0)] * 9)

    assert times.expected_seconds(Estimate(1.0, ROUGH), "sort") == times.factor("sort") > 2.0


def test_what_is_unknown_is_learned() -> None:
    times = learned(sort=[30.0, 50.0])

    assert times.expected_seconds(GUESS, "sort") == 40.0
    assert LearnedTimes().expected_seconds(GUESS, "sort") == UNKNOWN_SECONDS


def test_estimates_that_hold_for_the_speed_of_the_machine_need_no_correction() -> None:
    times = LearnedTimes(speed=0.5)

    times.learn("sort", 20.0, estimated_seconds=10.0)

    assert times.factor("sort") == 1.0
    assert times.expected_seconds(Estimate(30.0, ROUGH), "sort") == 60.0
