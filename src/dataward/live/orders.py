"""The messages between a node and its runner processes, over a socket pair.

Messages are sent in frames: a length, then a list of messages as plain values written by Python's
``marshal``, since both ends are the same Python and a runner process should load little. Each
message comes with the number of its order. A process carries out its orders in the order they come
and answers each with one report.
"""

import marshal
from collections.abc import Iterable
from struct import Struct as Layout
from typing import Any, NamedTuple

from dataward.model.launch import Launch

HEAD = Layout("<I")
ORDER, CANCEL, RECALL, REPORT = range(4)
# The first word of the command of an order to make calls; the second is the stem of their pipes.
CALLS = "dataward-calls"


class Limits(NamedTuple):
    """How much a task may use; 0 stands for no limit."""

    seconds: float = 0.0
    memory_bytes: int = 0
    log_bytes: int = 0
    grace_seconds: float = 2.0  # between asking a process to end and killing it


class Input(NamedTuple):
    """A file that is linked into the task's directory as ``name``; it is stored at ``path``."""

    name: str
    path: str
    outside: bool  # not in the depot: a symbolic link, since it may be on another disk
    size_bytes: int = 0
    modified_ns: int = 0  # when its content was written; 0: not known


class Order(NamedTuple):
    """Run a task: a command, or calls of Python functions (see `making_calls`)."""

    task: str
    command: tuple[str, ...]
    is_calls: bool
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    depot: str  # where outputs go, named by content
    logs: str  # ".out" and ".err" are added; "": the task prints where the node prints
    cores: int
    limits: Limits
    hold_seconds: float = 0.0  # how long the report may wait for others, while orders are waiting
    launch: Launch | None = None


class Cancel(NamedTuple):
    """End the order now, or never begin it."""


class Recall(NamedTuple):
    """Give the order back, unless it has begun."""


class Written(NamedTuple):
    """An output in the depot. A large output has no digest yet: the node hashes and renames it."""

    name: str
    size_bytes: int
    digest: str
    path: str
    modified_ns: int


class Report(NamedTuple):
    """How an order ended; ``error`` is a sentence without its full stop, or empty."""

    ended_at: float = 0.0  # in seconds of the system's monotonic clock
    error: str = ""
    exit_code: int = 0
    signal: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    outputs: tuple[Written, ...] = ()
    spoiled: tuple[str, ...] = ()  # inputs that were written to, and so are of no use any more
    gone: str = ""  # an input that was missing, or vanished: the task may run when it is back
    not_begun: bool = False  # the order was recalled in time
    timed_out: bool = False


RunnerMessage = Order | Cancel | Recall | Report


def framed(messages: Iterable[tuple[int, RunnerMessage]]) -> bytes:
    """Messages with the numbers of their orders, to be read by `Frames`."""
    payload = marshal.dumps([(number, *_plain(message)) for number, message in messages])
    return HEAD.pack(len(payload)) + payload


def _plain(message: RunnerMessage) -> tuple[int, Any]:
    if isinstance(message, Order):
        inputs, limits = tuple(map(tuple, message.inputs)), tuple(message.limits)
        launch = message.launch and tuple(message.launch)
        return ORDER, (*message[:3], inputs, *message[4:8], limits, message.hold_seconds, launch)
    if isinstance(message, Report):
        return REPORT, (*message[:7], tuple(map(tuple, message.outputs)), *message[8:])
    return (CANCEL if isinstance(message, Cancel) else RECALL), None


def _message(kind: int, values: Any) -> RunnerMessage:
    if kind == ORDER:
        inputs = tuple(map(Input._make, values[3]))
        limits, launch = Limits._make(values[8]), values[10] and Launch._make(values[10])
        return Order._make((*values[:3], inputs, *values[4:8], limits, values[9], launch))
    if kind == REPORT:
        outputs = tuple(map(Written._make, values[7]))
        return Report._make((*values[:7], outputs, *values[8:]))
    return Cancel() if kind == CANCEL else Recall()


class Frames:
    """Takes messages out of the bytes that arrive."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def add(self, data: bytes) -> list[tuple[int, RunnerMessage]]:
        """Every message of the frames that are whole now, with the number of its order."""
        pending = self._pending
        pending += data
        messages: list[tuple[int, RunnerMessage]] = []
        start = 0
        while len(pending) - start >= HEAD.size:
            end = start + HEAD.size + HEAD.unpack_from(pending, start)[0]
            if len(pending) < end:
                break
            whole: list[tuple[int, int, Any]] = marshal.loads(pending[start + HEAD.size : end])
            messages += [(number, _message(kind, values)) for number, kind, values in whole]
            start = end
        del pending[:start]
        return messages
