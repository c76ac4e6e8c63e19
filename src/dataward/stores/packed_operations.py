"""Operations as a server's functions read them.

A server's time goes into making values one by one. So operations of one kind that follow one
another are sent as one `Run`, by columns. What the rules only pass on is made a string here, which
comes back as it was, and beside it is what they need of it. A column that says nothing is left out,
and so are fields that the rules on a server have no use for.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import msgspec

from dataward.model.estimate import GUESS
from dataward.model.operations import (
    Commit,
    Enqueue,
    Fail,
    LetGo,
    Notify,
    Operation,
    QueueEntry,
    Restate,
    Submit,
    TaskSpec,
)

SHORT = b"\0"  # begins a digest that is written with half as many bytes
_DIGITS = frozenset("0123456789abcdef")

Columns = dict[str, list[Any] | None]
"""The values of each field, an operation each; None for a column that says nothing."""


class Run(msgspec.Struct, frozen=True):
    """Operations of one kind, in order."""

    type: str
    count: int
    columns: dict[str, list[Any]]


def runs_of(operations: Iterable[Operation]) -> list[Run]:
    """All operations, in order."""
    return [_run(kind, list(alike)) for kind, alike in groupby(operations, type)]


def _run(kind: type, alike: list[Operation]) -> Run:
    columns_of: Callable[[Any], Columns] = _COLUMNS.get(kind, _all_fields)
    columns = columns_of(alike)
    told = {name: values for name, values in columns.items() if values is not None}
    return Run(kind.__name__, len(alike), told)


def _all_fields(ops: Sequence[Any]) -> Columns:
    return _fields(ops, *type(ops[0]).__struct_fields__)


def _fields(ops: Sequence[Any], *names: str) -> Columns:
    return {name: list(map(attrgetter(name), ops)) for name in names}


def _unless_empty(values: list[Any]) -> list[Any] | None:
    return values if any(values) else None


_encode = msgspec.msgpack.Encoder().encode


# --- tasks ---------------------------------------------------------------------------------------


def _submits(ops: Sequence[Submit]) -> Columns:
    """``about`` is the part of a `Standing` that never changes, as it will be answered.

    ``places`` says where in the spec children, inputs and outputs begin, where these end, and how
    many parents there are.
    """
    specs = [op.spec for op in ops]
    packed = [_encode(spec) for spec in specs]
    return {
        "task": [spec.id for spec in specs],
        "spec": [_as_string(spec) for spec in packed],
        "about": [_as_string(_about(spec)) for spec in specs],
        "places": [_as_string(_places(*each)) for each in zip(specs, packed, strict=True)],
        "parents": [len(spec.parents) for spec in specs],
        "backups_max": [spec.backups_max for spec in specs],
        "again": _unless_empty([op.again for op in ops]),
    }


def _about(spec: TaskSpec) -> bytes:
    is_known = spec.estimated_seconds > 0
    about = (
        spec.preferred,
        _short(spec.priority),
        _short(spec.estimated_seconds if is_known else GUESS.seconds),
        _short(spec.estimated_spread if is_known else GUESS.spread),
        spec.type,
    )
    return _encode(about)[1:]  # without the byte that says that five follow


def _places(spec: TaskSpec, packed: bytes) -> bytes:
    head = 1 if packed[0] < 0xDC else 3  # what says how many fields there are
    children = head + len(_encode((spec.id, spec.type, spec.parents))) - 1
    inputs = children + len(_encode(spec.children))
    outputs = inputs + len(_encode(spec.inputs))
    past = outputs + len(_encode(spec.outputs))
    return _encode((children, inputs, outputs, past, len(spec.parents)))[1:]


def _notices(ops: Sequence[Notify]) -> Columns:
    """Of each copy the name of its file, its node, then the `Copy` itself."""
    copies = [
        list(
            chain.from_iterable(
                (copy.file, copy.node, _as_string(_encode(copy))) for copy in op.copies
            )
        )
        for op in ops
    ]
    return {
        **_fields(ops, "task", "parent", "generation"),
        "failed": _unless_empty([op.failed for op in ops]),
        "copies": _unless_empty(copies),
        "removed": _unless_empty([op.removed for op in ops]),
    }


def _commits(ops: Sequence[Commit]) -> Columns:
    """Of each output its name, size and digest as it will be answered, and short, as it is kept."""
    outputs = [
        list(
            chain.from_iterable(
                (file.id, file.size_bytes, file.digest, _as_string(short_digest(file.digest)))
                for file in op.outputs
            )
        )
        for op in ops
    ]
    return {
        **_fields(ops, "task", "attempt", "node", "generation"),
        "outputs": _unless_empty(outputs),
        "absent": _unless_empty([op.absent for op in ops]),
    }


def _failures(ops: Sequence[Fail]) -> Columns:
    return _fields(ops, "task", "attempt")


# --- nodes ---------------------------------------------------------------------------------------


def _enqueues(ops: Sequence[Enqueue]) -> Columns:
    return {**_fields(ops, "node"), "entries": [_entries(op.entries) for op in ops]}


def _restatements(ops: Sequence[Restate]) -> Columns:
    entries = [_entries(op.entries) for op in ops]
    return {**_fields(ops, "node", "incarnation"), "entries": entries}


def _entries(entries: Sequence[QueueEntry]) -> list[Any]:
    """Of each entry its task, priority and seconds, then the `QueueEntry` itself."""
    return list(
        chain.from_iterable(
            (entry.task, entry.priority, entry.seconds, _as_string(_encode(entry)))
            for entry in entries
        )
    )


def _lettings_go(ops: Sequence[LetGo]) -> Columns:
    """Of each stay its task, then its ticket."""
    stays = [list(chain.from_iterable(op.tasks)) for op in ops]
    return {**_fields(ops, "node", "incarnation"), "stays": stays}


# --- strings -------------------------------------------------------------------------------------


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


_COLUMNS: dict[type, Callable[[Any], Columns]] = {
    Submit: _submits,
    Notify: _notices,
    Commit: _commits,
    Fail: _failures,
    Enqueue: _enqueues,
    Restate: _restatements,
    LetGo: _lettings_go,
}
