"""Simulates a workflow: what ``dataward simulate`` does, from Python."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from dataward.api.report import RunReport
from dataward.api.simulated_promise import SimulatedPromise
from dataward.errors import SettingError
from dataward.formats.read import read_workflow
from dataward.model.builder import WorkflowBuilder
from dataward.model.deadline import WantedDeadline, wanted_deadline
from dataward.model.events import Emit, Event
from dataward.model.platform import GBPS, Placement, Platform, uniform_platform
from dataward.model.quantities import parse_seconds
from dataward.model.remaining import before_the_run
from dataward.model.workflow import Workflow
from dataward.plan.bounds import makespan_bounds
from dataward.plan.end_forecast import forecast_end
from dataward.plan.estimates import EXACT, Estimates, as_estimated, parse_estimates
from dataward.plan.list_schedule import resources_of
from dataward.reports.known_tasks import find_task
from dataward.reports.progress import RunProgress
from dataward.reports.run_summary import RunTally
from dataward.runs.run_directory import ended_state
from dataward.sim.faults import inject, parse_faults
from dataward.sim.simulation import Removal, Simulation, moving_seconds
from dataward.strategies.choosing import chosen_strategy
from dataward.strategies.registry import DEFAULT, KEEPING, check_keeping
from dataward.strategies.strategy import Strategy

CORES_DEFAULT = 4  # ADAGE's nodes have four
PAID_DISK = 1e15  # bytes a second: a disk whose time is part of the run times
PATIENCE = 1000  # a run that takes this many times the lower bound is taken to be stuck


def simulate(
    workflow: Workflow | WorkflowBuilder | str | Path,
    *,
    nodes: int = 16,
    cores: int = 0,  # of each node; 0: four, or as many as a task needs
    platform: Platform | None = None,  # instead of equal nodes
    strategy: str | Strategy = DEFAULT,
    settings: Sequence[str] = (),  # of a node, as "name=value"
    seed: int = 0,
    faults: str = "none",
    retries: int = 0,
    estimates: str | float = "exact",  # or "unknown", or the sigma of a lognormal error, as 0.5
    removals: Sequence[str] = (),  # as "task@seconds"
    deadline: str | float | datetime | None = None,  # as text, or in seconds
    best_effort: bool = False,
) -> RunReport:
    """Run a workflow on simulated machines, and tell what it came to: same seed, same run.

    ``estimates`` says how well plan and nodes know run times, and the sizes of what tasks write,
    before the tasks have run. The bound that the report compares with is that of the true ones.
    ``removals`` are tasks that are removed while the workflow runs, with all that depend on them.
    With a ``deadline`` that cannot be promised, nothing is run, unless it is a ``best_effort``: a
    DeadlineRefusedError tells the earliest that could be.
    Raises Stuck if the simulation does not end, which is dataward's fault.

    >>> from dataward import generate
    >>> report = simulate(generate("montage", 50), nodes=4)
    >>> report.is_complete, report.summary.complete
    (True, 50)
    """
    if isinstance(workflow, WorkflowBuilder):
        workflow = workflow.build()
    if not isinstance(workflow, Workflow):
        workflow = read_workflow(Path(workflow))
    if platform is None:
        platform = equal_nodes(workflow, nodes, cores or cores_for(workflow))
    kept: list[Event] = []
    wanted = wanted_deadline(deadline, best_effort, datetime.now().astimezone())
    if wanted is not None and strategy == DEFAULT:
        strategy = KEEPING
    return simulated(
        workflow,
        platform,
        chosen_strategy(strategy, list(settings)),
        deadline=wanted,
        seed=seed,
        faults=faults,
        retries=retries,
        estimates=parse_estimates(str(estimates)),
        removals=parse_removals(removals, workflow),
        sinks=[kept.append],
        events=kept,
    )


def parse_removals(texts: Sequence[str], workflow: Workflow) -> list[Removal]:
    """The removals that texts such as ``mAdd_1@90s`` mean.

    Raises SettingError or UnknownTaskError.
    """
    removals = []
    for text in texts:
        name, _, when = text.rpartition("@")
        if not name:
            raise SettingError(f"{text!r} does not say when: write TASK@SECONDS, as mAdd_1@90s")
        task = workflow.task_ids[find_task(workflow, name)]
        removals.append(Removal(task, parse_seconds(when)))
    return removals


def cores_for(workflow: Workflow) -> int:
    """The cores that a node has if nothing is said: enough for every task."""
    return max(CORES_DEFAULT, int(workflow.cores.max()))


def equal_nodes(
    workflow: Workflow,
    nodes: int,
    cores: int,
    *,
    bandwidth: float = GBPS,
    inputs: Placement | None = None,
    copies: int = 1,
) -> Platform:
    """Equal nodes to simulate a workflow on, if no platform is given.

    Inputs are at an edge server if nothing is said, but a node alone has them itself. Measured run
    times include reading and writing disks, which is not charged a second time: a CyberShake with
    inputs of 400 MB a task was said to take 1.5 times as long as the run that was measured.
    """
    equal = uniform_platform(nodes, cores=cores, bandwidth=bandwidth)
    machines = equal.machines
    if workflow.is_measured:
        machines = tuple([replace(m, disk_bytes_per_second=PAID_DISK) for m in machines])
    if inputs is None:
        inputs = Placement.DEALT if nodes == 1 else Placement.EDGE
    return replace(equal, machines=machines, placement=inputs, copies=copies)


def lower_bound_seconds(workflow: Workflow, platform: Platform) -> float:
    """The makespan that no schedule can beat; every node is taken to be as good as the best."""
    machines = platform.machines
    edge = platform.placement is Placement.EDGE
    return makespan_bounds(
        workflow,
        nodes=len(machines),
        cores=max(m.cores for m in machines),
        bandwidth_bytes_per_second=max(m.down_bytes_per_second for m in machines),
        speed=max(m.speed for m in machines),
        edge_bandwidth_bytes_per_second=platform.origin_bytes_per_second if edge else None,
    ).best_seconds


def simulated(
    workflow: Workflow,
    platform: Platform,
    strategy: Strategy,
    *,
    seed: int,
    faults: str,
    retries: int,
    estimates: Estimates,
    removals: Sequence[Removal] = (),
    sinks: Sequence[Emit],
    events: Sequence[Event] = (),
    deadline: WantedDeadline | None = None,
) -> RunReport:
    """One simulated run; ``events`` are those that a sink has kept, for the report.

    Raises DeadlineRefusedError if the deadline cannot be promised.
    """
    promised = None
    if deadline is not None:
        check_keeping(strategy.name)
        promised = SimulatedPromise(deadline, estimates)
        strategy, sinks = replace(strategy, plan=promised.plan), [*sinks, promised.add]
    bound = lower_bound_seconds(workflow, platform)
    tally = RunTally(dict(zip(workflow.task_ids, workflow.cores.tolist(), strict=True)))
    progress = RunProgress(workflow, tally.book)
    simulation = Simulation(
        workflow,
        platform,
        strategy,
        seed,
        [progress.add, tally.add, *sinks],
        retries=retries,
        time_limit_seconds=PATIENCE * (bound + strategy.settings.lease_seconds)
        + 10 * moving_seconds(workflow, platform),
        estimates=estimates,
        removals=removals,
    )
    if promised is not None:
        promised.watch(simulation)
    inject(simulation, parse_faults(faults), 1.5 * bound)
    outcome = simulation.run()

    def all_events() -> Iterator[Event]:
        return iter(events)

    state = ended_state(outcome.failed, outcome.removed)
    forecast = None
    if estimates != EXACT:
        known = as_estimated(simulation.workflow, estimates, seed)
        forecast = forecast_end(known, before_the_run(known.workflow), resources_of(platform), seed)
    return RunReport(
        workflow, state, tally.summary(), bound, all_events, progress, forecast=forecast,
        answer=promised.answer if promised is not None else None,
    )  # fmt: skip
