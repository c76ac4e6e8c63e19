"""A node's connection to one runner process: the orders it was given, and their reports."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from dataward.live.command import (
    TICK_SECONDS,
    ran_too_long,
    resident_bytes,
    signal_name,
    too_much_memory,
)
from dataward.live.leftovers import kill_processes_in
from dataward.live.orders import Cancel, Frames, Order, Recall, Report, RunnerMessage, framed


class ProcessEnd(NamedTuple):
    """How a runner process ended, as a sentence; ``timed_out`` if its calls took too long."""

    how: str
    timed_out: bool = False


@dataclass(slots=True, eq=False)
class PendingOrder:
    """An order whose report has not yet arrived."""

    number: int
    order: Order
    on_start: Callable[[float], None]  # called with seconds of the system's monotonic clock
    report: asyncio.Future[Report]
    run: str = ""  # whose order it is, where several runs share a pool
    is_recalled: bool = False
    following: "PendingOrder | None" = None  # the order that begins when this one ends
    is_told: bool = False  # whether `on_start` has been called
    seconds: float = 0.0  # that it should take; 0: not known
    slots: tuple[int, ...] = ()  # of the host, that it takes, where slots have promises
    began_at: float = 0.0  # by the system's monotonic clock; 0: it has not begun

    def begin(self, at: float) -> None:
        """Call `on_start` once: an order recalled just after its start may begin a second time."""
        if not self.is_told:
            self.is_told = True
            self.began_at = at
            self.on_start(at)

    def take(self, slots: tuple[int, ...]) -> None:
        """Note which slots of the host the order takes."""
        self.slots = slots

    def expect(self, seconds: float) -> None:
        """Note how long the order should take."""
        self.seconds = seconds

    def passed_seconds(self) -> float:
        """How long the order has run by now."""
        return time.monotonic() - self.began_at if self.began_at else 0.0

    def follow_with(self, following: "PendingOrder | None") -> None:
        """Note that this order has ended, and which order the process carries out next."""
        self.following = following

    def recall(self, is_recalled: bool = True) -> None:
        """Note that the process is asked to give the order back, or has done so."""
        self.is_recalled = is_recalled

    async def over(self) -> Report:
        """The report, once it is there; the order that follows is then told that it has begun."""
        try:
            return await self.report
        finally:
            # Also if the wait was cancelled after the report had come.
            if self.following is not None:
                self.following.begin(self.report.result().ended_at)


class ConnectionOwner(Protocol):
    """The pool that gives out the orders."""

    def on_reports(self, process: "RunnerConnection") -> None: ...

    def on_returned(self, pending: PendingOrder) -> None:
        """A recalled order had not begun, and is given back."""
        ...

    def on_gone(self, process: "RunnerConnection", end: ProcessEnd) -> None: ...


class RunnerConnection(asyncio.Protocol):
    def __init__(self, owner: ConnectionOwner, pid: int, directory: Path) -> None:
        self.pid = pid
        self.calls_of: str | None = None  # the run whose calls it has made, if any
        self.line: dict[int, PendingOrder] = {}  # the first order is being carried out
        self._owner = owner
        self._directory = directory
        self._is_closed = False
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._outgoing: list[tuple[int, RunnerMessage]] = []
        self._pidfd = -1
        self._why_killed = ""
        self._ended: PendingOrder | None = None  # the order that ended last

    # --- orders ----------------------------------------------------------------------------------

    @property
    def current(self) -> PendingOrder | None:
        return next(iter(self.line.values()), None)

    @property
    def ended(self) -> PendingOrder | None:
        """The order that ended last."""
        return self._ended

    def waiting(self) -> list[PendingOrder]:
        return list(self.line.values())[1:]

    def give(self, pending: PendingOrder) -> None:
        self._send(pending.order, pending.number)
        self.line[pending.number] = pending
        if len(self.line) == 1:
            pending.begin(time.monotonic())
        if pending.order.is_calls:
            self.calls_of = pending.run
        if pending.order.is_calls and pending.order.limits.memory_bytes:
            self._watch_memory(pending, resident_bytes(self.pid))

    def recall(self, pending: PendingOrder) -> None:
        """Ask for an order back, if it has not begun."""
        pending.recall()
        self._send(Recall(), pending.number)

    def call_off(self, pending: PendingOrder) -> None:
        """End the order, or see that it never begins. Calls can end only with their process."""
        if pending.order.is_calls:
            self.kill()
            return
        if pending is not self.current:
            del self.line[pending.number]
        self._send(Cancel(), pending.number)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _watch_memory(self, pending: PendingOrder, before_bytes: int) -> None:
        """Check the memory of calls from here: while it makes calls, the process cannot check."""
        if pending.number not in self.line or self._is_closed:
            return
        used, limit = resident_bytes(self.pid) - before_bytes, pending.order.limits.memory_bytes
        if used > limit:
            self._why_killed = too_much_memory(used, limit)
            self.call_off(pending)
            return
        asyncio.get_running_loop().call_later(
            TICK_SECONDS, self._watch_memory, pending, before_bytes
        )

    def _send(self, message: RunnerMessage, number: int) -> None:
        """Send the message together with all others of this turn of the event loop."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append((number, message))

    def _flush(self) -> None:
        messages, self._outgoing = self._outgoing, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(framed(messages))

    # --- reports ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, since uvloop's transports are not instances of WriteTransport.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        for number, report in self._frames.add(data):
            pending = self.line.pop(number, None)
            if pending is not None:  # otherwise it was cancelled before its turn came
                assert isinstance(report, Report)
                self._on_report(pending, report)
        self._owner.on_reports(self)

    def _on_report(self, pending: PendingOrder, report: Report) -> None:
        if report.not_begun:
            self._skip(pending)
            self._owner.on_returned(pending)
            return
        if not pending.report.done():
            self._ended = pending
            pending.follow_with(self.current)
            pending.report.set_result(report)
        elif self.current is not None:  # cancelled, so `over` no longer waits to say this
            self.current.begin(report.ended_at)

    def _skip(self, pending: PendingOrder) -> None:
        """Note that the process has given this order back and carries out the one behind it."""
        if self._ended is not None and self._ended.following is pending:
            self._ended.follow_with(self.current)
            if pending.is_told and self.current is not None:  # `over` took the wrong one
                self.current.begin(self._ended.report.result().ended_at)

    # --- its end ---------------------------------------------------------------------------------

    def watch(self) -> None:
        """Notice the process\'s end even if a fork made by a call holds the socket open."""
        self._pidfd = os.pidfd_open(self.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    def _on_end(self) -> None:
        self._unwatch()
        if self._transport is not None:
            self._transport.close()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def connection_lost(self, problem: Exception | None) -> None:
        if self._is_closed:
            return  # the process ends its task, then itself
        self._is_closed = True
        end = self._how_it_ended()
        kill_processes_in(self._directory)
        self._owner.on_gone(self, end)

    def _how_it_ended(self) -> ProcessEnd:
        with suppress(ProcessLookupError):
            # The process closed its socket, so it is ending. Processes its calls started go too.
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            _, status = os.waitpid(self.pid, 0)
            if self._why_killed:
                return ProcessEnd(self._why_killed)
            if os.WIFSIGNALED(status):
                number, limit_seconds = os.WTERMSIG(status), self._alarm_seconds()
                if number == signal.SIGALRM and limit_seconds:
                    return ProcessEnd(ran_too_long(limit_seconds), timed_out=True)
                how = f"its process was killed by signal {number} ({signal_name(number)})"
                return ProcessEnd(how)
            return ProcessEnd(f"its process ended with exit code {os.WEXITSTATUS(status)}")
        return ProcessEnd("its process is gone")

    def _alarm_seconds(self) -> float:
        """The time limit of the calls being made, for which the process set an alarm; 0 if none."""
        pending = self.current
        return (
            pending.order.limits.seconds if pending is not None and pending.order.is_calls else 0.0
        )

    def close(self) -> None:
        self._is_closed = True
        self._unwatch()
        if self._transport is not None:
            self._transport.close()
