"""One run on one host: the host's node for that run, over a world of its own."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from random import Random
from time import monotonic

import msgspec

from dataward.cluster.description import RunOrders, RunPromises, unpacked
from dataward.cluster.event_log import EventLog
from dataward.cluster.outcome_keys import KnownOutcome, key_of_run, packed_outcome
from dataward.cluster.promise_asking import PromiseAsking
from dataward.cluster.promised_home import PromisedHome
from dataward.deadlines.submission import AskKey
from dataward.errors import DatawardError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.backlog import Backlog
from dataward.live.depot_disk import DepotDisk, Place, clear_incoming, files_in_depot
from dataward.live.digest_index import DigestIndex
from dataward.live.durability import replace_content
from dataward.live.fitting import fitted_to_network
from dataward.live.host_disk import EntryJournal, HostDisk
from dataward.live.host_network import HostNetwork
from dataward.live.joined_calls import JoinedCalls
from dataward.live.live_runner import LiveRunner
from dataward.live.peer_client import PeerClient
from dataward.live.promised_slots import PromisedSlots, SlotPromise
from dataward.live.remote_network import RemoteNetwork
from dataward.live.runner_pool import RunnerPool
from dataward.live.runner_settings import RunnerSettings
from dataward.model.events import AttemptMeasured, Event, TaskFinished
from dataward.model.ids import AttemptId, NodeId
from dataward.model.members import ClusterRun
from dataward.model.messages import Message, Stock
from dataward.model.operations import Commit, InputFile, OutputFile, TaskSpec
from dataward.model.seeds import seeded
from dataward.model.settings import change_settings
from dataward.model.workflow import FileId, TaskId
from dataward.node.node import Node
from dataward.node.ready_queue import TakeOrder
from dataward.runs.run_directory import file_name_for
from dataward.stores.connection import Connection
from dataward.stores.valkey import ValkeyStore
from dataward.strategies.choosing import changed_strategy
from dataward.strategies.registry import strategy_named
from dataward.strategies.strategy import Strategy
from dataward.world import Members, Queue, World

log = logging.getLogger(__name__)

INCARNATIONS = 1 << 20  # of a run's node, within one incarnation of the host
FLUSH_SECONDS = 0.25
# Attempts of a promised run that a node may have under way beyond its slots. The host's slots say
# which of them starts, so all that are ready must be there to be chosen from.
PROMISED_AHEAD = 1024
PROMISED_ANEW_SECONDS = 10.0  # in which what a lost host had promised is mostly promised by others


@dataclass
class HostParts:
    """What a host has, and all its runs share."""

    node: NodeId
    cluster: str
    depot: Path
    slots: int
    memory_bytes: int
    incarnation: int
    lease_seconds: float
    index: DigestIndex
    pool: RunnerPool
    client: PeerClient
    connection: Connection
    capacity_bytes: Callable[[], float]
    hash_threads: Executor
    sync_thread: Executor
    backlog: Backlog
    clock_ahead_seconds: float  # the store's clock, over the monotonic clock of this machine
    remember: Callable[[str, bytes], None]  # an outcome, for other runs
    spoil: Callable[[str], None]  # files of this content, in all runs here
    fetch_part: Callable[[str, Sequence[NodeId]], Awaitable[bytes]]
    keep_part: Callable[[bytes, str], None]
    note_served: Callable[[Iterable[str]], None]  # uploads that a run here has
    slots_promised: PromisedSlots
    asking: PromiseAsking
    # Hosts that were seen to end, each with the first incarnation of its nodes that may be alive.
    gone: dict[NodeId, int] = field(default_factory=dict)
    random: Random = field(default_factory=Random)

    def store_of(self, run: ClusterRun) -> ValkeyStore:
        return ValkeyStore(self.connection, f"{self.cluster}.{run.name}", run.shards)


def strategy_of(orders: RunOrders, lease_seconds: float) -> Strategy:
    """The strategy that all hosts of a run follow. Raises SettingError."""
    fitting = fitted_to_network(strategy_named(orders.strategy), lease_seconds)
    return changed_strategy(fitting, list(orders.settings))


def runner_settings_of(orders: RunOrders) -> RunnerSettings:
    settings = RunnerSettings()
    if orders.is_measured:
        settings = settings.for_measured()
    return change_settings(settings, list(orders.limits))


class RunDirectoryHere:
    """Where a host keeps what belongs to one run."""

    def __init__(self, depot: Path, run: str) -> None:
        self.path = depot / "runs" / run
        self.files = self.path / "files"
        self.logs = self.path / "logs"
        self.events = self.path / "events"
        self.commits = self.path / "commits"
        self.keeps = self.path / "keeps"  # files that came from other nodes to stay
        self.record = self.path / "run.json"
        self._parts = self.path / "parts"
        self.results = self.path / "results"  # digests of files that stay until the run is cleaned

    def make(self, run: ClusterRun) -> None:
        self.files.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        replace_content(self.record, msgspec.json.encode(run))

    def write_parts(self, digests: Iterable[str]) -> None:
        replace_content(self._parts, "".join(f"{digest}\n" for digest in digests).encode())

    def parts(self) -> set[str]:
        """The digests of the run's description."""
        return _digests_in(self._parts)

    def add_results(self, digests: Iterable[str]) -> None:
        """Have these files stay here as results of the run. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.results, "a", encoding="utf-8") as file:
            # A line that a crash has torn is no digest, and the next one begins after it.
            file.write("\n" + "".join(f"{digest}\n" for digest in digests))

    def kept(self) -> set[str]:
        """The digests of the run's results that are here."""
        return _digests_in(self.results)

    def recorded(self) -> ClusterRun | None:
        try:
            return msgspec.json.decode(self.record.read_bytes(), type=ClusterRun)
        except (OSError, msgspec.MsgspecError):
            return None


def _digests_in(path: Path) -> set[str]:
    try:
        return set(path.read_text("utf-8").split())
    except OSError:
        return set()


class RunHere:
    """``start`` it in the host's loop. It ends when it is ``stop``ped, or by a fault of its own."""

    def __init__(
        self,
        parts: HostParts,
        run: ClusterRun,
        members: Sequence[NodeId],
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self.run = run
        self._on_failure = on_failure
        self.members = Members(members)
        self.directory = RunDirectoryHere(parts.depot, run.name)
        self.inbox: Queue[Message] | None = None
        self.node: Node | None = None
        self.orders: RunOrders | None = None
        self.strategy: Strategy | None = None
        self.kernel: AsyncioKernel | None = None
        self.network: HostNetwork | None = None
        self.disk: HostDisk | None = None
        self.promises: RunPromises | None = None
        self._homes: dict[TaskId, NodeId] = {}  # of promised tasks
        self._reading: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None
        self._parts = parts
        self._began = asyncio.Event()
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._events: list[Event] = []
        self._results: list[str] = []  # that are here to stay, and are not in the list of them yet
        self._seconds: dict[TaskId, float] = {}  # run times of tasks that have not been committed
        self._wanted: frozenset[FileId] = frozenset()

    def start(self) -> None:
        self.directory.make(self.run)
        self._parts.pool.get_ready(self.run.tasks)
        self._task = asyncio.create_task(self._live(), name=f"run {self.run.name}")

    async def stop(self) -> None:
        """End the node at once, and wait for that."""
        self._over.set()
        if self._task is not None:
            if not self._began.is_set():
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def leave(self) -> None:
        """Let what runs end, hand over what others may need, and end the node."""
        if self.node is not None:
            await self.node.leave()
        await self.stop()

    async def began(self) -> None:
        """Wait until the node has started."""
        await self._began.wait()

    def give_up(self, node: NodeId, before: int) -> None:
        """Have the tasks of a node that has ended taken over.

        Tasks of a promised run go where they are promised anew, so that is waited for a while.
        """
        if self.node is None:
            return
        if self.promises is None or all(home != node for home in self._homes.values()):
            self.node.give_up(node, before)
        elif self.kernel is not None:
            self.kernel.spawn(self._give_up_later(node, before), f"{node} is given up")

    async def _give_up_later(self, node: NodeId, before: int) -> None:
        until = monotonic() + PROMISED_ANEW_SECONDS
        while monotonic() < until and any(home == node for home in self._homes.values()):
            await asyncio.sleep(FLUSH_SECONDS)
        if self.node is not None:
            self.node.give_up(node, before)

    @property
    def waits_for_room(self) -> str:
        """A sentence about a task of the run that found no room here lately, or ""."""
        return self.node.waits_for_room if self.node is not None else ""

    async def give_way(self) -> None:
        """Let go of files for another run here that finds no room."""
        if self.node is not None and not self._over.is_set():
            await self.node.give_way()

    @property
    def is_idle(self) -> bool:
        return self.node is None or self.node.is_idle

    # --- its life --------------------------------------------------------------------------------

    async def _live(self) -> None:
        parts = self._parts
        try:
            content = await parts.fetch_part(self.run.description, self.run.keepers)
            self.orders = unpacked(content, RunOrders)
            self._wanted = frozenset(self.orders.wanted)
            own_parts = [self.run.description, self.orders.tasks, self.orders.workflow]
            self.directory.write_parts(own_parts)
            parts.note_served([*own_parts, *(file.digest for file in self.orders.placed)])
            await self._read_promises()
            epoch_seconds = self.run.submitted_at - parts.clock_ahead_seconds
            kernel = AsyncioKernel(epoch_seconds=epoch_seconds)
            await kernel.run_within(self._main(kernel, self.orders))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.failure = error
            is_ours = not isinstance(error, (DatawardError, OSError))
            log.error("run %s ended here: %s", self.run.name, error, exc_info=is_ours)
            self._on_failure()
        finally:
            self.inbox = None
            if self._reading is not None:
                self._reading.cancel()
            parts.slots_promised.forget(self.run.name)
            parts.pool.on_promises()
            parts.pool.forget(self.run.name)

    async def _main(self, kernel: AsyncioKernel, orders: RunOrders) -> None:
        parts, directory = self._parts, self.directory
        clear_incoming(directory.files)
        journal = EntryJournal(directory.commits, Commit, parts.backlog)
        kept = EntryJournal(directory.keeps, InputFile, parts.backlog)
        if self.promises is not None:  # what this host did before it was started again
            self._adopt(self.promises, [commit.task for commit in journal.entries])
        disk = HostDisk(
            directory.files,
            dict(self._held(journal.entries, kept.entries, orders)),
            parts.index,
            parts.capacity_bytes,
            journal,
            kept,
            parts.hash_threads,
            parts.sync_thread,
            parts.backlog,
            self._on_outcome,
            [file.id for file in orders.placed if parts.node in file.nodes],
            self._wanted,
            self._results.append,
        )
        remote = RemoteNetwork(
            parts.node, self.run.name, kernel, disk, {}, parts.client, self._emit
        )
        network = HostNetwork(
            parts.node, kernel, remote, disk, parts.index, orders.origins, self._emit
        )
        runner = LiveRunner(
            kernel,
            parts.pool,
            disk,
            runner_settings_of(orders),
            self._log_stem,
            self._spoil_elsewhere,
            self.run.name,
            is_alone=False,
        )
        world = World(
            node=parts.node,
            nodes=self.members,
            incarnation=parts.incarnation * INCARNATIONS,
            cores=parts.slots + (PROMISED_AHEAD if self.promises is not None else 0),
            memory_bytes=parts.memory_bytes,
            kernel=kernel,
            random=seeded(self.run.name, parts.node, parts.incarnation),
            store=JoinedCalls(parts.store_of(self.run), parts.pool.has_lines),
            network=network,
            disk=disk,
            runner=runner,
            emit=self._emit,
        )
        self.strategy = strategy_of(orders, parts.lease_seconds)
        if self.promises is not None:
            # The host's slots say what starts, for all runs together; a node only goes by urgency.
            self.strategy = replace(
                self.strategy, home=PromisedHome(self._homes), order=TakeOrder.URGENCY
            )
        self.kernel, self.network, self.disk = kernel, network, disk
        self.node, self.inbox = Node(world, self.strategy), remote.inbox
        events = EventLog(directory.events)
        try:
            self.node.start()
            for gone, before in parts.gone.items():
                self.node.give_up(gone, before)  # it may have been here before this node was
            self._began.set()
            while not self._over.is_set():
                self._write(events)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), FLUSH_SECONDS)
        finally:
            self.node.stop()
            await remote.close()
            places = [disk.where(file) for file in orders.wanted]
            self._results += [place.digest for place in places if place is not None]
            self._write(events)
            events.close()
            disk.close()

    def _held(
        self, commits: Iterable[Commit], kept: Iterable[InputFile], orders: RunOrders
    ) -> Iterator[tuple[FileId, Place]]:
        """The files that the node has: what it committed, what came to stay, and inputs put here.

        Of two with one name the later counts.
        """
        parts, directory = self._parts, self.directory.files
        own = {place.digest: place for place in files_in_depot(directory)}
        made = (file for commit in commits for file in commit.held)
        for id, digest in chain(
            ((one.id, one.digest) for one in kept), ((one.id, one.digest) for one in made)
        ):
            if digest in own and parts.index.find(digest) is not None:
                yield id, own[digest]
        for number, placed in enumerate(orders.placed):
            if parts.node not in placed.nodes:
                continue
            found = own.get(placed.digest) or parts.index.find(placed.digest)
            if found is None:
                log.warning("%s has no %r any more", parts.node, placed.id)
            elif os.path.dirname(found.path) == str(directory):
                yield placed.id, found
            else:
                path = f"{directory}/{placed.digest}.placed-{number}"
                with suppress(FileExistsError):
                    os.link(found.path, path)
                yield (
                    placed.id,
                    Place(path, found.size_bytes, found.digest, False, found.modified_ns),
                )

    # --- promises --------------------------------------------------------------------------------

    def follow(self, run: ClusterRun) -> None:
        """The run has changed in the registry: other promises may have been made."""
        before, self.run = self.run.promise, run
        if run.promise is not None and before is not None and run.promise.part != before.part:
            self._reading = asyncio.create_task(self._read_promises(), name=f"read {run.name}")

    async def _read_promises(self) -> None:
        """Have what was promised to this run kept by the slots here: the latest promises."""
        promise = self.run.promise
        while promise is not None and promise.part:
            content = await self._parts.fetch_part(promise.part, self.run.keepers)
            read, promise = promise, self.run.promise
            if promise is not None and promise.part == read.part:
                self._adopt(unpacked(content, RunPromises))
                return

    def _adopt(self, promises: RunPromises, begun: Iterable[TaskId] = ()) -> None:
        """Tasks of this host go into its slots, instead of the bookings made for them."""
        self.promises, own = promises, self._parts.node
        slots = self._parts.slots_promised
        self._homes.clear()
        self._homes.update((one.id, one.node) for one in promises.tasks)
        slots.release(lambda by: isinstance(by, AskKey) and by.workflow == promises.number)
        here = [
            SlotPromise(one.id, slot, one.deadline, one.seconds)
            for one in promises.tasks
            if one.node == own
            for slot in (one.slot, *one.beside)
        ]
        deadlines = {one.id: one.deadline for one in promises.tasks}
        slots.adopt(self.run.name, here, deadlines, begun)
        self._parts.pool.on_promises()

    # --- what is told ----------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        self._emit(event)

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        if type(event) is AttemptMeasured:
            self._seconds[event.task] = event.wall_seconds
        elif type(event) is TaskFinished:
            self._seconds.pop(event.task, None)

    def _write(self, events: EventLog) -> None:
        told, self._events = self._events, []
        events.write(told)
        if self._results:
            try:
                self.directory.add_results(self._results)
                self._results.clear()
            except OSError as error:  # the disk may have room later
                log.warning("%s", error)

    def now(self) -> float:
        """Seconds since the run was submitted, by the store's clock."""
        return monotonic() + self._parts.clock_ahead_seconds - self.run.submitted_at

    def _on_outcome(
        self, spec: TaskSpec, read: Mapping[FileId, str], outputs: tuple[OutputFile, ...]
    ) -> None:
        """Remember what a task made for other runs, and have results copied to other nodes."""
        if len(read) == len(spec.inputs) and all(file.digest for file in outputs):
            seconds = self._seconds.get(spec.id, 0.0)
            outcome = KnownOutcome(outputs, seconds, self._parts.node)
            self._parts.remember(key_of_run(spec, read), packed_outcome(outcome))
        assert self.orders is not None
        results = [file for file in outputs if file.id in self._wanted]
        if results and self.orders.copies > 1:
            self._have_copied(spec.id, results, self.orders.copies - 1)

    def _have_copied(self, task: TaskId, results: list[OutputFile], copies: int) -> None:
        assert self.network is not None
        others = [node for node in self.members if node != self._parts.node]
        files = tuple(InputFile(f.id, f.size_bytes, task, f.digest) for f in results)
        stock = Stock(files, keep=True)
        for node in self._parts.random.sample(others, min(copies, len(others))):
            self.network.send(node, stock)

    def _log_stem(self, task: TaskId, attempt: AttemptId) -> str:
        return f"{self.directory.logs}/{file_name_for(task)}.{attempt}"

    def _spoil_elsewhere(self, file: FileId, disk: DepotDisk) -> None:
        assert isinstance(disk, HostDisk)
        digest = disk.digest_of_gone(file)
        if digest:
            self._parts.spoil(digest)
