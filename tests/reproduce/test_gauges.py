"""What the gauges read off a list of events."""

import pytest

from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    Event,
    FileMoved,
    InputsStaged,
    TaskFinished,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.reproduce.gauges import Gauges

N = NodeId("n0")


def ran(task: str, begin: float, end: float) -> list[Event]:
    """An attempt that brings its inputs in for 1 s, runs until ``end``, and commits 1 s later."""
    id, attempt = TaskId(task), AttemptId(task)
    return [
        AttemptBegan(begin - 1, id, attempt, N, False, 1),
        InputsStaged(begin, id, attempt, N, 0, 100),
        AttemptAdvanced(begin, id, attempt, N, TaskState.RUNNING),
        AttemptAdvanced(end, id, attempt, N, TaskState.STAGE_OUT),
        AttemptEnded(end + 1, id, attempt, N, AttemptOutcome.WON),
        TaskFinished(end + 1, id, attempt, N, TaskState.COMPLETE, 1),
    ]


def moved(begin: float, end: float, target: str = "n0") -> Event:
    return FileMoved(end, FileId("f"), NodeId("origin"), NodeId(target), 100, end - begin)


def gauges_of(*events: Event) -> Gauges:
    gauges = Gauges()
    for event in events:
        gauges.add(event)
    return gauges


def test_completions_say_when_each_hundredth_was_done() -> None:
    gauges = gauges_of(*ran("b", 1, 8), *ran("a", 1, 4))

    at = gauges.completion_seconds()

    assert len(at) == 101
    assert at[0] == 0.0
    assert at[1:51] == [5.0] * 50
    assert at[51:] == [9.0] * 50


def test_the_busy_profile_counts_running_attempts_in_each_slice() -> None:
    gauges = gauges_of(*ran("a", 1, 6), *ran("b", 4, 10))

    profile = gauges.busy_profile(cores=2, until_seconds=10.0)

    by_second = [sum(profile[10 * s : 10 * s + 10]) / 10 for s in range(10)]
    assert by_second == pytest.approx([0, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5, 0.5, 0.5])


def test_an_attempt_that_was_cancelled_was_busy_until_then() -> None:
    id, attempt = TaskId("a"), AttemptId("a")
    gauges = gauges_of(
        AttemptAdvanced(0, id, attempt, N, TaskState.RUNNING),
        AttemptEnded(5, id, attempt, N, AttemptOutcome.CANCELLED),
    )

    assert sum(gauges.busy_profile(1, 10.0)) == pytest.approx(50)


def test_nothing_ran_in_an_empty_run() -> None:
    assert gauges_of().busy_profile(4, 0.0) == [0.0] * 100


def test_staging_and_transfers_are_counted_by_node() -> None:
    gauges = gauges_of(*ran("a", 1, 6), moved(0, 2), moved(1, 4), moved(0, 1, "n1"))

    assert gauges.staging_seconds == {N: 1.0}
    assert gauges.transfer_seconds == {N: 5.0, NodeId("n1"): 1.0}
    assert gauges.files_moved == {N: 2, NodeId("n1"): 1}


def test_time_in_which_several_files_move_counts_once() -> None:
    gauges = gauges_of(moved(0, 4), moved(1, 2), moved(3, 5), moved(8, 9))

    assert gauges.transferring_seconds() == 6.0
