"""What a node and its runner processes say to each other, over a socket pair.

A message has a head, which gives its length, the number of the order that it is about and its
kind, and then plain values as Python's own ``marshal`` writes them: both ends are the same Python,
and a runner process should load as little as it can. A process carries out its orders in the order
they come and answers each with one report; several reports may come together.
"""

import marshal
from struct import Struct as Layout
from typing import Any, NamedTuple

HEAD = Layout("<IIB")
ORDER, CANCEL, RECALL, REPORT = range(4)


class Limits(NamedTuple):
    """What a task may use; 0 stands for no limit."""

    seconds: float = 0.0
    memory_bytes: int = 0
    log_bytes: int = 0
    grace_seconds: float = 2.0  # between asking a process to end and ending it


class Input(NamedTuple):
    """A file to be found in the task's directory. ``path`` is where it really is."""

    name: str
    path: str
    outside: bool  # not the depot's: linked by name, for it may be on another disk


class Order(NamedTuple):
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


class Cancel(NamedTuple):
    """End it now, or never begin it."""


class Recall(NamedTuple):
    """Give it back, unless it has begun."""


class Written(NamedTuple):
    """An output in the depot. A large one is there under another name, for the node to name."""

    name: str
    size_bytes: int
    digest: str
    path: str


class Report(NamedTuple):
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
    gone: str = ""  # an input that was not there, or not to the end: it may run when it is again
    not_begun: bool = False  # it was asked for back


Message = Order | Cancel | Recall | Report


def framed(message: Message, number: int) -> bytes:
    values: Any = ()
    if isinstance(message, Order):
        values = (
            *message[:3], tuple(map(tuple, message.inputs)), *message[4:8], tuple(message.limits)
        )  # fmt: skip
        kind = ORDER
    elif isinstance(message, Report):
        values = (*message[:7], tuple(map(tuple, message.outputs)), *message[8:])
        kind = REPORT
    else:
        kind = CANCEL if isinstance(message, Cancel) else RECALL
    payload = marshal.dumps(values)
    return HEAD.pack(len(payload), number, kind) + payload


def _message(kind: int, payload: bytes) -> Message:
    if kind == CANCEL:
        return Cancel()
    if kind == RECALL:
        return Recall()
    values: Any = marshal.loads(payload)
    if kind == ORDER:
        order = Order._make(values)
        inputs = tuple(map(Input._make, order.inputs))
        return order._replace(inputs=inputs, limits=Limits._make(order.limits))
    report = Report._make(values)
    return report._replace(outputs=tuple(map(Written._make, report.outputs)))


class Frames:
    """Puts messages together again from what arrives."""

    def __init__(self) -> None:
        self._pending = b""

    def add(self, data: bytes) -> list[tuple[int, Message]]:
        """Every message that is whole now, with the number of its order."""
        if self._pending:
            data = self._pending + data
        whole: list[tuple[int, Message]] = []
        start = 0
        while len(data) - start >= HEAD.size:
            length, number, kind = HEAD.unpack_from(data, start)
            end = start + HEAD.size + length
            if len(data) < end:
                break
            whole.append((number, _message(kind, data[start + HEAD.size : end])))
            start = end
        self._pending = data[start:]
        return whole
