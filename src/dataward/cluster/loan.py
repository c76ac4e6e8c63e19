"""A slot that a host has lent to an executor elsewhere: one order of the host's runner pool.

Bundles that come over the network go into the pipes of the slot's process, as those of an executor
on this machine would, and results come out of them. The slot goes back to the pool when another run
waits for it that has fewer cores: at once if the slot is idle, else at the end of its turn.
"""

import asyncio
import os
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Protocol

import msgspec

from dataward.cluster.call_wire import (
    CallMade,
    CallsBack,
    CallsMade,
    LoanOver,
    MakeBundle,
    SlotReady,
    Ticket,
    ToCaller,
    ValueName,
)
from dataward.live.call_pipes import CallerPipes, MadeCall
from dataward.live.call_results import InFile, Result
from dataward.live.orders import CALLS, Limits, Order
from dataward.live.runner_connection import ProcessEnd
from dataward.live.runner_pool import ProcessDied, RunnerPool

INLINE_BYTES = 64 << 10  # of a value that goes to the caller at once
LOOK_SECONDS = 0.005  # how often calls that wait behind others are looked after
LOOKS_MAX = 2  # a call is slow if it has not ended when it was looked at this often
IDLE_SECONDS = 0.05  # for which an idle slot is kept, since the next bundle may be on its way
FIRST_SECONDS = 0.5  # for which a slot is kept until its first bundle comes
TURN_SECONDS = 0.5  # for which a busy slot is lent while others wait for it
TURN_SECONDS_MIN = 0.05  # if the executor has had more time than they


def turn_seconds(lead_seconds: float) -> float:
    """How long a busy slot stays lent to a run that has had this much more time than another.

    The other run may get one short task for each turn, so turns become shorter until both have
    the same time.
    """
    return min(TURN_SECONDS, max(TURN_SECONDS_MIN, TURN_SECONDS - lead_seconds))


class LoanLender(Protocol):
    """The connection to the executor, and what its loans share."""

    pool: RunnerPool
    run: str  # the executor, as one of several runs that share the pool

    def put(self, message: ToCaller) -> None: ...

    def keep(self, name: ValueName, path: str) -> "asyncio.Task[CallMade]":
        """Take in a large value, which is in the file at this path."""
        ...


def _order(run: str, stem: str, limits: Limits) -> Order:
    return Order(
        task=run,
        command=(CALLS, stem),
        is_calls=True,
        inputs=(),
        outputs=(),
        depot="",
        logs="",  # what calls print goes where the host prints
        cores=1,
        limits=limits,
    )


class Loan:
    """``run`` it; it ends by itself, with its process, or when it is told to ``end``."""

    def __init__(
        self,
        slot: int,
        stem: str,
        lender: LoanLender,
    ) -> None:
        """Raises OSError if no pipes can be made at ``stem``."""
        self._slot = slot
        self._stem = stem
        self._lender = lender
        self._pipes = CallerPipes(stem)
        self._left: dict[int, set[int]] = {}  # places in bundles, of calls without a result
        self._read: dict[int, list[str]] = {}  # by bundle, files whose content has been sent
        self._keeping: set[asyncio.Task[CallMade]] = set()
        self._looks = 0
        self._look_timer: asyncio.TimerHandle | None = None
        self._turn_timer: asyncio.TimerHandle | None = None
        self._is_ready = False
        self._is_ending = False
        # When the first result came: what a new process imports for it may take seconds.
        self._turn_began_at: float | None = None
        self._idle_since = monotonic()

    # --- its life --------------------------------------------------------------------------------

    async def run(self, limits: Limits) -> None:
        """Have a process of the pool make calls, until the loan ends. Cancelling kills it."""
        loop, lender = asyncio.get_running_loop(), self._lender
        loop.add_reader(self._pipes.bell, self._on_bell)
        lender.pool.watch(self._consider)
        died, broken = ProcessEnd(""), ""
        try:
            order = _order(lender.run, self._stem, limits)
            report = await lender.pool.carry_out(order, run=lender.run)
            broken = report.error
        except ProcessDied as problem:
            died = problem.end
        finally:
            lender.pool.unwatch(self._consider)
            loop.remove_reader(self._pipes.bell)
            for timer in (self._look_timer, self._turn_timer):
                if timer is not None:
                    timer.cancel()
            self._is_ending = True
            self._take_results()
            self._take_back()
            self._pipes.close()
        if self._keeping:
            await asyncio.wait(self._keeping)
        begun = [Ticket(bundle, place) for bundle in self._left for place in self._left[bundle]]
        for bundle in list(self._left):
            self._remove(bundle)
        over = LoanOver(self._slot, died.how, died.timed_out, tuple(begun), broken)
        lender.put(over)

    def end(self) -> None:
        """Give the slot back: the call that is being made is the last one."""
        if not self._is_ending:
            self._is_ending = True
            self._give_back(self._take_back())
            self._pipes.say_last()

    def _consider(self) -> None:
        """Give the slot back if somebody else should have it now, or see to it when it is time."""
        if self._is_ending or not self._is_ready:
            return
        lead_seconds = self._lender.pool.lead_seconds(self._lender.run)
        if lead_seconds is None:
            return
        due_at = self._due_at(lead_seconds)
        left_seconds = due_at - monotonic()
        if left_seconds <= 0:
            self.end()
            return
        if self._turn_timer is not None:
            self._turn_timer.cancel()
        if left_seconds < inf:
            loop = asyncio.get_running_loop()
            self._turn_timer = loop.call_later(left_seconds, self._consider)

    def _due_at(self, lead_seconds: float) -> float:
        """When to give the slot back; however short a turn, there is time for some calls."""
        if self._turn_began_at is None:
            return inf if self._left else self._idle_since + FIRST_SECONDS
        turn_ends_at = self._turn_began_at + turn_seconds(lead_seconds)
        return turn_ends_at if self._left else min(turn_ends_at, self._idle_since + IDLE_SECONDS)

    # --- calls -----------------------------------------------------------------------------------

    def make(self, bundle: MakeBundle) -> None:
        """Give a bundle to the process, or back if it cannot be made here now."""
        number, calls = bundle.bundle, bundle.calls
        if self._is_ending or not self._pipes.send(number, bundle.payload, calls):
            self._give_back([Ticket(number, place) for place in range(calls)])
            return
        if not self._left:
            self._looks = 0
        self._left[number] = set(range(calls))
        if self._look_timer is None and (len(self._left) > 1 or calls > 1):
            self._look_timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _on_bell(self) -> None:
        if not self._is_ready:
            self._is_ready = True
            self._idle_since = monotonic()
            self._lender.put(SlotReady(self._slot))
            self._consider()
        self._take_results()

    def _take_results(self) -> None:
        made: list[CallMade] = []
        for one in self._pipes.made():
            result = self._result_of(one)
            if result is not None:
                made.append(result)
        if made:
            self._on_made(made)

    def _result_of(self, made: MadeCall) -> CallMade | None:
        """The result to send now; None if its file must be hashed first."""
        number, place, seconds, result = made
        if isinstance(result, Result):
            return CallMade(number, place, seconds, result.value, result.trace)
        size_bytes = os.stat(result.path).st_size
        if size_bytes <= INLINE_BYTES:
            # Calls of the same bundle may need the file, so it stays until the bundle is made.
            self._read.setdefault(number, []).append(result.path)
            return CallMade(number, place, seconds, InFile(result.path).read())
        keeping = self._lender.keep(ValueName(self._slot, number, place), result.path)
        self._keeping.add(keeping)
        keeping.add_done_callback(lambda kept: self._on_kept(kept, seconds))
        return None

    def _on_kept(self, keeping: "asyncio.Task[CallMade]", seconds: float) -> None:
        self._keeping.discard(keeping)
        if not keeping.cancelled():
            self._on_made([msgspec.structs.replace(keeping.result(), seconds=seconds)])

    def _on_made(self, made: list[CallMade]) -> None:
        self._looks = 0
        for call in made:
            self._is_settled(call.bundle, call.place)
        self._lender.put(CallsMade(self._slot, tuple(made)))
        is_first = self._turn_began_at is None
        if is_first:
            self._turn_began_at = monotonic()
        if not self._left:
            self._idle_since = monotonic()
        if is_first or not self._left:
            self._consider()

    def _is_settled(self, bundle: int, place: int) -> None:
        places = self._left[bundle]
        places.discard(place)
        if not places:
            self._remove(bundle)

    def _remove(self, bundle: int) -> None:
        """Remove the files of a bundle: all its calls are made or given back."""
        del self._left[bundle]
        self._pipes.remove(bundle)
        for path in self._read.pop(bundle, ()):
            with suppress(FileNotFoundError):
                os.unlink(path)

    # --- calls that are given back ---------------------------------------------------------------

    def _look(self) -> None:
        """Take results, and give back the calls that wait behind one that takes long."""
        self._look_timer = None
        if self._is_ending or sum(map(len, self._left.values())) < 2:
            return
        self._looks += 1
        self._take_results()
        if self._looks >= LOOKS_MAX:
            self._give_back(self._take_back())
        self._look_timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _take_back(self) -> list[Ticket]:
        """The tickets that the process has not taken, and will not take."""
        tickets = [Ticket(*ticket) for ticket in self._pipes.take_back()]
        for bundle, place in tickets:
            self._is_settled(bundle, place)
        return tickets

    def _give_back(self, tickets: list[Ticket]) -> None:
        if tickets:
            self._lender.put(CallsBack(self._slot, tuple(tickets)))
