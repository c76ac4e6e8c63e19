"""Trials of the node: one seed draws a cluster, settings and faults, and invariants are checked."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dataward.model.events import Event
from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Placement, Platform, StoreModel
from dataward.model.seeds import seeded
from dataward.model.workflow import Workflow
from dataward.node.settings import NodeSettings
from dataward.plan.bounds import makespan_bounds
from dataward.sim.faults import FaultPlan, inject
from dataward.sim.invariants import Checker
from dataward.sim.simulation import Simulation, SimulationResult
from dataward.stores.shard import Shard
from dataward.strategies.strategy import Strategy

PATIENCE = 400.0  # a run counts as stuck when it lasts this many leases beyond its own length


@dataclass(frozen=True, slots=True)
class Trial:
    """One seed's run, with invariants checked throughout."""

    outcome: SimulationResult
    checks: int
    faults: int


def run_trial(
    workflow: Workflow,
    platform: Platform,
    strategy: Strategy,
    plan: FaultPlan,
    seed: int,
    *,
    make_shard: Callable[[int], Shard] = Shard,
    sinks: tuple[Callable[[Event], None], ...] = (),
) -> Trial:
    """The trial of one seed under a fault plan. Raises InvariantBroken or Stuck if it fails."""
    bounds = makespan_bounds(
        workflow,
        nodes=len(platform.machines),
        cores=max(machine.cores for machine in platform.machines),
        bandwidth_bytes_per_second=platform.machines[0].down_bytes_per_second,
    )
    horizon = 1.5 * bounds.best_seconds
    lease = strategy.settings.lease_seconds
    simulation = Simulation(
        workflow,
        platform,
        strategy,
        seed,
        make_shard=make_shard,
        time_limit_seconds=100 * horizon + PATIENCE * lease,
    )
    checker = checker_of(simulation)
    simulation.watch(checker.on_event, checker.on_applied)
    for sink in sinks:
        simulation.watch(sink)
    faults = inject(simulation, plan, horizon, checker)
    outcome = simulation.run()
    checker.at_end(outcome.complete, outcome.failed)
    return Trial(outcome, checker.checks, len(faults))


def checker_of(simulation: Simulation) -> Checker:
    """A checker for a simulation, to be passed to its `watch`."""
    platform = simulation.platform
    cores = {machine.id: machine.cores for machine in platform.machines}
    now = simulation.kernel.now
    return Checker(
        simulation.workflow, platform.store.shards, cores, now, simulation.unsafe_files_of
    )


def small_cluster(seed: int, nodes: int = 8) -> Platform:
    """A cluster whose sizes and speeds are all drawn from the seed, so that trials differ."""
    random = seeded(seed, "cluster")
    machines = tuple(
        Machine(
            NodeId(f"n{i}"),
            cores=random.choice((1, 2, 4)),
            speed=random.choice((0.5, 1.0, 1.0, 2.0)),
            # Some disks are too small for the larger tasks, but never all of them.
            capacity_bytes=1e12 if i % 3 == 0 else random.choice((4e9, 1e12)),
        )
        for i in range(nodes)
    )
    return Platform(
        machines,
        placement=random.choice((Placement.EDGE, Placement.SPREAD)),
        copies=random.choice((1, 2)),
        store=StoreModel(shards=random.choice((1, 3, 8))),
    )


def impatient(strategy: Strategy, seed: int) -> Strategy:
    """The same strategy with short leases, so that a short run sees many of them expire."""
    random = seeded(seed, "settings")
    lease = random.choice((10.0, 30.0, 125.0))
    settings: NodeSettings = replace(
        strategy.settings,
        lease_seconds=lease,
        validation_seconds=lease / 2,
        replication=strategy.settings.replication and random.random() < 0.8,
        staging_ahead=random.choice((0, 1, 4)),
        lead_seconds=random.choice((0.0, 0.0, 1000.0)),
        outcome_seconds=random.choice((0.0, 0.0, 0.01, 3.0)),
        unawaited_seconds=random.choice((0.0, 5.0)),
    )
    return replace(strategy, settings=settings)
