"""Nodes at work on this machine: a store in a directory, runner processes, and what joins them.

What there is to run is somebody else's: `WorkflowRun` submits a workflow, `Executor` calls of
functions, as they come.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import psutil

from dataward.kernel.realtime import AsyncioKernel
from dataward.live.backlog import Backlog
from dataward.live.depot_disk import DepotDisk, Place
from dataward.live.live_runner import LiveRunner, RunnerSettings
from dataward.live.local_network import Wires
from dataward.live.runner_pool import RunnerPool
from dataward.model.events import Emit
from dataward.model.messages import WorkQueued
from dataward.model.operations import AttemptId, NodeId
from dataward.model.platform import Platform, uniform_platform
from dataward.model.seeds import seeded
from dataward.model.workflow import FileId, TaskId
from dataward.node.node import Node
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.stores.embedded import Done, EmbeddedSettings, EmbeddedStore, Work
from dataward.strategies.strategy import Strategy
from dataward.world import World

FOR_EVER_SECONDS = 1e9  # nodes of one process are lost together: no lease of theirs need expire
OUTCOME_SECONDS = 0.01  # a sync takes some 0.2 ms, and the threads that do it as much again
UNAWAITED_SECONDS = 0.03

LEAD_SECONDS = 0.08  # the node may be busy with other things for so long


@dataclass(frozen=True, slots=True)
class SessionPaths:
    depot: Path
    store: Path


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of this machine that is used."""

    nodes: int
    slots: int  # of each node

    def platform(self) -> Platform:
        return uniform_platform(self.nodes, cores=self.slots)


def runner_pools(machine: Slice, work: Path) -> dict[NodeId, RunnerPool]:
    """Every node's runner processes, which take a moment to start: launch them beforehand."""
    ids = [one.id for one in machine.platform().machines]
    return {id: RunnerPool(work / id, machine.slots) for id in ids}


@dataclass
class Session:
    """Start it inside ``kernel.run``; then tasks put into ``store`` are run."""

    kernel: AsyncioKernel
    paths: SessionPaths
    pools: Mapping[NodeId, RunnerPool]
    machine: Slice
    strategy: Strategy
    runner_settings: RunnerSettings
    incarnation: int  # never the same twice in one store or one list of events
    emit: Emit
    log_stem: Callable[[TaskId, AttemptId], str]
    unawaited_seconds: float = UNAWAITED_SECONDS  # 0 if others than tasks wait for outcomes

    def __post_init__(self) -> None:
        self.ids: tuple[NodeId, ...] = tuple(self.pools)
        self.settings = self._fitted(self.strategy.settings)
        self._sync_thread = ThreadPoolExecutor(1, "dataward-sync")
        self._hash_threads = ThreadPoolExecutor(4, "dataward-hash")
        self.backlog = Backlog()
        self.nodes: list[Node] = []

    def _fitted(self, settings: NodeSettings) -> NodeSettings:
        """Settings for nodes that share a process: no leases; alone, nobody to give to."""
        return replace(
            settings,
            lease_seconds=FOR_EVER_SECONDS,
            outcome_seconds=settings.outcome_seconds or OUTCOME_SECONDS,
            unawaited_seconds=self.unawaited_seconds,
            lead_seconds=settings.lead_seconds or LEAD_SECONDS,
            giving=settings.giving and self.machine.nodes > 1,
            backups_max=settings.backups_max if self.machine.nodes > 1 else 0,
        )

    async def start(
        self,
        outside: Mapping[FileId, Place],
        held: Mapping[NodeId, Mapping[FileId, Place]] = MappingProxyType({}),
    ) -> None:
        """Open the store and start the nodes. Raises what the store raises.

        ``outside`` tells where the files are that no node has made, ``held`` what nodes have.
        """
        self._loop = asyncio.get_running_loop()
        self.store = EmbeddedStore(
            self.paths.store,
            self.kernel.now,
            self.kernel,
            off_loop=self._off_loop,
            settings=EmbeddedSettings(shares_fate=True),
        )
        self.wires = Wires(self.kernel, self.emit, outside)
        self.nodes = [self._node(id, held.get(id, {})) for id in self.ids]
        for node in self.nodes:
            node.start()
        for pool in self.pools.values():
            await pool.connect()

    def client(self) -> StoreClient:
        return StoreClient(self.store, self.kernel, seeded("client"), self.settings)

    def wake(self, node: NodeId) -> None:
        self.wires.inboxes[node].put(WorkQueued())

    def drain(self) -> None:
        for node in self.nodes:
            node.drain()

    @property
    def is_idle(self) -> bool:
        return all(node.is_idle for node in self.nodes)

    def drop(self, file: FileId) -> None:
        """Remove a file from every depot."""
        for node in self.nodes:
            node.depot.drop(file)

    def spoil(self, file: FileId, at: DepotDisk) -> None:
        """Keep tasks from reading a file that one of them has written to.

        Where it ran, its runner process has removed it, and it may have been made again since.
        """
        for disk in self.wires.disks.values():
            if disk is not at:
                disk.spoil(file)

    def stop(self) -> None:
        """End everything that runs, at once."""
        for node in self.nodes:
            node.stop()
        for pool in self.pools.values():
            pool.close()

    def close(self) -> None:
        """After ``kernel.run``: wait for processes and threads, and let go of the store."""
        for pool in self.pools.values():
            pool.close()
            pool.wait()
        self._hash_threads.shutdown()
        self._sync_thread.shutdown()
        self.backlog.close()
        for node in self.nodes:
            self.wires.disks[node.world.node].sync_new()
        if hasattr(self, "store"):
            self.store.close()

    # --- parts -----------------------------------------------------------------------------------

    def _node(self, id: NodeId, held: Mapping[FileId, Place]) -> Node:
        disk = DepotDisk(self.paths.depot / id, held, self._hash_threads, self.backlog)
        world = World(
            node=id,
            nodes=self.ids,
            incarnation=self.incarnation,
            cores=self.machine.slots,
            memory_bytes=psutil.virtual_memory().total / self.machine.nodes,
            kernel=self.kernel,
            random=seeded(id, self.incarnation),
            store=self.store,
            network=self.wires.plug_in(id, disk),
            disk=disk,
            runner=self._runner(id, disk),
            emit=self.emit,
        )
        return Node(world, self.settings, self.strategy.home)

    def _runner(self, id: NodeId, disk: DepotDisk) -> LiveRunner:
        return LiveRunner(
            self.kernel, self.pools[id], disk, self.runner_settings, self.log_stem, self.spoil,
            self.drop,
        )  # fmt: skip

    def _off_loop(self, work: Work, done: Done) -> None:
        """Sync what tasks have written, then do the store's work; many tasks at a time."""
        disks = list(self.wires.disks.values()) if self.nodes else []

        def sync_and_work() -> BaseException | None:
            try:
                for disk in disks:
                    disk.sync_new()
                work()
            except BaseException as error:
                return error
            return None

        future = self._loop.run_in_executor(self._sync_thread, sync_and_work)
        future.add_done_callback(lambda over: None if over.cancelled() else done(over.result()))
