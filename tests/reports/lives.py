"""The events of a task's life as a live run records them, for tests of what is made of them."""

from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    AttemptMeasured,
    Event,
    InputsStaged,
    NodeFacts,
    RunStarted,
    TaskFinished,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId


def run_started(tasks: int = 4, cores: int = 2) -> Event:
    return RunStarted(0.0, "diamond", tasks, "adage", 0, (NodeFacts("n0", cores, 1.0, ""),))


def attempt_of(task: str, count: int = 1, node: str = "n0") -> str:
    return f"{node}.1.{task[:20]}{count}"


def started(
    task: str, at: float, *, count: int = 1, node: str = "n0", local: int = 0, moved: int = 0
) -> list[Event]:
    """It has its inputs and runs."""
    id, attempt = TaskId(task), attempt_of(task, count, node)
    return [
        AttemptBegan(at, id, attempt, node, False, 1),
        InputsStaged(at, id, attempt, node, local, moved),
        AttemptAdvanced(at, id, attempt, node, TaskState.RUNNING),
    ]


def measured(
    task: str,
    at: float,
    seconds: float,
    *,
    count: int = 1,
    node: str = "n0",
    exit_code: int = 0,
    memory: int = 0,
) -> Event:
    attempt = attempt_of(task, count, node)
    return AttemptMeasured(at, TaskId(task), attempt, node, exit_code, 0, seconds, seconds, memory)


def done(
    task: str, at: float, seconds: float = 1.0, *, count: int = 1, node: str = "n0", end: int = 1
) -> list[Event]:
    """It ran to its end just now, and that was committed."""
    id, attempt = TaskId(task), attempt_of(task, count, node)
    return [
        measured(task, at, seconds, count=count, node=node),
        AttemptAdvanced(at, id, attempt, node, TaskState.STAGE_OUT),
        AttemptEnded(at, id, attempt, node, AttemptOutcome.WON),
        TaskFinished(at, id, attempt, node, TaskState.COMPLETE, end),
    ]


def ran(
    task: str, at: float, seconds: float = 1.0, *, count: int = 1, node: str = "n0", end: int = 1
) -> list[Event]:
    began = started(task, at - seconds, count=count, node=node)
    return [*began, *done(task, at, seconds, count=count, node=node, end=end)]


def error(task: str, at: float, reason: str = "exit code 3", *, count: int = 1) -> list[Event]:
    """An attempt that fails; the task may be tried again."""
    attempt = attempt_of(task, count)
    return [
        *started(task, at, count=count),
        measured(task, at, 0.5, count=count, exit_code=3),
        AttemptEnded(at, TaskId(task), attempt, "n0", AttemptOutcome.FAILED, reason),
    ]


def failed(task: str, at: float, *, count: int = 1, end: int = 1) -> Event:
    """The task failed for good, by its own error."""
    attempt = attempt_of(task, count)
    return TaskFinished(at, TaskId(task), attempt, "n0", TaskState.FAILED, end)


def failed_with_parent(task: str, at: float) -> Event:
    return TaskFinished(at, TaskId(task), "", "n0", TaskState.FAILED, 1)


def removed(task: str, at: float) -> Event:
    return TaskFinished(at, TaskId(task), "", "client", TaskState.REMOVED, 1)


def stopped(task: str, at: float, *, count: int = 1) -> list[Event]:
    """It was running, and was cancelled just now."""
    attempt = attempt_of(task, count)
    cancelled = AttemptEnded(at, TaskId(task), attempt, "n0", AttemptOutcome.CANCELLED)
    return [*started(task, at - 1.0, count=count), cancelled]
