"""Who lends slots to an executor, as its dispatcher sees it; and the dispatcher, as a lender does.

`local_lender` lends slots of nodes in this process; the ``cluster`` room lends those of hosts.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from dataward.calls.arguments import PendingCall
from dataward.calls.directory import CallDirectory
from dataward.calls.fleeting import FleetingResult
from dataward.calls.lent_slot import LentSlot
from dataward.kernel.realtime import AsyncioFlag, AsyncioKernel
from dataward.model.workflow import TaskId


class Borrower(Protocol):
    """Told by a lender what happens to the calls that were given to its slots."""

    work: AsyncioFlag  # set when there is something to do

    def take_results(self, slot: LentSlot) -> int:
        """How many calls have been made since the last time; their futures now have results."""
        ...

    def put_back(self, calls: Sequence[PendingCall]) -> None:
        """Let calls that nobody has begun to make wait again; until then, they can be cancelled."""
        ...

    def on_process_died(
        self,
        begun: Sequence[PendingCall],
        back: Sequence[PendingCall],
        how: str,
        *,
        timed_out: bool,
    ) -> None:
        """A slot's process has ended before its time: the call that it was making is the cause.

        Calls ``back`` that it had not begun to make are made elsewhere.
        """
        ...

    def try_again(self, calls: Sequence[PendingCall], why: str) -> None:
        """Calls that perhaps were made, and whose results cannot come, are made elsewhere.

        A call to which this happens too often fails.
        """
        ...

    def make_again(self, value: FleetingResult) -> PendingCall | None:
        """The call that makes a lost value again; None if that cannot be done."""
        ...

    def break_down(self, error: BaseException) -> None:
        """End the executor's thread, which then breaks off all calls."""
        ...


class Lender(Protocol):
    """Lends slots, each to a process that makes calls."""

    @property
    def slots(self) -> dict[TaskId, LentSlot]:
        """The slots that are lent, or asked for."""
        ...

    @property
    def capacity(self) -> int:
        """How many slots there are to lend."""
        ...

    async def start(self) -> None: ...

    async def borrow(self, waiting: int) -> None:
        """Borrow slots for so many calls that wait, as far as there are any left."""
        ...

    def lost_values(self) -> Sequence[FleetingResult]:
        """Results that somebody may still ask for, and that might be made again."""
        ...

    def on_given(self, slot: LentSlot, calls: int) -> None:
        """A bundle of so many calls was given to a slot."""
        ...

    async def finish(self) -> None:
        """Give the lent slots back: all calls are made. Their results can still be read."""
        ...

    async def stop(self) -> None:
        """End all running calls at once."""
        ...

    def close(self) -> None:
        """After ``kernel.run``: wait for processes and threads, and let go of all files."""
        ...


MakeLender = Callable[[AsyncioKernel, Borrower, CallDirectory], Lender]
"""Makes the lender of an executor, inside ``kernel.run``"""
