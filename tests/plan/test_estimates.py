"""What is known of a workflow before it runs: errors as they were asked for, guesses elsewhere."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_diamond
from dataward.errors import SettingError
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.estimates import (
    EXACT,
    UNKNOWN,
    Estimated,
    Estimates,
    as_estimated,
    guessed_seconds,
    parse_estimates,
)

seeds = st.integers(0, 2**32)
sigmas = st.floats(0.05, 2.0)


def many_tasks(count: int = 4000) -> Workflow:
    """Tasks of 10 s that do not know of each other, each writing a file of 1 MB."""
    wf = WorkflowBuilder("many")
    for i in range(count):
        wf.file(f"f{i}", 10**6)
        wf.task(f"t{i}", outputs=[f"f{i}"], runtime_seconds=10.0)
    return wf.build()


MANY = many_tasks()


def errors(known: Estimated, truth: Workflow = MANY) -> tuple[np.ndarray, np.ndarray]:
    """The logarithms of the factors by which run times and sizes are wrong."""
    seconds = np.log(known.workflow.runtime_seconds / truth.runtime_seconds)
    return seconds, np.log(known.workflow.size_bytes / truth.size_bytes)


# --- how good estimates are, in words ------------------------------------------------------------


@pytest.mark.parametrize("text", ["exact", "unknown", "0.5", "1", "10"])
def test_estimates_are_written_as_they_are_read(text: str) -> None:
    assert str(parse_estimates(text)) == text


def test_an_error_of_0_is_none() -> None:
    assert parse_estimates("0") == parse_estimates("0.0") == EXACT


@pytest.mark.parametrize("text", ["", "good", "-1", "nan", "inf", "11", "0.5%"])
def test_what_says_not_how_good_estimates_are_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="exact, unknown, or the sigma"):
        parse_estimates(text)


# --- the error -----------------------------------------------------------------------------------


@given(sigmas, seeds)
@settings(max_examples=25, deadline=None)
def test_errors_have_the_median_1_and_the_spread_asked_for(sigma: float, seed: int) -> None:
    known = as_estimated(MANY, Estimates(sigma), seed)

    for found in errors(known):
        # Of 4,000 normal numbers, the median is off by 0.02 sigma and the deviation by 0.011.
        assert abs(np.median(found)) < 0.1 * sigma
        assert np.std(found) == pytest.approx(sigma, rel=0.06)
    assert known.spread.tolist() == [sigma] * len(MANY)


def test_errors_of_run_times_and_of_sizes_are_drawn_apart() -> None:
    seconds, sizes = errors(as_estimated(MANY, Estimates(1.0), 1))

    assert abs(np.corrcoef(seconds, sizes)[0, 1]) < 0.06


@given(seeds, seeds)
@settings(max_examples=20, deadline=None)
def test_the_same_seed_draws_the_same_errors_and_another_seed_others(one: int, other: int) -> None:
    workflow = generate("montage", 60, seed=1)
    first, again, second = (
        as_estimated(workflow, Estimates(0.5), seed).workflow for seed in (one, one, other)
    )

    assert first == again
    assert (first == second) == (one == other)


def test_a_larger_sigma_makes_the_same_errors_larger() -> None:
    small, large = (errors(as_estimated(MANY, Estimates(s), 3))[0] for s in (0.5, 1.0))

    assert large == pytest.approx(2 * small, abs=1e-4)


def test_only_run_times_and_the_sizes_of_what_tasks_write_are_estimated() -> None:
    truth = a_diamond()
    known = as_estimated(truth, Estimates(2.0), 1).workflow
    made = truth.producers.degrees() > 0

    assert known.size_bytes[~made].tolist() == truth.size_bytes[~made].tolist() == [5]
    assert not np.isin(known.size_bytes[made], truth.size_bytes[made]).all()
    assert known.parents == truth.parents
    assert known.task_ids == truth.task_ids
    assert known.cores.tolist() == truth.cores.tolist()


def test_the_truth_is_left_alone() -> None:
    truth = a_diamond()

    as_estimated(truth, Estimates(2.0), 1)

    assert truth == a_diamond()


@given(st.sampled_from([0.0, 1e-6, 1e-3, 1e11]), st.sampled_from([0, 1, 2**60]), seeds)
@settings(deadline=None)
def test_however_wrong_an_estimate_is_it_is_a_possible_one(
    seconds: float, size_bytes: int, seed: int
) -> None:
    wf = WorkflowBuilder("extreme")
    wf.file("f", size_bytes)
    wf.task("t", outputs=["f"], runtime_seconds=seconds)

    known = as_estimated(wf.build(), Estimates(10.0), seed)

    (found,), (size,) = known.workflow.runtime_seconds, known.workflow.size_bytes
    assert (found > 0) == (seconds > 0)
    assert (size > 0) == (size_bytes > 0)
    assert found <= 1e11
    assert size <= 2**60
    assert known.spread[0] == (10.0 if seconds else inf)


# --- exact, and unknown --------------------------------------------------------------------------


def test_exact_estimates_are_the_truth_also_for_the_plan() -> None:
    truth = a_diamond()
    known = as_estimated(truth, EXACT, seed=1)

    assert known.workflow is truth
    assert known.for_planning() is truth
    assert not known.spread.any()


def test_of_what_is_unknown_nothing_is_said() -> None:
    known = as_estimated(a_diamond(), UNKNOWN, seed=1)

    assert known.workflow.runtime_seconds.tolist() == [0.0] * 4
    assert known.workflow.size_bytes.sum() == 5  # the input, which is at hand
    assert known.spread.tolist() == [inf] * 4


def test_a_plan_without_run_times_goes_by_depth() -> None:
    planned = as_estimated(a_diamond(), UNKNOWN, seed=1).for_planning()

    assert len(set(planned.runtime_seconds.tolist())) == 1
    assert (planned.runtime_seconds > 0).all()


def test_a_plan_without_sizes_prefers_whoever_has_a_file_but_waits_for_nobody() -> None:
    planned = as_estimated(a_diamond(), UNKNOWN, seed=1).for_planning()

    assert dict(zip(planned.file_ids, planned.size_bytes.tolist(), strict=True)) == {
        "in": 5, "a": 1, "b": 1, "c": 1, "d": 1, "out": 1,
    }  # fmt: skip


def typed(**seconds: float) -> Workflow:
    """Tasks named as type_number, with these run times."""
    wf = WorkflowBuilder("typed")
    for name, one in seconds.items():
        wf.task(name, name=name, runtime_seconds=one)
    return wf.build()


def test_a_task_without_a_run_time_is_planned_with_the_mean_of_its_type() -> None:
    workflow = typed(sort_1=2.0, sort_2=4.0, sort_3=0.0, join_4=90.0)

    assert guessed_seconds(workflow).tolist() == [2.0, 4.0, 3.0, 90.0]


def test_a_type_without_run_times_is_planned_with_the_mean_of_all() -> None:
    workflow = typed(sort_1=2.0, sort_2=4.0, join_3=0.0)

    assert guessed_seconds(workflow).tolist() == [2.0, 4.0, 3.0]


def test_run_times_that_are_all_known_are_left_alone() -> None:
    workflow = typed(sort_1=2.0, sort_2=4.0)

    assert guessed_seconds(workflow) is workflow.runtime_seconds


def test_a_run_time_of_0_that_is_certain_is_planned_as_that() -> None:
    workflow = typed(sort_1=2.0, sort_2=0.0)

    planned = as_estimated(workflow, EXACT, seed=1).for_planning()

    assert planned.runtime_seconds.tolist() == [2.0, 0.0]


def test_twice_too_long_is_as_likely_as_twice_too_short() -> None:
    found = errors(as_estimated(MANY, Estimates(1.0), 5))[0]

    long, short = (found > log(2)).mean(), (found < -log(2)).mean()

    assert long == pytest.approx(short, abs=0.03)
    assert long > 0.2
