"""Counts tasks by outcome, for runs that were killed before they recorded the counts."""

from collections.abc import Iterable
from dataclasses import dataclass

from dataward.model.events import (
    Event,
    RunResumed,
    TaskDue,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.states import IN_VAIN, TaskState
from dataward.model.workflow import TaskId

_SKIPPED = "skipped"
_IN_VAIN = frozenset(state.value for state in IN_VAIN)


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    complete: int  # not counting skipped tasks
    skipped: int
    failed: int
    seconds: float  # up to the last event
    removed: int = 0


def count_outcomes(events: Iterable[Event]) -> OutcomeCounts:
    """The counts. The last event about a task decides its outcome."""
    last: dict[TaskId, str] = {}
    seconds = 0.0
    for event in events:
        seconds = max(seconds, event.at)
        if isinstance(event, TaskFinished):
            last[event.task] = event.state.value
        elif isinstance(event, TaskSkipped):
            last.setdefault(event.task, _SKIPPED)
        elif isinstance(event, TaskReopened | TaskDue):
            last.pop(event.task, None)
        elif isinstance(event, RunResumed):  # failed and removed tasks run again
            last = {task: end for task, end in last.items() if end not in _IN_VAIN}
    said = list(last.values())
    return OutcomeCounts(
        complete=said.count(TaskState.COMPLETE.value),
        skipped=said.count(_SKIPPED),
        failed=said.count(TaskState.FAILED.value),
        seconds=seconds,
        removed=said.count(TaskState.REMOVED.value),
    )
