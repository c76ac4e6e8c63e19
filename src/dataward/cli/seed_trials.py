"""Tries seeds on all cores: each draws a workflow, a cluster, estimates and faults."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context

from dataward.api.all_cores import cores_here, deaf_to_ctrl_c
from dataward.cli.seed_workflows import Workflows
from dataward.generate import generate
from dataward.model.workflow import Workflow
from dataward.sim.campaign import (
    drawn_estimates,
    drawn_removals,
    impatient,
    run_trial,
    small_cluster,
)
from dataward.sim.earlier_run import EarlierRun, drawn_earlier_run
from dataward.sim.faults import parse_faults
from dataward.sim.healing import Healing
from dataward.sim.odd_workflows import odd_workflow
from dataward.sim.simulation import Removal
from dataward.strategies.registry import strategy_named

SHAPES = (
    ("montage", 60),
    ("cybershake", 50),
    ("epigenomics", 60),
    ("sipht", 60),
    ("inspiral", 60),
    ("fork-join", 40),
    ("pipeline", 60),
)


CHUNK = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one seed; ``problem`` is empty if every check passed."""

    seed: int
    strategy: str
    workflow: str
    problem: str
    checks: int = 0
    faults: int = 0
    healing: Healing = field(default_factory=Healing)


def healing_line(healing: Healing) -> str:
    """What was healed at all, in one line."""
    totals = ((name.replace("_", " "), total) for name, total in asdict(healing).items())
    return ", ".join(f"{name} {total:,.0f}" for name, total in totals if total) or "none"


def verdicts_of(
    chosen: list[tuple[int, str]], faults: str, workflows: Workflows
) -> Iterator[Verdict]:
    """The verdicts on pairs of seed and strategy, in their order, computed on all cores."""
    if len(chosen) == 1:
        yield try_seed(*chosen[0], faults, workflows)
        return
    seeds, names = zip(*chosen, strict=True)
    given = seeds, names, [faults] * len(chosen), [workflows] * len(chosen)
    pool = ProcessPoolExecutor(cores_here(), mp_context=get_context("spawn"))
    try:
        with deaf_to_ctrl_c():
            results = pool.map(try_seed, *given, chunksize=CHUNK)
        yield from results
    finally:
        with deaf_to_ctrl_c():  # which has been heard: the seeds under way take a second or two
            pool.shutdown(cancel_futures=True)


def try_seed(seed: int, name: str, faults: str, workflows: Workflows = Workflows.MIXED) -> Verdict:
    """The verdict of one trial; any exception is its problem."""
    workflow = workflow_of(seed, workflows)
    strategy = impatient(strategy_named(name), seed)
    try:
        plan, platform = parse_faults(faults), small_cluster(seed)
        earlier, removals = EarlierRun(), list[Removal]()
        if workflows is not Workflows.APPLICATIONS:
            earlier = drawn_earlier_run(workflow, seed)
            removals = drawn_removals(workflow, platform, seed)
        trial = run_trial(
            workflow, platform, strategy, plan, seed,
            earlier=earlier, estimates=drawn_estimates(seed),
            removals=removals,
        )  # fmt: skip
    except Exception as error:
        return Verdict(seed, name, workflow.name, f"{type(error).__name__}: {error}")
    return Verdict(seed, name, workflow.name, "", trial.checks, trial.faults, trial.healing)


_made: dict[int, Workflow] = {}


def workflow_of(seed: int, workflows: Workflows) -> Workflow:
    if workflows is Workflows.ODD or (workflows is Workflows.MIXED and seed % 2):
        return odd_workflow(seed)
    place = (seed // 2 if workflows is Workflows.MIXED else seed) % len(SHAPES)
    if place not in _made:
        name, tasks = SHAPES[place]
        _made[place] = generate(name, tasks, seed=1)
    return _made[place]
