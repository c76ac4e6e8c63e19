"""What a node can ask of the store: small commands, each about one key, each safe to repeat.

A key belongs to one shard, and a shard applies one operation at a time; nothing spans shards. A
caller whose call failed does not know whether it took effect, so it repeats it: every operation
here gives the same answer the second time, but for `Replicate` and `Patrol`, which then give less.
``docs/node.md`` tells how they follow one another.
"""

from zlib import crc32

import msgspec

from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId


class InputFile(msgspec.Struct, frozen=True, array_like=True):
    """A file a task reads; ``producer`` is "" for an input of the whole workflow.

    Its size and digest are what was committed, once that is known.
    """

    id: FileId
    size_bytes: int
    producer: TaskId
    digest: str = ""


class OutputFile(msgspec.Struct, frozen=True, array_like=True):
    """A file a task writes: as declared in its specification, as it was written in its commit."""

    id: FileId
    size_bytes: int
    digest: str = ""


class TaskSpec(msgspec.Struct, frozen=True, array_like=True):
    """What the client says of a task: ADAGE's Table 2, less what changes as it runs."""

    id: TaskId
    type: str
    parents: tuple[TaskId, ...]
    children: tuple[TaskId, ...]
    inputs: tuple[InputFile, ...]
    outputs: tuple[OutputFile, ...]
    runtime_seconds: float
    cores: int
    memory_bytes: int
    retries: int
    preferred: NodeId
    priority: float  # lower is more urgent
    backups_max: int
    command: tuple[str, ...] = ()


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """A place where a file is, and how to tell that it is the right one, whole."""

    file: FileId
    node: NodeId
    size_bytes: int = -1  # -1: not said
    digest: str = ""


class QueueEntry(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A task in a node's queue; entries sort by urgency, then by id."""

    priority: float
    task: TaskId
    replica: bool = False
    seconds: float = 0.0  # how much work it is thought to be
    generation: int = 1  # which completion of the task this is about
    given: bool = False  # moved here by another node's balancer, so not to be given on


# --- about a task --------------------------------------------------------------------------------


class TaskOperation(msgspec.Struct, frozen=True, tag=True):
    task: TaskId

    @property
    def key(self) -> str:
        return self.task


class Submit(msgspec.Struct, frozen=True, tag=True):
    """Put a task in the store, waiting or ready. -> Standing"""

    spec: TaskSpec

    @property
    def key(self) -> str:
        return self.spec.id


class Begin(TaskOperation, frozen=True, tag=True):
    """Start an attempt. -> Begun, or Refused if the task is not ready or needs no more runs."""

    attempt: AttemptId
    node: NodeId


class Advance(TaskOperation, frozen=True, tag=True):
    """Say how far an attempt has come. -> Standing"""

    attempt: AttemptId
    state: TaskState
    at: float


class Commit(TaskOperation, frozen=True, tag=True):
    """Complete the task, once. -> Committed, or Refused: another won, or the lease was lost.

    ``outputs`` are the files as they were written; those not named are as they were declared.
    """

    attempt: AttemptId
    node: NodeId
    timeline: tuple[tuple[TaskState, float], ...] = ()
    generation: int = 0
    outputs: tuple[OutputFile, ...] = ()


class Fail(TaskOperation, frozen=True, tag=True):
    """The task's own error ended the attempt. -> Failing (retry or not), or Refused."""

    attempt: AttemptId
    reason: str
    timeline: tuple[tuple[TaskState, float], ...] = ()


class Release(TaskOperation, frozen=True, tag=True):
    """Give an attempt up through no fault of the task. -> Standing

    ``keep`` says that the node goes on holding the task and will try again.
    """

    attempt: AttemptId
    keep: bool = False


class Notify(TaskOperation, frozen=True, tag=True):
    """Tell a child that this parent has committed, and where its files are. -> Standing

    ``failed`` passes a failure on instead: a child that is not under way fails too, and whose word
    did that is ``granted``; one under way may yet commit, and fails if it would have to wait.
    A notice of a generation already known changes nothing.
    """

    parent: TaskId
    generation: int
    failed: bool = False
    copies: tuple[Copy, ...] = ()


class Delivered(TaskOperation, frozen=True, tag=True):
    """All is done that had to follow: empty the outbox. -> Standing

    What had to follow is telling the children of this generation or, if the task became ready
    again, putting it into some node's queue; then ``placement`` says for the how-manieth time.
    """

    generation: int
    placement: int = 0


class Replicate(TaskOperation, frozen=True, tag=True):
    """Ask to run the task on one more node. -> Standing; ``granted`` if it may have the backup.

    A node is granted each task once: asked again after a lost answer, the backup is forgone.
    """

    source: NodeId
    node: NodeId


class TakeOver(TaskOperation, frozen=True, tag=True):
    """Fence all attempts of a node whose lease has expired. -> Standing"""

    node: NodeId
    incarnation: int


class Reopen(TaskOperation, frozen=True, tag=True):
    """Every copy of an output of this generation is gone: run again. -> Standing

    ``granted`` if that generation is open again, whoever asked first.
    """

    generation: int


class Postpone(TaskOperation, frozen=True, tag=True):
    """An attempt cannot go on until this parent has run again. -> Standing

    ``granted`` if a parent is known to have failed, so that the task has failed with it.
    """

    attempt: AttemptId
    parent: TaskId
    generation: int


class AddCopies(TaskOperation, frozen=True, tag=True):
    """More places that hold outputs of this task. -> Standing

    An input of the whole workflow has no producer: its own name stands in for the task's, here and
    in the two operations that follow.
    """

    copies: tuple[Copy, ...]


class DropCopies(TaskOperation, frozen=True, tag=True):
    """Places that hold outputs of this task no longer. -> Standing"""

    copies: tuple[Copy, ...]


class Look(TaskOperation, frozen=True, tag=True):
    """How things stand with a task. -> Standing"""


class Forget(TaskOperation, frozen=True, tag=True):
    """Drop a finished task: nobody will ask for it again, or for what it wrote. -> Standing

    It is then ``unknown``; one that has not finished stays.
    """


# --- about a node --------------------------------------------------------------------------------


class NodeOperation(msgspec.Struct, frozen=True, tag=True):
    node: NodeId

    @property
    def key(self) -> str:
        return self.node


class Join(NodeOperation, frozen=True, tag=True):
    """Become a member, or come back as a new incarnation. -> Membership

    What an earlier incarnation held goes back into the node's own queue.
    """

    incarnation: int
    lease_seconds: float


class Renew(NodeOperation, frozen=True, tag=True):
    """Keep the lease on everything the node holds. -> Membership; not ``current`` if it is lost."""

    incarnation: int
    load_seconds: float


class Enqueue(NodeOperation, frozen=True, tag=True):
    """Queue tasks for a node, dead or alive. -> Membership"""

    entries: tuple[QueueEntry, ...]


class Claim(NodeOperation, frozen=True, tag=True):
    """Take the most urgent tasks queued for the node; they are then held. -> Claimed

    ``request`` numbers the claim, so that one repeated after a lost answer is answered again.
    """

    incarnation: int
    request: int
    limit: int
    load_seconds: float


class LetGo(NodeOperation, frozen=True, tag=True):
    """The node holds these tasks no longer. -> Membership

    Each is named with its ticket, so that a call that comes late does not let go of what has been
    queued anew; ticket -1 means whatever there is. Nothing happens if the node has since come back
    as another incarnation.
    """

    incarnation: int
    tasks: tuple[tuple[TaskId, int], ...]


class Restate(NodeOperation, frozen=True, tag=True):
    """Say what the node holds, after its shard lost writes. -> Claimed, with all that it holds

    What the store thought it held goes back into the queue.
    """

    incarnation: int
    entries: tuple[QueueEntry, ...]


class ReportLoad(NodeOperation, frozen=True, tag=True):
    """Say how much work waits at a node, for load balancers to read. -> Membership"""

    load_seconds: float


class Probe(NodeOperation, frozen=True, tag=True):
    """Whether a node is up, and its load. -> Membership"""


class Seize(NodeOperation, frozen=True, tag=True):
    """Declare an incarnation dead if its lease has expired. -> Membership

    It is not ``current`` then, now or ever again: its tasks may be taken over.
    """

    incarnation: int


# --- about a shard -------------------------------------------------------------------------------


class Patrol(msgspec.Struct, frozen=True, tag=True):
    """Look for what got stuck on one shard: orphans, full outboxes, old attempts. -> Findings

    ``node`` gets a short exclusive hold on what it finds, so that not everybody repairs it. What
    is still stuck when that ends, the answer having been lost or the finder, is found again.
    """

    shard: int
    node: NodeId
    limit: int
    stale_seconds: float
    suspect_seconds: float


class Recount(msgspec.Struct, frozen=True, tag=True):
    """A shard's unfinished tasks, a page at a time: what a repair after a loss reads. -> Page"""

    shard: int
    cursor: int
    limit: int


class Recounted(msgspec.Struct, frozen=True, tag=True):
    """The losses of this shard up to this epoch have been put right. -> Findings"""

    shard: int
    epoch: int


ShardOperation = Patrol | Recount | Recounted
Operation = (
    Submit | Begin | Advance | Commit | Fail | Release | Notify | Delivered | Replicate | TakeOver
    | Reopen | Postpone | AddCopies | DropCopies | Look | Forget
    | Join | Renew | Enqueue | Claim | LetGo | Restate | Seize | ReportLoad | Probe
    | Patrol | Recount | Recounted
)  # fmt: skip


def shard_of(operation: Operation, shards: int) -> int:
    """Where an operation goes: the same everywhere, for ever."""
    if isinstance(operation, ShardOperation):
        return operation.shard
    return crc32(operation.key.encode()) % shards
