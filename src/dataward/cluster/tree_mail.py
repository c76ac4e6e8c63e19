"""The messages of the deadline tree between hosts: how they are written, and checked when read.

A letter names the peer it is for and the type of its message. Summaries are mostly zeros, so only
the classes that have holes are written.
"""

from math import isfinite
from types import GenericAlias
from typing import Any, get_args, get_origin

import msgspec
import numpy as np

from dataward.deadlines.reservations import WantedSlots
from dataward.deadlines.summary import CLASSES
from dataward.deadlines.tree_messages import Address, HoleRequest, Reserved, TreeMessage
from dataward.model.ids import NodeId

COUNT_MAX = 1 << 30


class TreeLetter(msgspec.Struct, frozen=True, array_like=True):
    to: Address
    kind: str
    body: msgspec.Raw


class TreeMail(msgspec.Struct, frozen=True, array_like=True):
    """Letters of one host's peers to another's; the tree stays awake until then, at least."""

    sender: NodeId
    awake_until: float
    letters: tuple[TreeLetter, ...] = ()


def _written(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [[int(number), int(value[number])] for number in np.flatnonzero(value)]
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(type(value).__name__)


def _read(kind: type[Any] | GenericAlias, value: Any) -> Any:
    if np.ndarray not in (kind, get_origin(kind)):
        raise NotImplementedError(str(kind))
    counts = np.zeros(CLASSES, dtype=np.int32)
    for number, count in value:
        if not (type(number) is type(count) is int and 0 <= number < CLASSES):
            raise ValueError("no class of holes")
        if not -COUNT_MAX < count < COUNT_MAX:  # below 0: more requests were sent than holes
            raise ValueError("no number of holes")
        counts[number] = count
    return counts


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_written)
_MAIL = msgspec.msgpack.Decoder(TreeMail)
_KINDS: dict[str, "msgspec.msgpack.Decoder[TreeMessage]"] = {
    kind.__name__: msgspec.msgpack.Decoder(kind, dec_hook=_read) for kind in get_args(TreeMessage)
}


def letter(to: Address, message: TreeMessage) -> TreeLetter:
    return TreeLetter(to, type(message).__name__, msgspec.Raw(_ENCODER.encode(message)))


def encoded_tree_mail(mail: TreeMail) -> bytes:
    return _ENCODER.encode(mail)


def decoded_tree_mail(content: bytes) -> tuple[TreeMail, list[tuple[Address, TreeMessage]]]:
    """The mail, and its letters as messages. Raises ValueError if it is none."""
    try:
        mail = _MAIL.decode(content)
        if not isfinite(mail.awake_until):
            raise ValueError("no time")
        return mail, [(one.to, _message_in(one)) for one in mail.letters]
    except (msgspec.MsgspecError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def _message_in(one: TreeLetter) -> TreeMessage:
    decoder = _KINDS.get(one.kind)
    if decoder is None:
        raise ValueError(f"no message of the tree is called {one.kind[:40]!r}")
    message = decoder.decode(one.body)
    if isinstance(message, HoleRequest):
        _check_wanted(message.wanted, message.key.high - message.key.low)
    elif isinstance(message, Reserved):
        if len(message.promises) != message.key.high - message.key.low:
            raise ValueError("promises for other tasks than were asked for")
        _check_finite(*(time for promise in message.promises for time in promise))
    return message


def _check_wanted(wanted: WantedSlots, tasks: int) -> None:
    if not len(wanted.work) == len(wanted.awaited) == tasks > 0:
        raise ValueError("a request without tasks, or with other tasks than it says")
    if len(wanted.staging) not in (0, tasks):
        raise ValueError("bytes of other tasks than are asked for")
    if len(wanted.cores) not in (0, tasks) or min(wanted.cores, default=1) < 1:
        raise ValueError("cores of other tasks than are asked for, or less than one")
    _check_finite(*wanted.work, *wanted.frame, wanted.pace)
    _check_finite(*(one.bytes for one in wanted.staging))
    if min(wanted.work) < 0:
        raise ValueError("work of less than nothing")


def _check_finite(*numbers: float) -> None:
    if not all(isfinite(number) for number in numbers):
        raise ValueError("a number that is none")
