"""What a node and its runner processes say to each other, over a socket pair.

A message is its length and the number of the order that it is about, in four bytes each, and
MessagePack. A process carries out its orders in the order they come, and answers each with one
report; several reports may come together.
"""

from struct import Struct as Layout

import msgspec

HEAD = Layout("<II")


class Limits(msgspec.Struct, frozen=True, array_like=True):
    """What a task may use; 0 stands for no limit."""

    seconds: float = 0.0
    memory_bytes: int = 0
    log_bytes: int = 0
    grace_seconds: float = 2.0  # between asking a process to end and ending it


class Input(msgspec.Struct, frozen=True, array_like=True):
    """A file to be found in the task's directory. ``path`` is where it really is."""

    name: str
    path: str
    outside: bool  # not the depot's: linked by name, for it may be on another disk


class Order(msgspec.Struct, frozen=True, array_like=True, tag="order"):
    """Run a task: a command, or calls of Python functions (see `calls`)."""

    task: str
    command: tuple[str, ...]
    is_calls: bool
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    depot: str  # where outputs go, named by content
    logs: str  # ".out" and ".err" are added; "": let it print where the node prints
    cores: int
    limits: Limits


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """End it now, or never begin it."""


class Recall(msgspec.Struct, frozen=True, array_like=True, tag="recall"):
    """Give it back, unless it has begun."""


class Written(msgspec.Struct, frozen=True, array_like=True):
    """An output in the depot. A large one is there under another name, for the node to name."""

    name: str
    size_bytes: int
    digest: str
    path: str


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """How it went; ``error`` is a sentence without its full stop, or empty."""

    ended_at: float = 0.0  # in seconds of the system's monotonic clock
    error: str = ""
    exit_code: int = 0
    signal: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    outputs: tuple[Written, ...] = ()
    spoiled: tuple[str, ...] = ()  # inputs that were written to: no good for anybody any more
    not_begun: bool = False  # it was asked for back
    gone: str = ""  # an input that was not there, or not to the end: it may run when it is again


Message = Order | Cancel | Recall | Report

_encoder = msgspec.msgpack.Encoder()
decode_order = msgspec.msgpack.Decoder(Order | Cancel | Recall).decode
decode_report = msgspec.msgpack.Decoder(Report).decode


def framed(message: Message, number: int) -> bytes:
    payload = _encoder.encode(message)
    return HEAD.pack(len(payload), number) + payload


class Frames:
    """Puts messages together again from what arrives."""

    def __init__(self) -> None:
        self._pending = b""

    def add(self, data: bytes) -> list[tuple[int, bytes]]:
        """Every message that is whole now, with its number."""
        if self._pending:
            data = self._pending + data
        whole: list[tuple[int, bytes]] = []
        start = 0
        while len(data) - start >= HEAD.size:
            length, number = HEAD.unpack_from(data, start)
            end = start + HEAD.size + length
            if len(data) < end:
                break
            whole.append((number, data[start + HEAD.size : end]))
            start = end
        self._pending = data[start:]
        return whole
