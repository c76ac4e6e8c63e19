"""Lends slots of nodes in this process, those of a session like that of ``dataward run``.

Nothing of the session outlives its caller, so its store is in memory.
"""

import asyncio
import logging
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass

from dataward.calls.directory import CallDirectory
from dataward.calls.fleeting import FleetingResult
from dataward.calls.lender import Borrower
from dataward.calls.lent_slot import LentSlot
from dataward.errors import OutputError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.call_pipes import CallerPipes
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

LOOK_SECONDS = 0.002  # how often lent slots are looked at, for results and slow calls
WATCH_SECONDS = 1.0  # how soon it is noticed that files can no longer be written
STRATEGY = "adage-no-replication"

_log = logging.getLogger("dataward")


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """The nodes that lend slots, and what calls may use."""

    machine: Slice
    runner: RunnerSettings
    on_event: Emit | None = None


class LocalLender:
    def __init__(
        self,
        settings: LocalSettings,
        kernel: AsyncioKernel,
        owner: Borrower,
        directory: CallDirectory,
    ) -> None:
        self.slots: dict[TaskId, LentSlot] = {}
        # Files that can be read when a process has started, or has made calls.
        self._bells: dict[TaskId, int] = {}
        self._settings = settings
        self._kernel = kernel
        self._owner = owner
        self._directory: CallDirectory | None = directory
        self._to_look_at = kernel.flag()  # set while calls may wait behind others
        self._lent = 0
        path, machine = directory.path, settings.machine
        strategy = fitted(strategy_named(STRATEGY), machine, unawaited_seconds=0.0)
        self.session = Session(
            kernel,
            SessionSettings(machine, strategy, settings.runner, incarnation=1),
            # Calls print where the caller does, so they have no logs.
            SessionFiles(path / "depot", None, {}, {}, lambda *_: ""),
            runner_pools(machine, path / "work"),
            self._emit,
        )
        self._store = self.session.client()

    @property
    def capacity(self) -> int:
        return self._settings.machine.nodes * self._settings.machine.slots

    async def start(self) -> None:
        await self.session.start()
        self._kernel.spawn(self._watch(), "watch")
        self._kernel.spawn(self._look_after(), "look after")

    async def _watch(self) -> None:
        assert self._directory is not None
        while self.session.failure is None and self._directory.exists:
            await self._kernel.sleep(WATCH_SECONDS)
        raise self._gone()

    def _gone(self) -> OutputError:
        assert self._directory is not None
        why = self.session.failure or "files of calls are gone from it"
        return OutputError(str(self._directory.path), str(why))

    async def finish(self) -> None:
        for slot in self.slots.values():
            self._take_leave(slot)
        while self.slots:
            self._owner.work.clear()
            await self._owner.work.wait()

    async def stop(self) -> None:
        self.session.stop()

    def close(self) -> None:
        """The directory is removed with the last result that may still be read."""
        self.session.close()
        for slot in self.slots.values():
            slot.close()
        self._directory = None

    # --- lending ---------------------------------------------------------------------------------

    async def borrow(self, waiting: int) -> None:
        slots = self.slots
        starting = sum(not slot.is_ready for slot in slots.values())
        for _ in range(min(self.capacity - len(slots), waiting - starting)):
            lent = dict.fromkeys(self._settings.machine.node_ids, 0)
            for slot in slots.values():
                lent[slot.node] += 1
            await self._borrow_from(min(lent, key=lambda node: lent[node]))

    async def _borrow_from(self, node: NodeId) -> None:
        assert self._directory is not None
        self._lent += 1
        id = TaskId(f"slot{self._lent}")
        stem = self._directory.path_of(id)
        pipes = CallerPipes(stem)
        slot = self.slots[id] = LentSlot(id, node, pipes, self._directory)
        self._bells[id] = pipes.bell
        asyncio.get_running_loop().add_reader(pipes.bell, self._on_bell, slot)
        entry = QueueEntry(0.0, slot.id)
        await self._store.call([Submit(slot.spec(stem)), Enqueue(node, (entry,))])
        self.session.send(node, WorkQueued())

    def lost_values(self) -> list[FleetingResult]:
        return []  # results are files of this machine

    def on_given(self, slot: LentSlot, calls: int) -> None:
        if slot.bundles > 1 or calls > 1:
            self._to_look_at.set()

    def _on_bell(self, slot: LentSlot) -> None:
        slot.is_ready = True
        try:
            self._owner.take_results(slot)
        except Exception as error:  # it would only be logged, and some futures never be done
            self._owner.break_down(error)
        self._owner.work.set()

    async def _look_after(self) -> None:
        """Take results from slots, and calls that wait behind a slow one."""
        while True:
            await self._to_look_at.wait()
            await self._kernel.sleep(LOOK_SECONDS)
            busy = [slot for slot in self.slots.values() if len(slot.calls()) > 1]
            if not busy:
                self._to_look_at.clear()
            for slot in busy:
                slot.look()
                self._owner.take_results(slot)
                if slot.is_slow:
                    self._owner.put_back(slot.take_back())
                self._owner.work.set()

    def _take_leave(self, slot: LentSlot) -> None:
        asyncio.get_running_loop().remove_reader(self._bells.pop(slot.id))
        slot.close()

    # --- what the nodes tell ---------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        if self._settings.on_event is not None:
            try:
                self._settings.on_event(event)
            except Exception:  # an error in the user's code must not stop the node
                _log.exception("on_event raised an error for %r", event)
        if type(event) is AttemptEnded:
            if event.outcome is AttemptOutcome.FAILED and event.task in self.slots:
                self._on_lost(self.slots[event.task], event)
        elif type(event) is TaskFinished:
            self.slots.pop(event.task, None)
            self._kernel.spawn(self._forget(event.task), "forget")
            self._owner.work.set()

    def _on_lost(self, slot: LentSlot, failure: AttemptEnded) -> None:
        del self.slots[slot.id]
        self._owner.take_results(slot)
        back = slot.take_back()
        begun = slot.calls()
        self._take_leave(slot)
        if failure.cause is FailureCause.TASK:  # not the fault of any call
            self._owner.put_back([*begun, *back])
            self._owner.break_down(BrokenExecutor(failure.reason))
            return
        timed_out = failure.cause is FailureCause.TIME_LIMIT
        self._owner.on_process_died(begun, back, failure.reason, timed_out=timed_out)

    async def _forget(self, task: TaskId) -> None:
        await self._store.call([Forget(task)])
