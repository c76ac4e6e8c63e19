from dataward.model.events import RunEnded, RunResumed, TaskDue, TaskReopened, TaskSkipped
from dataward.model.workflow import TaskId
from dataward.reports.outcome_counts import OutcomeCounts, count_outcomes
from reports.lives import error, failed, failed_with_parent, ran, removed
from reports.runs import simulated


def test_every_task_counts_once_however_often_its_end_is_told() -> None:
    split = ran("split", 1.0)
    events = [
        TaskSkipped(0.0, TaskId("left")),
        *split,
        split[-1],
        *error("right", 2.0),
        failed("right", 2.0),
        failed_with_parent("join", 2.5),
    ]

    assert count_outcomes(events) == OutcomeCounts(complete=1, skipped=1, failed=2, seconds=2.5)


def test_a_reopened_task_has_not_finished() -> None:
    events = [*ran("split", 1.0), TaskReopened(2.0, TaskId("split"), 1)]

    assert count_outcomes(events) == OutcomeCounts(0, 0, 0, 2.0)


def test_a_task_that_is_due_after_all_and_one_that_is_tried_again_have_not_finished() -> None:
    due = [TaskSkipped(0.0, TaskId("left")), TaskDue(1.0, TaskId("left"), "it has changed")]
    tried_again = [*error("right", 1.0), failed("right", 1.0), RunResumed(2.0, 2)]

    assert count_outcomes([*due, *tried_again]) == OutcomeCounts(0, 0, 0, 2.0)


def test_a_removed_task_counts_as_one_until_the_run_is_resumed() -> None:
    events = [*ran("split", 1.0), removed("left", 2.0), removed("join", 2.0)]

    assert count_outcomes(events) == OutcomeCounts(1, 0, 0, 2.0, removed=2)
    assert count_outcomes([*events, RunResumed(3.0, 2)]) == OutcomeCounts(1, 0, 0, 3.0)


def test_a_simulated_run_comes_to_what_it_says_it_came_to() -> None:
    events = simulated(crashes=((10.0, "n1", 40.0),))
    end = events[-1]
    assert isinstance(end, RunEnded)

    counts = count_outcomes(events)

    assert (counts.complete, counts.failed) == (end.complete, end.failed)
