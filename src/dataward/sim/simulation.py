"""A whole simulated run: machines, links, store, nodes, and a workflow submitted to them."""

import gc
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dataward.errors import OwnFaultError
from dataward.kernel.virtual import VirtualKernel
from dataward.model.events import (
    Emit,
    Event,
    FileStored,
    NodeFacts,
    NodeLost,
    RunEnded,
    RunStarted,
)
from dataward.model.ids import CLIENT, NodeId
from dataward.model.messages import Message
from dataward.model.platform import Placement, Platform
from dataward.model.replay import as_replayed
from dataward.model.seeds import seeded
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.node.client import Client, files_ahead, promises_to_keep, task_specs
from dataward.node.homes import Homes
from dataward.node.node import Node
from dataward.node.store_client import StoreClient
from dataward.plan.adage import Plan
from dataward.plan.estimates import EXACT, Estimates, as_estimated
from dataward.sim.census import Census
from dataward.sim.earlier_run import EarlierRun
from dataward.sim.fabric import Fabric
from dataward.sim.fairshare import FairShare
from dataward.sim.interference import Interference
from dataward.sim.network_flows import FlowNetwork
from dataward.sim.node_kernel import NodeKernel
from dataward.sim.parts import SimDisk, SimNetwork, SimRunner, Traffic
from dataward.sim.sim_machine import SimMachine
from dataward.sim.store_service import OnApplied, StoreOf, StoreService
from dataward.sim.truth import truth_of
from dataward.stores.shard import Shard
from dataward.strategies.strategy import Strategy
from dataward.world import World


class Stuck(OwnFaultError):  # noqa: N818 - a finding, not an error of the simulation
    """A simulated run did not end."""

    def __init__(self, seed: int, seconds: float, ended: int, tasks: int) -> None:
        self.seconds = seconds
        super().__init__(
            f"seed {seed}: after {seconds:g} simulated seconds only {ended} of {tasks} tasks "
            "are finished"
        )


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a simulated run; the rest is in its events."""

    makespan_seconds: float
    complete: int
    failed: int
    messages: int
    store_calls: int
    removed: int = 0


def moving_seconds(workflow: Workflow, platform: Platform) -> float:
    """How long it takes to move the inputs of all tasks one by one over the slowest link.

    A lower bound on the makespan leaves out files between tasks. So for a time after which a run
    counts as stuck, the time for these has to be added.
    """
    rates = [min(m.down_bytes_per_second, m.up_bytes_per_second) for m in platform.machines]
    return float(workflow.input_bytes().sum()) / min(*rates, platform.site_bytes_per_second)


class Removal(NamedTuple):
    """A task that is removed so long after the run began, with all that depend on it."""

    task: TaskId
    at_seconds: float


@dataclass
class Simulation:
    """Create it, perhaps add observers with `watch` or faults with `inject`, then `run` it once."""

    workflow: Workflow
    platform: Platform
    strategy: Strategy
    seed: int = 0
    sinks: Sequence[Emit] = ()
    make_shard: Callable[[int], Shard] = Shard
    retries: int = 0
    task_failures: dict[str, int] = field(default_factory=dict)
    time_limit_seconds: float = float("inf")
    repairs_per_flow_max: float = 1.0
    earlier: EarlierRun = field(default_factory=EarlierRun)
    script: Interference | None = None  # decides about messages and calls instead of the seed
    estimates: Estimates = EXACT  # how well plan and nodes know the workflow
    removals: Sequence[Removal] = ()

    def __post_init__(self) -> None:
        self.workflow = as_replayed(self.workflow)
        self._truth = truth_of(self.workflow)
        self._estimated = as_estimated(self.workflow, self.estimates, self.seed)
        self.kernel = VirtualKernel()
        self.interference = self.script or Interference(seeded(self.seed, "interference"))
        self.store = StoreService(
            self.kernel, self.platform.store, self.interference, self.make_shard
        )
        self.store.after_call.append(self._count_ends)
        flows = FlowNetwork(FairShare(repairs_per_flow_max=self.repairs_per_flow_max))
        self.fabric = Fabric(self.kernel, self.platform, flows)
        self.machines = {
            machine.id: SimMachine(machine, self.kernel, self.kernel.flag())
            for machine in self.platform.machines
        }
        for simulated in self.machines.values():
            simulated.stored.earlier.update(self.earlier.left)
        self.nodes: tuple[NodeId, ...] = tuple(self.machines)
        self.census = Census(self.nodes, self.kernel, seeded(self.seed, "news"))
        inboxes: dict[NodeId, Any] = {node: self.kernel.queue() for node in self.nodes}
        self.traffic = Traffic(self.fabric, self.interference, self.machines, inboxes, self.emit)
        self._sinks = list(self.sinks)
        self._finished = self.kernel.flag()
        self._submitted = self.kernel.flag()
        self._submitter: Client | None = None  # once all tasks are submitted
        self._rest: Callable[[], Awaitable[None]] | None = None
        self._makespan_seconds = 0.0
        self._ends = [0] * self.platform.store.shards  # finished tasks, by shard

    def watch(self, on_event: Emit, on_applied: OnApplied | None = None) -> None:
        """Call ``on_event`` with every event, and ``on_applied`` with every store operation."""
        self._sinks.append(on_event)
        if on_applied is not None:
            self.store.on_applied.append(on_applied)

    def afterwards(self, rest: Callable[[], Awaitable[None]]) -> None:
        """Let the nodes go on after the last task has finished, for as long as ``rest`` takes."""
        self._rest = rest

    @property
    def is_finished(self) -> bool:
        """Whether every task has its outcome; a shard that forgets may take that back."""
        return self.store.ended == len(self.workflow)

    def emit(self, event: Event) -> None:
        for sink in self._sinks:
            sink(event)

    # --- running ---------------------------------------------------------------------------------

    def run(self) -> SimulationResult:
        """The result, once every task is finished. Raises Stuck if that never happens."""
        # A run makes millions of objects that stay to its end, and hardly any cycles. Looking for
        # cycles among them took a quarter of the time of a run of 100,000 tasks, and grew.
        collecting = gc.isenabled()
        gc.disable()
        try:
            outcome: SimulationResult = self.kernel.run(self._main())
        finally:
            if collecting:
                gc.enable()
        return outcome

    async def _main(self) -> SimulationResult:
        facts = tuple(NodeFacts(m.id, m.cores, m.speed, m.site) for m in self.platform.machines)
        self.emit(
            RunStarted(
                0.0, self.workflow.name, len(self.workflow), self.strategy.name, self.seed, facts
            )
        )
        nodes = self.census.present
        placed = self._place_inputs(nodes)
        located = self._located(placed, nodes)
        known = self._estimated.for_planning()
        machines = tuple(self.machines[node].spec for node in nodes)
        platform = replace(self.platform, machines=machines)
        plan = self.strategy.plan(known, platform, located, self.seed)
        for node in nodes:
            if self.machines[node].node is None:  # one that comes at once is there already
                self.boot(node)
        for removal in self.removals:
            self.kernel.call_at(removal.at_seconds, self.remove, removal.task)
        client = self._client(plan, placed, nodes)
        for node, message in files_ahead(self.workflow, plan, nodes).items():
            self.send(node, message)
        for node, promises in promises_to_keep(self.workflow, plan, nodes).items():
            self.send(node, promises)
        await client.submit()
        pause = self.strategy.settings.validation_seconds
        self.kernel.spawn(client.watch(pause), "client")
        self._submitter = client
        self._submitted.set()
        limit = None if self.time_limit_seconds == float("inf") else self.time_limit_seconds
        if not await self._finished.wait(limit):
            raise Stuck(self.seed, self.kernel.now(), self.store.ended, len(self.workflow))
        # The store knows of the last end before the node: wait for the last answers and events.
        await self.kernel.sleep(10 * self.platform.store.latency_seconds)
        outcome = SimulationResult(
            self._makespan_seconds,
            self.store.complete,
            self.store.failed,
            self.traffic.messages,
            self.store.calls,
            self.store.removed,
        )
        self.emit(
            RunEnded(
                outcome.makespan_seconds,
                outcome.complete,
                outcome.failed,
                outcome.messages,
                outcome.store_calls,
                outcome.removed,
            )
        )
        if self._rest is not None:
            await self._rest()
        return outcome

    def _client(
        self, plan: Plan, placed: dict[FileId, list[NodeId]], nodes: Sequence[NodeId]
    ) -> Client:
        settings = self.strategy.settings
        specs = task_specs(
            self._estimated,
            plan,
            nodes,
            backups_max=settings.backups_max,
            retries=self.retries,
            earlier=self.earlier.outcomes,
        )
        store = StoreOf(self.store, CLIENT)
        client = StoreClient(store, self.kernel, seeded(self.seed, CLIENT), settings)
        random = seeded(self.seed, CLIENT, "homes")
        homes = Homes(CLIENT, self.census.view_of(CLIENT), random, client, self.strategy.home)
        return Client(client, homes, list(specs), placed, self.send, self.kernel, self.emit)

    def send(self, node: NodeId, message: Message) -> None:
        """Send a message from the client to a node."""
        self.traffic.messages += 1
        for delay in self.interference.delivery_delays(CLIENT, node):
            at = self.kernel.now() + self.platform.latency_seconds + delay
            self.kernel.call_at(at, self.traffic.deliver, node, message)

    def remove(self, task: TaskId) -> None:
        """Remove a task now, with all that depend on it; at the earliest when all are submitted."""
        self.kernel.spawn(self._remove(task), f"remove {task}")

    async def _remove(self, task: TaskId) -> None:
        await self._submitted.wait()
        assert self._submitter is not None
        await self._submitter.remove([task])

    def _count_ends(self, index: int) -> None:
        """Notice, after a shard's part of a call, that the last task has ended."""
        ends = self.store.shards[index].ended
        if ends != self._ends[index]:
            self._ends[index] = ends
            if sum(self._ends) == len(self.workflow):
                self._makespan_seconds = self.kernel.now()
                self._finished.set()

    # --- machines --------------------------------------------------------------------------------

    def hold_back(self, id: NodeId) -> None:
        """Let a machine be off when the run begins, and its node no member, until it is booted."""
        self.census.hold_back(id)
        self.machines[id].up = False

    def boot(self, id: NodeId) -> None:
        """Power a machine on: a new incarnation of its node, with the files its disk still has."""
        machine = self.machines[id]
        machine.incarnation += 1
        self.census.come(id)
        machine.boot(Node(self._world(machine), self.strategy))

    def crash(self, id: NodeId) -> None:
        machine = self.machines[id]
        machine.crash()
        self.fabric.cut(id)
        self.traffic.inboxes[id].take_all()
        self.emit(NodeLost(self.kernel.now(), id))

    def leave(self, id: NodeId) -> None:
        """Have a node leave on purpose: all hear of it, and once it has left its machine is off."""
        node = self.machines[id].node
        if node is not None and id in self.census:
            self.census.go(id)
            NodeKernel(self.kernel, self.machines[id]).spawn(self._leave(id, node), f"{id} leaves")

    async def _leave(self, id: NodeId, node: Node) -> None:
        await node.leave()
        self.kernel.call_at(self.kernel.now(), self._switch_off, id, node)

    def _switch_off(self, id: NodeId, node: Node) -> None:
        if self.machines[id].node is node:  # else it has crashed at this very moment
            self.machines[id].crash()
            self.fabric.cut(id)
            self.traffic.inboxes[id].take_all()

    def forget_writes(self, index: int, earlier: Shard) -> None:
        """Replace a shard by an earlier copy: a failover that lost acknowledged writes."""
        present = self.store.shards[index]
        earlier.epoch = present.epoch + 1
        self._ends[index] = earlier.ended
        self.store.shards[index] = earlier

    def unsafe_files_of(self, node: NodeId) -> Collection[FileId]:
        """The files on a node's disk that would not survive a power cut."""
        return self.machines[node].stored.unsafe

    def _world(self, machine: SimMachine) -> World:
        id = machine.spec.id
        return World(
            node=id,
            nodes=self.census.view_of(id),
            incarnation=machine.incarnation,
            cores=machine.spec.cores,
            memory_bytes=machine.spec.memory_bytes,
            kernel=NodeKernel(self.kernel, machine),
            random=seeded(self.seed, id, machine.incarnation),
            store=StoreOf(self.store, id),
            network=SimNetwork(self.traffic, machine, self.traffic.inboxes[id]),
            disk=SimDisk(machine, self.fabric, self._truth),
            runner=SimRunner(machine, self.task_failures, self._truth),
            emit=self.emit,
            speed=machine.spec.speed,
        )

    # --- inputs ----------------------------------------------------------------------------------

    def _place_inputs(self, nodes: Sequence[NodeId]) -> dict[FileId, list[NodeId]]:
        """The nodes that are given a copy of each input; empty if only the origin has inputs."""
        if self.platform.placement is Placement.EDGE:
            return {}
        random = seeded(self.seed, "placement")
        copies = min(self.platform.copies, len(nodes))
        files = self._input_files()
        if self.platform.placement is Placement.DEALT:
            random.shuffle(files)
        placed: dict[FileId, list[NodeId]] = {}
        for turn, file in enumerate(files):
            id, size_bytes = self.workflow.file_ids[file], int(self.workflow.size_bytes[file])
            if self.platform.placement is Placement.DEALT:
                seats = range(turn * copies, (turn + 1) * copies)
                placed[id] = [nodes[seat % len(nodes)] for seat in seats]
            else:
                placed[id] = random.sample(nodes, copies)
            for node in placed[id]:
                self.machines[node].stored.put(id, size_bytes, id, written=False)
                self.emit(FileStored(0.0, id, node, size_bytes))
        return placed

    def _input_files(self) -> list[int]:
        made = self.workflow.producers.degrees()
        return [file for file in range(len(self.workflow.file_ids)) if not made[file]]

    def _located(
        self, placed: dict[FileId, list[NodeId]], nodes: Sequence[NodeId]
    ) -> dict[int, Sequence[int]]:
        if not placed:
            return {}
        number = {node: i for i, node in enumerate(nodes)}
        index = {file: i for i, file in enumerate(self.workflow.file_ids)}
        return {index[file]: [number[n] for n in places] for file, places in placed.items()}
