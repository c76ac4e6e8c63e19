"""Messages between nodes. Any of them may be lost: the store has every fact they carry."""

import msgspec

from dataward.model.ids import AttemptId, NodeId
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId, TaskId


class WorkQueued(msgspec.Struct, frozen=True, tag="work-queued"):
    """A task was put in your queue: claim it."""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """``generation`` has ended: drop queue entries and attempts for it or for an earlier one."""

    task: TaskId
    generation: int


class Confirm(msgspec.Struct, frozen=True, tag="confirm"):
    """Is this attempt of yours still under way? If not, release it."""

    task: TaskId
    attempt: AttemptId


class TellChildren(msgspec.Struct, frozen=True, tag="tell-children"):
    """This task was removed: tell its children, which are removed with it, and so on."""

    task: TaskId
    generation: int
    children: tuple[TaskId, ...]


class Stock(msgspec.Struct, frozen=True, tag="stock"):
    """Bring these files in while nothing else is being brought in: tasks here will read them.

    ``for_good`` if the node that has them leaves: then at once, and none of them is evicted.
    ``keep`` if somebody counts on a second copy: copies may be evicted for them, but they are not.
    """

    files: tuple[InputFile, ...]
    for_good: bool = False
    keep: bool = False


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Queue up to ``tasks`` of your tasks for this node, which has nothing to run.

    With 0 the node has something to run by now, and takes its question back. ``evicted`` are the
    files that have gone from the node's depot since it was last given tasks. ``batch`` is the one
    that the node has a reservation for, where tasks are given to those who have one.
    """

    node: NodeId
    tasks: int
    evicted: tuple[FileId, ...] = ()
    batch: int = 0


class Steal(msgspec.Struct, frozen=True, tag="steal"):
    """Queue half of the tasks that others may run for this node, and say how many those are.

    ``number`` counts the thief's messages of this kind: the answer names it.
    """

    thief: NodeId
    number: int


class Stolen(msgspec.Struct, frozen=True, tag="stolen"):
    """The answer to a `Steal`: so many tasks are in the thief's queue now."""

    number: int
    tasks: int


class Reserve(msgspec.Struct, frozen=True, tag="reserve"):
    """When you could run up to ``tasks`` more tasks, ask this node for some of this batch."""

    node: NodeId
    batch: int
    tasks: int


class Handed(msgspec.Struct, frozen=True, tag="handed"):
    """This node has queued so many tasks of a batch for you; 0: none is left, do not ask."""

    node: NodeId
    batch: int
    tasks: int


class WantFile(msgspec.Struct, frozen=True, tag="want-file"):
    """May this node fetch a file from you now? Said again while it waits, and while it fetches.

    ``number`` counts the node's questions of this kind. Lower urgencies go first. A file
    that is not large (`NodeSettings.large_bytes`) waits for no large one.
    """

    node: NodeId
    number: int
    file: FileId
    urgency: float
    is_large: bool = True


class MayFetch(msgspec.Struct, frozen=True, tag="may-fetch"):
    """Fetch the file that you asked for from this node, which may be another than the sender."""

    number: int
    source: NodeId


class HoldOn(msgspec.Struct, frozen=True, tag="hold-on"):
    """Others fetch files from here now; your turn will come."""

    number: int


class FetchOver(msgspec.Struct, frozen=True, tag="fetch-over"):
    """The node has the file that it asked for, if it ``arrived``; if not, it wants it no more."""

    node: NodeId
    number: int
    arrived: bool


class OfferedTask(msgspec.Struct, frozen=True, array_like=True):
    """A task that another node might run: its estimated run time, and the sizes of its inputs."""

    task: TaskId
    priority: float
    seconds: float
    spread: float
    task_type: str
    inputs: tuple[tuple[FileId, int], ...]


class Offer(msgspec.Struct, frozen=True, tag="offer"):
    """When could you run these tasks? ``number`` counts the node's offers.

    With ``spare``, on cores that are idle now, and only while they are.
    """

    node: NodeId
    number: int
    tasks: tuple[OfferedTask, ...]
    spare: bool = False


class KeepSpare(msgspec.Struct, frozen=True, tag="keep-spare"):
    """Let the spare that you run of this task give way no more: the task is late where it runs."""

    task: TaskId


class Bid(msgspec.Struct, frozen=True, tag="bid"):
    """For each task of an offer: the seconds from now until it would start here, and would end.

    The node could start up to ``places`` of them at about these times. ``missing_bytes`` of each
    task's inputs are not here.
    """

    node: NodeId
    number: int
    places: int
    times: tuple[tuple[float, float], ...]
    missing_bytes: tuple[int, ...]


class PromisedSlot(msgspec.Struct, frozen=True, array_like=True):
    """A task that a core has promised: by when it ends, and for how long the core is reserved."""

    task: TaskId
    core: int
    deadline: float
    seconds: float


class KeepPromises(msgspec.Struct, frozen=True, tag="keep-promises"):
    """Keep these promises, instead of those that you were told before.

    A task that needs several cores has a slot on each. Deadlines are on the clock of the run.
    """

    slots: tuple[PromisedSlot, ...]


MoverMessage = Ask | Steal | Stolen | Reserve | Handed | Offer | Bid | KeepSpare
FileMessage = WantFile | MayFetch | HoldOn | FetchOver
Message = (
    WorkQueued | Stop | Confirm | TellChildren | Stock | KeepPromises | FileMessage | MoverMessage
)
