"""Calls meet the node: bundled, submitted as tasks, their futures told of what they came to.

Behind it is a session like that of ``dataward run``: the same node, store, depot and runner
processes. Runs in a thread of its own; other threads may use what is under "from other threads".
"""

import asyncio
import atexit
import pickle
import shutil
import sys
import tempfile
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataward.errors import OutputError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.bundles import Bundler, BundleSettings, Item
from dataward.live.call_arguments import Arguments, FunctionTable
from dataward.live.call_future import (
    CallFuture,
    Journey,
    ProcessDiedError,
    RemoteTraceback,
    Stored,
)
from dataward.live.calls import (
    CALLS,
    Bundle,
    Call,
    Known,
    Result,
    Results,
    encode_bundle,
    read_results,
)
from dataward.live.depot_disk import Place
from dataward.live.live_runner import RunnerSettings
from dataward.live.session import Machine, Session, SessionPaths
from dataward.model.events import AttemptEnded, Emit, Event, TaskFinished
from dataward.model.operations import (
    Enqueue,
    InputFile,
    NodeId,
    OutputFile,
    QueueEntry,
    Submit,
    TaskSpec,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.strategies.adage import STRATEGIES

TRIES_ALONE = 2  # a call whose process dies so often, with nobody else in it, is the cause
READ_MAX = 8  # files of results kept in memory


class Pending:
    """A call until it has a result."""

    __slots__ = ("arguments", "function", "future", "tries")

    def __init__(self, future: CallFuture[Any], function: int, arguments: Arguments) -> None:
        self.future = future
        self.function = function
        self.arguments = arguments
        self.tries = 0


class CallLoop:
    def __init__(
        self,
        machine: Machine,
        directory: Path | None,
        runner_settings: RunnerSettings,
        functions: FunctionTable,
        on_event: Emit,
    ) -> None:
        self._machine = machine
        self._is_temporary = directory is None
        self._directory = directory or Path(tempfile.mkdtemp(prefix="dataward-"))
        self._runner_settings = runner_settings
        self._functions = functions
        self._on_event = on_event
        self._inbox: deque[Pending] = deque()
        self._is_woken = False
        self._is_finishing = False
        self._cancels = False
        self._garbage: deque[Journey] = deque()
        self._read: OrderedDict[TaskId, Results] = OrderedDict()
        self._read_lock = threading.Lock()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._bundler = Bundler(machine.nodes * machine.slots)
        self._journeys: dict[TaskId, Journey] = {}  # under way
        self._kept: dict[TaskId, Journey] = {}  # whose results somebody may ask for
        self._load: dict[NodeId, int] = {}
        self._target: dict[TaskId, NodeId] = {}
        self._reasons: dict[TaskId, str] = {}
        self._count = 0

    # --- from other threads ----------------------------------------------------------------------

    def wait_until_started(self) -> None:
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def add(self, pending: Pending) -> None:
        if self._failure is not None:
            raise self._failure
        self._inbox.append(pending)
        self._wake()

    def finish(self, *, cancel: bool) -> None:
        """End when all calls are made, or those under way only."""
        self._cancels = self._cancels or cancel
        self._is_finishing = True
        self._is_woken = False
        self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._work.set)

    def _results(self, journey: Journey) -> Results:
        with self._read_lock:
            found = self._read.get(journey.id)
        return found or self._remember(journey, read_results(self._path_of(journey.file)))

    def _remember(self, journey: Journey, results: Results) -> Results:
        with self._read_lock:
            self._read[journey.id] = results
            while len(self._read) > READ_MAX:
                self._read.popitem(last=False)
        return results

    def _path_of(self, file: FileId) -> str:
        for disk in self._session.wires.disks.values():
            place = disk.where(file)
            if place is not None:
                return place.path
        raise FileNotFoundError(f"the results in {file!r} are gone")

    def _forgotten(self, journey: Journey) -> None:
        """Nobody has a future of this bundle any more. Called even from a ``__del__``."""
        self._garbage.append(journey)
        if self._is_over:
            self._remove_directory_if_unused()

    _is_over = False

    def _remove_directory_if_unused(self) -> None:
        while self._garbage:
            self._kept.pop(self._garbage.popleft().id, None)
        if self._is_temporary and not self._kept:
            shutil.rmtree(self._directory, ignore_errors=True)

    # --- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        self._kernel = AsyncioKernel()
        try:
            self._kernel.run(self._main())
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()
            self._close()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work = self._kernel.event()
        self._outside: dict[FileId, Place] = {}
        self._session = Session(
            kernel=self._kernel,
            paths=SessionPaths(
                self._directory / "depot", self._directory / "work", self._directory / "store"
            ),
            machine=self._machine,
            strategy=STRATEGIES["adage-no-replication"],
            runner_settings=self._runner_settings,
            incarnation=1,
            emit=self._emit,
            log_stem=lambda task, attempt: "",  # calls print where the caller does
            outside=self._outside,
            held={},
        )
        try:
            (self._directory / "calls").mkdir(parents=True)
        except OSError as error:
            raise OutputError(str(self._directory), error.strerror or str(error)) from error
        self._session.start()
        self._store = self._session.client()
        self._load = dict.fromkeys(self._session.ids, 0)
        self._started.set()
        try:
            while not self._is_done():
                await self._work.wait()
                self._work.clear()
                self._is_woken = False
                self._take_in()
                await self._send()
                self._collect_garbage()
        finally:
            self._session.stop()

    def _is_done(self) -> bool:
        if not self._is_finishing or self._inbox or self._journeys:
            return False
        return self._cancels or not self._bundler.ready

    def _close(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and hasattr(session, "_loop"):
            session.close()
        self._is_over = True
        self._remove_directory_if_unused()
        if self._is_temporary and self._kept:
            atexit.register(shutil.rmtree, self._directory, ignore_errors=True)

    # --- calls in --------------------------------------------------------------------------------

    def _take_in(self) -> None:
        inbox, bundler = self._inbox, self._bundler
        while inbox:
            pending = inbox.popleft()
            future = pending.future
            item = future.item = Item(future.number, pending)
            needs = [need.item for need in pending.arguments.needs if need.item is not None]
            bundler.add(item, needs)

    async def _send(self) -> None:
        limit = self._machine.nodes * self._machine.slots * BundleSettings().ahead
        while len(self._journeys) < limit:
            items = self._bundler.next_bundle()
            if not items:
                return
            wanted = self._without_cancelled(items)
            if wanted:
                await self._set_out(wanted)

    def _without_cancelled(self, items: list[Item]) -> list[Item]:
        """Those to be made. What was cancelled takes along all that depend on it."""
        wanted: list[Item] = []
        for item in items:
            future = item.what.future
            if self._cancels or any(_is_hopeless(need) for need in item.what.arguments.needs):
                future.cancel()
            if future.set_running_or_notify_cancel():
                wanted.append(item)
            else:
                future.item = None
        if len(wanted) < len(items):
            self._bundler.finished([item for item in items if item.what.future.item is None])
        return wanted

    async def _set_out(self, items: list[Item]) -> None:
        self._count += 1
        id = TaskId(f"b{self._count}")
        journey = Journey(id, items, self._results, self._forgotten)
        sources = _sources(items)
        bundle = self._bundle(items, sources)
        payload = FileId(f"{id}.calls")
        size_bytes = self._write(payload, encode_bundle(bundle))
        inputs = [InputFile(payload, size_bytes, TaskId(""))]
        for source in {stored.journey.id: stored.journey for stored in sources.values()}.values():
            inputs.append(InputFile(source.file, source.size_bytes, source.id))
        node = self._choose_node(inputs)
        spec = TaskSpec(
            id=id,
            type="calls",
            parents=(),
            children=(),
            inputs=tuple(inputs),
            outputs=(OutputFile(journey.file, 0),),
            runtime_seconds=0.0,
            cores=1,
            memory_bytes=0,
            retries=0,
            preferred=node,
            priority=float(items[0].number),
            backups_max=0,
            command=(CALLS, payload),
        )
        self._journeys[id] = journey
        self._target[id] = node
        self._load[node] += 1
        entry = QueueEntry(spec.priority, id)
        await self._store.call([Submit(spec), Enqueue(node, (entry,))])
        self._session.wake(node)

    def _bundle(self, items: list[Item], sources: dict[int, Stored]) -> Bundle:
        numbers: dict[int, int] = {}  # a function's number, and its place in this bundle
        calls: list[Call] = []
        for item in items:
            pending: Pending = item.what
            place = numbers.setdefault(pending.function, len(numbers))
            arguments = pending.arguments
            calls.append(
                Call(item.number, place, arguments.pickled, arguments.holes, arguments.tuples)
            )
        return Bundle(
            functions=tuple(self._functions.pickled[number] for number in numbers),
            calls=tuple(calls),
            known=tuple(
                Known(number, stored.journey.file, stored.place)
                for number, stored in sources.items()
            ),
            path=tuple(sys.path),
        )

    def _write(self, file: FileId, content: bytes) -> int:
        path = self._directory / "calls" / file
        path.write_bytes(content)
        self._outside[file] = Place(str(path), len(content), "", True)
        return len(content)

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
        self._on_event(event)
        kind = type(event)
        if kind is AttemptEnded and event.outcome == "failed":  # type: ignore[union-attr]
            assert isinstance(event, AttemptEnded)
            self._reasons[event.task] = event.reason
        elif kind is TaskFinished:
            assert isinstance(event, TaskFinished)
            self._on_finished(event)

    def _on_finished(self, event: TaskFinished) -> None:
        journey = self._journeys.pop(event.task, None)
        if journey is None:
            return  # told twice
        self._load[self._target.pop(journey.id)] -= 1
        payload = FileId(f"{journey.id}.calls")
        Path(self._outside.pop(payload).path).unlink(missing_ok=True)
        self._session.drop(payload)
        if event.state is TaskState.COMPLETE:
            self._arrive(journey)
        else:
            self._on_lost(journey, self._reasons.pop(journey.id, "its process died"))
        self._work.set()

    def _arrive(self, journey: Journey) -> None:
        path = self._path_of(journey.file)
        results = self._remember(journey, read_results(path))
        journey.size_bytes = Path(path).stat().st_size
        self._bundler.learn(len(journey.items), results.seconds)
        self._bundler.finished(journey.items)
        self._kept[journey.id] = journey
        items, journey.items = journey.items, []
        for place, (item, result) in enumerate(zip(items, results.results, strict=True)):
            future: CallFuture[Any] = item.what.future
            stored = future.stored = Stored(journey, place)
            future.item = None
            if result.trace:
                future.set_exception(_raised(result))
            else:
                future.set_result(stored)

    def _on_lost(self, journey: Journey, reason: str) -> None:
        """The process died. Of several calls nobody knows whose doing it was."""
        if len(journey.items) > 1:
            self._bundler.try_alone(journey.items)
            return
        (item,) = journey.items
        item.what.tries += 1
        if item.what.tries < TRIES_ALONE:
            self._bundler.try_alone([item])
            return
        self._bundler.finished([item])
        item.what.future.item = None
        tried = f"{item.what.tries} times"
        item.what.future.set_exception(ProcessDiedError(f"{reason}; it was tried {tried}"))

    def _collect_garbage(self) -> None:
        while self._garbage:
            journey = self._garbage.popleft()
            self._kept.pop(journey.id, None)
            self._session.drop(journey.file)


def _is_hopeless(need: CallFuture[Any]) -> bool:
    """It has no result and never will: it was cancelled, or nobody could make the call."""
    return need.item is None and need.stored is None


def _sources(items: Sequence[Item]) -> dict[int, Stored]:
    """Results that these calls take from earlier bundles, by the number of their call."""
    found: dict[int, Stored] = {}
    for item in items:
        for need in item.what.arguments.needs:
            if need.stored is not None:
                found[need.number] = need.stored
    return found


def _raised(result: Result) -> BaseException:
    try:
        error = pickle.loads(result.value)
    except Exception as problem:
        error = RuntimeError(f"the call raised an error that cannot be loaded ({problem!r})")
    assert isinstance(error, BaseException)
    error.__cause__ = RemoteTraceback(result.trace)
    return error
