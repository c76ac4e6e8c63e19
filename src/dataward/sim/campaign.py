"""Trials of the node: one seed draws a cluster, settings and faults, and invariants are checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dataward.model.events import Event
from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Placement, Platform, StoreModel
from dataward.model.seeds import seeded
from dataward.model.workflow import Workflow
from dataward.node.data_pulling import CachedPulling, SuitedPulling
from dataward.node.flexible import FlexibleStealing
from dataward.node.giving import Giving
from dataward.node.mover import Mover
from dataward.node.neighbourhood import Neighbourhood
from dataward.node.probing import Probing
from dataward.node.replicating import Replicating
from dataward.node.settings import NodeSettings
from dataward.node.stealing import Stealing
from dataward.node.switching import SwitchingStealing
from dataward.node.weights import Metric
from dataward.plan.bounds import makespan_bounds
from dataward.plan.estimates import EXACT, UNKNOWN, Estimates
from dataward.sim.earlier_run import EarlierRun
from dataward.sim.faults import FaultPlan, inject
from dataward.sim.healing import (
    Healing,
    HealingTally,
    commits_unsaid,
    copies_astray,
    loose_ends,
)
from dataward.sim.healing_bounds import HealedRun, check_healing
from dataward.sim.invariants import Checker, InvariantBroken
from dataward.sim.simulation import Removal, Simulation, SimulationResult, moving_seconds
from dataward.stores.shard import Shard
from dataward.strategies.strategy import Strategy

PATIENCE = 400.0  # a run counts as stuck when it lasts this many leases beyond its own length
REST = 60.0  # leases that nodes and patrols have to clear up after the last task
NO_EARLIER_RUN = EarlierRun()


@dataclass(frozen=True, slots=True)
class Trial:
    """One seed's run, with invariants checked throughout."""

    outcome: SimulationResult
    checks: int
    faults: int
    healing: Healing


def run_trial(
    workflow: Workflow,
    platform: Platform,
    strategy: Strategy,
    plan: FaultPlan,
    seed: int,
    *,
    make_shard: Callable[[int], Shard] = Shard,
    sinks: tuple[Callable[[Event], None], ...] = (),
    earlier: EarlierRun = NO_EARLIER_RUN,
    estimates: Estimates = EXACT,
    removals: Sequence[Removal] = (),
) -> Trial:
    """The trial of one seed under a fault plan; it goes on until the nodes have nothing left to do.

    Raises InvariantBroken or Stuck if it fails: also if a node or a shard keeps something after
    the last task, or if more had to be healed than the faults explain.
    """
    horizon = _horizon_seconds(workflow, platform)
    lease = strategy.settings.lease_seconds
    simulation = Simulation(
        workflow,
        platform,
        strategy,
        seed,
        make_shard=make_shard,
        earlier=earlier,
        estimates=estimates,
        removals=removals,
        time_limit_seconds=100 * horizon
        + PATIENCE * lease
        + 10 * moving_seconds(workflow, platform),
        repairs_per_flow_max=seeded(seed, "fair share").choice((0.0, 1.0)),
    )
    checker = checker_of(simulation)
    for sink in sinks:
        simulation.watch(sink)
    faults = inject(simulation, plan, horizon, checker)
    over_seconds = max((fault.over_seconds for fault in faults), default=0.0)
    outcome, healing = run_checked(simulation, checker, lambda: over_seconds)
    return Trial(outcome, checker.checks, len(faults), healing)


def _horizon_seconds(workflow: Workflow, platform: Platform) -> float:
    """The time within which faults strike: most runs are about that long."""
    bounds = makespan_bounds(
        workflow,
        nodes=len(platform.machines),
        cores=max(machine.cores for machine in platform.machines),
        bandwidth_bytes_per_second=platform.machines[0].down_bytes_per_second,
    )
    return 1.5 * bounds.best_seconds


def run_checked(
    simulation: Simulation, checker: Checker, over_seconds: Callable[[], float]
) -> tuple[SimulationResult, Healing]:
    """The result of a simulation, and what it healed, once its nodes have nothing left to do.

    ``over_seconds`` is when the faults known so far are over. Raises as `run_trial` does.
    """
    simulation.watch(checker.on_event, checker.on_applied)
    tally = HealingTally(simulation)
    simulation.watch(tally.on_event, tally.on_applied)
    simulation.afterwards(lambda: _come_to_rest(simulation, checker, over_seconds))
    outcome = simulation.run()
    # Not the outcome's counts: a shard may have forgotten the last end as soon as it came.
    store = simulation.store
    checker.at_end(store.complete, store.failed, store.removed)
    _check_at_rest(simulation, tally)
    return outcome, tally.healing


async def _come_to_rest(
    simulation: Simulation, checker: Checker, over_seconds: Callable[[], float]
) -> None:
    """Wait until all faults are over and nobody keeps what only a task under way would need.

    Raises InvariantBroken if that never comes: patrols had time enough.
    """
    settings, now = simulation.strategy.settings, simulation.kernel.now
    ended_seconds = now()
    # A replica that was not told to stop runs to its end, on the slowest machine at worst.
    slowest = min(machine.speed for machine in simulation.platform.machines)
    longest_seconds = float(simulation.workflow.runtime_seconds.max()) / slowest
    patience_seconds = longest_seconds + REST * settings.lease_seconds
    while True:
        if now() >= over_seconds():
            left = loose_ends(simulation)
            if unsaid := commits_unsaid(simulation, checker.forgotten):
                left["commits forgotten and not said again"] = len(unsaid)
            if not left and simulation.is_finished:
                return
            if now() > max(ended_seconds, over_seconds()) + patience_seconds:
                kept = ", ".join(f"{count} {what}" for what, count in left.items())
                raise InvariantBroken(f"seed {simulation.seed} left behind: {kept or 'tasks'}")
        await simulation.kernel.sleep(settings.validation_seconds)


def _check_at_rest(simulation: Simulation, tally: HealingTally) -> None:
    trouble = tally.trouble
    run = HealedRun(
        tally.healing,
        trouble,
        len(simulation.workflow),
        len(simulation.nodes),
        simulation.strategy.settings.validation_seconds,
        isinstance(simulation.strategy.mover, Probing),
    )
    check_healing(run, simulation.seed)
    # Reports of copies that a store forgot, or of files that went behind a node's back, nobody
    # repeats: a node that does not find a file asks elsewhere.
    if not (trouble.forgets or trouble.spoils or trouble.failed_calls):
        astray = copies_astray(simulation, tally.reopened)
        if astray:
            raise InvariantBroken(
                f"seed {simulation.seed}: store and disks disagree about {', '.join(astray[:3])}"
                f" and {len(astray)} copies in all"
            )


def checker_of(simulation: Simulation) -> Checker:
    """A checker for a simulation, to be passed to its `watch`."""
    platform = simulation.platform
    cores = {machine.id: machine.cores for machine in platform.machines}
    now = simulation.kernel.now
    return Checker(
        simulation.workflow,
        platform.store.shards,
        cores,
        now,
        simulation.unsafe_files_of,
        simulation.earlier.stale,
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


def drawn_estimates(seed: int) -> Estimates:
    """How well run times and sizes are known in the trial of this seed: of half of them, exactly.

    The others know nothing, or are wrong by factors of up to 2, 10 and more than 100.
    """
    random = seeded(seed, "how good estimates are")
    wrong = (UNKNOWN, Estimates(0.3), Estimates(1.0), Estimates(3.0))
    return random.choice((EXACT,) * len(wrong) + wrong)


def drawn_removals(workflow: Workflow, platform: Platform, seed: int) -> list[Removal]:
    """The tasks that are removed in the trial of this seed, and when; in three of four, none."""
    random = seeded(seed, "removals")
    if random.random() >= 0.25:
        return []
    horizon = _horizon_seconds(workflow, platform)
    return [
        Removal(random.choice(workflow.task_ids), horizon * random.random())
        for _ in range(random.choice((1, 1, 3)))
    ]


def impatient(strategy: Strategy, seed: int) -> Strategy:
    """The same strategy with short leases, so that a short run sees many of them expire.

    What is drawn is drawn in an order that never changes: seeds that once failed stay the same.
    """
    random = seeded(seed, "settings")
    lease = random.choice((10.0, 30.0, 125.0))
    rare = seeded(seed, "rare settings")
    claim_max, patrol_limit = rare.choice((1, 2, 1024)), rare.choice((1, 2048))
    transfers_max = rare.choice((1, 8))
    neighbourhood, neighbours = rare.choice(tuple(Neighbourhood)), rare.choice((0, 7))
    past_entries_max = rare.choice((0, 1000))
    mover = strategy.mover
    if isinstance(mover, Giving):
        replication = mover.replication and random.random() < 0.8
        mover = replace(
            mover, neighbourhood=neighbourhood, neighbours=neighbours, replication=replication
        )
    settings: NodeSettings = replace(
        strategy.settings,
        claim_max=claim_max,
        patrol_limit=patrol_limit,
        transfers_max=transfers_max,
        past_entries_max=past_entries_max,
        lease_seconds=lease,
        validation_seconds=lease / 2,
        staging_ahead=random.choice((0, 1, 4)),
        lead_seconds=random.choice((0.0, 0.0, 1000.0)),
        outcome_seconds=random.choice((0.0, 0.0, 0.01, 3.0)),
        unawaited_seconds=random.choice((0.0, 5.0)),
    )
    if isinstance(mover, Replicating):
        settings = replace(settings, backups_max=seeded(seed, "replicas").choice((1, 2, 100)))
    return replace(strategy, settings=settings, mover=_varied(mover, seed))


def _varied(mover: Mover, seed: int) -> Mover:
    """The mover with some of its own settings drawn."""
    random = seeded(seed, "mover")
    if isinstance(mover, SuitedPulling):
        return replace(mover, metric=random.choice(tuple(Metric)), choose=random.choice((1, 2)))
    if isinstance(mover, CachedPulling):
        return replace(mover, window=random.choice((1, 10, 3200)))
    if isinstance(mover, Replicating):
        return replace(mover, idle_seconds=random.choice((0.0, 0.25)))
    if isinstance(mover, Probing):
        return replace(mover, probe_ratio=random.choice((0.5, 1.05, 2.0)))
    return _with_short_polls(mover, seed)


def _with_short_polls(mover: Mover, seed: int) -> Mover:
    """The mover, if it steals, such that thieves stop and go on and share within minutes."""
    random = seeded(seed, "stealing")
    if isinstance(mover, Stealing):
        mover = replace(mover, poll_seconds_max=random.choice((5.0, 50.0)))
    if isinstance(mover, FlexibleStealing):
        mover = replace(mover, tt_seconds=random.choice((0.01, 1.0, 10.0)))
    if isinstance(mover, SwitchingStealing):
        mover = replace(mover, switch_tasks=random.choice((1, 16)))
    return mover
