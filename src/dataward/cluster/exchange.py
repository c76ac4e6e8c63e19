"""What hosts tell submitters and readers, and are asked by them: values, as JSON or MessagePack."""

import msgspec

from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun, Member, RunPromise
from dataward.model.operations import OutputFile
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId


class MailSent(msgspec.Struct, frozen=True):
    """What a host has sent to others since it started: messages, and the requests that had them."""

    messages: int = 0
    letters: int = 0


class ClusterFacts(msgspec.Struct, frozen=True):
    """The cluster as one of its hosts sees it now."""

    cluster: str
    node: NodeId  # the host that answers
    members: tuple[Member, ...]
    runs: tuple[ClusterRun, ...]
    now: float  # by the store's clock, as the times of runs
    primaries: int  # servers that share the store's work
    sent: MailSent = MailSent()  # by the host that answers


class RunFactsNow(msgspec.Struct, frozen=True):
    """A run, and how many of its tasks are in each state."""

    run: ClusterRun
    counts: dict[str, int]
    now: float


class ExecutorFacts(msgspec.Struct, frozen=True):
    """What an executor has at one host now."""

    name: str  # the same at all hosts
    caller: str  # who runs it, and where, as it says itself
    node: NodeId
    slots: int  # that it has borrowed
    calls: int  # that were made for it
    values: int  # large ones that are kept for it
    value_bytes: int
    seconds: float  # since it came


class TaskAsked(msgspec.Struct, frozen=True):
    tasks: tuple[TaskId, ...]


class WrittenFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that a task wrote, and the nodes that have it."""

    file: OutputFile
    nodes: tuple[NodeId, ...]


class TaskFacts(msgspec.Struct, frozen=True):
    """A task as the store has it; ``files`` are those that it wrote."""

    task: TaskId
    state: TaskState
    is_known: bool
    generation: int = 0
    preferred: NodeId = NodeId("")
    files: tuple[WrittenFile, ...] = ()


class RemovedTask(msgspec.Struct, frozen=True):
    """What has become of a task that was to be removed."""

    task: TaskId
    state: TaskState


class OutcomesAsked(msgspec.Struct, frozen=True):
    keys: tuple[str, ...]


class OutcomesKnown(msgspec.Struct, frozen=True):
    outcomes: tuple[bytes | None, ...]


class NewRun(msgspec.Struct, frozen=True):
    """A run that somebody submits: its description has been put at its keepers."""

    name: str
    workflow: str
    strategy: str
    tasks: int
    submitter: str
    description: str
    keepers: tuple[NodeId, ...]
    shards: int
    promise: RunPromise | None = None
    skipped: int = 0


class ReadBytes(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of the workflow's inputs that a task reads, and how much of them some hosts have.

    ``made`` are bytes that other tasks, by number, write for it.
    """

    bytes: float
    held: dict[NodeId, float] = {}
    made: dict[int, float] = {}


class PromiseAsked(msgspec.Struct, frozen=True):
    """A workflow that should end within so many seconds: who waits for whom, and for how long.

    ``work`` is what to reserve for each task, in seconds at speed 1, and ``cores`` how many it
    takes at the same time; without any, one each. Tasks are numbers.
    """

    work: tuple[float, ...]
    parents: tuple[tuple[int, ...], ...]
    within_seconds: float
    reads: dict[int, ReadBytes] = {}
    cores: tuple[int, ...] = ()


class PlacedPromise(msgspec.Struct, frozen=True, array_like=True):
    """A task has been promised: where, by when it ends, and the seconds reserved for it.

    A task of several cores takes the slots ``beside`` its slot for the same time.
    """

    node: NodeId
    slot: int
    deadline: float  # by the store's clock
    seconds: float
    beside: tuple[int, ...] = ()


class PromiseAnswer(msgspec.Struct, frozen=True):
    """Promises for all tasks, or none and by when the workflow could have been promised."""

    deadline: float  # that was asked for, by the store's clock
    number: int = 0  # by which hosts know the bookings
    tasks: tuple[PlacedPromise, ...] = ()
    earliest: float = 0.0  # 0: nothing could be found in time
    now: float = 0.0
