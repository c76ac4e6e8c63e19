"""Tries seeds on all cores: each draws a workflow, a cluster, estimates and faults."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context, resource_tracker

from dataward.cli.seed_workflows import Workflows
from dataward.generate import generate
from dataward.model.workflow import Workflow
from dataward.sim.campaign import drawn_estimates, impatient, run_trial, small_cluster
from dataward.sim.earlier_run import EarlierRun, drawn_earlier_run
from dataward.sim.faults import parse_faults
from dataward.sim.healing import Healing
from dataward.sim.odd_workflows import odd_workflow
from dataward.strategies.registry import STRATEGIES

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
    workflow: str
    problem: str
    checks: int = 0
    faults: int = 0
    healing: Healing = field(default_factory=Healing)


def healing_line(healing: Healing) -> str:
    """What was healed at all, in one line."""
    totals = ((name.replace("_", " "), total) for name, total in asdict(healing).items())
    return ", ".join(f"{name} {total:,.0f}" for name, total in totals if total) or "none"


def verdicts_of(chosen: list[int], faults: str, workflows: Workflows) -> Iterator[Verdict]:
    """The verdicts in the order of the seeds, computed on all cores."""
    if len(chosen) == 1:
        yield try_seed(chosen[0], faults, workflows)
        return
    given = [faults] * len(chosen), [workflows] * len(chosen)
    cores = len(os.sched_getaffinity(0))
    pool = ProcessPoolExecutor(cores, mp_context=get_context("spawn"))
    try:
        with deaf_to_ctrl_c():
            results = pool.map(try_seed, chosen, *given, chunksize=CHUNK)
        yield from results
    finally:
        with deaf_to_ctrl_c():  # which has been heard: the seeds under way take a second or two
            pool.shutdown(cancel_futures=True)


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Put Ctrl-C off. Processes that are started meanwhile never hear it."""
    resource_tracker.ensure_running()  # which would let Ctrl-C through again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def try_seed(seed: int, faults: str, workflows: Workflows = Workflows.MIXED) -> Verdict:
    """The verdict of one trial; any exception is its problem."""
    workflow = workflow_of(seed, workflows)
    strategy = impatient(STRATEGIES["adage"], seed)
    try:
        earlier = EarlierRun()
        if workflows is not Workflows.APPLICATIONS:
            earlier = drawn_earlier_run(workflow, seed)
        plan = parse_faults(faults)
        trial = run_trial(
            workflow, small_cluster(seed), strategy, plan, seed,
            earlier=earlier, estimates=drawn_estimates(seed),
        )  # fmt: skip
    except Exception as error:
        return Verdict(seed, workflow.name, f"{type(error).__name__}: {error}")
    return Verdict(seed, workflow.name, "", trial.checks, trial.faults, trial.healing)


_made: dict[int, Workflow] = {}


def workflow_of(seed: int, workflows: Workflows) -> Workflow:
    if workflows is Workflows.ODD or (workflows is Workflows.MIXED and seed % 2):
        return odd_workflow(seed)
    place = (seed // 2 if workflows is Workflows.MIXED else seed) % len(SHAPES)
    if place not in _made:
        name, tasks = SHAPES[place]
        _made[place] = generate(name, tasks, seed=1)
    return _made[place]
