"""The store's answers to the operations in `operations`.

They are written by position: a server's time goes into writing them.
"""

from enum import Enum
from math import inf

import msgspec

from dataward.model.estimate import UNKNOWN_SECONDS
from dataward.model.ids import AttemptId, NodeId
from dataward.model.operations import Copy, InputFile, QueueEntry, TaskSpec
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId


class Standing(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A task as the store has it after an operation.

    ``copies``, ``inputs`` and ``input_copies`` are filled in only for `Look`, `TakeOver` and
    `Reopen`. What ``granted`` means is said at the operation.
    """

    task: TaskId
    state: TaskState
    generation: int
    preferred: NodeId = NodeId("")
    priority: float = 0.0
    seconds: float = UNKNOWN_SECONDS  # estimated run time
    spread: float = inf  # of ``seconds``, as in `Estimate`
    task_type: str = ""
    granted: bool = False
    more_backups: bool = False  # whether the task may run on one more node
    live_attempts: int = 0
    placement: int = 0  # how often the task became ready again and had to be queued
    children: tuple[TaskId, ...] = ()  # if it failed or was removed, or if `Look` asks for them
    holders: tuple[NodeId, ...] = ()  # if it was removed: nodes that may have it, and should stop
    copies: tuple[Copy, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    input_copies: tuple[Copy, ...] = ()
    unknown: bool = False  # the store has no such task

    @property
    def needs_node(self) -> bool:
        """Whether the task is ready and no attempt at it is under way."""
        return self.state is TaskState.READY and not self.live_attempts


class Begun(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The attempt may go on. ``copies`` are the last known places of its inputs."""

    spec: TaskSpec
    generation: int
    copies: tuple[Copy, ...]
    parents: dict[TaskId, int]


class Committed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The attempt won. ``rivals`` run the same task elsewhere and should be told to stop."""

    task: TaskId
    generation: int
    children: tuple[TaskId, ...]
    copies: tuple[Copy, ...]
    rivals: tuple[NodeId, ...]


class Failing(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The task's own error ended an attempt; if ``final``, the task and its ``children`` fail."""

    task: TaskId
    final: bool
    children: tuple[TaskId, ...]
    generation: int
    rivals: tuple[NodeId, ...] = ()


class Refusal(Enum):
    """Why a store refuses an attempt."""

    UNKNOWN = "unknown"  # the store has no such task
    FINISHED = "finished"
    WAITING = "waiting"  # a parent has not finished
    FENCED = "fenced"  # the node's lease was lost, and other nodes have taken its tasks over
    OVER = "over"  # this attempt had already ended
    UNDER_WAY_HERE = "under way here"  # another attempt of the same node runs the task
    ENOUGH_REPLICAS = "enough replicas"
    OUTDATED = "outdated"  # the task has been completed again since


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The attempt may not go on, for this reason; ``state`` is the task's."""

    task: TaskId
    reason: Refusal
    state: TaskState


class Membership(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A node as the store has it. ``load_seconds`` includes tasks queued but not yet claimed.

    ``told_seconds`` is what the node itself last said of its load: it does not include these.
    ``epoch`` grows when the node's shard loses writes it had acknowledged.
    """

    node: NodeId
    current: bool
    up: bool
    incarnation: int
    queued: int
    load_seconds: float
    epoch: int
    told_seconds: float = 0.0


class Claimed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Tasks the node now holds. A task that is queued again gets a new ticket."""

    node: NodeId
    current: bool
    entries: tuple[QueueEntry, ...]
    tickets: tuple[int, ...]
    left: int


class Orphans(msgspec.Struct, frozen=True, array_like=True):
    """Tasks queued for or held by a node whose lease has expired."""

    node: NodeId
    incarnation: int
    entries: tuple[QueueEntry, ...]
    tickets: tuple[int, ...]


class Undelivered(msgspec.Struct, frozen=True, array_like=True):
    """A task whose outbox is full.

    Either it has finished and its children may not know, or it is unplaced: ready again, but maybe
    in no queue.
    """

    task: TaskId
    generation: int
    state: TaskState
    placement: int  # above 0 if the task is unplaced
    children: tuple[TaskId, ...]
    copies: tuple[Copy, ...]
    winner: AttemptId  # the one that completed the task; "" if none did


class Suspect(msgspec.Struct, frozen=True, array_like=True):
    """An attempt so old that its node should be asked whether it is still under way."""

    task: TaskId
    attempt: AttemptId
    node: NodeId
    incarnation: int


class Findings(msgspec.Struct, frozen=True, array_like=True, tag=True):
    shard: int
    orphans: tuple[Orphans, ...]
    undelivered: tuple[Undelivered, ...]
    suspects: tuple[Suspect, ...]
    epoch: int  # grows when the shard loses writes it had acknowledged
    recount_due: bool  # no node has yet repaired what that loss broke
    restored: int = 0  # grows when a task that was lost is submitted again


class Unfinished(msgspec.Struct, frozen=True, array_like=True):
    task: TaskId
    missing: dict[TaskId, int]  # parents it still waits for, and the generation each must reach


class Page(msgspec.Struct, frozen=True, array_like=True, tag=True):
    shard: int
    tasks: tuple[Unfinished, ...]
    cursor: int  # where the next page starts; -1 after the last


class Tallied(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """How many tasks of a shard are in each state; a task that was forgotten is in none."""

    shard: int
    counts: dict[TaskState, int]
    epoch: int  # as in `Findings`: the counts tell only of tasks that the shard still knows


Answer = (
    Standing | Begun | Committed | Failing | Refused | Membership | Claimed | Findings | Page
    | Tallied
)  # fmt: skip
