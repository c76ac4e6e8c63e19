"""Operations as a server's functions read them, where that differs from how nodes write them.

A server's time goes into reading and writing values one by one. So what the rules only pass on is
made a string here, which comes back as it was, and beside it is what they need of it. Fields that
the rules on a server have no use for are left out.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from dataward.model.estimate import GUESS
from dataward.model.ids import AttemptId, NodeId
from dataward.model.operations import (
    Commit,
    Enqueue,
    Notify,
    Operation,
    QueueEntry,
    Restate,
    Submit,
    TaskSpec,
)
from dataward.model.workflow import FileId, TaskId

_DIGITS = frozenset("0123456789abcdef")
SHORT = b"\0"  # begins a digest that is written with half as many bytes


class PackedSubmit(msgspec.Struct, frozen=True, tag="Submit", omit_defaults=True):
    """``about`` is the part of a `Standing` that never changes, as it will be answered.

    ``places`` says where in the spec children, inputs and outputs begin, and where these end.
    """

    task: TaskId
    spec: msgspec.Raw
    about: msgspec.Raw
    places: msgspec.Raw
    parents: int
    backups_max: int
    again: bool = False


PackedEntry = tuple[TaskId, float, float, msgspec.Raw]
"""The task, priority and seconds of a `QueueEntry`, and the entry itself."""


class PackedEnqueue(msgspec.Struct, frozen=True, tag="Enqueue"):
    node: NodeId
    entries: list[PackedEntry]


class PackedRestate(msgspec.Struct, frozen=True, tag="Restate"):
    node: NodeId
    incarnation: int
    entries: list[PackedEntry]


class PackedNotify(msgspec.Struct, frozen=True, tag="Notify", omit_defaults=True):
    """Each copy is the name of its file, and the `Copy` itself."""

    task: TaskId
    parent: TaskId
    generation: int
    failed: bool = False
    copies: list[tuple[FileId, msgspec.Raw]] = []
    removed: bool = False


class PackedCommit(msgspec.Struct, frozen=True, tag="Commit", omit_defaults=True):
    """Each output has its digest twice: as it will be answered, and short, as it is kept."""

    task: TaskId
    attempt: AttemptId
    node: NodeId
    generation: int
    outputs: list[tuple[FileId, int, str, msgspec.Raw]] = []
    absent: tuple[FileId, ...] = ()


PackedOperation = (
    Operation | PackedSubmit | PackedEnqueue | PackedRestate | PackedNotify | PackedCommit
)

_encode = msgspec.msgpack.Encoder().encode


def packed(operation: Operation) -> PackedOperation:
    """The operation as the server reads it."""
    pack = _PACKERS.get(type(operation))
    return operation if pack is None else pack(operation)


def _submit(op: Submit) -> PackedSubmit:
    spec = op.spec
    is_known = spec.estimated_seconds > 0
    about = (
        spec.preferred,
        _short(spec.priority),
        _short(spec.estimated_seconds if is_known else GUESS.seconds),
        _short(spec.estimated_spread if is_known else GUESS.spread),
        spec.type,
    )
    packed_spec = _encode(spec)
    return PackedSubmit(
        spec.id,
        _as_string(packed_spec),
        _as_string(_encode(about)[1:]),  # without the byte that says that five follow
        _as_string(_encode(_places(spec, packed_spec))[1:]),
        len(spec.parents),
        spec.backups_max,
        op.again,
    )


def _places(spec: TaskSpec, packed_spec: bytes) -> tuple[int, int, int, int]:
    head = 1 if packed_spec[0] < 0xDC else 3  # what says how many fields there are
    children = head + len(_encode((spec.id, spec.type, spec.parents))) - 1
    inputs = children + len(_encode(spec.children))
    outputs = inputs + len(_encode(spec.inputs))
    return children, inputs, outputs, outputs + len(_encode(spec.outputs))


def _enqueue(op: Enqueue) -> PackedEnqueue:
    return PackedEnqueue(op.node, [_entry(entry) for entry in op.entries])


def _restate(op: Restate) -> PackedRestate:
    return PackedRestate(op.node, op.incarnation, [_entry(entry) for entry in op.entries])


def _entry(entry: QueueEntry) -> PackedEntry:
    return entry.task, entry.priority, entry.seconds, _as_string(_encode(entry))


def _notify(op: Notify) -> PackedNotify:
    copies = [(copy.file, _as_string(_encode(copy))) for copy in op.copies]
    return PackedNotify(op.task, op.parent, op.generation, op.failed, copies, op.removed)


def _commit(op: Commit) -> PackedCommit:
    outputs = [
        (file.id, file.size_bytes, file.digest, _as_string(short_digest(file.digest)))
        for file in op.outputs
    ]
    return PackedCommit(op.task, op.attempt, op.node, op.generation, outputs, op.absent)


def short_digest(digest: str) -> bytes:
    """The digest in half as many bytes, after a mark, if it is pairs of small hex digits."""
    if digest and not len(digest) % 2 and _DIGITS.issuperset(digest):
        return SHORT + bytes.fromhex(digest)
    return digest.encode()


def _as_string(packed: bytes) -> msgspec.Raw:
    """As msgpack's str: the server's own reader of msgpack does not know its bin."""
    size = len(packed)
    if size < 32:
        return msgspec.Raw(bytes((0xA0 | size,)) + packed)
    if size < 256:
        return msgspec.Raw(bytes((0xD9, size)) + packed)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + packed)


def _short(number: float) -> float:
    """The same number, as an int if it is whole: most take one byte then, and not nine."""
    return number if number % 1 else int(number)


_PACKERS: dict[type, Callable[[Any], PackedOperation]] = {
    Submit: _submit,
    Enqueue: _enqueue,
    Restate: _restate,
    Notify: _notify,
    Commit: _commit,
}
