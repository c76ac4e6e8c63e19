"""``dataward seeds``: simulates many seeds with faults, and checks every invariant."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from enum import Enum
from multiprocessing import get_context
from typing import Annotated

import typer
from rich.progress import track

from dataward.cli.exhaustive import try_exhaustively
from dataward.cli.exit_codes import ExitCode
from dataward.cli.output import print_json, stderr_console, stdout_console
from dataward.generate import generate
from dataward.model.workflow import Workflow
from dataward.sim.campaign import impatient, run_trial, small_cluster
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


class Workflows(Enum):
    """Which workflows the seeds run."""

    APPLICATIONS = "applications"
    ODD = "odd"
    MIXED = "mixed"


CHUNK = 8
SHOWN = 10  # failing seeds printed; --json has them all


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one seed; ``problem`` is empty if every check passed."""

    seed: int
    workflow: str
    problem: str
    checks: int = 0
    faults: int = 0
    healing: Healing = field(default_factory=Healing)


def seeds_command(
    count: Annotated[int, typer.Option("--count", "-n", help="How many seeds.", min=1)] = 1000,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Replay just this one.")] = None,
    faults: Annotated[str, typer.Option(help="What goes wrong, as for simulate.")] = "chaos",
    workflows: Annotated[
        Workflows,
        typer.Option(
            help="Small applications, odd workflows drawn from the seed, or both in turn."
        ),
    ] = Workflows.MIXED,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Small worlds with every fault at every point.")
    ] = False,
    minutes: Annotated[
        float, typer.Option(help="How long pairs of faults are tried, with --exhaustive.", min=0)
    ] = 3.0,
    world: Annotated[
        str | None,
        typer.Option(help="Just this small world; or replay it, with the faults given."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Run small workflows under seeded faults and check every invariant after every event.

    Each seed draws its own cluster, settings and faults. A seed that fails is printed with the
    command that replays it. Odd workflows are what real files contain: several writers of one file,
    readers that do not wait for a writer, order without files, sizes and run times of 0, giants.
    Unless only applications are asked for, a third of the workflows have run before.

    *Healing* is what had to be put right on the way: runs repeated, tasks taken over or made
    again, leases lost, notices found undelivered, bytes moved again, seconds that work or news of
    it waited. Without faults there must be none, but for tasks begun again or twice because a
    disk was too small, or made again because what an earlier run wrote is gone. With faults, a seed
    that heals more than its faults explain fails, and so does one whose nodes keep anything after
    the last task.

    With --exhaustive no seed is drawn. A diamond and a fan run on two and three nodes, with one
    fault at every point: each call to the store lost, each answer lost, each message lost or
    doubled, each node down after each step (for long, and briefly), each shard without its last
    writes after each call. Then come pairs of such faults, evenly spread, for some minutes.

    Examples:

    - `dataward seeds -n 1000`
    - `dataward seeds --seed 7`
    - `dataward seeds -n 1000 --faults crashes`
    - `dataward seeds -n 10000 --workflows odd`
    - `dataward seeds --exhaustive --minutes 30`
    - `dataward seeds --exhaustive --world 'diamond,2,answer@17+crash n1@40'`
    """
    if exhaustive or world is not None:
        try_exhaustively(world, minutes, json=json)
        return
    parse_faults(faults)
    chosen = [seed] if seed is not None else list(range(first, first + count))
    began = time.perf_counter()
    verdicts = []
    watching = stderr_console()
    for verdict in track(
        _verdicts(chosen, faults, workflows),
        "seeds",
        total=len(chosen),
        console=watching,
        disable=not watching.is_terminal,
    ):
        verdicts.append(verdict)
        if verdict.problem and sum(1 for v in verdicts if v.problem) <= SHOWN:
            problem = f"seed {verdict.seed} ({verdict.workflow}): {verdict.problem}"
            replay = f"  replay: dataward seeds --seed {verdict.seed} --faults {faults}"
            replay += f" --workflows {workflows.value}" if workflows is not Workflows.MIXED else ""
            watching.print(f"{problem}\n{replay}", soft_wrap=True)
    bad = [verdict for verdict in verdicts if verdict.problem]
    healing = sum((verdict.healing for verdict in verdicts), Healing())
    if json:
        document = {"faults": faults, "seeds": len(chosen), "failed": len(bad)}
        print_json({**document, "healing": healing, "verdicts": bad})
    else:
        checks, hits = sum(v.checks for v in verdicts), sum(v.faults for v in verdicts)
        stdout_console().print(
            f"{len(chosen) - len(bad):,} of {len(chosen):,} seeds hold under {faults}: "
            f"{hits:,} faults, {checks:,} checks, {time.perf_counter() - began:.0f} s",
            soft_wrap=True,
        )
        stdout_console().print(f"healing: {_healing_line(healing)}", soft_wrap=True)
    if bad:
        raise typer.Exit(ExitCode.FAILED)


def _healing_line(healing: Healing) -> str:
    """What was healed at all, in one line."""
    totals = ((name.replace("_", " "), total) for name, total in asdict(healing).items())
    return ", ".join(f"{name} {total:,.0f}" for name, total in totals if total) or "none"


def _verdicts(chosen: list[int], faults: str, workflows: Workflows) -> Iterator[Verdict]:
    """The verdicts in the order of the seeds, computed on all cores."""
    if len(chosen) == 1:
        yield try_seed(chosen[0], faults, workflows)
        return
    given = [faults] * len(chosen), [workflows] * len(chosen)
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        yield from pool.map(try_seed, chosen, *given, chunksize=CHUNK)


def try_seed(seed: int, faults: str, workflows: Workflows = Workflows.MIXED) -> Verdict:
    """The verdict of one trial; any exception is its problem."""
    workflow = workflow_of(seed, workflows)
    strategy = impatient(STRATEGIES["adage"], seed)
    try:
        earlier = EarlierRun()
        if workflows is not Workflows.APPLICATIONS:
            earlier = drawn_earlier_run(workflow, seed)
        plan = parse_faults(faults)
        trial = run_trial(workflow, small_cluster(seed), strategy, plan, seed, earlier=earlier)
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
