"""What the store says to what it is asked (see `operations`)."""

from enum import Enum

import msgspec

from dataward.model.ids import AttemptId, NodeId
from dataward.model.operations import Copy, InputFile, QueueEntry, TaskSpec
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId


class Standing(msgspec.Struct, frozen=True, tag=True):
    """What a store says of a task after an operation on it; files only if that was the question."""

    task: TaskId
    state: TaskState
    generation: int
    preferred: NodeId = NodeId("")
    priority: float = 0.0
    seconds: float = 0.0
    granted: bool = False
    more_backups: bool = False  # whether it may run on yet another node
    live_attempts: int = 0
    placement: int = 0  # how often it became ready again and had to be queued
    children: tuple[TaskId, ...] = ()
    copies: tuple[Copy, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    input_copies: tuple[Copy, ...] = ()
    unknown: bool = False  # the store has no such task

    @property
    def needs_node(self) -> bool:
        """Whether the task may run, and no node has begun it."""
        return self.state is TaskState.READY and not self.live_attempts


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The attempt may go on. ``copies`` are the places its inputs were last known to be."""

    spec: TaskSpec
    generation: int
    copies: tuple[Copy, ...]
    parents: dict[TaskId, int]


class Committed(msgspec.Struct, frozen=True, tag=True):
    """The attempt won. ``rivals`` run the same task elsewhere and should be told to stop."""

    task: TaskId
    generation: int
    children: tuple[TaskId, ...]
    copies: tuple[Copy, ...]
    rivals: tuple[NodeId, ...]


class Failing(msgspec.Struct, frozen=True, tag=True):
    """What becomes of a task that failed by itself; ``children`` fail with it if it is final."""

    task: TaskId
    final: bool
    children: tuple[TaskId, ...]
    generation: int
    rivals: tuple[NodeId, ...] = ()


class Refusal(Enum):
    """Why a store says no to an attempt."""

    UNKNOWN = "unknown"  # the store has no such task
    FINISHED = "finished"
    WAITING = "waiting"  # a parent has not finished
    FENCED = "fenced"  # others have taken over what the attempt's incarnation held
    OVER = "over"  # this attempt was given up before
    UNDER_WAY_HERE = "under way here"  # by another attempt of the same node
    ENOUGH_REPLICAS = "enough replicas"
    OUTDATED = "outdated"  # the task has been completed again since


class Refused(msgspec.Struct, frozen=True, tag=True):
    """No, and why; ``state`` is where the task stands."""

    task: TaskId
    reason: Refusal
    state: TaskState


class Membership(msgspec.Struct, frozen=True, tag=True):
    """What a store says of a node. ``load_seconds`` counts what is queued but not yet claimed.

    ``epoch`` grows when the node's shard loses writes it had acknowledged.
    """

    node: NodeId
    current: bool
    up: bool
    incarnation: int
    queued: int
    load_seconds: float
    epoch: int


class Claimed(msgspec.Struct, frozen=True, tag=True):
    """Tasks the node now holds; a ticket tells one stay in a node's queue from the next."""

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
    """A finished task whose children may not know, or an unplaced one that may be in no queue."""

    task: TaskId
    generation: int
    failed: bool
    placement: int  # above 0 if it is unplaced
    children: tuple[TaskId, ...]
    copies: tuple[Copy, ...]
    winner: AttemptId  # who finished it; "" if it is unplaced, or failed with a parent


class Suspect(msgspec.Struct, frozen=True, array_like=True):
    """An attempt under way for so long that somebody should ask whether it still is."""

    task: TaskId
    attempt: AttemptId
    node: NodeId
    incarnation: int


class Findings(msgspec.Struct, frozen=True, tag=True):
    shard: int
    orphans: tuple[Orphans, ...]
    undelivered: tuple[Undelivered, ...]
    suspects: tuple[Suspect, ...]
    epoch: int  # grows when the shard loses writes it had acknowledged
    recount_due: bool  # nobody has yet put right what that loss broke


class Unfinished(msgspec.Struct, frozen=True, array_like=True):
    task: TaskId
    missing: tuple[TaskId, ...]  # parents it still waits for


class Page(msgspec.Struct, frozen=True, tag=True):
    shard: int
    tasks: tuple[Unfinished, ...]
    cursor: int  # where the next page starts; -1 after the last


Answer = Standing | Begun | Committed | Failing | Refused | Membership | Claimed | Findings | Page
