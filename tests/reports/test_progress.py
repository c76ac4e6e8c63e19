from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_diamond, workflows
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    InputsStaged,
    NodeLost,
    RunEnded,
    RunResumed,
    TaskDue,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.progress import RunProgress, TaskCounts
from reports.lives import (
    attempt_of,
    done,
    error,
    failed,
    failed_with_parent,
    ran,
    removed,
    run_started,
    started,
    stopped,
)
from reports.runs import simulated


def followed(*events: Event, workflow: Workflow | None = None) -> RunProgress:
    progress = RunProgress(workflow or a_diamond())
    for event in events:
        progress.add(event)
    return progress


def brief(progress: RunProgress) -> dict[str, int]:
    """The counts that are not 0."""
    counts = progress.counts()
    fields = TaskCounts.__dataclass_fields__
    return {name: getattr(counts, name) for name in fields if getattr(counts, name)}


# --- counts --------------------------------------------------------------------------------------


def test_at_first_tasks_without_parents_are_ready_and_the_others_wait() -> None:
    assert brief(followed()) == {"waiting": 3, "ready": 1}


def test_a_task_stages_runs_and_is_complete() -> None:
    began = AttemptBegan(0.0, TaskId("split"), attempt_of("split"), "n0", False, 1)

    assert brief(followed(began)) == {"waiting": 3, "staging": 1}
    assert brief(followed(*started("split", 0.0))) == {"waiting": 3, "running": 1}
    assert brief(followed(*ran("split", 1.0))) == {"waiting": 1, "ready": 2, "complete": 1}


def test_a_task_that_stores_its_outputs_runs_no_more() -> None:
    wrote = done("split", 1.0)[:2]

    progress = followed(*started("split", 0.0), *wrote)

    assert brief(progress) == {"waiting": 3, "staging": 1}
    assert progress.running() == []


def test_a_task_waits_until_all_its_parents_have_finished() -> None:
    half = [*ran("split", 1.0), *ran("left", 2.0)]

    assert brief(followed(*half)) == {"waiting": 1, "ready": 1, "complete": 2}
    assert brief(followed(*half, *ran("right", 3.0))) == {"ready": 1, "complete": 3}


def test_a_skipped_task_counts_as_finished_for_its_children() -> None:
    progress = followed(TaskSkipped(0.0, TaskId("split")))

    assert brief(progress) == {"waiting": 1, "ready": 2, "skipped": 1}
    assert progress.counts().done == progress.counts().finished == 1


def test_an_outcome_told_twice_counts_once() -> None:
    twice = done("split", 1.0)[-1]

    progress = followed(*ran("split", 1.0), twice, TaskSkipped(1.0, TaskId("split")))

    assert brief(progress) == {"waiting": 1, "ready": 2, "complete": 1}
    assert progress.tasks_per_second(1.0) == 1.0


def test_a_reopened_task_is_ready_again_and_its_children_wait() -> None:
    reopened = TaskReopened(2.0, TaskId("split"), 1)

    progress = followed(*ran("split", 1.0), reopened, reopened)

    assert brief(progress) == {"waiting": 3, "ready": 1}
    for event in ran("split", 4.0, count=2, end=2):
        progress.add(event)
    assert brief(progress) == {"waiting": 1, "ready": 2, "complete": 1}


def test_old_news_of_a_reopened_task_is_not_believed() -> None:
    reopened = TaskReopened(2.0, TaskId("split"), 1)
    old_end = done("split", 1.0)[-1]

    assert brief(followed(*ran("split", 1.0), reopened, old_end)) == {"waiting": 3, "ready": 1}
    again = [*ran("split", 1.0), reopened, *ran("split", 3.0, count=2, end=2), reopened]
    assert brief(followed(*again)) == {"waiting": 1, "ready": 2, "complete": 1}


def test_a_child_that_is_complete_stays_so_when_its_parent_is_reopened() -> None:
    reopened = TaskReopened(3.0, TaskId("split"), 1)

    progress = followed(*ran("split", 1.0), *ran("left", 2.0), reopened)

    assert brief(progress) == {"waiting": 2, "ready": 1, "complete": 1}


@pytest.mark.parametrize("outcome", ["lost", "cancelled", "postponed", "released", "failed"])
def test_a_task_whose_only_attempt_came_to_nothing_is_ready_again(outcome: str) -> None:
    end = AttemptEnded(
        1.0, TaskId("split"), attempt_of("split"), "n0", AttemptOutcome(outcome), "why"
    )

    assert brief(followed(*started("split", 0.0), end)) == {"waiting": 3, "ready": 1}


def test_a_task_with_a_second_attempt_under_way_still_runs() -> None:
    both = [*started("split", 0.0), *started("split", 0.0, node="n1")]
    end = AttemptEnded(1.0, TaskId("split"), attempt_of("split"), "n0", AttemptOutcome.CANCELLED)

    progress = followed(*both, end)

    assert brief(progress) == {"waiting": 3, "running": 1}
    assert [attempt.node for attempt in progress.running()] == ["n1"]


def test_what_ran_on_a_lost_node_runs_no_more() -> None:
    progress = followed(*started("split", 0.0), NodeLost(1.0, "n0"))

    assert brief(progress) == {"waiting": 3, "ready": 1}
    assert progress.running() == []


def test_failed_tasks_are_told_apart_by_whose_fault_it_was() -> None:
    progress = followed(
        *ran("split", 1.0),
        *error("left", 2.0),
        failed("left", 2.0),
        failed_with_parent("join", 2.0),
        failed_with_parent("join", 2.0),
    )

    assert brief(progress) == {
        "ready": 1,
        "complete": 1,
        "failed_itself": 1,
        "failed_with_parent": 1,
    }
    assert progress.counts().failed == 2


def test_removed_tasks_are_finished_and_neither_done_nor_failed() -> None:
    progress = followed(
        *ran("split", 1.0), *stopped("left", 3.0), removed("left", 3.0), removed("join", 3.0)
    )

    assert brief(progress) == {"ready": 1, "complete": 1, "removed": 2}
    counts = progress.counts()
    assert (counts.finished, counts.done, counts.failed) == (3, 1, 0)
    assert progress.running() == []


def test_an_end_that_is_told_before_the_attempt_is_stopped_counts_all_the_same() -> None:
    *under_way, cancelled = stopped("split", 2.0)

    progress = followed(*under_way, removed("split", 1.5), cancelled)

    assert brief(progress) == {"waiting": 3, "removed": 1}


def test_removed_tasks_are_not_forecast() -> None:
    progress = followed(*ran("split", 1.0), removed("left", 1.0), *ran("right", 2.0),
                        removed("join", 2.0))  # fmt: skip

    assert not progress.remaining(2.0).is_open.any()


def test_a_child_of_a_failed_task_is_never_ready() -> None:
    progress = followed(*error("split", 1.0), failed("split", 1.0))

    assert brief(progress) == {"waiting": 3, "failed_itself": 1}


def test_events_about_strangers_are_let_pass() -> None:
    progress = followed(*ran("nobody", 1.0), TaskSkipped(1.0, TaskId("nobody")), failed("x", 2.0))

    assert brief(progress) == {"waiting": 3, "ready": 1}


def test_a_resumed_run_has_nothing_under_way_and_keeps_what_is_complete() -> None:
    before = [*ran("split", 1.0), *started("left", 1.0)]

    progress = followed(*before, RunResumed(2.0, 2))

    assert brief(progress) == {"waiting": 1, "ready": 2, "complete": 1}
    assert progress.running() == []


def test_what_had_failed_is_tried_again_when_a_run_is_resumed() -> None:
    broken = [*error("split", 1.0), failed("split", 1.0), failed_with_parent("left", 1.0)]

    progress = followed(*broken, RunResumed(2.0, 2))

    assert brief(progress) == {"waiting": 3, "ready": 1}
    assert progress.failures() == []


def test_what_had_been_removed_runs_when_a_run_is_resumed() -> None:
    progress = followed(*ran("split", 1.0), removed("left", 1.0), RunResumed(2.0, 2))

    assert brief(progress) == {"waiting": 1, "ready": 2, "complete": 1}


def test_a_done_task_that_runs_in_a_resumed_run_is_not_done() -> None:
    events = [*ran("split", 1.0), *ran("left", 1.0), RunResumed(2.0, 2)]
    kept = TaskSkipped(2.0, TaskId("left"))

    progress = followed(*events, kept, *started("split", 3.0, count=2))

    assert brief(progress) == {"waiting": 2, "running": 1, "complete": 1}


def test_a_skipped_task_that_turns_out_to_be_due_is_open_again() -> None:
    """Something that was made again is not what it was."""
    skipped = [TaskSkipped(0.0, task) for task in a_diamond().task_ids[1:]]
    remade = ran("split", 1.0)

    progress = followed(*skipped, *remade, TaskDue(2.0, TaskId("left"), "its input has changed"))

    assert brief(progress) == {"ready": 1, "complete": 1, "skipped": 2}
    for event in ran("left", 3.0):
        progress.add(event)
    assert brief(progress) == {"complete": 2, "skipped": 2}


def test_ends_are_counted_anew_for_a_task_that_is_due_again() -> None:
    first = [*ran("split", 1.0), TaskReopened(2.0, TaskId("split"), 1)]
    due = TaskDue(3.0, TaskId("split"), "its input has changed")

    progress = followed(
        *first, *ran("split", 3.0, count=2, end=2), due, *ran("split", 5.0, count=3)
    )

    assert brief(progress) == {"waiting": 1, "ready": 2, "complete": 1}


def test_an_attempt_that_begins_late_does_not_undo_a_failure() -> None:
    progress = followed(*error("split", 1.0), failed("split", 1.0), *started("split", 1.0, count=2))

    assert brief(progress) == {"waiting": 3, "failed_itself": 1}


def test_a_task_with_many_children_makes_all_of_them_ready() -> None:
    wf = WorkflowBuilder("fan")
    wf.task("source")
    for i in range(1000):
        wf.task(f"t{i}", after=["source"])

    progress = followed(*ran("source", 1.0), *ran("t7", 2.0), workflow=wf.build())
    assert brief(progress) == {"ready": 999, "complete": 2}

    progress.add(TaskReopened(3.0, TaskId("source"), 1))
    assert brief(progress) == {"waiting": 999, "ready": 1, "complete": 1}


@pytest.mark.parametrize(
    "crashes", [(), ((10.0, "n1", 40.0), (20.0, "n2", 25.0))], ids=["calm", "crashes"]
)
def test_counts_of_a_simulated_run_add_up_at_every_event(
    crashes: tuple[tuple[float, str, float], ...],
) -> None:
    events = simulated(crashes=crashes)
    progress = followed(workflow=generate("montage", 60, 1))

    for event in events:
        progress.add(event)
        counts = progress.counts()
        assert counts.tasks == 60
        assert min(getattr(counts, name) for name in TaskCounts.__dataclass_fields__) >= 0

    end = events[-1]
    assert isinstance(end, RunEnded)
    assert (counts.complete, counts.failed) == (end.complete, end.failed) == (60, 0)


@given(workflows(), st.data())
def test_ready_means_all_parents_finished(workflow: Workflow, data: st.DataObject) -> None:
    progress = followed(workflow=workflow)
    complete: set[int] = set()
    generation = [0] * len(workflow)
    for _ in range(data.draw(st.integers(0, 20))):
        task = data.draw(st.integers(0, len(workflow) - 1))
        name = workflow.task_ids[task]
        if task in complete:
            progress.add(TaskReopened(0.0, name, generation[task]))
            complete.remove(task)
        else:
            generation[task] += 1
            end = TaskFinished(0.0, name, "n0.1.1", "n0", TaskState.COMPLETE, generation[task])
            progress.add(end)
            complete.add(task)

    ready = [
        task
        for task, parents in enumerate(workflow.parents.rows())
        if task not in complete and complete.issuperset(parents)
    ]
    counts = progress.counts()
    assert counts.ready == len(ready)
    assert counts.complete == len(complete)
    assert counts.waiting == len(workflow) - len(ready) - len(complete)


# --- speed, bytes, what runs and what failed -----------------------------------------------------


def a_row(count: int) -> Workflow:
    wf = WorkflowBuilder("row")
    for i in range(count):
        wf.task(f"t{i}", runtime_seconds=1.0)
    return wf.build()


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    events = [event for i in range(100) for event in ran(f"t{i}", float(i))]

    progress = followed(run_started(100), *events, workflow=a_row(100))

    assert progress.tasks_per_second(99.0) == pytest.approx(1.0, abs=0.11)
    assert progress.tasks_per_second(104.0) == pytest.approx(0.5, abs=0.11)
    assert progress.tasks_per_second(200.0) == 0.0


def test_the_rate_of_a_young_run_is_over_its_age() -> None:
    events = [event for i in range(8) for event in ran(f"t{i}", 4.0)]

    progress = followed(run_started(8), *events, workflow=a_row(8))

    assert progress.tasks_per_second(4.0) == 2.0


def test_skipped_tasks_and_those_that_never_ran_do_not_count_as_speed() -> None:
    progress = followed(
        run_started(),
        TaskSkipped(0.0, TaskId("split")),
        *error("left", 1.0),
        failed("left", 1.0),
        failed_with_parent("join", 1.0),
    )

    assert progress.tasks_per_second(1.0) == 1.0


def test_bytes_are_summed_over_all_attempts_that_staged() -> None:
    progress = followed(
        *started("split", 0.0, local=10, moved=5),
        InputsStaged(1.0, TaskId("left"), "n0.1.9", "n0", 1, 2),
    )

    assert (progress.local_bytes, progress.moved_bytes) == (11, 7)


def test_running_attempts_are_listed_longest_first() -> None:
    progress = followed(*started("split", 5.0), *started("left", 2.0, node="n1"))

    assert [(a.task, a.node, a.since) for a in progress.running()] == [
        ("left", "n1", 2.0),
        ("split", "n0", 5.0),
    ]


def test_a_failure_has_its_reason_and_the_number_of_attempts() -> None:
    progress = followed(
        *error("split", 1.0, "exit code 1", count=1),
        *error("split", 2.0, "exit code 2", count=2),
        failed("split", 2.0, count=2),
        failed_with_parent("left", 2.0),
        failed("split", 2.0, count=2),
    )

    (failure,) = progress.failures()
    assert (failure.task, failure.reason, failure.attempts) == ("split", "exit code 2", 2)
    assert (failure.attempt, failure.node) == (attempt_of("split", 2), "n0")


def test_an_error_that_was_tried_again_and_overcome_is_no_failure() -> None:
    progress = followed(*error("split", 1.0), *ran("split", 3.0, count=2))

    assert progress.failures() == []
    assert progress.counts().complete == 1


def test_the_slowest_five_are_kept_slowest_first() -> None:
    seconds = [3.0, 9.0, 1.0, 7.0, 5.0, 8.0, 2.0]
    events = [event for i, s in enumerate(seconds) for event in ran(f"t{i}", 10.0, s)]

    progress = followed(*events, workflow=a_row(7))

    assert progress.slowest() == [("t1", 9.0), ("t5", 8.0), ("t3", 7.0), ("t4", 5.0), ("t0", 3.0)]


def test_attempts_that_lost_or_failed_are_not_among_the_slowest() -> None:
    assert followed(*error("split", 1.0), failed("split", 1.0)).slowest() == []


# --- what remains --------------------------------------------------------------------------------


def test_tasks_that_are_not_done_remain() -> None:
    remaining = followed(*ran("split", 2.0, 2.0)).remaining(3.0)

    assert remaining.at_seconds == 3.0
    assert remaining.is_open.tolist() == [False, True, True, True]
    assert remaining.measured_seconds.tolist() == [2.0, 0.0, 0.0, 0.0]


def test_nothing_remains_of_a_run_in_which_everything_was_skipped() -> None:
    skipped = [TaskSkipped(0.0, task) for task in a_diamond().task_ids]

    assert not followed(*skipped).remaining(0.0).is_open.any()


def test_a_running_task_has_run_for_so_long() -> None:
    progress = followed(*started("t0", 10.0), workflow=a_row(2))

    assert progress.remaining(14.0).running == {0: 4.0}
    assert progress.remaining(9.0).running == {0: 0.0}


def test_a_task_that_only_stores_its_outputs_does_not_run() -> None:
    remaining = followed(*started("t0", 10.0), *done("t0", 11.0)[:2], workflow=a_row(2)).remaining(
        11.0
    )

    assert remaining.ended == [0]
    assert remaining.running == {}


def test_a_task_is_staged_before_it_runs() -> None:
    began = started("t0", 10.0)[0]
    staged = InputsStaged(11.0, TaskId("t0"), attempt_of("t0"), "n0", 1, 1)

    before = followed(began, workflow=a_row(2)).remaining(10.5)
    after = followed(began, staged, workflow=a_row(2)).remaining(11.5)

    assert before.staging == {0: 0.5}
    assert (after.staging, after.staged) == ({}, [0])


def test_asking_changes_nothing() -> None:
    def answers(progress: RunProgress) -> Iterable[object]:
        return (progress.counts(), progress.remaining(3.0).running, progress.tasks_per_second(3.0))

    progress = followed(*ran("split", 1.0), *started("left", 1.0))

    assert answers(progress) == answers(progress)
