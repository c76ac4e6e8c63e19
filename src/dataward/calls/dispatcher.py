"""Bundles calls, gives the bundles to lent slots, and sets the results of futures.

Where the slots are is left to a `Lender`. Everything here runs in the thread of a `CallLoop`.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any

from dataward.calls.arguments import PendingCall
from dataward.calls.bundles import Bundler, BundleSettings, Item, PreferredNode
from dataward.calls.directory import CallDirectory
from dataward.calls.fleeting import FleetingResult
from dataward.calls.future import CallFuture, Kept, StoredResult, error_of
from dataward.calls.lender import MakeLender
from dataward.calls.lent_slot import LentSlot
from dataward.calls.remaking import Remaker
from dataward.errors import ProcessDiedError, TimeLimitError, ValueLostError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.call_results import Result

MOVE_BYTES_PER_SECOND = 100e6  # about what one link of 1 Gbps brings
TRIES_MAX = 3  # how often a call is given to processes that die before they begin with it


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How calls are made; ``initializer`` is a pickled function, or empty."""

    make_lender: MakeLender
    initializer: bytes = b""


class Dispatcher:
    """Create it inside ``kernel.run``, and `close` it afterwards."""

    def __init__(
        self, kernel: AsyncioKernel, settings: CallSettings, directory: CallDirectory
    ) -> None:
        self.work = kernel.flag()  # set when there is something to do
        self._kernel = kernel
        self._settings = settings
        self._sent = 0
        self.lender = settings.make_lender(kernel, self, directory)
        self._bundler = Bundler(self.lender.capacity, places=self, now=kernel.now)
        self._remaker = Remaker(self._bundler.add)
        self._is_timed = False  # whether `work` will be set when a call has waited long enough

    async def start(self) -> None:
        await self.lender.start()

    def break_down(self, error: BaseException) -> None:
        """End the executor's thread, which then breaks off all calls."""

        async def fail() -> None:
            raise error

        self._kernel.spawn(fail(), "break down")

    @property
    def is_idle(self) -> bool:
        """Whether no call waits or is under way."""
        return not self._bundler.waiting() and not any(
            s.bundles for s in self.lender.slots.values()
        )

    async def finish(self) -> None:
        """Give the lent slots back."""
        await self.lender.finish()

    async def stop(self) -> None:
        """End all running calls at once."""
        await self.lender.stop()

    def close(self) -> None:
        """After ``kernel.run``: wait for processes and threads, and let go of all files."""
        self.lender.close()

    def break_off(self, error: BrokenExecutor) -> None:
        """Make no more calls: the futures of all unfinished calls get the error."""
        for call in self._unfinished():
            self.fail(call, error)

    # --- calls in --------------------------------------------------------------------------------

    def cancel_all(self) -> None:
        """Cancel every call that has not begun."""
        for call in self._unfinished():
            call.future.cancel()

    def on_cancelled(self, future: CallFuture[Any]) -> None:
        """Cancel the calls that depend on a cancelled call."""
        cancelled = future.pending
        if cancelled is not None:
            how = "the call that was to make it again was cancelled"
            self._let_go(cancelled, ValueLostError(cancelled.function.name, how))
            for child in _dependants(cancelled):
                child.future.cancel()

    def take_in(self, call: PendingCall) -> None:
        """Take a new call; it waits until the calls it needs are made."""
        if call.future.done():
            return  # cancelled already
        call.future.pending = call
        unfinished: list[Item] = []
        for need in call.needs:
            if need.pending is not None:
                unfinished.append(need.pending)
            elif need.kept is None:
                self._share_fate(call, need)
                return
        self._bundler.add(call, unfinished)

    def _share_fate(self, call: PendingCall, need: CallFuture[Any]) -> None:
        """Cancel or fail a call like the call it depends on, which will never have a result."""
        if need.cancelled():
            call.future.cancel()
        else:
            error = need.exception()
            assert error is not None
            self.fail(call, error)

    def _unfinished(self) -> Iterator[PendingCall]:
        """Every call that waits, and those under way."""
        seen: set[int] = set()
        stack: list[Item] = list(self._bundler.all_ready())
        for slot in self.lender.slots.values():
            stack += slot.calls()
        while stack:
            call = stack.pop()
            if call.number not in seen:
                seen.add(call.number)
                stack += call.dependants or ()
                assert isinstance(call, PendingCall)
                yield call

    # --- lent slots ------------------------------------------------------------------------------

    async def send(self) -> None:
        """Give bundles to the slots, until all have enough to do; borrow more slots if need be."""
        bundler = self._bundler
        bundler.slots = max(1, self.lender.capacity)
        while waiting := bundler.waiting():
            slots = self._slots_with_room()
            if not slots or slots[0].bundles:
                await self.lender.borrow(waiting)
            for slot in slots:
                items = bundler.next_bundle(slot.node)
                if items:
                    break
            else:
                if bundler.waiting() < waiting:
                    continue  # calls that were gone are out of the way now
                self._wake_in_time()
                return
            calls = self._started(items)
            if calls and not self._give(slot, calls):
                self.put_back(calls)
                return

    def _slots_with_room(self) -> list[LentSlot]:
        """The slots, with the fewest bundles first; no call should wait where one takes long."""
        slots = [
            slot
            for slot in self.lender.slots.values()
            if slot.is_ready and not slot.is_slow and slot.bundles < BundleSettings().ahead
        ]
        return sorted(slots, key=lambda slot: slot.bundles)

    def preferred_of(self, item: Item) -> PreferredNode | None:
        """The node that has most bytes of what a call needs."""
        held: dict[str, int] = {}
        all_bytes = 0
        for value in _values_elsewhere(item):
            all_bytes += value.size_bytes
            for node in value.homes:
                held[node] = held.get(node, 0) + value.size_bytes
        if not held:
            return None
        return PreferredNode(max(held, key=held.__getitem__), all_bytes / MOVE_BYTES_PER_SECOND)

    def moving_seconds(self, item: Item, node: str) -> float:
        assert isinstance(item, PendingCall)
        away_bytes = 0
        for need in item.needs:  # a plain loop: it is asked for each call that joins a bundle
            kept = need.kept
            if isinstance(kept, StoredResult) and kept.homes and node not in kept.homes:
                away_bytes += kept.size_bytes
        return away_bytes / MOVE_BYTES_PER_SECOND

    def slots_at(self, node: str) -> int:
        return sum(slot.node == node for slot in self.lender.slots.values())

    def _wake_in_time(self) -> None:
        """See to it that `send` is called when a node has taken none of its calls for too long."""
        until = self._bundler.next_leave()
        if until is not None and not self._is_timed:
            self._is_timed = True
            self._kernel.spawn(self._wake_at(until), "wake")

    async def _wake_at(self, until: float) -> None:
        await self._kernel.sleep(max(0.0, until - self._kernel.now()))
        self._is_timed = False
        self.work.set()

    def _started(self, items: Sequence[Item]) -> list[PendingCall]:
        """The calls to be made, without those just cancelled and those that depend on them."""
        wanted: list[PendingCall] = []
        late: list[PendingCall] = []
        for call in items:
            assert isinstance(call, PendingCall)
            if not call.is_started:
                if any(need.cancelled() for need in call.needs):
                    call.future.cancel()
                call.is_started = call.future.start()
            if not call.is_started:
                continue
            if any(need.pending in late for need in call.needs):
                late.append(call)
            elif lost := _lost(call):
                if self._waits_for(call, lost):
                    late.append(call)
            else:
                wanted.append(call)
        self.put_back(late)
        return wanted

    # --- lost results ----------------------------------------------------------------------------

    def _waits_for(self, call: PendingCall, lost: Sequence[FleetingResult]) -> bool:
        """Whether all that was lost is being made again; if not, the call fails."""
        again: dict[int, PendingCall] = {}
        for value in lost:
            made = self.make_again(value)
            if made is None:
                assert value.loss is not None
                self.fail(call, value.loss)
                return False
            again[made.number] = made
        self._bundler.hold_back(call, again.values())
        return True

    def make_again(self, value: FleetingResult) -> PendingCall | None:
        """The call that makes a lost value again; None if that cannot be done."""
        call = self._remaker.make(value)
        if call is not None:
            self.work.set()
        return call

    def make_lost_again(self) -> bool:
        """Whether results that somebody may still ask for were lost, and are being made again."""
        again = [self.make_again(value) for value in self.lender.lost_values()]
        return any(again)

    def _give(self, slot: LentSlot, calls: list[PendingCall]) -> bool:
        """Whether the calls were sent; if not, there is no room in the slot's pipes."""
        self._sent += 1
        is_sent = slot.send(self._sent, calls, self._settings.initializer)
        if is_sent:
            self.lender.on_given(slot, len(calls))
        return is_sent

    def put_back(self, calls: Sequence[PendingCall]) -> None:
        """Let calls that nobody has begun to make wait again; until then, they can be cancelled."""
        for call in calls:
            call.is_started = False
            call.future.pause()
        self._bundler.give_back(calls)

    # --- results out -----------------------------------------------------------------------------

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
        kind = TimeLimitError if timed_out else ProcessDiedError
        for call in begun:
            self.fail(call, kind(call.function.name, how))
        for call in back:
            call.tries += 0 if begun else 1
            if call.tries == TRIES_MAX:
                self.fail(call, kind(call.function.name, how))
        self.put_back([call for call in back if not call.gone])
        self.work.set()

    def try_again(self, calls: Sequence[PendingCall], why: str) -> None:
        """Calls that perhaps were made, and whose results cannot come, are made elsewhere."""
        for call in calls:
            call.tries += 1
            if call.tries == TRIES_MAX:
                self.fail(call, ProcessDiedError(call.function.name, why))
        self.put_back([call for call in calls if not call.gone])
        self.work.set()

    def take_results(self, slot: LentSlot) -> int:
        """How many calls have been made since the last time; their futures now have results."""
        news = slot.new_results()
        for call, result in news:
            if isinstance(result, Result) and result.is_error:
                self.fail(call, _as_made_again(call, error_of(result)))
            else:
                self._on_value(call, result.value if isinstance(result, Result) else result)
        return len(news)

    def _on_value(self, call: PendingCall, kept: Kept) -> None:
        if isinstance(kept, FleetingResult) and kept.recipe is None:
            kept.recipe = self._remaker.recipe_of(call)
        is_other = call.renews is not None and call.renews is not kept
        error = _as_made_again(call, ValueError("another result")) if is_other else None
        # First: where calls that are ready now should be made depends on where this is.
        call.future.kept = kept
        self._bundler.finished(call)
        self._let_go(call, error)
        call.future.set_kept(kept)

    def fail(self, call: PendingCall, error: BaseException) -> None:
        """Fail a call, and all calls that depend on it, with this error."""
        stack = [call]
        while stack:
            failed = stack.pop()
            future = failed.future
            if future.done() or not (failed.is_started or future.start()):
                continue
            stack += _dependants(failed)
            self._let_go(failed, error)
            future.set_exception(error)

    def _let_go(self, call: PendingCall, error: BaseException | None = None) -> None:
        """Mark a call as finished. It no longer keeps the results that it needed."""
        self._remaker.over(call, error)
        call.gone = True
        call.needs = ()
        call.future.pending = None


def _lost(call: PendingCall) -> list[FleetingResult]:
    """The results that the call needs and that nobody has any more."""
    values = [need.kept for need in call.needs if isinstance(need.kept, FleetingResult)]
    return [value for value in values if value.loss is not None]


def _as_made_again(call: PendingCall, error: BaseException) -> BaseException:
    """The error of a call; if it had been made before, its result is lost for good."""
    if call.recipe is None:
        return error
    lost = ValueLostError(call.function.name, f"when the call was made again, it had {error!r}")
    lost.__cause__ = error
    return lost


def _values_elsewhere(item: Item) -> list[StoredResult]:
    """The large values that a call needs and that are not near to all nodes alike."""
    assert isinstance(item, PendingCall)
    kept = [need.kept for need in item.needs]
    return [value for value in kept if isinstance(value, StoredResult) and value.homes]


def _dependants(call: Item) -> list[PendingCall]:
    return [child for child in call.dependants or () if isinstance(child, PendingCall)]
