"""Bundles calls, submits the bundles as tasks, and sets the results of their futures.

The tasks run in a session like that of ``dataward run``: the same node, store, depot and runner
processes. Everything here runs in the thread of a `CallLoop`.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
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
from dataward.live.fitting import fitted
from dataward.live.live_runner import RunnerSettings
from dataward.live.making_calls import encode_bundle
from dataward.live.session import Session, SessionFiles, SessionSettings, Slice, runner_pools
from dataward.model.events import AttemptEnded, Emit, Event, TaskFinished
from dataward.model.ids import NodeId
from dataward.model.operations import Copy, Enqueue, Forget, InputFile, QueueEntry, Submit
from dataward.model.states import AttemptOutcome, FailureCause, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.node.homes import best_node, candidates_for
from dataward.strategies.registry import strategy_named

TRIES_ALONE = 2  # a call whose process dies this often, with no other call in it, is the cause
WATCH_SECONDS = 1.0  # how soon a stopped store is noticed
STRATEGY = "adage-no-replication"

_log = logging.getLogger("dataward")


class Dispatcher:
    """Create it inside ``kernel.run``, and `close` it afterwards.

    ``on_gone`` is called with a bundle's id when the last future of the bundle is garbage, in the
    thread in which that happens.
    """

    def __init__(
        self,
        kernel: AsyncioKernel,
        machine: Slice,
        runner_settings: RunnerSettings,
        directory: CallDirectory,
        on_event: Emit | None,
        on_gone: Callable[[str], None],
    ) -> None:
        self.work = kernel.flag()  # set when there is something to do
        self._kernel = kernel
        self._machine = machine
        self._directory: CallDirectory | None = directory
        self._on_event = on_event
        self._on_gone = on_gone
        self._reader = RecentFiles()
        self._bundler = Bundler(machine.nodes * machine.slots)
        self._journeys: dict[TaskId, Journey] = {}  # the bundles under way
        self._load: dict[NodeId, float] = dict.fromkeys(machine.node_ids, 0.0)
        self._outside: dict[FileId, Place] = {}
        self._failures: dict[TaskId, AttemptEnded] = {}
        self._count = 0
        path = directory.path
        strategy = fitted(strategy_named(STRATEGY), machine, unawaited_seconds=0.0)
        self._session = Session(
            kernel,
            SessionSettings(machine, strategy, runner_settings, incarnation=1),
            # Calls print where the caller does, so they have no logs.
            SessionFiles(path / "depot", path / "store", self._outside, {}, lambda *_: ""),
            runner_pools(machine, path / "work"),
            self._emit,
        )
        self._store = self._session.client()

    async def start(self) -> None:
        await self._session.start()
        self._kernel.spawn(self._watch(), "watch")

    async def _watch(self) -> None:
        while self._session.failure is None:
            await self._kernel.sleep(WATCH_SECONDS)
        assert self._directory is not None
        raise OutputError(str(self._directory.path), str(self._session.failure))

    @property
    def is_idle(self) -> bool:
        """Whether no call waits or is under way."""
        return not self._journeys and not self._bundler.ready

    def stop(self) -> None:
        """End all running calls at once."""
        self._session.stop()

    def close(self) -> None:
        """After ``kernel.run``: wait for processes and threads, and let go of all files.

        The directory is removed with the last result that may still be read.
        """
        self._session.close()
        self._directory = None

    def break_off(self, error: BrokenExecutor) -> None:
        """Make no more calls: the futures of all unfinished calls get the error."""
        for call in self._unfinished():
            self.fail(call, error)
        self._bundler.ready.clear()
        self._journeys.clear()

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
            elif need.in_depot is None:
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
        stack += [call for journey in self._journeys.values() for call in journey.calls]
        while stack:
            call = stack.pop()
            if call.number not in seen:
                seen.add(call.number)
                stack += call.dependants or ()
                assert isinstance(call, PendingCall)
                yield call

    async def send(self) -> None:
        """Send bundles until enough are under way to keep all slots busy."""
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
        """The node that lacks the fewest input bytes; of equals, the one with fewest bundles."""
        copies = [Copy(f.id, node) for f in inputs for node in self._session.holders(f.id)]
        return best_node(candidates_for(inputs, copies, self._load))

    # --- results out -----------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:  # an error in the user's code must not stop the node
                _log.exception("on_event raised an error for %r", event)
        if type(event) is AttemptEnded:
            if event.outcome is AttemptOutcome.FAILED:
                self._failures[event.task] = event
        elif type(event) is TaskFinished:
            journey = self._journeys.pop(event.task, None)
            if journey is not None:  # otherwise this is the second such event
                self._on_finished(journey, event.state)

    def _on_finished(self, journey: Journey, state: TaskState) -> None:
        self._load[journey.node] -= 1
        with suppress(FileNotFoundError):
            os.unlink(self._outside.pop(journey.payload).path)
        self._session.drop(journey.payload)
        failure = self._failures.pop(journey.id, None)
        if state is TaskState.COMPLETE:
            self._arrive(journey)
        else:
            self._on_lost(journey, failure)
        self.work.set()

    def _arrive(self, journey: Journey) -> None:
        path = self._path_of(journey.results)
        results = self._reader(path)
        for function, (seconds, calls) in zip(journey.functions, results.functions, strict=True):
            function.pace.learn(calls, seconds)
        stored = StoredResults(
            journey.id, path, results.size_bytes, self._reader, self._directory, self._on_gone
        )
        for place in results.traces:
            self.fail(journey.calls[place], error_of(results.result(place)))
        self._bundler.finished(list(journey.calls))
        for place, call in enumerate(journey.calls):
            if place in results.traces:
                continue
            future = call.future
            result = future.in_depot = InDepot(stored, place)
            self._let_go(call)
            future.set_result(result)

    def _path_of(self, file: FileId) -> str:
        place = self._session.find(file)
        assert place is not None, f"{file!r} was committed, but no node has it"
        return place.path

    def _on_lost(self, journey: Journey, failure: AttemptEnded | None) -> None:
        """Try the calls again, each alone: their process died, and any of them may be the cause.

        A call that was alone fails if it was too slow, or was tried often enough.
        """
        self._kernel.spawn(self._forget([journey.id]), "forget")
        calls = journey.calls
        if len(calls) == 1:
            calls[0].tries += 1
            timed_out = failure is not None and failure.cause is FailureCause.TIME_LIMIT
            if timed_out or calls[0].tries == TRIES_ALONE:
                reason = failure.reason if failure is not None else "its process died"
                self.fail(calls[0], ProcessDiedError(calls[0].function.name, reason))
                return
        self._bundler.try_alone(list(calls))

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

    def collect(self, gone: Sequence[TaskId]) -> None:
        """Drop results that nobody can ask for any more, and their tasks from the store."""
        for bundle in gone:
            self._session.drop(FileId(f"{bundle}.results"))
        self._kernel.spawn(self._forget(gone), "forget")

    async def _forget(self, tasks: Sequence[TaskId]) -> None:
        await self._store.call([Forget(task) for task in tasks])


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
