"""All that a node can ask of the outside. ``live`` and ``sim`` each supply one `World`.

A node that asked for anything not named here could not be simulated, so nothing else exists.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

from dataward.errors import DatawardError
from dataward.kernel.interface import (
    Cancelled,
    Fiber,
    FiberCancelled,
    Flag,
    Kernel,
    Queue,
    TimedOut,
)
from dataward.model.answers import Answer
from dataward.model.events import Emit
from dataward.model.ids import AttemptId, NodeId
from dataward.model.messages import Message
from dataward.model.operations import Commit, InputFile, Operation, OutputFile, TaskSpec
from dataward.model.states import FailureCause
from dataward.model.workflow import FileId, TaskId

# What a node waits on, at its one door to the outside.
__all__ = [
    "Cancelled",
    "Disk",
    "DiskFull",
    "Fiber",
    "FiberCancelled",
    "Flag",
    "InputLost",
    "Kernel",
    "Network",
    "OnStart",
    "Queue",
    "RunResult",
    "Runner",
    "Store",
    "StoreUnavailable",
    "StoredFile",
    "TimedOut",
    "TransferFailed",
    "World",
]


class StoreUnavailable(DatawardError):  # noqa: N818 - a condition to wait out
    """A call to the store failed; it may or may not have taken effect."""


class TransferFailed(DatawardError):  # noqa: N818
    """A file did not arrive from where it was asked for."""


class DiskFull(DatawardError):  # noqa: N818
    """There is no room for a file, even after evicting all that may be evicted."""


class InputLost(DatawardError):  # noqa: N818 - answered by running producers again
    """Files that a task reads, and that other tasks wrote, cannot be had any more."""

    def __init__(self, files: Sequence[InputFile]) -> None:
        self.files = tuple(files)
        more = f" and of {len(files) - 1} more" if len(files) > 1 else ""
        super().__init__(f"no copy of {files[0].id!r}{more} is left")

    @property
    def producers(self) -> tuple[TaskId, ...]:
        """The tasks that must run again, each once."""
        return tuple(dict.fromkeys(file.producer for file in self.files))


class Store(Protocol):
    """The state all nodes share, in shards."""

    @property
    def shard_count(self) -> int: ...

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        """Apply operations, in order within a shard; answers come in the order asked.

        Raises StoreUnavailable, after which any of them may have been applied: repeat them all.
        """
        ...


class Network(Protocol):
    """Other nodes."""

    @property
    def inbox(self) -> Queue[Message]: ...

    def send(self, to: NodeId, message: Message) -> None:
        """Send without waiting; the message may be lost, late or doubled."""
        ...

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        """Copy a file from a node (or the origin) to this node's disk, whole and checked.

        Raises TransferFailed if the source is down, has it not, does not serve, or sends other
        bytes than the digest says.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file on a disk. ``owner`` is its producer, or the file itself for a workflow's input."""

    id: FileId
    size_bytes: int
    owner: str
    written: bool  # by a task that ran here, rather than fetched
    digest: str = ""


class Disk(Protocol):
    """This node's own storage. The depot decides what is on it; it survives a crash."""

    @property
    def capacity_bytes(self) -> float: ...

    def files(self) -> list[StoredFile]:
        """What is stored, oldest first: how a depot starts again after a crash."""
        ...

    async def open_inputs(self, task: TaskSpec) -> None:
        """Make a task's inputs, all of them stored here, ready to read.

        Raises InputLost with those that have gone from the disk since they were stored.
        """
        ...

    async def store_outputs(self, task: TaskSpec) -> tuple[OutputFile, ...]:
        """Store what a task wrote, and return what it was. Raises DiskFull.

        A power cut may still take it away, until `sync` has returned.
        """
        ...

    async def sync(self) -> None:
        """Return once everything stored so far would survive a power cut.

        Raises DiskFull if that cannot be: then nothing stored since the last sync counts.
        """
        ...

    def remove(self, file: FileId) -> None:
        """Remove a file; nothing happens if it is not there."""
        ...

    def journal(self, commit: Commit) -> None:
        """Remember a commit that the store acknowledged, in case it forgets."""
        ...

    def journalled(self) -> list[Commit]:
        """Every remembered commit, oldest first, also those of earlier incarnations."""
        ...


class RunResult(NamedTuple):
    """When and how a run of a task ended, and what it took.

    ``error`` is a sentence, or empty if the run succeeded; ``cause`` says who ended a failed run.
    """

    ended_at: float
    error: str = ""
    exit_code: int = 0
    signal: int = 0  # what killed it, if anything did
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    cause: FailureCause = FailureCause.TASK


OnStart = Callable[[float], None]
"""Told when a run of a task began; perhaps a little later."""


class Runner(Protocol):
    """What executes tasks on this node."""

    async def run(self, task: TaskSpec, attempt: AttemptId, on_start: OnStart) -> RunResult:
        """Execute a task whose inputs are ready. Cancelling the call ends the execution.

        If it is given more than there are cores for, those wait their turn. ``on_start`` is
        called once, when the task's own turn comes. Raises InputLost if an input that a task
        wrote has gone from the disk by then: nothing was executed, or nothing of it counts.
        """
        ...


@dataclass(frozen=True, slots=True)
class World:
    """One node's view of everything outside it."""

    node: NodeId
    nodes: Sequence[NodeId]
    incarnation: int
    cores: int
    memory_bytes: float
    kernel: Kernel
    random: Random
    store: Store
    network: Network
    disk: Disk
    runner: Runner
    emit: Emit
