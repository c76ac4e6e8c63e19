"""Nodes at work on this machine: joins a store in a directory, runner processes, disks and nodes.

What they run is left to others: `runs` submits a workflow, `calls` submits calls of functions as
they come.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from dataward.errors import DatawardError, OutputError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.backlog import Backlog
from dataward.live.depot_disk import DepotDisk, Place
from dataward.live.live_runner import LiveRunner
from dataward.live.local_network import Wires
from dataward.live.promise_book import BookedCores, PromiseBook
from dataward.live.runner_pool import RunnerPool, close_pools
from dataward.live.runner_settings import RunnerSettings
from dataward.live.slice import Slice
from dataward.model.events import Emit
from dataward.model.ids import CLIENT, AttemptId, NodeId
from dataward.model.messages import Message
from dataward.model.seeds import seeded
from dataward.model.workflow import FileId, TaskId
from dataward.node.homes import Homes
from dataward.node.node import Node
from dataward.node.store_client import StoreClient
from dataward.stores.embedded import CommittedTask, Done, EmbeddedSettings, EmbeddedStore, Work
from dataward.stores.memory import MemoryStore
from dataward.strategies.strategy import Strategy
from dataward.world import Members, Store, World


class StoreStopped(OutputError):  # noqa: N818 - the disk's doing
    """The work cannot go on, since the store can no longer write its journal."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        DatawardError.__init__(self, why)  # ``why`` names the path already


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """``strategy`` must have settings that fit nodes of one process (see `fitting`)."""

    machine: Slice
    strategy: Strategy
    runner: RunnerSettings
    incarnation: int  # never the same twice in one store or one list of events
    book: PromiseBook | None = None  # in which promised cores are noted


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Where files are written, and where files are that exist already."""

    depot: Path
    store: Path | None  # None: in memory, since nobody needs the work when this process has ended
    outside: Mapping[FileId, Place]  # files that no node has made
    held: Mapping[NodeId, Mapping[FileId, Place]]  # files that nodes have from earlier sessions
    log_stem: Callable[[TaskId, AttemptId], str]
    earlier: Mapping[FileId, Place] = field(default_factory=dict)  # of tasks that may be recalled


class Session:
    """Make it inside ``kernel.run``, and ``start`` it; then tasks put into its store are run.

    Raises what opening the store raises. After ``kernel.run``, ``close`` it.
    """

    def __init__(
        self,
        kernel: AsyncioKernel,
        settings: SessionSettings,
        files: SessionFiles,
        pools: Mapping[NodeId, RunnerPool],
        emit: Emit,
    ) -> None:
        self._kernel = kernel
        self._settings = settings
        self._files = files
        self._pools = pools
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._sync_thread = ThreadPoolExecutor(1, "dataward-sync")
        self._hash_threads = ThreadPoolExecutor(4, "dataward-hash")
        self._backlog = Backlog()
        self._wires = Wires(kernel, emit, files.outside)
        self._embedded = self._open(files.store) if files.store is not None else None
        self._store: Store = self._embedded or MemoryStore(kernel.now)
        try:
            self._nodes = [self._node(id) for id in pools]
        except BaseException:
            self._close_store()
            raise

    def _open(self, directory: Path) -> EmbeddedStore:
        settings, kernel = EmbeddedSettings(shares_fate=True), self._kernel
        return EmbeddedStore(
            directory, kernel.now, kernel, off_loop=self._off_loop, settings=settings
        )

    def _close_store(self) -> None:
        if self._embedded is not None:
            self._embedded.close()

    async def start(self) -> None:
        """Start the nodes, and connect their pools to the runner processes."""
        for node in self._nodes:
            node.start()
        for pool in self._pools.values():
            await pool.connect()

    # --- work ------------------------------------------------------------------------------------

    def client(self) -> StoreClient:
        """A client of the store, for the code that submits tasks."""
        settings = self._settings.strategy.settings
        return StoreClient(self._store, self._kernel, seeded(CLIENT), settings)

    def homes(self) -> Homes:
        """The choice of nodes for tasks, for the code that submits tasks."""
        rule, nodes = self._settings.strategy.home, Members(self._pools)
        return Homes(CLIENT, nodes, seeded(CLIENT, "homes"), self.client(), rule)

    def send(self, node: NodeId, message: Message) -> None:
        """Send a message to a node, in the name of the code that submits tasks."""
        self._wires.deliver(node, message)

    def drain(self) -> None:
        """Begin no more tasks; those that run may end."""
        for node in self._nodes:
            node.drain()

    def look_again(self) -> None:
        """Have the nodes look again for tasks that may start: other runs have news."""
        for node in self._nodes:
            node.look_again()

    def later(self, work: Callable[[], None]) -> None:
        """Let a thread do work on files, after the work it was given before."""
        self._backlog.add(work)

    # --- files -----------------------------------------------------------------------------------

    def find(self, file: FileId) -> Place | None:
        """Where a file is, or None if no node has it."""
        return self._wires.find(file)

    def places(self) -> list[Place]:
        """The places of all files that the nodes have in their depots."""
        return self._wires.places()

    def holders(self, file: FileId) -> list[NodeId]:
        """The nodes that have a file."""
        return self._wires.holders(file)

    def drop(self, file: FileId) -> None:
        """Remove a file from every depot."""
        for node in self._nodes:
            node.drop(file)

    # --- how it stands ---------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, and no outcome is on its way to the store."""
        return all(node.is_idle for node in self._nodes)

    @property
    def running(self) -> int:
        """How many tasks are running, or have run and are storing their outputs."""
        return sum(node.running for node in self._nodes)

    @property
    def messages(self) -> int:
        return self._wires.messages

    @property
    def store_calls(self) -> int:
        return self._embedded.calls if self._embedded is not None else 0

    @property
    def failure(self) -> Exception | None:
        """Why the work cannot go on, or None."""
        if self._embedded is not None and self._embedded.failure:
            return StoreStopped(str(self._files.store), self._embedded.failure)
        return self._backlog.error

    def committed(self) -> Iterator[CommittedTask]:
        """Every complete task in a store on disk; also after ``close``."""
        return self._embedded.committed() if self._embedded is not None else iter(())

    # --- the end ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """End everything that runs, at once."""
        for node in self._nodes:
            node.stop()
        for pool in self._pools.values():
            pool.close()

    def close(self) -> None:
        """After ``kernel.run``: wait for processes and threads, and let go of the store."""
        close_pools(self._pools.values())
        self._hash_threads.shutdown()
        self._sync_thread.shutdown()
        self._backlog.close()
        self._close_store()

    # --- parts -----------------------------------------------------------------------------------

    def _node(self, id: NodeId) -> Node:
        settings, machine = self._settings, self._settings.machine
        held = self._files.held.get(id, {})
        disk = DepotDisk(
            self._files.depot / id,
            held,
            self._files.earlier,
            self._hash_threads,
            self._sync_thread,
            self._backlog,
        )
        runner = LiveRunner(
            self._kernel,
            self._pools[id],
            disk,
            settings.runner,
            self._files.log_stem,
            self._wires.spoil_elsewhere,
        )
        world = World(
            node=id,
            nodes=Members(self._pools),
            incarnation=settings.incarnation,
            cores=machine.slots,
            memory_bytes=_memory_bytes() / machine.nodes,
            kernel=self._kernel,
            random=seeded(id, settings.incarnation),
            store=self._store,
            network=self._wires.plug_in(id, disk),
            disk=disk,
            runner=runner,
            emit=self._emit,
        )
        if settings.book is not None:
            first = list(self._pools).index(id) * machine.slots
            world = replace(
                world, shared_cores=BookedCores(settings.book, first, self._kernel.now())
            )
        return Node(world, settings.strategy)

    def _off_loop(self, work: Work, done: Done) -> None:
        """Do the store's work in the thread that also syncs files."""

        def report_error() -> BaseException | None:
            try:
                work()
            except BaseException as error:
                return error
            return None

        future = self._loop.run_in_executor(self._sync_thread, report_error)
        future.add_done_callback(lambda over: None if over.cancelled() else done(over.result()))


def _memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
