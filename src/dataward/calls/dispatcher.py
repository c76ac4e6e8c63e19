"""Bundles calls, gives the bundles to lent slots, and sets the results of futures.

The slots are lent by the nodes of a session like that of ``dataward run``. But nothing of it
outlives its caller, so the store is in memory. Everything here runs in the thread of a `CallLoop`.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any

from dataward.calls.arguments import PendingCall
from dataward.calls.bundles import Bundler, BundleSettings, Item
from dataward.calls.directory import CallDirectory
from dataward.calls.future import CallFuture, error_of
from dataward.calls.lent_slot import LentSlot
from dataward.errors import OutputError, ProcessDiedError, TimeLimitError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.call_results import Result
from dataward.live.fitting import fitted
from dataward.live.runner_pool import runner_pools
from dataward.live.runner_settings import RunnerSettings
from dataward.live.session import Session, SessionFiles, SessionSettings
from dataward.live.slice import Slice
from dataward.model.events import AttemptEnded, Emit, Event, TaskFinished
from dataward.model.ids import NodeId
from dataward.model.messages import WorkQueued
from dataward.model.operations import Enqueue, Forget, QueueEntry, Submit
from dataward.model.states import AttemptOutcome, FailureCause
from dataward.model.workflow import TaskId
from dataward.strategies.registry import strategy_named

TRIES_MAX = 3  # how often a call is given to processes that die before they begin with it
LOOK_SECONDS = 0.002  # how often lent slots are looked at, for results and slow calls
WATCH_SECONDS = 1.0  # how soon it is noticed that files can no longer be written
STRATEGY = "adage-no-replication"

_log = logging.getLogger("dataward")


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How calls are made; ``initializer`` is a pickled function, or empty."""

    machine: Slice
    runner: RunnerSettings
    on_event: Emit | None = None
    initializer: bytes = b""


class Dispatcher:
    """Create it inside ``kernel.run``, and `close` it afterwards."""

    def __init__(
        self, kernel: AsyncioKernel, settings: CallSettings, directory: CallDirectory
    ) -> None:
        self.work = kernel.flag()  # set when there is something to do
        self._kernel = kernel
        self._settings = settings
        self._directory: CallDirectory | None = directory
        machine = settings.machine
        self._bundler = Bundler(machine.nodes * machine.slots)
        self._slots: dict[TaskId, LentSlot] = {}
        self._to_look_at = kernel.flag()  # set while calls may wait behind others
        self._lent = 0
        self._sent = 0
        path = directory.path
        strategy = fitted(strategy_named(STRATEGY), machine, unawaited_seconds=0.0)
        self._session = Session(
            kernel,
            SessionSettings(machine, strategy, settings.runner, incarnation=1),
            # Calls print where the caller does, so they have no logs.
            SessionFiles(path / "depot", None, {}, {}, lambda *_: ""),
            runner_pools(machine, path / "work"),
            self._emit,
        )
        self._store = self._session.client()

    async def start(self) -> None:
        await self._session.start()
        self._kernel.spawn(self._watch(), "watch")
        self._kernel.spawn(self._look_after(), "look after")

    async def _watch(self) -> None:
        assert self._directory is not None
        while self._session.failure is None and self._directory.exists:
            await self._kernel.sleep(WATCH_SECONDS)
        raise self._gone()

    def _gone(self) -> OutputError:
        assert self._directory is not None
        why = self._session.failure or "files of calls are gone from it"
        return OutputError(str(self._directory.path), str(why))

    async def _break(self, error: BaseException) -> None:
        """End the executor's thread, which then breaks off all calls."""
        raise error

    @property
    def is_idle(self) -> bool:
        """Whether no call waits or is under way."""
        return not self._bundler.ready and not any(s.bundles for s in self._slots.values())

    async def finish(self) -> None:
        """Give the lent slots back to their nodes."""
        for slot in self._slots.values():
            self._take_leave(slot)
        while self._slots:
            self.work.clear()
            await self.work.wait()

    def stop(self) -> None:
        """End all running calls at once."""
        self._session.stop()

    def close(self) -> None:
        """After ``kernel.run``: wait for processes and threads, and let go of all files.

        The directory is removed with the last result that may still be read.
        """
        self._session.close()
        for slot in self._slots.values():
            slot.close()
        self._directory = None

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
            self._let_go(cancelled)
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
        stack: list[Item] = list(self._bundler.ready)
        for slot in self._slots.values():
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
        while self._bundler.ready:
            slot = self._slot_with_room()
            if slot is None or slot.bundles:
                await self._borrow()
            if slot is None:
                return
            calls = _started(self._bundler.next_bundle())
            if calls and not self._give(slot, calls):
                self._put_back(calls)
                return

    def _slot_with_room(self) -> LentSlot | None:
        """The slot with the fewest bundles; no call should wait where another one takes long."""
        slots = [
            slot
            for slot in self._slots.values()
            if slot.is_ready and not slot.is_slow and slot.bundles < BundleSettings().ahead
        ]
        return min(slots, key=lambda slot: slot.bundles) if slots else None

    def _give(self, slot: LentSlot, calls: list[PendingCall]) -> bool:
        """Whether the calls were sent; if not, there is no room in the slot's pipes."""
        self._sent += 1
        is_sent = slot.send(self._sent, calls, self._settings.initializer)
        if is_sent and (slot.bundles > 1 or len(calls) > 1):
            self._to_look_at.set()
        return is_sent

    async def _borrow(self) -> None:
        """Borrow slots for the calls that wait, as many as are left and not about to start."""
        machine, slots = self._settings.machine, self._slots
        limit = machine.nodes * machine.slots
        starting = sum(not slot.is_ready for slot in slots.values())
        for _ in range(min(limit - len(slots), len(self._bundler.ready) - starting)):
            lent = dict.fromkeys(machine.node_ids, 0)
            for slot in slots.values():
                lent[slot.node] += 1
            await self._borrow_from(min(lent, key=lambda node: lent[node]))

    async def _borrow_from(self, node: NodeId) -> None:
        assert self._directory is not None
        self._lent += 1
        slot = LentSlot(TaskId(f"slot{self._lent}"), node, self._directory)
        self._slots[slot.id] = slot
        asyncio.get_running_loop().add_reader(slot.bell, self._on_bell, slot)
        entry = QueueEntry(0.0, slot.id)
        await self._store.call([Submit(slot.spec()), Enqueue(node, (entry,))])
        self._session.send(node, WorkQueued())

    def _on_bell(self, slot: LentSlot) -> None:
        slot.is_ready = True
        try:
            self._take_results(slot)
        except Exception as error:  # it would only be logged, and some futures never be done
            self._kernel.spawn(self._break(error), "break")
        self.work.set()

    async def _look_after(self) -> None:
        """Take results from slots, and calls that wait behind a slow one."""
        while True:
            await self._to_look_at.wait()
            await self._kernel.sleep(LOOK_SECONDS)
            busy = [slot for slot in self._slots.values() if len(slot.calls()) > 1]
            if not busy:
                self._to_look_at.clear()
            for slot in busy:
                slot.look()
                self._take_results(slot)
                if slot.is_slow:
                    self._put_back(slot.take_back())
                self.work.set()

    def _put_back(self, calls: Sequence[PendingCall]) -> None:
        """Let calls that nobody has begun to make wait again; until then, they can be cancelled."""
        for call in calls:
            call.is_started = False
            call.future.pause()
        self._bundler.give_back(calls)

    def _take_leave(self, slot: LentSlot) -> None:
        asyncio.get_running_loop().remove_reader(slot.bell)
        slot.close()

    # --- results out -----------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        if self._settings.on_event is not None:
            try:
                self._settings.on_event(event)
            except Exception:  # an error in the user's code must not stop the node
                _log.exception("on_event raised an error for %r", event)
        if type(event) is AttemptEnded:
            if event.outcome is AttemptOutcome.FAILED and event.task in self._slots:
                self._on_lost(self._slots[event.task], event)
        elif type(event) is TaskFinished:
            self._slots.pop(event.task, None)
            self._kernel.spawn(self._forget(event.task), "forget")
            self.work.set()

    def _on_lost(self, slot: LentSlot, failure: AttemptEnded) -> None:
        """The slot's process has ended before its time: the call that it was making is the cause.

        Calls that it had not begun to make are made elsewhere.
        """
        del self._slots[slot.id]
        self._take_results(slot)
        back = slot.take_back()
        begun = slot.calls()
        self._take_leave(slot)
        if failure.cause is FailureCause.TASK:  # not the fault of any call
            self._put_back([*begun, *back])
            self._kernel.spawn(self._break(BrokenExecutor(failure.reason)), "break")
            return
        for call in begun:
            self.fail(call, _died(call, failure))
        for call in back:
            call.tries += 0 if begun else 1
            if call.tries == TRIES_MAX:
                self.fail(call, _died(call, failure))
        self._put_back([call for call in back if not call.gone])
        self.work.set()

    def _take_results(self, slot: LentSlot) -> int:
        """How many calls have been made since the last time; their futures now have results."""
        news = slot.new_results()
        for call, result in news:
            if isinstance(result, Result) and result.is_error:
                self.fail(call, error_of(result))
            else:
                self._bundler.finished(call)
                self._let_go(call)
                call.future.set_kept(result.value if isinstance(result, Result) else result)
        return len(news)

    def fail(self, call: PendingCall, error: BaseException) -> None:
        """Fail a call, and all calls that depend on it, with this error."""
        stack = [call]
        while stack:
            failed = stack.pop()
            future = failed.future
            if future.done() or not (failed.is_started or future.start()):
                continue
            stack += _dependants(failed)
            self._let_go(failed)
            future.set_exception(error)

    def _let_go(self, call: PendingCall) -> None:
        """Mark a call as finished. It no longer keeps the results that it needed."""
        call.gone = True
        call.needs = ()
        call.future.pending = None

    async def _forget(self, task: TaskId) -> None:
        await self._store.call([Forget(task)])


def _died(call: PendingCall, failure: AttemptEnded) -> ProcessDiedError:
    timed_out = failure.cause is FailureCause.TIME_LIMIT
    kind = TimeLimitError if timed_out else ProcessDiedError
    return kind(call.function.name, failure.reason)


def _dependants(call: Item) -> list[PendingCall]:
    return [child for child in call.dependants or () if isinstance(child, PendingCall)]


def _started(items: Sequence[Item]) -> list[PendingCall]:
    """The calls to be made, without those just cancelled and those that depend on them."""
    wanted: list[PendingCall] = []
    for call in items:
        assert isinstance(call, PendingCall)
        if not call.is_started:
            if any(need.cancelled() for need in call.needs):
                call.future.cancel()
            call.is_started = call.future.start()
        if call.is_started:
            wanted.append(call)
    return wanted
