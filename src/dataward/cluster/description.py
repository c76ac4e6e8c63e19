"""What the cluster keeps of a run: all that any of its hosts must know to run it to its end.

There are three parts, each a file named by its content. Every host of the run reads the orders; the
keepers, who submit the tasks, read the task list; whoever looks at the run from outside reads the
workflow.
"""

import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec
from blake3 import blake3

from dataward.errors import FormatError
from dataward.model.ids import NodeId
from dataward.model.operations import OutputFile, TaskSpec
from dataward.model.workflow import FileId, TaskId

T = TypeVar("T")
_NONE: Mapping[str, str] = MappingProxyType({})


class PlacedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that the run starts from, its content, and the nodes that have it."""

    id: FileId
    size_bytes: int
    digest: str
    nodes: tuple[NodeId, ...]


class RunOrders(msgspec.Struct, frozen=True):
    """``settings`` are changes to the strategy's, as ``name=value``, and so are ``limits``."""

    strategy: str
    settings: tuple[str, ...]
    limits: tuple[str, ...]
    is_measured: bool
    placed: tuple[PlacedFile, ...]
    origins: dict[FileId, str]  # addresses of inputs that are read where they are
    tasks: str  # the digest of the task list
    workflow: str  # the digest of the whole workflow, as WfFormat
    copies: int = 1  # nodes that should have each result
    wanted: tuple[FileId, ...] = ()  # the results: what nobody reads
    # Drawn for each submission. A host that is asked again after a broken connection must know the
    # run, and the same workflow submitted again under the same name is another run.
    submission: str = ""


class PromisedTask(msgspec.Struct, frozen=True, array_like=True):
    """A task, the host and the slot that have promised it, and by when it ends.

    Times are by the store's clock; ``seconds`` are reserved for it there, and in the slots
    ``beside`` that one if it takes several cores.
    """

    id: TaskId
    node: NodeId
    slot: int
    deadline: float
    seconds: float
    beside: tuple[int, ...] = ()


class RunPromises(msgspec.Struct, frozen=True):
    """What each task of a run was promised. When a host is lost, a new list replaces this one.

    ``number`` is that of the bookings by which hosts hold the promises until they have read this.
    """

    number: int
    tasks: tuple[PromisedTask, ...]


class SkippedTask(msgspec.Struct, frozen=True, array_like=True):
    """A task that need not run, what it wrote in an earlier run, and who has that."""

    id: TaskId
    outputs: tuple[OutputFile, ...]
    nodes: tuple[NodeId, ...]


class TaskList(msgspec.Struct, frozen=True):
    specs: tuple[TaskSpec, ...]
    skipped: tuple[SkippedTask, ...] = ()


def packed(part: RunOrders | TaskList | RunPromises) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(part), 1)


def unpacked(content: bytes, kind: type[T], bytes_max: int = 1 << 33) -> T:
    """The part of a description that this is. Raises FormatError."""
    try:
        opener = zlib.decompressobj()
        plain = opener.decompress(content, bytes_max)
        if not opener.eof:
            raise FormatError("a run's description", "is larger than it may be, or cut off")
        return msgspec.msgpack.decode(plain, type=kind)
    except (zlib.error, msgspec.MsgspecError, ValueError) as error:
        raise FormatError("a run's description", f"cannot be read ({error})") from error


def digest_of(content: bytes) -> str:
    return blake3(content).hexdigest()
