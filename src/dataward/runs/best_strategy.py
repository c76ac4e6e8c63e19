"""Asks the simulator which strategy would end a run soonest, before the run begins.

Loads the simulator, so whoever wants no such answer should not import this module.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean

import numpy as np

from dataward.live.fitting import fitted
from dataward.live.slice import Slice
from dataward.model.platform import Machine, Placement, Platform, StoreModel
from dataward.model.quantities import show_seconds
from dataward.model.workflow import Workflow
from dataward.plan.estimates import Estimated, Estimates
from dataward.runs.end_forecasts import forecast_before
from dataward.runs.known_times import estimated_from
from dataward.runs.preparation import Preparer, remaining_workflow
from dataward.runs.run_directory import RunDirectory
from dataward.runs.run_options import RunOptions
from dataward.runs.workflow_run import peek_at_outcomes
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import DEFAULT, STRATEGIES
from dataward.strategies.strategy import Strategy

# One of each way to share work out: given, planned with links, planned, one queue, by data.
CANDIDATES = (DEFAULT, "adage", "heft-links", "workqueue", "worker-centric")
BUDGET_SHARE = 0.02  # of the run that is expected
BUDGET_SECONDS_MAX = 3.0
TASK_SECONDS = 0.001  # what simulating a task may take, before it was tried
ROUNDS_MAX = 3
NEAR = 0.01  # strategies that differ by less are equally good: the simulator is no better
LINK_BYTES_PER_SECOND = 1e11  # files are linked from node to node, whatever their size


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy that a run should have, and what there is to say about that.

    ``seconds`` has the makespans of those that were tried, the mean over all rounds.
    """

    name: str
    why: str
    seconds: dict[str, float]

    @property
    def sentence(self) -> str:
        return f"strategy {self.name}: {self.why}"


def _default(why: str) -> Choice:
    return Choice(DEFAULT, why, {})


def choose_strategy(
    known: Estimated,
    due: Sequence[int],
    perhaps: Sequence[int],
    part: Estimated,
    machine: Slice,
    timer: Callable[[], float],
) -> Choice:
    """The best strategy for the tasks that are due, or perhaps due, by index.

    ``part`` is those tasks as a workflow of their own. The default is chosen where nothing else
    would be at least 1% sooner, or where trying takes too long beside the run.
    """
    if machine.nodes == 1:
        return _default("on one node all strategies do nearly the same")
    expected = forecast_before(known, list(due), list(perhaps), machine)
    if expected is None:
        return _default("too little is known of run times to compare it with others")
    budget = min(BUDGET_SHARE * expected.seconds, BUDGET_SECONDS_MAX)
    if 2 * TASK_SECONDS * len(part.workflow) > budget:
        return _default(
            f"trying others would take long beside a run of {show_seconds(expected.seconds)}"
        )
    began = timer()
    tried = _tried(part, machine, lambda: timer() - began < budget)
    return best_of(tried, timer() - began)


def _tried(
    part: Estimated, machine: Slice, is_time_left: Callable[[], bool]
) -> dict[str, list[float]]:
    """Makespans by strategy, one for each round; the first two are tried in any case."""
    platform = platform_of(machine)
    truth = part.for_planning()
    found: dict[str, list[float]] = {}
    for number in range(ROUNDS_MAX):
        made: dict[str, float] = {}
        for name in CANDIDATES if not number else tuple(found):
            if not is_time_left() and (number or len(made) >= 2):
                break
            strategy = fitted(STRATEGIES[name], machine)
            made[name] = _makespan(replace(part, workflow=truth), platform, strategy, number)
        if number and len(made) < len(found):
            break  # a round counts only if all took part in it
        for name, seconds in made.items():
            found.setdefault(name, []).append(seconds)
    return found


def _makespan(part: Estimated, platform: Platform, strategy: Strategy, seed: int) -> float:
    return Simulation(
        part.workflow, platform, strategy, seed, estimates=_estimates(part)
    ).run().makespan_seconds  # fmt: skip


def _estimates(part: Estimated) -> Estimates:
    """How far off run times are, each by itself: what all are off by slows no strategy more."""
    return Estimates(float(np.median(part.spread)) * sqrt(1.0 - part.common**2))


def platform_of(machine: Slice) -> Platform:
    """Nodes of one process, as the simulator knows them: files and messages are where they go."""
    equal = machine.platform()
    rates = {"up_bytes_per_second", "down_bytes_per_second", "disk_bytes_per_second"}
    fast = dict.fromkeys(rates, LINK_BYTES_PER_SECOND)
    machines = tuple(_faster(one, fast) for one in equal.machines)
    return replace(
        equal,
        machines=machines,
        latency_seconds=1e-5,
        placement=Placement.SPREAD,
        copies=machine.nodes,
        store=StoreModel(shards=1, latency_seconds=1e-5),
    )


def _faster(machine: Machine, rates: dict[str, float]) -> Machine:
    return replace(machine, **rates)  # type: ignore[arg-type]


def best_of(tried: dict[str, list[float]], took_seconds: float) -> Choice:
    """The soonest of these; the default if it is as soon, or hardly later. Ties go to the first."""
    seconds = {name: fmean(rounds) for name, rounds in tried.items()}
    best = min(seconds, key=lambda name: seconds[name])
    default, cost = seconds[DEFAULT], f"{len(seconds)} tried in {took_seconds:.1f} s"
    sooner = 1.0 - seconds[best] / default if default else 0.0
    if sooner < NEAR:
        why = f"{show_seconds(default)} expected, none is 1% sooner ({cost})"
        return Choice(DEFAULT, why, seconds)
    why = f"{show_seconds(seconds[best])} expected, {sooner:.0%} sooner than {DEFAULT} ({cost})"
    return Choice(best, why, seconds)


def best_strategy_for(
    workflow: Workflow, source: Path, directory: RunDirectory, options: RunOptions
) -> Choice:
    """The best strategy for a run that could begin, with what is known from earlier runs."""
    outcomes = peek_at_outcomes(directory) if directory.exists() else {}
    due, perhaps = list(range(len(workflow))), list[int]()
    if outcomes and options.machine.nodes > 1:  # of a first run everything is due
        request, keep_all = options.request, options.keep.everything
        preparer = Preparer(workflow, source, directory, keep_all=keep_all, request=request)
        for _ in preparer.look_at_inputs():
            pass
        decision = preparer.foresee(outcomes)
        due, perhaps = list(decision.due), list(decision.perhaps)
    known = estimated_from(workflow, outcomes)
    remaining = remaining_workflow(workflow, sorted((*due, *perhaps)), {})
    if remaining is None:
        return _default("nothing is left to run")
    part = estimated_from(remaining, outcomes)
    return choose_strategy(known, due, perhaps, part, options.machine, time.perf_counter)
