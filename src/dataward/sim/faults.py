"""Faults in a simulated run: a plan says how many, a seed says which, where and when."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from enum import Enum
from math import inf
from random import Random

from dataward.errors import SettingError
from dataward.model.events import FaultInjected
from dataward.model.ids import NodeId
from dataward.model.seeds import seeded
from dataward.sim.invariants import Checker
from dataward.sim.simulation import Simulation


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How many faults of each kind there are.

    Shares are of the nodes: each node that is drawn has the fault once, at some time in the run.
    """

    crash: float = 0.0
    crash_seconds: float = 200.0  # mean time until the node is back
    gone: float = 0.0  # crash and never come back
    late: float = 0.0  # no members at first, and join later
    leave: float = 0.0  # leave on purpose; every other one comes back
    leave_seconds: float = 200.0  # mean time from there until it comes back
    slow: float = 0.0  # stragglers
    slow_factor: float = 5.0
    slow_seconds: float = 500.0
    background: float = 0.0  # mean share of every node's speed that other programs take
    background_seconds: float = 100.0  # mean time until that share changes
    background_steady: int = 0  # 1: it changes after exactly that time, on every node at once
    disk_full: float = 0.0
    disk_seconds: float = 200.0
    mute: float = 0.0  # up, but serves no files
    mute_seconds: float = 200.0
    partitions: int = 0
    partition_seconds: float = 60.0
    message_loss: float = 0.0
    message_duplication: float = 0.0
    message_delay_seconds: float = 0.0
    store_loss: float = 0.0  # calls that never arrive
    store_silence: float = 0.0  # calls that take effect, but are not answered
    forgetful: int = 0  # times a shard loses its last acknowledged writes
    forget_seconds: float = 2.0
    spoiled: int = 0  # times a file that a task wrote vanishes from a disk; the node is not told


PRESETS = {
    "none": FaultPlan(),
    "crashes": FaultPlan(crash=0.1),
    "stragglers": FaultPlan(slow=0.1),
    "chaos": FaultPlan(
        crash=0.15, gone=0.05, slow=0.1, disk_full=0.1, mute=0.1, partitions=2,
        message_loss=0.05, message_duplication=0.05, message_delay_seconds=0.5,
        store_loss=0.01, store_silence=0.01, forgetful=1, spoiled=2, late=0.1, leave=0.15,
    ),
}  # fmt: skip


def parse_faults(text: str) -> FaultPlan:
    """The plan that a text means: a preset, or none, then changes.

    For example ``crashes``, ``chaos,crash=0.3`` or ``slow=0.1,slow_factor=10``.
    """
    plan = PRESETS["none"]
    names = {field.name: field.type for field in fields(FaultPlan)}
    for word in filter(None, text.split(",")):
        name, given, value = word.partition("=")
        if not given and name in PRESETS:
            plan = PRESETS[name]
            continue
        if name not in names or not given:
            known = ", ".join([*PRESETS, *(f"{n}=..." for n in names)])
            raise SettingError(f"no fault is called {name!r}; there are {known}")
        try:
            number = int(value) if names[name] is int else float(value)
        except ValueError:
            raise SettingError(f"{word!r}: {name} takes a number, not {value!r}") from None
        if number < 0:
            raise SettingError(f"{word!r}: {name} cannot be negative")
        if not number < inf:
            raise SettingError(f"{word!r}: {name} takes a number, not {value!r}")
        plan = replace(plan, **{name: number})  # type: ignore[arg-type]
    return plan


class FaultKind(Enum):
    """What a fault does to its nodes or shards."""

    CRASH = "crash"
    GONE = "gone"  # a crash without a return
    LATE = "late"  # no member before the fault begins
    LEAVE = "leave"  # on purpose; the fault ends when the node comes back
    SLOW = "slow"
    DISK_FULL = "disk full"
    MUTE = "mute"
    PARTITION = "partition"
    FORGET = "forget"
    SPOIL = "spoil"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a run, from when to when, and where."""

    kind: FaultKind
    begin_seconds: float
    end_seconds: float = inf
    nodes: tuple[NodeId, ...] = ()
    shards: tuple[int, ...] = ()

    @property
    def over_seconds(self) -> float:
        """When nothing more will come of it; a fault for ever is over when it has begun."""
        return self.end_seconds if self.end_seconds < inf else self.begin_seconds

    @property
    def where(self) -> tuple[str, ...]:
        """The nodes and shards that have the fault, under the names `Interference` uses."""
        return (*self.nodes, *(f"store-{shard}" for shard in self.shards))


def draw_faults(
    plan: FaultPlan, nodes: Sequence[NodeId], shards: int, horizon_seconds: float, random: Random
) -> list[Fault]:
    """The faults of a run, by time. At least one node is never gone for good."""
    faults: list[Fault] = []
    gone = _choose(plan.gone, nodes[1:], random)
    for kind, share, seconds in (
        (FaultKind.CRASH, plan.crash, plan.crash_seconds),
        (FaultKind.SLOW, plan.slow, plan.slow_seconds),
        (FaultKind.DISK_FULL, plan.disk_full, plan.disk_seconds),
        (FaultKind.MUTE, plan.mute, plan.mute_seconds),
    ):
        for node in _choose(share, [n for n in nodes if n not in gone], random):
            begin = random.random() * horizon_seconds
            end = begin + seconds * (0.5 + random.random())
            faults.append(Fault(kind, begin, end, nodes=(node,)))
    for node in gone:
        faults.append(Fault(FaultKind.GONE, random.random() * horizon_seconds, nodes=(node,)))
    for _ in range(plan.partitions):
        cut_nodes = tuple(node for node in nodes if random.random() < 0.5)
        cut_shards = tuple(shard for shard in range(shards) if random.random() < 0.5)
        begin = random.random() * horizon_seconds
        end = begin + plan.partition_seconds * (0.5 + random.random())
        faults.append(Fault(FaultKind.PARTITION, begin, end, cut_nodes, cut_shards))
    for _ in range(plan.forgetful):
        begin = random.random() * horizon_seconds
        shard = random.randrange(shards)
        end = begin + plan.forget_seconds * random.random()
        faults.append(Fault(FaultKind.FORGET, begin, end, shards=(shard,)))
    for _ in range(plan.spoiled):
        begin = random.random() * horizon_seconds
        faults.append(Fault(FaultKind.SPOIL, begin, nodes=(random.choice(nodes),)))
    # What comes and goes is drawn last, so that other faults of a seed stay as they were.
    for node in _choose(plan.late, nodes[1:], random):
        faults.append(Fault(FaultKind.LATE, random.random() * horizon_seconds, nodes=(node,)))
    for node in _choose(plan.leave, nodes[1:], random):
        begin = random.random() * horizon_seconds
        away = plan.leave_seconds * (0.5 + random.random())
        end = begin + away if random.random() < 0.5 else inf
        faults.append(Fault(FaultKind.LEAVE, begin, end, nodes=(node,)))
    return sorted(faults, key=lambda fault: (fault.begin_seconds, fault.kind.value, fault.where))


def _choose(share: float, nodes: Sequence[NodeId], random: Random) -> list[NodeId]:
    if not share or not nodes:
        return []
    count = min(max(round(share * len(nodes)), 1), len(nodes))
    return sorted(random.sample(nodes, count))


def inject(
    simulation: Simulation, plan: FaultPlan, horizon_seconds: float, checker: Checker | None = None
) -> list[Fault]:
    """The faults drawn for a simulation that has not run yet, arranged to happen in it."""
    trouble = simulation.interference
    trouble.message_loss = plan.message_loss
    trouble.message_duplication = plan.message_duplication
    trouble.message_delay_seconds = plan.message_delay_seconds
    trouble.store_loss = plan.store_loss
    trouble.store_silence = plan.store_silence
    random = seeded(simulation.seed, "faults")
    shards = simulation.platform.store.shards
    faults = draw_faults(plan, simulation.nodes, shards, horizon_seconds, random)
    if plan.late or plan.leave:
        simulation.census.vary()
    for fault in faults:
        if fault.kind is FaultKind.LATE:
            simulation.hold_back(fault.nodes[0])
    injector = _Injector(simulation, plan, checker)
    if plan.background:
        for node in simulation.nodes:
            injector.change_background(node, seeded(simulation.seed, "background", node))
    for fault in faults:
        simulation.kernel.call_at(fault.begin_seconds, injector.begin, fault)
        if fault.end_seconds < inf:
            simulation.kernel.call_at(fault.end_seconds, injector.end, fault)
    return faults


class _Injector:
    def __init__(self, simulation: Simulation, plan: FaultPlan, checker: Checker | None) -> None:
        self.simulation = simulation
        self.plan = plan
        self.checker = checker
        self._random = seeded(simulation.seed, "spoiled")
        self._snapshots: dict[Fault, Callable[[], None]] = {}
        self._straggling: dict[NodeId, float] = {}
        self._background: dict[NodeId, float] = {}
        self._crashed: set[NodeId] = set()

    def begin(self, fault: Fault) -> None:
        simulation = self.simulation
        now = simulation.kernel.now()
        simulation.emit(FaultInjected(now, fault.kind.value, " ".join(fault.where)))
        if fault.kind is FaultKind.PARTITION:
            self._cut(fault)
        elif fault.kind is FaultKind.FORGET:
            self._remember(fault)
        else:
            self._strike(fault.kind, fault.nodes[0])

    def _strike(self, kind: FaultKind, node: NodeId) -> None:
        machine = self.simulation.machines[node]
        if kind in (FaultKind.CRASH, FaultKind.GONE):
            if machine.up:
                self.simulation.crash(node)
                self._crashed.add(node)
        elif kind is FaultKind.LATE:
            if node not in self._crashed and not machine.up:
                self.simulation.boot(node)
        elif kind is FaultKind.LEAVE:
            self.simulation.leave(node)
        elif kind is FaultKind.SLOW:
            self._slow(node, self.plan.slow_factor)
        elif kind is FaultKind.DISK_FULL:
            machine.fill_up()
        elif kind is FaultKind.MUTE:
            machine.serves = False
        elif kind is FaultKind.SPOIL:
            machine.spoil(self._random)

    def _cut(self, fault: Fault) -> None:
        self.simulation.interference.cuts.append(frozenset(fault.where))
        for node in fault.nodes:
            self.simulation.fabric.cut(node, lambda other: other not in fault.nodes)

    def end(self, fault: Fault) -> None:
        if fault.kind is FaultKind.PARTITION:
            self.simulation.interference.cuts.remove(frozenset(fault.where))
        elif fault.kind is FaultKind.FORGET:
            self._snapshots.pop(fault)()
        else:
            self._relieve(fault.kind, fault.nodes[0])

    def _relieve(self, kind: FaultKind, node: NodeId) -> None:
        machine = self.simulation.machines[node]
        if kind is FaultKind.CRASH:
            if node in self._crashed and not machine.up:
                self.simulation.boot(node)
        elif kind is FaultKind.LEAVE:
            self._come_back(node)
        elif kind is FaultKind.SLOW:
            self._slow(node, 1.0)
        elif kind is FaultKind.DISK_FULL:
            machine.empty_out()
        elif kind is FaultKind.MUTE:
            machine.serves = True

    def _come_back(self, node: NodeId) -> None:
        """Boot a node that has left; if it is still about to, then as soon as it has."""
        simulation, kernel = self.simulation, self.simulation.kernel
        if node in simulation.census:
            return  # it never left: it was down, or has come back after a crash
        if simulation.machines[node].up:
            kernel.call_at(kernel.now() + 1.0, self._come_back, node)
        else:
            simulation.boot(node)

    def change_background(self, node: NodeId, random: Random) -> None:
        """Draw the load of other programs on a node now, and again and again later."""
        share = min(2 * self.plan.background * random.random(), 0.95)
        self._background[node] = 1 / (1 - share)
        self._set_speed(node)
        pause = self.plan.background_seconds
        if not self.plan.background_steady:
            pause = random.expovariate(1 / pause)
        kernel = self.simulation.kernel
        kernel.call_at(kernel.now() + pause, self.change_background, node, random)

    def _set_speed(self, node: NodeId) -> None:
        slowdown = self._straggling.get(node, 1.0) * self._background.get(node, 1.0)
        self.simulation.machines[node].change_speed(slowdown)

    def _slow(self, node: NodeId, factor: float) -> None:
        machine = self.simulation.machines[node]
        self._straggling[node] = factor
        self._set_speed(node)
        self.simulation.fabric.slow_down(machine.spec, 1 / factor)

    def _remember(self, fault: Fault) -> None:
        """Copy a shard now; when the fault ends, the copy replaces it: later writes are lost."""
        index = fault.shards[0]
        copy = deepcopy(self.simulation.store.shards[index])
        books = self.checker.snapshot(index) if self.checker else None

        def forget() -> None:
            self.simulation.forget_writes(index, copy)
            if self.checker is not None and books is not None:
                self.checker.restore(index, books)

        self._snapshots[fault] = forget
