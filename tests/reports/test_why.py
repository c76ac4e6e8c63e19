import pytest

from builders import a_diamond
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    FinishPromised,
    InputsStaged,
    RunEnded,
    RunResumed,
    TaskDue,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.known_tasks import UnknownTaskError
from dataward.reports.why import why
from reports.lives import (
    attempt_of,
    error,
    failed,
    failed_with_parent,
    measured,
    ran,
    removed,
    run_started,
    started,
    stopped,
)
from reports.runs import simulated


def told(
    *events: Event, task: str, workflow: Workflow | None = None, is_under_way: bool = True
) -> str:
    return why([run_started(), *events], workflow or a_diamond(), task, is_under_way=is_under_way)


# --- it was removed ------------------------------------------------------------------------------


def test_a_task_that_was_removed_before_it_ran() -> None:
    answer = told(*ran("split", 1.0), removed("left", 2.0), task="left")

    assert answer == "left was removed before it ran"


def test_a_task_that_was_removed_while_it_ran() -> None:
    answer = told(*stopped("split", 1.0), removed("split", 1.0), task="split")

    assert answer == "split was removed while it ran on n0"


def test_a_task_that_was_removed_with_another() -> None:
    gone = [removed(task, 1.0) for task in ("split", "left", "right", "join")]

    assert told(*gone, task="join") == "join was removed with split, which it depends on"


def test_a_task_whose_attempt_failed_and_was_to_be_repeated_when_it_was_removed() -> None:
    answer = told(*error("split", 1.0), removed("split", 2.0), task="split")

    assert answer == "split was removed before it ran again, after 1 attempt that failed"


def test_a_removed_task_waits_again_when_the_run_is_resumed() -> None:
    answer = told(removed("split", 1.0), RunResumed(2.0, 2), task="split")

    assert answer.startswith("split is ready and waits for a free core")


# --- it ran --------------------------------------------------------------------------------------


def test_a_task_that_ran_for_the_first_time() -> None:
    answer = told(*ran("split", 3.0, 2.1), task="split")

    assert answer == "split ran once on n0, 2.10 s, because it had not run before"


def test_a_task_that_was_due_again_says_what_had_changed() -> None:
    due = TaskDue(0.0, TaskId("split"), "its input 'in' has changed")

    answer = told(due, *ran("split", 3.0, 2.1), task="split")

    assert answer == "split ran once on n0, 2.10 s, because its input 'in' has changed"


def test_a_task_that_ran_at_the_third_attempt() -> None:
    tries = [*error("split", 1.0, "exit code 1", count=1), *error("split", 2.0, "exit code 2")]

    answer = told(*tries, *ran("split", 4.0, count=3), task="split")

    assert answer == (
        "split ran 3 times, at last on n0, 1.00 s, after 2 attempts that failed (exit code 2), "
        "because it had not run before"
    )


def test_a_replica_that_lost_is_no_second_run() -> None:
    lost = AttemptEnded(
        2.0, TaskId("split"), attempt_of("split", node="n1"), "n1", AttemptOutcome.CANCELLED
    )

    answer = told(*started("split", 0.0, node="n1"), *ran("split", 2.0), lost, task="split")

    assert answer == "split ran once on n0, 1.00 s, because it had not run before"


def test_a_task_that_ran_again_since_its_output_was_lost() -> None:
    reopened = TaskReopened(2.0, TaskId("split"), 1)
    events = [*ran("split", 1.0), reopened, *ran("split", 5.0, 3.0, count=2, end=2)]

    answer = told(*events, task="split")

    assert answer == (
        "split ran twice on n0, 3.00 s, because every copy of an output it had written was lost"
    )


def test_without_a_measurement_the_events_tell_how_long_it_took() -> None:
    attempt = attempt_of("split")
    events = [
        *started("split", 1.0),
        AttemptEnded(3.0, TaskId("split"), attempt, "n0", AttemptOutcome.WON),
        TaskFinished(3.0, TaskId("split"), attempt, "n0", TaskState.COMPLETE, 1),
    ]

    assert told(*events, task="split").startswith("split ran once on n0, 2.00 s, because")


def test_a_task_whose_outcome_alone_is_known_ran_all_the_same() -> None:
    end = TaskFinished(3.0, TaskId("split"), "n0.1.1", "n0", TaskState.COMPLETE, 1)

    assert told(end, task="split") == "split ran once on n0, because it had not run before"


# --- it was skipped or failed --------------------------------------------------------------------


def test_a_skipped_task() -> None:
    answer = told(TaskSkipped(0.0, TaskId("split")), task="split")

    assert answer == (
        "split was skipped: its command, inputs and settings are as in the run before"
    )


def test_a_task_that_failed() -> None:
    tries = [event for n in (1, 2, 3) for event in error("split", float(n), count=n)]

    answer = told(*tries, failed("split", 3.0, count=3), task="split")

    assert answer == "split failed: exit code 3 (3 attempts)"


def test_a_failure_without_a_recorded_reason() -> None:
    answer = told(failed("split", 3.0), task="split")

    assert answer == "split failed: no reason was recorded (1 attempt)"


@pytest.mark.parametrize("task", ["left", "join"])
@pytest.mark.parametrize("told_so", [True, False])
def test_a_task_that_depends_on_a_failed_one_names_the_root(task: str, told_so: bool) -> None:
    events = [*error("split", 1.0), failed("split", 1.0)]
    if told_so:
        events += [failed_with_parent("left", 1.0), failed_with_parent("join", 1.0)]

    answer = told(*events, task=task, is_under_way=False)

    assert answer == (
        f"{task} did not run because split, which it depends on, failed: exit code 3 (1 attempt)"
    )


def test_the_nearest_root_is_named() -> None:
    wf = WorkflowBuilder("two-roots")
    wf.task("far")
    wf.task("middle", after=["far"])
    wf.task("near")
    wf.task("end", after=["middle", "near"])
    events = [*error("far", 1.0), failed("far", 1.0), *error("near", 2.0), failed("near", 2.0)]

    answer = told(*events, task="end", workflow=wf.build())

    assert answer.startswith("end did not run because near, which")


# --- it has not finished -------------------------------------------------------------------------


def test_a_running_task() -> None:
    answer = told(*started("split", 1.0), measured("nobody", 13.0, 1.0), task="split")

    assert answer == "split is running on n0 for 12.0 s, because it had not run before"


def test_a_task_runs_on_while_nothing_happens() -> None:
    events = started("split", 1.0)

    answer = why(events, a_diamond(), "split", is_under_way=True, now=61.0)

    assert answer.startswith("split is running on n0 for 60.0 s")


def test_a_task_that_has_its_inputs_brought_in_or_waits_for_a_core() -> None:
    began = AttemptBegan(0.0, TaskId("split"), "n0.1.1", "n0", False, 1)
    staged = InputsStaged(1.0, TaskId("split"), "n0.1.1", "n0", 0, 5)

    assert "split is having its inputs brought to n0" in told(began, task="split")
    assert "split is waiting for a free core on n0" in told(began, staged, task="split")


def test_a_waiting_task_names_the_parent_that_is_furthest_and_counts_the_others() -> None:
    wf = WorkflowBuilder("fan")
    parents = [f"mFit_{i}" for i in range(6)]
    for parent in parents:
        wf.task(parent)
    wf.task("mAdd", after=parents)
    events = [*ran("mFit_0", 1.0), *started("mFit_3", 1.0), measured("nobody", 13.0, 1.0)]

    answer = told(*events, task="mAdd", workflow=wf.build())

    assert answer == "mAdd waits for mFit_3 (running on n0 for 12.0 s) and 4 more"


def test_a_task_may_wait_for_one_that_waits_or_is_ready() -> None:
    assert told(task="join") == "join waits for left (which waits itself) and 1 more"
    assert told(task="left") == "left waits for split (ready to run)"


def test_a_ready_task() -> None:
    due = TaskDue(0.0, TaskId("split"), "its command has changed")

    assert told(due, task="split") == (
        "split is ready and waits for a free core; it must run because its command has changed"
    )


def test_a_task_that_is_to_be_tried_again() -> None:
    answer = told(*error("split", 1.0), task="split")

    assert answer == (
        "split is to run again (1 attempt failed: exit code 3) and waits for a free core"
    )


CANCELLED = AttemptEnded(4.0, TaskId("split"), attempt_of("split"), "n0", AttemptOutcome.CANCELLED)
INTERRUPTED = RunEnded(5.0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "end",
    [[], [INTERRUPTED], [CANCELLED, INTERRUPTED]],
    ids=["killed", "interrupted", "interrupted twice"],
)
def test_a_task_under_way_when_the_run_was_broken_off(end: list[Event]) -> None:
    running = told(*started("split", 1.0), *end, task="split", is_under_way=False)
    staging = told(started("split", 1.0)[0], *end, task="split", is_under_way=False)

    assert running == "split was running when the run was broken off"
    assert staging == "split was about to run when the run was broken off"


def test_tasks_that_never_began_when_the_run_was_broken_off() -> None:
    assert told(task="split", is_under_way=False) == (
        "split was ready, but had not run when the run was broken off"
    )
    assert told(*started("split", 1.0), task="left", is_under_way=False) == (
        "left had not run when the run was broken off: it waited for split"
    )


def test_after_a_run_was_resumed_what_was_under_way_is_not() -> None:
    answer = told(*started("split", 1.0), RunResumed(2.0, 2), task="split")

    assert answer.startswith("split is ready")


def test_a_task_that_failed_before_a_run_was_resumed_is_tried_again() -> None:
    events = [*error("split", 1.0), failed("split", 1.0), RunResumed(2.0, 2)]

    assert told(*events, task="split").startswith("split is to run again (1 attempt failed")
    again = told(*events, *started("split", 3.0, count=2), task="split")
    assert again.startswith("split is running")
    assert told(*events, task="left") == "left waits for split (ready to run)"


def test_a_done_task_of_a_resumed_run_is_done_unless_it_runs_again() -> None:
    events = [*ran("split", 1.0), RunResumed(2.0, 2)]

    assert told(*events, task="split").startswith("split ran once")
    skipped = told(*events, TaskSkipped(2.0, TaskId("split")), task="split")
    assert skipped.startswith("split ran once")
    again = told(*events, *started("split", 3.0, count=2), task="split")
    assert again.startswith("split is running")


def test_a_skipped_task_that_turned_out_to_be_due_says_why() -> None:
    due = TaskDue(1.0, TaskId("left"), "its input 'a' has changed")
    events = [TaskSkipped(0.0, TaskId("left")), *ran("split", 1.0), due]

    assert told(*events, task="left").endswith("it must run because its input 'a' has changed")
    assert told(*events, *ran("left", 3.0), task="left") == (
        "left ran once on n0, 1.00 s, because its input 'a' has changed"
    )


# --- which task ----------------------------------------------------------------------------------


def test_an_unknown_task_is_told_with_names_that_are_close() -> None:
    with pytest.raises(UnknownTaskError, match="no task 'splt'; did you mean 'split'") as caught:
        told(task="splt")

    assert caught.value.close == ("split",)


def test_a_name_like_no_other_is_told_without_a_guess() -> None:
    with pytest.raises(UnknownTaskError, match="no task 'xyzzy'; 'dataward inspect'"):
        told(task="xyzzy")


def test_close_names_are_found_among_very_many() -> None:
    wf = WorkflowBuilder("many")
    for i in range(25_000):
        wf.task(f"{'odd' if i % 2 else 'even'}-{i:05}")

    with pytest.raises(UnknownTaskError, match="odd-24999") as caught:
        told(task="odd-249999", workflow=wf.build())

    assert caught.value.close[0] == "odd-24999"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("is_under_way", [True, False])
def test_every_task_of_a_run_gets_an_answer_at_any_time(share: float, is_under_way: bool) -> None:
    workflow = generate("montage", 60, 1)
    events = simulated(crashes=((10.0, "n1", 40.0), (20.0, "n2", 25.0)))
    so_far = events[: int(share * len(events))]

    for task in workflow.task_ids[::7]:
        answer = why(so_far, workflow, task, is_under_way=is_under_way)
        assert answer.startswith(f"{task} ")
        assert "\n" not in answer


# --- the run was promised ------------------------------------------------------------------------


def test_a_task_of_a_promised_run_tells_of_the_promise_while_it_is_open() -> None:
    promise = FinishPromised(0.0, 60.0, 50.0, 0.93, 40.0)

    waiting = told(promise, *ran("split", 5.0), task="join")
    done = told(promise, *ran("split", 5.0), task="split")

    assert waiting.endswith("; the run is promised to end in 45.0 s, 93% sure")
    assert "promised" not in done


def test_a_broken_promise_is_told_as_one() -> None:
    late = told(FinishPromised(0.0, 3.0, 3.0, 0.93, 2.0), *ran("split", 5.0), task="join")
    unpromised = told(FinishPromised(0.0, 3.0, 0.0, 0.0, 0.0), *ran("split", 5.0), task="join")

    assert late.endswith("; the run was promised to end 2.00 s ago")
    assert "promised" not in unpromised
