"""Emits the events about what became of a node's attempts."""

from dataward.model.events import (
    AttemptAdvanced,
    AttemptEnded,
    AttemptMeasured,
    TaskDue,
    TaskFinished,
    TaskSkipped,
)
from dataward.model.ids import NOBODY, AttemptId, NodeId, node_of
from dataward.model.states import AttemptOutcome, FailureCause, TaskState
from dataward.model.workflow import TaskId
from dataward.world import RunResult, World


def tell_ended(
    world: World,
    task: TaskId,
    attempt: AttemptId,
    outcome: AttemptOutcome,
    reason: str = "",
    cause: FailureCause = FailureCause.TASK,
) -> None:
    """Report that an attempt of this node is over."""
    now = world.kernel.now()
    world.emit(AttemptEnded(now, task, attempt, world.node, outcome, reason, cause))


def tell_advanced(
    world: World, task: TaskId, attempt: AttemptId, state: TaskState, at: float
) -> None:
    """Report the state that an attempt of this node has reached."""
    world.emit(AttemptAdvanced(at, task, attempt, world.node, state))


def tell_measured(world: World, task: TaskId, attempt: AttemptId, result: RunResult) -> None:
    """Report the time and memory that a run used, and how its process ended."""
    world.emit(
        AttemptMeasured(
            result.ended_at,
            task,
            attempt,
            world.node,
            result.exit_code,
            result.signal,
            result.wall_seconds,
            result.cpu_seconds,
            result.peak_memory_bytes,
        )
    )


def tell_finished(
    world: World, task: TaskId, attempt: AttemptId, state: TaskState, generation: int
) -> None:
    """Report a task's outcome; ``attempt`` is NOBODY if no attempt of its own ended the task."""
    node: NodeId = node_of(attempt) if attempt != NOBODY else world.node
    world.emit(TaskFinished(world.kernel.now(), task, attempt, node, state, generation))


def tell_skipped(world: World, task: TaskId, generation: int) -> None:
    """Report that a task is complete without having run: it would have read what it read before."""
    world.emit(TaskSkipped(world.kernel.now(), task, generation))


def tell_due(world: World, task: TaskId, why: str) -> None:
    """Report that a task must run, though it ran before; ``why`` is a clause."""
    world.emit(TaskDue(world.kernel.now(), task, why))
