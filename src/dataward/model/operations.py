"""What a node can ask of the store: small commands, each about one key, each safe to repeat.

A key belongs to one shard, and a shard applies one operation at a time; nothing spans shards. A
caller whose call failed does not know whether it took effect, so it repeats the call: every
operation gives the same answer again, except `Replicate` and `Patrol`, whose second answer grants
or finds less. ``docs/node.md`` describes the order in which operations follow one another.
"""

from enum import IntEnum
from math import inf
from zlib import crc32

import msgspec

from dataward.model.estimate import UNKNOWN_SECONDS
from dataward.model.ids import AttemptId, NodeId
from dataward.model.launch import Launch
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId


class InputFile(msgspec.Struct, frozen=True, array_like=True):
    """A file a task reads; ``producer`` is "" for an input of the whole workflow.

    Once the producer has committed, size and digest are those of its commit. ``relay`` is the node
    that is planned to have an input of the workflow first: it is asked before the origin.
    """

    id: FileId
    size_bytes: int
    producer: TaskId
    digest: str = ""
    relay: NodeId = NodeId("")


class OutputFile(msgspec.Struct, frozen=True, array_like=True):
    """A file a task writes: in a `TaskSpec` as declared, in a `Commit` as it was written."""

    id: FileId
    size_bytes: int
    digest: str = ""


class Earlier(msgspec.Struct, frozen=True, array_like=True):
    """What a task read and wrote when it last ran by the same recipe, by content.

    If it would read the same again, it need not run: what it wrote is known. Its outputs may be
    gone since; of these only the ``wanted`` ones must be made again though nobody reads them.
    """

    inputs: tuple[tuple[FileId, str], ...]
    outputs: tuple[OutputFile, ...]
    wanted: tuple[FileId, ...] = ()


class TaskSpec(msgspec.Struct, frozen=True, array_like=True):
    """What the client submits about a task: ADAGE's Table 2 without the fields that change.

    ``estimated_seconds`` is 0 if nothing is known of the task's run time. ``estimated_spread`` is
    the sigma of a lognormal error around it: 0 if the run time is certain, infinite if it is a mere
    guess.
    """

    id: TaskId
    type: str
    parents: tuple[TaskId, ...]
    children: tuple[TaskId, ...]
    inputs: tuple[InputFile, ...]
    outputs: tuple[OutputFile, ...]
    estimated_seconds: float
    cores: int
    memory_bytes: int
    retries: int
    preferred: NodeId
    priority: float  # lower is more urgent
    backups_max: int
    command: tuple[str, ...] = ()
    earlier: Earlier | None = None
    launch: Launch | None = None
    estimated_spread: float = 0.0
    ahead: tuple[tuple[FileId, NodeId], ...] = ()  # outputs that nodes bring in once committed


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """A node that holds a file, and the size and digest by which to check the file.

    NOWHERE stands for the node if nobody holds the file, so that its digest is known all the same.
    """

    file: FileId
    node: NodeId
    size_bytes: int = -1  # -1: unknown
    digest: str = ""


class Shelf(IntEnum):
    """Where an entry waits at a node: this says who may have the task."""

    SHARED = 0  # this node runs the task, unless a mover takes it to another node first
    KEPT = 1  # this node runs the task; no mover may take it away
    POOLED = 2  # this node only keeps the task, for whichever node asks for one
    SPARE = 3  # another node runs the task; this one runs it too while a core is idle


class QueueEntry(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A task in a node's queue; entries sort by urgency, then by id."""

    priority: float
    task: TaskId
    replica: bool = False
    seconds: float = UNKNOWN_SECONDS  # estimated run time
    generation: int = 1  # the generation that running this entry would complete
    shelf: Shelf = Shelf.SHARED
    spread: float = inf  # of ``seconds``, as in `Estimate`
    task_type: str = ""  # by which nodes learn run times
    displaced: bool = False  # not queued as planned: its node died, its outputs are lost, …


# --- about a task --------------------------------------------------------------------------------


class TaskOperation(msgspec.Struct, frozen=True, tag=True):
    task: TaskId

    @property
    def key(self) -> str:
        return self.task


class Submit(msgspec.Struct, frozen=True, tag=True):
    """Put a task in the store, waiting or ready. -> Standing

    ``again`` if it was put there before: then a shard that does not know the task has lost it, and
    with it what the task had been told of its parents.
    """

    spec: TaskSpec
    again: bool = False

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

    ``outputs`` are the files as written; an output left out is as the `TaskSpec` declared it. A
    task that is ``recalled`` did not run, and its outputs are those of an earlier run; nobody has
    those that are ``absent``.
    """

    attempt: AttemptId
    node: NodeId
    timeline: tuple[tuple[TaskState, float], ...] = ()
    generation: int = 0
    outputs: tuple[OutputFile, ...] = ()
    recalled: bool = False
    absent: tuple[FileId, ...] = ()

    @property
    def held(self) -> tuple[OutputFile, ...]:
        """The outputs that the node has."""
        if not self.absent:
            return self.outputs
        return tuple(file for file in self.outputs if file.id not in self.absent)


class Fail(TaskOperation, frozen=True, tag=True):
    """The task's own error ended the attempt. -> Failing (retry or not), or Refused."""

    attempt: AttemptId
    reason: str
    timeline: tuple[tuple[TaskState, float], ...] = ()


class Release(TaskOperation, frozen=True, tag=True):
    """Give up an attempt for a reason other than the task's own error. -> Standing

    With ``keep`` the node still holds the task and will try again.
    """

    attempt: AttemptId
    keep: bool = False


class Remove(TaskOperation, frozen=True, tag=True):
    """End the task, since nobody wants it any more; its attempts may not commit. -> Standing

    ``granted`` if the task is removed, by this call or before; the answer then names its children,
    which must be told. A task that is complete or has failed stays so.
    """


class Notify(TaskOperation, frozen=True, tag=True):
    """Tell a child that this parent has committed, and where its files are. -> Standing

    With ``failed`` the notice says that the parent failed. A waiting or ready child then fails too,
    and ``granted`` is set if this parent's notice caused that. A child with an attempt under way
    may still commit; it fails if it has to wait again. A notice of a generation already known
    changes nothing.

    With ``removed`` the notice says that the parent was removed. A child that has not finished is
    removed too, even if an attempt is under way; a complete one is if it has to wait again.
    """

    parent: TaskId
    generation: int
    failed: bool = False
    copies: tuple[Copy, ...] = ()
    removed: bool = False  # a field of its own, so that journals written without it can be read


class Delivered(TaskOperation, frozen=True, tag=True):
    """The outbox has been delivered: empty it. -> Standing

    The sender has told all children that ``generation`` ended. Or, if the task had become ready
    again, it has put the task in a node's queue; ``placement`` then counts how often the task was
    queued again.
    """

    generation: int
    placement: int = 0


class Replicate(TaskOperation, frozen=True, tag=True):
    """Ask to run the task on one more node. -> Standing; ``granted`` if that node may run it.

    The store grants a task to a node once. If the answer is lost, the repeated call is refused, and
    that backup is never made.

    A ``spare`` may end at any time, so it is no backup: it is granted, again and again, while the
    task has one attempt under way, at another node.
    """

    source: NodeId
    node: NodeId
    spare: bool = False


class TakeOver(TaskOperation, frozen=True, tag=True):
    """Fence all attempts of a node whose lease has expired. -> Standing"""

    node: NodeId
    incarnation: int


class Reopen(TaskOperation, frozen=True, tag=True):
    """Every copy of an output of this generation is gone: run the task again. -> Standing

    ``granted`` if the task is open again, by this call or by an earlier one.
    """

    generation: int


class Postpone(TaskOperation, frozen=True, tag=True):
    """End an attempt that cannot go on until this parent has run again. -> Standing

    ``granted`` if the task has ended instead, because a parent had failed or was removed.
    """

    attempt: AttemptId
    parent: TaskId
    generation: int


class AddCopies(TaskOperation, frozen=True, tag=True):
    """Add nodes that hold outputs of this task. -> Standing

    An input of the whole workflow has no producer. For such a file ``task`` is the file's own name,
    here and in `DropCopies` and `Look`.
    """

    copies: tuple[Copy, ...]


class DropCopies(TaskOperation, frozen=True, tag=True):
    """Remove nodes that no longer hold outputs of this task. -> Standing"""

    copies: tuple[Copy, ...]


class Look(TaskOperation, frozen=True, tag=True):
    """Read a task, with its files. -> Standing

    With ``children`` the answer names the task's children, whatever its state.
    """

    children: bool = False


class Forget(TaskOperation, frozen=True, tag=True):
    """Drop a finished task that nobody will ask about again, nor about its outputs. -> Standing

    The answer says ``unknown``. A task that has not finished is kept.
    """


# --- about a node --------------------------------------------------------------------------------


class NodeOperation(msgspec.Struct, frozen=True, tag=True):
    node: NodeId

    @property
    def key(self) -> str:
        return self.node


class Join(NodeOperation, frozen=True, tag=True):
    """Become a member, or come back as a new incarnation. -> Membership

    Tasks that an earlier incarnation held go back into the node's own queue.
    """

    incarnation: int
    lease_seconds: float


class Renew(NodeOperation, frozen=True, tag=True):
    """Renew the node's lease. -> Membership; not ``current`` if the lease was lost."""

    incarnation: int
    load_seconds: float


class Leave(NodeOperation, frozen=True, tag=True):
    """Give up the membership of this incarnation, for good. -> Membership, not ``current`` any more

    It is as dead as one that was seized, though its lease had not expired: what it still holds, or
    is queued for it later, the next patrol finds.
    """

    incarnation: int


class Enqueue(NodeOperation, frozen=True, tag=True):
    """Queue tasks for a node, dead or alive. -> Membership"""

    entries: tuple[QueueEntry, ...]


class Claim(NodeOperation, frozen=True, tag=True):
    """Take the most urgent tasks queued for the node, which then holds them. -> Claimed

    ``request`` numbers the claim: a claim repeated after a lost answer gets the same tasks.
    """

    incarnation: int
    request: int
    limit: int
    load_seconds: float


class LetGo(NodeOperation, frozen=True, tag=True):
    """The node holds these tasks no longer. -> Membership

    Each task comes with its ticket, so that a late call does not let go of a task that has since
    been queued again with a new ticket; -1 stands for any ticket. Nothing happens if the node has
    since joined as another incarnation.
    """

    incarnation: int
    tasks: tuple[tuple[TaskId, int], ...]


class Restate(NodeOperation, frozen=True, tag=True):
    """List the tasks the node holds, after its shard lost writes. -> Claimed, with all of them

    Other tasks that the store had the node holding go back into the node's queue.
    """

    incarnation: int
    entries: tuple[QueueEntry, ...]


class ReportLoad(NodeOperation, frozen=True, tag=True):
    """Record how much work waits at a node; load balancers read it. -> Membership"""

    load_seconds: float


class Probe(NodeOperation, frozen=True, tag=True):
    """Read whether a node is up, and its load. -> Membership"""


class Seize(NodeOperation, frozen=True, tag=True):
    """Declare an incarnation dead if its lease has expired. -> Membership

    A dead incarnation is never ``current`` again, so its tasks may be taken over.
    """

    incarnation: int


# --- about a shard -------------------------------------------------------------------------------


class Patrol(msgspec.Struct, frozen=True, tag=True):
    """Look for what got stuck on one shard: orphans, full outboxes, old attempts. -> Findings

    For a few seconds only ``node`` is given what it found, so that not every node repairs the same
    thing. What is still stuck after that, because the answer or the node was lost, is found again.
    """

    shard: int
    node: NodeId
    limit: int
    stale_seconds: float
    suspect_seconds: float


class Recount(msgspec.Struct, frozen=True, tag=True):
    """Read a page of a shard's unfinished tasks, for the repair after a loss. -> Page"""

    shard: int
    cursor: int
    limit: int


class Recounted(msgspec.Struct, frozen=True, tag=True):
    """The losses of this shard have been repaired, as far as its `Findings` told. -> Findings"""

    shard: int
    epoch: int
    restored: int = 0


class Tally(msgspec.Struct, frozen=True, tag=True):
    """Read how many tasks of one shard are in each state now. -> Tallied"""

    shard: int


ShardOperation = Patrol | Recount | Recounted | Tally
SHARD_OPERATIONS = frozenset({Patrol, Recount, Recounted, Tally})
"""The operations that name their shard; for all others the key decides."""

Operation = (
    Submit | Begin | Advance | Commit | Fail | Release | Remove | Notify | Delivered | Replicate
    | TakeOver | Reopen | Postpone | AddCopies | DropCopies | Look | Forget
    | Join | Renew | Leave | Enqueue | Claim | LetGo | Restate | Seize | ReportLoad | Probe
    | Patrol | Recount | Recounted | Tally
)  # fmt: skip


def notice_of_end(
    child: TaskId,
    parent: TaskId,
    generation: int,
    end: TaskState,
    copies: tuple[Copy, ...] = (),
) -> Notify:
    """The notice that a parent has ended in this way."""
    failed, removed = end is TaskState.FAILED, end is TaskState.REMOVED
    return Notify(child, parent, generation, failed, copies, removed)


def shard_of(operation: Operation, shards: int) -> int:
    """The shard an operation goes to. Every process, of any version, must compute the same."""
    if type(operation) in SHARD_OPERATIONS:  # isinstance takes ten times as long on a Struct
        return operation.shard  # type: ignore[union-attr]
    return crc32(operation.key.encode()) % shards  # type: ignore[union-attr]
