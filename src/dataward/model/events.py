"""The types of event: everything that happens in a run, live or simulated, is one ordered list.

Reports, traces, plots and the checks of the simulator are made from this list and nothing else.
Times are seconds since the run began.
"""

from collections.abc import Callable
from enum import Enum

import msgspec

from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import AttemptOutcome, FailureCause, TaskState
from dataward.model.workflow import FileId, TaskId


class NodeFacts(msgspec.Struct, frozen=True, array_like=True):
    id: NodeId
    cores: int
    speed: float
    site: str


class RunStarted(msgspec.Struct, frozen=True, array_like=True, tag="run-started"):
    at: float
    workflow: str
    tasks: int
    strategy: str
    seed: int
    nodes: tuple[NodeFacts, ...]


class RunResumed(msgspec.Struct, frozen=True, array_like=True, tag="run-resumed"):
    """An interrupted run goes on; the time in between does not count."""

    at: float
    start: int  # which start of the run this is; the first is 1


class RunEnded(msgspec.Struct, frozen=True, array_like=True, tag="run-ended"):
    at: float
    complete: int
    failed: int
    messages: int
    store_calls: int
    removed: int = 0


class FinishPromised(msgspec.Struct, frozen=True, array_like=True, tag="finish-promised"):
    """By when the run ends, as it was promised before its first task, or anew if that was broken.

    Times are on the run's clock. ``sure`` is a probability, 0 if nothing is promised: then
    ``finish`` is only the earliest that could be, or 0 if too little is known.
    """

    at: float
    deadline: float  # what was asked for
    finish: float
    sure: float
    expected: float  # as likely later as earlier
    why: str = ""  # why it is promised anew, as a clause


class NodeJoined(msgspec.Struct, frozen=True, array_like=True, tag="node-joined"):
    at: float
    node: NodeId
    incarnation: int


class NodeLost(msgspec.Struct, frozen=True, array_like=True, tag="node-lost"):
    """A node crashed; the attempts that ran on it are gone."""

    at: float
    node: NodeId


class NodeLeft(msgspec.Struct, frozen=True, array_like=True, tag="node-left"):
    """A node has handed over what it had, and is no member any more."""

    at: float
    node: NodeId
    incarnation: int


class AttemptBegan(msgspec.Struct, frozen=True, array_like=True, tag="attempt-began"):
    """A node took a task from its ready queue and starts to bring the task's inputs in."""

    at: float
    task: TaskId
    attempt: AttemptId
    node: NodeId
    replica: bool
    generation: int


class AttemptAdvanced(msgspec.Struct, frozen=True, array_like=True, tag="attempt-advanced"):
    at: float
    task: TaskId
    attempt: AttemptId
    node: NodeId
    state: TaskState


class AttemptMeasured(msgspec.Struct, frozen=True, array_like=True, tag="attempt-measured"):
    """What an attempt used, and how its process ended; ``signal`` is 0 if none killed it."""

    at: float
    task: TaskId
    attempt: AttemptId
    node: NodeId
    exit_code: int
    signal: int
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int


class AttemptEnded(msgspec.Struct, frozen=True, array_like=True, tag="attempt-ended"):
    """``reason`` is a sentence for people; ``cause`` says what made a failed attempt fail."""

    at: float
    task: TaskId
    attempt: AttemptId
    node: NodeId
    outcome: AttemptOutcome
    reason: str = ""
    cause: FailureCause = FailureCause.TASK


class TaskFinished(msgspec.Struct, frozen=True, array_like=True, tag="task-finished"):
    """The store committed the task's outcome."""

    at: float
    task: TaskId
    attempt: AttemptId
    node: NodeId
    state: TaskState
    generation: int


class TaskSkipped(msgspec.Struct, frozen=True, array_like=True, tag="task-skipped"):
    """The task need not run: an earlier run completed it, and nothing it depends on has changed."""

    at: float
    task: TaskId
    generation: int = 1


class TaskDue(msgspec.Struct, frozen=True, array_like=True, tag="task-due"):
    """A task of an earlier run must run again; ``why`` says what changed or was lost."""

    at: float
    task: TaskId
    why: str


class InputsStaged(msgspec.Struct, frozen=True, array_like=True, tag="inputs-staged"):
    """Where a task's input bytes came from: the node's own depot, or over the network."""

    at: float
    task: TaskId
    attempt: AttemptId
    node: NodeId
    local_bytes: int
    moved_bytes: int


class FileMoved(msgspec.Struct, frozen=True, array_like=True, tag="file-moved"):
    at: float
    file: FileId
    source: NodeId
    target: NodeId
    size_bytes: int
    seconds: float


class FileStored(msgspec.Struct, frozen=True, array_like=True, tag="file-stored"):
    """A depot holds a file, whole and checked."""

    at: float
    file: FileId
    node: NodeId
    size_bytes: int


class FileEvicted(msgspec.Struct, frozen=True, array_like=True, tag="file-evicted"):
    at: float
    file: FileId
    node: NodeId
    size_bytes: int


class WorkGiven(msgspec.Struct, frozen=True, array_like=True, tag="work-given"):
    """A load balancer's decision, with the loads it weighed."""

    at: float
    source: NodeId
    target: NodeId
    tasks: tuple[TaskId, ...]
    loads_seconds: tuple[tuple[NodeId, float], ...]


class Occasion(Enum):
    """Why a task needs a node to go to."""

    READY = "ready"  # its last parent has finished, or it has none; or it was in no queue
    ORPHANED = "orphaned"  # the node that had the task is dead
    REOPENED = "reopened"  # its outputs are lost
    NO_ROOM = "no room"  # the disk of the node that had the task is full
    GIVEN = "given"  # a load balancer moved the task, or asked for a replica
    ASKED_FOR = "asked for"  # another node had nothing to run, and asked for tasks
    TAKEN = "taken"  # a node took the task from its queue, and looked for a better node once more
    STOLEN = "stolen"  # another node had nothing to run, and took half of this node's tasks
    LEFT = "left"  # the node that had the task leaves, or keeps no tasks for others any more

    __hash__ = object.__hash__


class TaskPlaced(msgspec.Struct, frozen=True, array_like=True, tag="task-placed"):
    """A task was put in a node's queue; ``candidates`` are the nodes compared, with their costs."""

    at: float
    task: TaskId
    node: NodeId
    occasion: Occasion
    candidates: tuple[tuple[NodeId, float], ...] = ()


class TaskTakenOver(msgspec.Struct, frozen=True, array_like=True, tag="task-taken-over"):
    """A node's lease expired, so its attempts at a task were fenced."""

    at: float
    task: TaskId
    node: NodeId
    incarnation: int


class TaskReopened(msgspec.Struct, frozen=True, array_like=True, tag="task-reopened"):
    """Every copy of an output was lost, so a complete task runs again."""

    at: float
    task: TaskId
    generation: int


class PolicyChanged(msgspec.Struct, frozen=True, array_like=True, tag="policy-changed"):
    """A node weighs load against data in another way from now on.

    ``moved`` is the reason: how long tasks waited for data, as a share of how long they ran.
    """

    at: float
    node: NodeId
    policy: str
    moved: float


class FaultInjected(msgspec.Struct, frozen=True, array_like=True, tag="fault-injected"):
    at: float
    kind: str
    where: str


Event = (
    RunStarted | RunResumed | RunEnded | FinishPromised | NodeJoined | NodeLost | NodeLeft
    | AttemptBegan | AttemptAdvanced | AttemptMeasured | AttemptEnded
    | TaskFinished | TaskSkipped | TaskDue | TaskPlaced | TaskTakenOver | TaskReopened
    | InputsStaged | FileMoved | FileStored | FileEvicted | WorkGiven | PolicyChanged
    | FaultInjected
)  # fmt: skip

Emit = Callable[[Event], None]
