"""How many deadlines are kept: with promises, without them, and by strategies that ignore them.

    python -m bench.deadlines [--seeds 10] [--exact-seeds 0]

Twenty nodes of unequal speed get 24 workflows in two minutes, tighter ones first: fork-joins and
Laplace solvers with deadlines from tight to loose. *Kept* is the share of all 24 that end in time;
PeerComp refuses what it cannot promise, so it also has the share of the accepted ones, and how
sure their owners were told to be: estimates are known to have a spread, crashes and stragglers are
not. EDF without
reservations starts the ready task of the workflow with the earliest deadline on the fastest idle
node. ADAGE and our own strategy run in the general simulator, all workflows as one, with the same
shares of crashes and stragglers, drawn by that simulator. With ``--exact-seeds`` so many more seeds
are tried with exact estimates and without faults: then no accepted workflow may be late.
"""

import argparse
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from statistics import fmean
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from dataward.api.simulate import simulated
from dataward.deadlines.admission import WantedPromise
from dataward.deadlines.reserving import ReservedTimes, TaskPlace, reserved_times
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import Event, TaskFinished
from dataward.model.ids import NodeId
from dataward.model.platform import Machine, Platform
from dataward.model.remaining import before_the_run
from dataward.model.seeds import seeded
from dataward.model.workflow import Workflow
from dataward.plan.estimates import Estimates, as_estimated
from dataward.sim.deadline_faults import NodeTrouble, TroubledDeadlineWorld, drawn_trouble
from dataward.sim.deadline_world import DeadlineSettings, PromisedRun
from dataward.strategies.choosing import chosen_strategy

NODES, WORKFLOWS, SECONDS = 20, 24, 300.0
APART_SECONDS = 5.0  # between two submissions, so that each finds what the one before has left
HORIZON = 4 * 3600.0
WEATHERS = {
    "exact": (0.0, {}),
    "sigma 0.5": (0.5, {}),
    "crashes": (0.0, {"crash": 0.3}),
    "stragglers": (0.0, {"slow": 0.3}),
}
OTHERS = ("adage", "dataward")


@dataclass(frozen=True)
class Scene:
    """What all ways to schedule are given."""

    workflows: list[Workflow]
    deadlines: list[float]
    speeds: list[float]
    sigma: float
    faults: dict[str, float]
    trouble: NodeTrouble
    seed: int

    def reserved(self) -> list[ReservedTimes]:
        """What is reserved for each workflow, by the estimates that are had of it."""
        found = []
        for n, workflow in enumerate(self.workflows):
            known = as_estimated(workflow, Estimates(self.sigma), 1000 * self.seed + n)
            found.append(reserved_times(WantedPromise(known, before_the_run(workflow))))
        return found


def a_scene(seed: int, weather: str) -> Scene:
    sigma, faults = WEATHERS[weather]
    random = seeded(seed, "scene")
    speeds = [random.uniform(0.5, 1.5) for _ in range(NODES)]
    workflows, deadlines = [], []
    for _ in range(WORKFLOWS):
        name, tasks = random.choice((("fork-join", 10), ("fork-join", 6), ("laplace", 9)))
        workflow = generate(name, tasks, seconds=SECONDS)
        workflows.append(workflow)
        alone = float(workflow.runtime_seconds.sum())
        deadlines.append(alone / random.choice((0.5, 0.8, 1.1, 1.4)))
    trouble = drawn_trouble(NODES, seed, max(deadlines), **faults)
    return Scene(workflows, deadlines, speeds, sigma, faults, trouble, seed)


class Kept(NamedTuple):
    """Shares of what was promised in one scene."""

    of_all: float
    of_accepted: float
    accepted: int
    said: float  # how sure the accepted ones were, in the mean


def promised(scene: Scene) -> Kept:
    settings = DeadlineSettings(NODES, seed=scene.seed, busy_seconds=0.0, horizon_seconds=0.0)
    reserved = scene.reserved()
    true_work = [w.runtime_seconds.tolist() for w in scene.workflows]
    world = TroubledDeadlineWorld(
        settings, [times.outline() for times in reserved], true_work, scene.trouble, scene.speeds
    )
    order = sorted(range(WORKFLOWS), key=lambda n: scene.deadlines[n])  # tighter first
    runs = []
    for number in order:
        runs.append(world.submit(number, number % NODES, scene.deadlines[number]))
        world.run(APART_SECONDS)
    world.run(HORIZON)
    accepted = [run for run in runs if run.times.accepted < inf]
    kept = sum(run.times.ended <= run.times.deadline + 1e-6 for run in accepted)
    said = [how_sure(run, reserved[run.times.kind]) for run in accepted]
    count = len(accepted)
    return Kept(kept / WORKFLOWS, kept / max(count, 1), count, fmean(said) if said else 0.0)


def how_sure(run: PromisedRun, reserved: ReservedTimes) -> float:
    """In how many futures a workflow ends in time where it was promised, as its owner sees it."""
    tasks = sorted(run.submission.placed().items())
    placed = [
        TaskPlace((one.node,), one.promise.latest_end, one.promise.seconds) for _, one in tasks
    ]
    return reserved.sure(reserved.ends(placed, run.times.accepted), run.times.deadline)


def edf_kept(scene: Scene) -> float:
    """The share kept by the earliest deadline first, without reservations."""
    waiting = [[len(p) for p in w.parents.rows()] for w in scene.workflows]
    children = [list(w.children.rows()) for w in scene.workflows]
    left = [len(w) for w in scene.workflows]
    ready = [(scene.deadlines[n], n, t) for n, w in enumerate(waiting)
             for t, count in enumerate(w) if count == 0]  # fmt: skip
    ready.sort()
    idle = sorted(range(NODES), key=lambda node: -scene.speeds[node])
    events: list[tuple[float, int, int, tuple[int, int] | None]] = []
    running: dict[int, tuple[int, int]] = {}
    ended = [inf] * WORKFLOWS
    for node, at in enumerate(scene.trouble.crashes):
        if at < inf:
            heappush(events, (at, 0, node, None))
            heappush(events, (scene.trouble.returns[node], 1, node, None))
    away: set[int] = set()
    now = 0.0
    while True:
        while ready and idle:
            _, n, t = heappop(ready)
            node = idle.pop(0)
            running[node] = (n, t)
            seconds = float(scene.workflows[n].runtime_seconds[t]) / scene.speeds[node]
            heappush(events, (scene.trouble.end_of(node, now, seconds), 2, node, (n, t)))
        if not events:
            break
        now, kind, node, task = heappop(events)
        if kind == 0:
            away.add(node)
            lost = running.pop(node, None)
            if lost is not None:
                heappush(ready, (scene.deadlines[lost[0]], *lost))
            elif node in idle:
                idle.remove(node)
        elif kind == 1:
            away.discard(node)
            idle.append(node)
        elif task is not None and running.get(node) == task and node not in away:
            del running[node]
            idle.append(node)
            n, t = task
            left[n] -= 1
            if left[n] == 0:
                ended[n] = now
            for child in children[n][t]:
                waiting[n][child] -= 1
                if waiting[n][child] == 0:
                    heappush(ready, (scene.deadlines[n], n, child))
        idle.sort(key=lambda other: -scene.speeds[other])
    return fmean(end <= deadline for end, deadline in zip(ended, scene.deadlines, strict=True))


def general_kept(scene: Scene, strategy: str) -> float:
    """The share kept by a strategy of the general simulator, which ignores deadlines."""
    builder = WorkflowBuilder("all")
    for n, workflow in enumerate(scene.workflows):
        parents = list(workflow.parents.rows())
        for t in workflow.layers.order.tolist():
            seconds = float(workflow.runtime_seconds[t])
            builder.task(
                f"{n}:{t}", runtime_seconds=seconds, after=[f"{n}:{p}" for p in parents[t]]
            )
    machines = [
        Machine(NodeId(f"n{i:02}"), cores=1, speed=speed) for i, speed in enumerate(scene.speeds)
    ]
    ended = [0.0] * WORKFLOWS

    def listen(event: Event) -> None:
        if isinstance(event, TaskFinished):
            n = int(event.task.partition(":")[0])
            ended[n] = max(ended[n], event.at)

    faults = ",".join(f"{name}={share}" for name, share in scene.faults.items()) or "none"
    simulated(
        builder.build(), Platform(tuple(machines), latency_seconds=0.05),
        chosen_strategy(strategy, []), seed=scene.seed, faults=faults, retries=0,
        estimates=Estimates(scene.sigma), sinks=[listen],
    )  # fmt: skip
    return fmean(end <= deadline for end, deadline in zip(ended, scene.deadlines, strict=True))


def missed_with_exact_estimates(seeds: int) -> tuple[int, int]:
    """(deadlines missed, workflows accepted) over so many seeds, without faults."""
    missed = accepted = 0
    for seed in range(10_000, 10_000 + seeds):
        found = promised(a_scene(seed, "exact"))
        accepted += found.accepted
        missed += round((1 - found.of_accepted) * found.accepted)
    return missed, accepted


def run(out: Console, seeds: int = 10, exact_seeds: int = 0, quick: bool = False) -> None:
    table = Table(box=box.SIMPLE)
    headings = ("weather", "promised: of all", "of accepted", "said", "accepted", "EDF", *OTHERS)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for weather in WEATHERS:
        scenes = [a_scene(seed, weather) for seed in range(2 if quick else seeds)]
        of_all, of_accepted, accepted, said = np.array([promised(scene) for scene in scenes]).T
        row = [fmean(of_all), of_accepted @ accepted / accepted.sum(),
               said @ accepted / accepted.sum(), fmean(accepted) / WORKFLOWS,
               fmean(map(edf_kept, scenes))]  # fmt: skip
        row += [fmean(general_kept(scene, name) for scene in scenes) for name in OTHERS]
        table.add_row(weather, *(f"{share:.0%}" for share in row))
    out.print(table)
    if exact_seeds:
        missed, accepted = missed_with_exact_estimates(exact_seeds)
        out.print(f"{exact_seeds:,} seeds, exact: {missed:,} of {accepted:,} accepted are late")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--exact-seeds", type=int, default=0)
    given = parser.parse_args()
    run(Console(width=120), given.seeds, given.exact_seeds)
