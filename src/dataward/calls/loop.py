"""Calls meet the node: bundled, submitted as tasks, their futures told of what they came to.

Behind it is a session like that of ``dataward run``: the same node, store, depot and runner
processes. Runs in a thread of its own; other threads may use what is under "from other threads".
"""

import asyncio
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataward.calls.arguments import PendingCall
from dataward.calls.bundles import Bundler, BundleSettings, Item
from dataward.calls.directory import CallDirectory
from dataward.calls.future import CallFuture, InDepot, StoredResults, error_of
from dataward.calls.journey import Journey, bundle_of, spec_of
from dataward.errors import OutputError, ProcessDiedError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.call_results import RecentFiles
from dataward.live.depot_disk import Place
from dataward.live.live_runner import RunnerSettings
from dataward.live.making_calls import encode_bundle
from dataward.live.runner_connection import RAN_TOO_LONG
from dataward.live.session import Session, SessionPaths, Slice, runner_pools
from dataward.live.standard_streams import open_standard_streams
from dataward.model.events import AttemptEnded, Emit, Event, TaskFinished
from dataward.model.operations import (
    Enqueue,
    Forget,
    InputFile,
    NodeId,
    QueueEntry,
    Submit,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.strategies.adage import STRATEGIES

TRIES_ALONE = 2  # a call whose process dies so often, with nobody else in it, is the cause
GARBAGE_SECONDS = 0.1  # results that nobody can ask for are dropped many at a time
WATCH_SECONDS = 1.0  # how soon it is noticed that the store has stopped

_log = logging.getLogger("dataward")


class CallLoop:
    def __init__(
        self,
        machine: Slice,
        directory: Path | None,
        runner_settings: RunnerSettings,
        on_event: Emit | None,
    ) -> None:
        self._machine = machine
        open_standard_streams()
        self._directory: CallDirectory | None = CallDirectory(directory)
        self._runner_settings = runner_settings
        self._on_event = on_event
        self._inbox: deque[PendingCall] = deque()
        self._cancelled: deque[CallFuture[Any]] = deque()
        self._garbage: deque[str] = deque()
        self._is_woken = False
        self._is_collecting = False
        self._is_finishing = False
        self._cancels = False
        self._reader = RecentFiles()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._bundler = Bundler(machine.nodes * machine.slots)
        self._journeys: dict[TaskId, Journey] = {}  # under way
        self._load: dict[NodeId, int] = {}
        self._outside: dict[FileId, Place] = {}
        self._reasons: dict[TaskId, str] = {}
        self._count = 0
        self._thread = threading.Thread(target=self._run, name="dataward", daemon=True)

    # --- from other threads ----------------------------------------------------------------------

    def start(self) -> None:
        """Raises what keeps it from starting."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        _running.add(self)

    def add(self, call: PendingCall) -> None:
        self._inbox.append(call)
        if self._failure is not None:
            self._break_off()
            raise BrokenExecutor("the executor has broken down") from self._failure
        self._wake()

    def on_cancelled(self, future: CallFuture[Any]) -> None:
        self._cancelled.append(future)
        self._wake()

    def finish(self, *, cancel: bool) -> None:
        """End when all calls are made, or those under way only."""
        self._cancels = self._cancels or cancel
        self._is_finishing = True
        self._is_woken = False
        self._wake()

    def join(self) -> None:
        if threading.current_thread() is not self._thread:  # else a callback of a future's
            self._thread.join()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._work.set)

    def _on_gone(self, source: str) -> None:
        """Nobody has a future of this bundle any more. Called from wherever the last one went."""
        self._garbage.append(source)
        if not self._is_collecting:
            self._is_collecting = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._collect_soon)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        self._kernel = AsyncioKernel()
        try:
            self._kernel.run(self._main())
        except BaseException as error:
            self._failure = error
            self._break_off()
        finally:
            self._close()
            self._started.set()

    async def _main(self) -> None:
        assert self._directory is not None
        self._loop = asyncio.get_running_loop()
        self._work = self._kernel.flag()
        self._directory.make()
        self._session = self._new_session(self._directory.path)
        await self._session.start(self._outside)
        try:
            self._store = self._session.client()
            self._load = dict.fromkeys(self._session.ids, 0)
            self._kernel.spawn(self._watch(), "watch")
            self._started.set()
            while not self._is_done():
                await self._work.wait()
                self._work.clear()
                self._is_woken = False
                self._take_in()
                await self._send()
        finally:
            self._session.stop()

    def _new_session(self, directory: Path) -> Session:
        return Session(
            kernel=self._kernel,
            paths=SessionPaths(directory / "depot", directory / "store"),
            pools=runner_pools(self._machine, directory / "work"),
            machine=self._machine,
            strategy=STRATEGIES["adage-no-replication"],
            runner_settings=self._runner_settings,
            incarnation=1,
            emit=self._emit,
            log_stem=lambda task, attempt: "",  # calls print where the caller does
            unawaited_seconds=0.0,
        )

    async def _watch(self) -> None:
        while not self._session.store.stopped:
            await self._kernel.sleep(WATCH_SECONDS)
        assert self._directory is not None
        raise OutputError(str(self._directory.path), self._session.store.stopped)

    def _is_done(self) -> bool:
        if not self._is_finishing or self._inbox or self._cancelled or self._journeys:
            return False
        return not self._bundler.ready

    def _break_off(self) -> None:
        """Nothing more will be made: all who wait are told."""
        error = BrokenExecutor(f"the executor has broken down: {self._failure}")
        error.__cause__ = self._failure
        with suppress(IndexError):
            while True:
                self._fail(self._inbox.popleft(), error)
        for call in self._unfinished():
            self._fail(call, error)
        self._bundler.ready.clear()
        self._journeys.clear()

    def _close(self) -> None:
        """Let go of everything, so that the directory goes with the last result."""
        session = getattr(self, "_session", None)
        if session is not None and hasattr(session, "_loop"):
            session.close()
        self._directory = None
        for name in ("_session", "_store", "_kernel"):
            self.__dict__.pop(name, None)

    # --- calls in --------------------------------------------------------------------------------

    def _take_in(self) -> None:
        while self._inbox:
            self._take_in_one(self._inbox.popleft())
        if self._cancels:
            for call in self._unfinished():
                call.future.cancel()
        while self._cancelled:
            cancelled = self._cancelled.popleft().pending
            if cancelled is not None:
                self._let_go(cancelled)
                for child in _dependants(cancelled):
                    child.future.cancel()

    def _take_in_one(self, call: PendingCall) -> None:
        if call.future.done():
            return  # cancelled already
        call.future.pending = call
        unfinished: list[Item] = []
        for need in call.needs:
            if need.pending is not None:
                unfinished.append(need.pending)
            elif need.in_depot is None:
                self._share_fate(call, need)
                return
        self._bundler.add(call, unfinished)

    def _share_fate(self, call: PendingCall, need: CallFuture[Any]) -> None:
        """What it depends on has no result and never will."""
        if need.cancelled():
            call.future.cancel()
        else:
            error = need.exception()
            assert error is not None
            self._fail(call, error)

    def _unfinished(self) -> Iterator[PendingCall]:
        """Every call that waits, and those under way."""
        seen: set[int] = set()
        stack: list[Item] = list(self._bundler.ready)
        stack += [call for journey in self._journeys.values() for call in journey.calls]
        while stack:
            call = stack.pop()
            if call.number not in seen:
                seen.add(call.number)
                stack += call.dependants or ()
                assert isinstance(call, PendingCall)
                yield call

    async def _send(self) -> None:
        limit = self._machine.nodes * self._machine.slots * BundleSettings().ahead
        while len(self._journeys) < limit:
            items = self._bundler.next_bundle()
            if not items:
                return
            calls = _started(items)
            if calls:
                await self._set_out(calls)

    async def _set_out(self, calls: list[PendingCall]) -> None:
        assert self._directory is not None
        self._count += 1
        id = TaskId(f"b{self._count}")
        needed = {
            need.number: need.in_depot
            for call in calls
            for need in call.needs
            if need.in_depot is not None
        }
        sources = {one.stored.source: one.stored for one in needed.values()}
        functions = list({call.function.digest: call.function for call in calls}.values())
        bundle = bundle_of(calls, functions, needed)
        payload = encode_bundle(bundle)
        inputs = [InputFile(FileId(f"{id}.calls"), len(payload), TaskId(""))]
        for source, stored in sources.items():
            file = FileId(f"{source}.results")
            inputs.append(InputFile(file, stored.size_bytes, TaskId(source)))
        node = self._choose_node(inputs)
        journey = self._journeys[id] = Journey(id, calls, functions, node)
        path = self._directory.write(journey.payload, payload)
        self._outside[journey.payload] = Place(str(path), len(payload), "", True)
        self._load[node] += 1
        spec = spec_of(journey, inputs)
        entry = QueueEntry(spec.priority, id)
        await self._store.call([Submit(spec), Enqueue(node, (entry,))])
        self._session.wake(node)

    def _choose_node(self, inputs: Sequence[InputFile]) -> NodeId:
        """Where most of the input bytes are; of equals, where least is under way."""
        disks = self._session.wires.disks
        return min(
            self._load,
            key=lambda node: (
                -sum(f.size_bytes for f in inputs if disks[node].where(f.id) is not None),
                self._load[node],
            ),
        )

    # --- results out -----------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:  # the caller's, and none of the node's business
                _log.exception("on_event raised an error for %r", event)
        if type(event) is AttemptEnded:
            if event.outcome == "failed":
                self._reasons[event.task] = event.reason
        elif type(event) is TaskFinished:
            journey = self._journeys.pop(event.task, None)
            if journey is not None:  # else told twice
                self._on_finished(journey, event.state)

    def _on_finished(self, journey: Journey, state: TaskState) -> None:
        self._load[journey.node] -= 1
        with suppress(FileNotFoundError):
            os.unlink(self._outside.pop(journey.payload).path)
        self._session.drop(journey.payload)
        reason = self._reasons.pop(journey.id, "its process died")
        if state is TaskState.COMPLETE:
            self._arrive(journey)
        else:
            self._on_lost(journey, reason)
        self._work.set()

    def _arrive(self, journey: Journey) -> None:
        path = self._path_of(journey.results)
        results = self._reader(path)
        for function, (seconds, calls) in zip(journey.functions, results.functions, strict=True):
            function.pace.learn(calls, seconds)
        stored = StoredResults(
            journey.id, path, results.size_bytes, self._reader, self._directory, self._on_gone
        )
        for place in results.traces:
            self._fail(journey.calls[place], error_of(results.result(place)))
        self._bundler.finished(list(journey.calls))
        for place, call in enumerate(journey.calls):
            if place in results.traces:
                continue
            future = call.future
            result = future.in_depot = InDepot(stored, place)
            self._let_go(call)
            future.set_result(result)

    def _path_of(self, file: FileId) -> str:
        for disk in self._session.wires.disks.values():
            place = disk.where(file)
            if place is not None:
                return place.path
        raise AssertionError(f"{file!r} was committed, but no node has it")

    def _on_lost(self, journey: Journey, reason: str) -> None:
        """The process died. Of several calls nobody knows whose doing it was."""
        self._kernel.spawn(self._forget([journey.id]), "forget")
        calls = journey.calls
        if len(calls) == 1:
            calls[0].tries += 1
            if reason.startswith(RAN_TOO_LONG) or calls[0].tries == TRIES_ALONE:
                self._fail(calls[0], ProcessDiedError(calls[0].function.name, reason))
                return
        self._bundler.try_alone(list(calls))

    def _fail(self, call: PendingCall, error: BaseException) -> None:
        """It has no result and never will, and nor have those that depend on it."""
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
        """It is as good as done. Its needs may go, if nobody else wants them."""
        call.gone = True
        call.needs = ()
        call.future.pending = None

    def _collect_soon(self) -> None:
        self._loop.call_later(GARBAGE_SECONDS, self._collect)

    def _collect(self) -> None:
        """Drop results that nobody can ask for, and the store's memory of how they were made."""
        self._is_collecting = False
        if "_session" not in self.__dict__:
            return
        gone = []
        while self._garbage:
            gone.append(TaskId(self._garbage.popleft()))
            self._session.drop(FileId(f"{gone[-1]}.results"))
        self._kernel.spawn(self._forget(gone), "forget")

    async def _forget(self, tasks: Sequence[TaskId]) -> None:
        await self._store.call([Forget(task) for task in tasks])


def _dependants(call: Item) -> list[PendingCall]:
    return [child for child in call.dependants or () if isinstance(child, PendingCall)]


def _started(items: Sequence[Item]) -> list[PendingCall]:
    """Those to be made. One that was just cancelled takes along those that depend on it."""
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


# --- the end of the interpreter ------------------------------------------------------------------

_running: "weakref.WeakSet[CallLoop]" = weakref.WeakSet()


def _finish_all() -> None:
    """Make the calls that are left, as the standard's executors do."""
    loops = list(_running)
    for loop in loops:
        loop.finish(cancel=False)
    for loop in loops:
        loop.join()


# The session needs threads, and by the time of `atexit` none can be started. Callbacks run last
# in, first out: this one before that of `concurrent.futures.thread`, which `session` has imported.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined]
