"""Everything a node can ask of the outside. ``live`` and ``sim`` each supply one `World`.

A node that asked for anything not named here could not be simulated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from sys import maxsize
from typing import NamedTuple, Protocol, SupportsIndex

import msgspec

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

# Node code imports the kernel's types from here, so that this module is all it needs.
__all__ = [
    "Cancelled",
    "CoresForUs",
    "Disk",
    "DiskFull",
    "Fiber",
    "FiberCancelled",
    "Flag",
    "InputLost",
    "Kernel",
    "Members",
    "Network",
    "OnStart",
    "Queue",
    "RunResult",
    "Runner",
    "SharedCores",
    "Store",
    "StoreUnavailable",
    "StoredFile",
    "TheirSlot",
    "TimedOut",
    "TransferFailed",
    "Unserved",
    "World",
]


class StoreUnavailable(DatawardError):  # noqa: N818 - a condition to wait out
    """A call to the store failed; the call may or may not have taken effect."""


class TransferFailed(DatawardError):  # noqa: N818
    """A file did not arrive from the node (or the origin) it was asked of."""


class Unserved(TransferFailed):
    """Nobody serves a file that no task can make again; ``is_lost``: and has not for long.

    ``holders`` are the nodes that are known to have had the file.
    """

    def __init__(
        self, file: FileId, holders: Sequence[NodeId], why: str, *, lost_seconds: float = 0.0
    ) -> None:
        self.file = file
        self.holders = tuple(holders)
        self.is_lost = lost_seconds > 0
        had = f"{' and '.join(holders)} had it" if holders else "no node is known to have had it"
        what = f"is lost: nobody has served it for {lost_seconds:.0f} s" if self.is_lost else ""
        super().__init__(f"input {file!r} {what or 'is not served'}; {had} ({why})")


class DiskFull(DatawardError):  # noqa: N818
    """The disk has no room for a file, even after evicting every file that may be evicted."""


class InputLost(DatawardError):  # noqa: N818 - answered by running producers again
    """No copy is left of some files that a task reads and that other tasks wrote."""

    def __init__(self, files: Sequence[InputFile]) -> None:
        self.files = tuple(files)
        more = f" and of {len(files) - 1} more" if len(files) > 1 else ""
        super().__init__(f"no copy of {files[0].id!r}{more} is left")

    @property
    def producers(self) -> tuple[TaskId, ...]:
        """The tasks that must run again, each once."""
        return tuple(dict.fromkeys(file.producer for file in self.files))


class Members(list[NodeId]):
    """The nodes of a run, each once, in an order; they may change while a node looks at them.

    Never empty: whoever has a world knows at least one node. `index` and ``in`` take O(1), whatever
    the number of nodes; all else is a list's. Only `become` changes it. Nodes hear of changes at
    different times, so that two nodes may see different members for a while. ``newcomers`` are
    those that were not there when this world began.
    """

    def __init__(self, nodes: Iterable[NodeId]) -> None:
        super().__init__(dict.fromkeys(nodes))
        self._places = {node: place for place, node in enumerate(self)}
        self._watchers: list[Callable[[], None]] = []
        self._first: frozenset[NodeId] | None = None  # who was there, once somebody came or went
        self.newcomers: list[NodeId] = []

    def __contains__(self, node: object) -> bool:
        return node in self._places

    def index(
        self, node: NodeId, start: SupportsIndex = 0, stop: SupportsIndex = maxsize, /
    ) -> int:
        """The place of a node that is a member. Raises ValueError for any other."""
        place = self._places.get(node, -1)
        if not int(start) <= place < int(stop):
            raise ValueError(f"{node} is no member")
        return place

    def watch(self, on_change: Callable[[], None]) -> None:
        """Call ``on_change`` after every change, for as long as this world lasts."""
        self._watchers.append(on_change)

    def become(self, nodes: Iterable[NodeId]) -> None:
        """Have these nodes instead; who has a hold of the list sees them at once.

        An empty list changes nothing: all have left, or whoever says so has lost them.
        """
        new = list(dict.fromkeys(nodes))
        if not new or new == self:
            return
        if self._first is None:
            self._first = frozenset(self)
        self[:] = new
        self.newcomers = [node for node in new if node not in self._first]
        self._places = {node: place for place, node in enumerate(new)}
        for on_change in self._watchers:
            on_change()


class Store(Protocol):
    """The state all nodes share, divided into shards."""

    @property
    def shard_count(self) -> int: ...

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        """One answer for each operation, in the order of the operations.

        A shard applies its operations in that order. Raises StoreUnavailable, after which any of
        the operations may have been applied: repeat them all.
        """
        ...


class Network(Protocol):
    """The way to other nodes: messages and files."""

    @property
    def inbox(self) -> Queue[Message]: ...

    @property
    def together_bytes(self) -> int:
        """Smaller files travel together: any number of them may be fetched at once. 0: none do."""
        ...

    def doubts(self, node: NodeId) -> bool:
        """Whether the node could not be reached a moment ago, so that others had better be asked.

        The node may well be there again: if it has the only copy of a file, ask it.
        """
        ...

    def send(self, to: NodeId, message: Message) -> None:
        """Send without waiting; the message may be lost, or arrive late or twice."""
        ...

    def expected_rate(self, source: NodeId) -> float | None:
        """Bytes per second of a file from a node (or the origin), if nothing else were under way.

        As the links were described before the run; None if nobody has described them.
        """
        ...

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        """Copy a file from a node (or the origin) to this node's disk, whole and checked.

        Raises TransferFailed if the source is down, does not have the file, does not answer, or
        sends bytes that do not match the digest, and DiskFull if they cannot be written here: then
        another source is of no use.
        """
        ...


class StoredFile(msgspec.Struct, frozen=True):
    """A file on a disk. ``owner`` is its producer, or the file's own id for a workflow's input."""

    id: FileId
    size_bytes: int
    owner: str
    written: bool  # by a task that ran here; False if it was fetched
    digest: str = ""
    kept: bool = False  # put here for the run: the copy that others rely on


class Disk(Protocol):
    """This node's own storage, which survives a crash. The depot decides which files are on it."""

    @property
    def capacity_bytes(self) -> float: ...

    def files(self) -> list[StoredFile]:
        """The stored files, oldest first: what a depot starts from after a crash."""
        ...

    def keep(self, file: InputFile) -> None:
        """Say of a file that came from another node that it is ``kept`` now, also after a crash."""
        ...

    def is_wanted(self, file: FileId) -> bool:
        """Whether somebody will ask for this file even after every task that reads it has ended."""
        ...

    async def open_inputs(self, task: TaskSpec) -> None:
        """Make a task's inputs, which are all stored here, ready to read.

        Raises InputLost with the inputs that have gone from the disk since they were stored.
        """
        ...

    def output_bytes(self, task: TaskSpec) -> int:
        """How many bytes a task that has just run here wrote; they are still to be stored.

        The sizes in the `TaskSpec` are only estimates.
        """
        ...

    async def store_outputs(self, task: TaskSpec) -> tuple[OutputFile, ...]:
        """The files a task wrote, now stored here. Raises DiskFull.

        A power cut may still take the files away, until `sync` has returned.
        """
        ...

    def recall(self, file: OutputFile, task: TaskId) -> bool:
        """Whether an earlier run left this very file here; then it is stored as the task's output.

        Such a file would survive a power cut.
        """
        ...

    async def sync(self) -> None:
        """Return once everything stored so far would survive a power cut.

        Raises DiskFull if the disk cannot do so: then nothing stored since the last sync counts.
        """
        ...

    def remove(self, file: FileId) -> None:
        """Remove a file; nothing happens if it is not there."""
        ...

    def journal(self, commit: Commit) -> None:
        """Remember a commit that the store acknowledged, in case the store forgets it."""
        ...

    def journalled(self) -> list[Commit]:
        """Every remembered commit, oldest first, also those of earlier incarnations."""
        ...


class RunResult(NamedTuple):
    """When and how a run of a task ended, and the time and memory it used.

    ``error`` is a sentence, or empty if the run succeeded; ``cause`` says who ended a failed run.
    """

    ended_at: float
    error: str = ""
    exit_code: int = 0
    signal: int = 0  # the signal that killed the run, if any did
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    cause: FailureCause = FailureCause.TASK


OnStart = Callable[[float], None]
"""Called with the time at which a run of a task began; the call may come a little later."""


class Runner(Protocol):
    """Executes tasks on this node."""

    async def run(self, task: TaskSpec, attempt: AttemptId, on_start: OnStart) -> RunResult:
        """The result of executing a task whose inputs are ready. Cancelling the call ends the run.

        Tasks beyond the number of cores wait their turn. ``on_start`` is called once, when the
        task's own turn comes. Raises InputLost if an input that another task wrote has gone from
        the disk by then: nothing was executed, or nothing of the execution counts.
        """
        ...

    async def trial(self) -> float:
        """How many seconds a small computation takes here now, however busy the cores are.

        It is the same one each time, so it takes longer while the machine is slower.
        """
        ...

    async def crowded(self) -> None:
        """Return as soon as a task, of this run or another one, has to wait for a core here."""
        ...

    def taken_seconds(self) -> Sequence[float]:
        """For how long others have had cores of this node, one number for each of these cores."""
        ...


OurSlot = tuple[float, float, TaskId]
"""(deadline, seconds, task): time that we have promised on a core"""


class TheirSlot(NamedTuple):
    """Time that somebody else has promised on a core that we share; ``is_ready`` if they wait."""

    deadline: float
    seconds: float
    is_ready: bool

    @property
    def latest_start(self) -> float:
        return self.deadline - self.seconds


class SharedCores(Protocol):
    """The cores of a node, as far as others on the same machine have promised them, too."""

    @property
    def has_others(self) -> bool: ...

    def promised(self, core: int) -> Sequence[TheirSlot]:
        """What others have promised on this core, earliest deadline first."""
        ...

    def take(self, core: int, until: float) -> bool:
        """Use a core from now on, about until then. False if somebody else uses it."""
        ...

    def give_back(self, core: int) -> None: ...

    def tell(self, queues: Sequence[Sequence[OurSlot]], wanted: Mapping[int, float]) -> None:
        """Let others know what our cores have promised, earliest deadline first.

        ``wanted`` are the cores that ready tasks wait for, and by when these tasks must end.
        """
        ...


class CoresForUs:
    """Cores that nobody else has promised."""

    @property
    def has_others(self) -> bool:
        return False

    def promised(self, core: int) -> Sequence[TheirSlot]:
        return ()

    def take(self, core: int, until: float) -> bool:
        return True

    def give_back(self, core: int) -> None:
        pass

    def tell(self, queues: Sequence[Sequence[OurSlot]], wanted: Mapping[int, float]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class World:
    """One node's view of everything outside it."""

    node: NodeId
    nodes: Members
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
    speed: float = 1.0  # of the machine: a task estimated at 10 s takes 5 s at a speed of 2
    shared_cores: SharedCores = CoresForUs()  # noqa: RUF009 - has no state
