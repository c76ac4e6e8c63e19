from itertools import pairwise

import pytest

from dataward.generate import generate
from dataward.model.events import (
    AttemptBegan,
    Event,
    FileEvicted,
    NodeFacts,
    NodeJoined,
    NodeLost,
    RunEnded,
    RunResumed,
    RunStarted,
    TaskFinished,
    TaskReopened,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.reports.run_summary import RunSummary, RunTally
from reports.runs import a_run, a_start, began, ended, finished, runs, simulated, staged, writes


def summed(events: list[Event] | tuple[Event, ...], **cores: int) -> RunSummary:
    tally = RunTally({TaskId(task): count for task, count in cores.items()})
    for event in events:
        tally.add(event)
    return tally.summary()


def test_a_run_done_by_hand() -> None:
    run = summed(a_run())

    assert (run.workflow, run.strategy, run.seed) == ("by hand", "adage", 7)
    assert (run.nodes, run.cores, run.tasks) == (2, 3, 3)
    assert (run.ended, run.complete, run.failed) == (True, 3, 0)
    assert (run.messages, run.store_calls) == (12, 34)
    assert run.makespan_seconds == 10.0
    # x 3 s, y's second attempt 4 s, z's second attempt 2 s, of three cores for ten seconds.
    assert run.useful_seconds == 9.0
    assert run.utilisation == 9.0 / 30.0
    # x's replica 2.5 s, y's first attempt 1 s, z's first attempt 2 s.
    assert run.wasted_seconds == 5.5
    assert run.busy_seconds == 14.5
    assert run.busy_share == 14.5 / 30.0
    assert run.node_busy_seconds == {"a": 10.0, "b": 4.5}


def test_bytes_of_a_run_done_by_hand() -> None:
    run = summed(a_run())

    assert (run.bytes_moved, run.bytes_from_origin, run.files_moved) == (240, 200, 3)
    assert (run.local_bytes, run.staged_bytes) == (60, 300)
    assert run.locality == 0.2


def test_attempts_of_a_run_done_by_hand() -> None:
    run = summed(a_run())

    assert run.attempts == 6
    assert (run.replicas_run, run.replicas_won, run.replicas_wasted) == (1, 0, 1)
    assert (run.failed_attempts, run.crashed_attempts, run.taken_over, run.crashes) == (1, 1, 1, 1)
    assert run.given == 1


def test_waits_of_a_run_done_by_hand() -> None:
    run = summed(a_run())

    assert run.stage_in_seconds == 2.0 + 1.0 + 1.0  # x, its replica, y's second attempt
    assert run.waiting_seconds == 0.5
    assert run.stage_out_seconds == 0.5 + 0.5
    # x on a and on b, and y's second attempt while x took one of a's cores.
    assert run.starved_seconds == 2.0 + 1.0 + 1.0
    assert run.down_seconds == 2.0


def test_inputs_that_come_while_all_cores_are_busy_starve_nobody() -> None:
    events = [
        a_start(a=1),
        began(0.0, "x", "a"),
        runs(0.0, "x", "a"),
        began(1.0, "y", "a"),
        staged(3.0, "y", "a"),
        ended(4.0, "x", "a"),
        runs(4.0, "y", "a"),
        ended(6.0, "y", "a"),
        RunEnded(6.0, 2, 0, 0, 0),
    ]

    run = summed(events)

    assert run.starved_seconds == 0.0
    assert (run.stage_in_seconds, run.waiting_seconds) == (2.0, 1.0)


def test_a_task_on_two_cores_counts_twice_but_never_more_than_its_node_has() -> None:
    events = [
        a_start(a=4, b=1),
        began(0.0, "x", "a"),
        runs(0.0, "x", "a"),
        writes(3.0, "x", "a"),
        ended(3.0, "x", "a"),
        began(0.0, "y", "b"),
        runs(0.0, "y", "b"),
        ended(3.0, "y", "b", "lost"),
        RunEnded(3.0, 1, 0, 0, 0),
    ]

    run = summed(events, x=2, y=2)

    assert (run.useful_seconds, run.wasted_seconds) == (6.0, 3.0)
    assert run.node_busy_seconds == {"a": 6.0, "b": 3.0}


def test_only_attempts_that_came_to_run_and_were_beaten_are_wasted_replicas() -> None:
    events: list[Event] = [a_start(a=8)]
    for i, outcome in enumerate(["lost", "cancelled", "failed", "released", "postponed", "won"]):
        events += [began(0.0, f"t{i}", "a"), runs(0.0, f"t{i}", "a")]
        events += [ended(1.0, f"t{i}", "a", outcome)]
    events += [began(0.0, "never", "a", replica=True), ended(1.0, "never", "a", "cancelled")]
    events += [began(0.0, "cut", "a"), runs(0.5, "cut", "a"), RunEnded(1.0, 1, 0, 0, 0)]

    run = summed(events)

    assert run.replicas_wasted == 3  # lost, cancelled, and cut off by the end
    assert run.wasted_seconds == 5.5
    assert run.replicas_run == 1


def test_a_run_that_has_not_ended_is_summed_up_to_its_last_event() -> None:
    events = [*a_run()[:12], NodeJoined(2.5, "c", 1)]

    run = summed(events)

    assert not run.ended
    assert run.makespan_seconds == 2.5
    assert (run.useful_seconds, run.wasted_seconds) == (0.0, 0.0)
    assert run.busy_seconds == 1.0 + 0.5  # under way: neither useful nor wasted yet
    assert (run.complete, run.failed) == (0, 0)


def test_asking_for_a_summary_changes_nothing() -> None:
    tally = RunTally()
    for event in a_run():
        tally.add(event)
        tally.summary()

    assert tally.summary() == summed(a_run())


def test_finished_tasks_are_counted_when_no_end_tells_them() -> None:
    events = [
        a_start(a=1),
        finished(1.0, "x", "a"),
        finished(2.0, "y", "a"),
        TaskReopened(3.0, TaskId("x"), 1),
        finished(4.0, "z", "a", TaskState.FAILED),
    ]

    run = summed(events)

    assert (run.complete, run.failed, run.reopened) == (1, 1, 1)


def test_a_node_that_comes_back_is_down_only_in_between() -> None:
    events = [
        a_start(a=2),
        NodeJoined(0.0, "a", 1),
        NodeLost(1.0, "a"),
        NodeJoined(4.0, "a", 2),
        NodeLost(9.0, "a"),
        RunEnded(10.0, 0, 0, 0, 0),
    ]

    assert summed(events).down_seconds == 2 * (3.0 + 1.0)


def test_what_a_node_forgot_ends_when_it_comes_back() -> None:
    events = [
        a_start(a=1),
        began(0.0, "x", "a"),
        runs(1.0, "x", "a"),
        writes(2.0, "x", "a"),
        NodeJoined(5.0, "a", 2),
        ended(6.0, "x", "a"),  # too late: it is of a life before
        RunEnded(8.0, 0, 0, 0, 0),
    ]

    run = summed(events)

    assert (run.useful_seconds, run.wasted_seconds, run.stage_out_seconds) == (0.0, 1.0, 3.0)


def test_evictions_are_summed() -> None:
    run = summed([a_start(a=1), FileEvicted(1.0, FileId("f"), "a", 70)])

    assert run.bytes_evicted == 70


def test_no_events_are_a_summary_too() -> None:
    run = summed([])

    assert (run.utilisation, run.locality, run.makespan_seconds) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("nodes", [1, 4, 16])
def test_useful_running_is_the_run_time_of_every_task_once(nodes: int) -> None:
    workflow = generate("montage", 60, 1)

    run = summed(simulated("montage", 60, nodes))

    assert run.useful_seconds == pytest.approx(float(workflow.runtime_seconds.sum()))
    assert run.complete == run.tasks == len(workflow)
    assert run.useful_seconds + run.wasted_seconds == pytest.approx(run.busy_seconds)


def test_core_seconds_are_never_spent_twice() -> None:
    run = summed(simulated(crashes=((10.0, "n1", 40.0), (20.0, "n2", 25.0))))

    spent = run.busy_seconds + run.starved_seconds + run.down_seconds
    assert 0 < run.useful_seconds < run.busy_seconds < spent
    assert spent <= run.cores * run.makespan_seconds * (1 + 1e-9)
    assert run.crashes == 2
    assert run.crashed_attempts > 0
    assert run.down_seconds == pytest.approx(4 * 35.0, rel=1e-3)


def test_a_run_is_remembered_only_while_it_goes_on() -> None:
    tally = RunTally()
    events = simulated()
    for event in events:
        tally.add(event)

    assert tally.book.under_way() == []
    assert all(one.at <= other.at for one, other in pairwise(events[:-1]))


def test_removed_tasks_are_counted_while_the_run_goes_on_and_when_it_has_ended():
    tally = RunTally()
    tally.add(RunStarted(0.0, "wf", 2, "adage", 0, (NodeFacts("n1", 1, 1.0, "site"),)))

    tally.add(TaskFinished(1.0, "a", "", "client", TaskState.REMOVED, 1))
    so_far = tally.summary()
    tally.add(RunEnded(2.0, 1, 0, 0, 0, removed=1))
    at_the_end = tally.summary()
    tally.add(RunResumed(2.0, 2))

    assert (so_far.removed, so_far.failed) == (1, 0)
    assert (at_the_end.removed, at_the_end.complete) == (1, 1)
    assert tally.summary().removed == 0


def test_a_resumed_run_forgets_its_end_and_its_failures_and_ends_what_was_under_way():
    tally = RunTally()
    failed = TaskFinished(2.0, "a", "n1.1.1", "n1", TaskState.FAILED, 1)
    for event in (
        RunStarted(0.0, "wf", 2, "adage", 0, (NodeFacts("n1", 1, 1.0, "site"),)),
        failed,
        AttemptBegan(2.0, "b", "n1.1.2", "n1", False, 1),
        RunEnded(3.0, 0, 1, 0, 0),
        RunResumed(3.0, 2),
        AttemptBegan(4.0, "b", "n1.2.1", "n1", False, 1),
    ):
        tally.add(event)

    summary = tally.summary()

    assert not summary.ended
    assert summary.failed == 0
    assert summary.makespan_seconds == 4.0
