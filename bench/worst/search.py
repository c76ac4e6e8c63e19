"""Simulated annealing towards instances on which our makespan is far above the best of others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, log

from bench.worst.instance import Instance
from bench.worst.moves import moved, random_instance
from dataward.model.seeds import seeded
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES

OURS = "dataward"
OTHERS = ("heft-links", "adage", "matrix", "workqueue", "cpfl", "peft")
STEPS = 250  # of a restart
WARMEST, COLDEST = 0.1, 0.005  # how much worse a step may be, as a difference of logarithms


@dataclass(frozen=True, slots=True)
class Found:
    """The worst instance of a restart."""

    restart: int
    ratio: float  # our makespan over that of the best other strategy
    best: str
    instance: Instance


def makespan_seconds(instance: Instance, strategy: str) -> float:
    """The simulated makespan, with exact estimates and without faults."""
    simulation = Simulation(
        instance.workflow(), instance.platform(), STRATEGIES[strategy], instance.seed
    )
    return simulation.run().makespan_seconds


def worst_ratio(
    instance: Instance, at_least: float = 0.0, others: Sequence[str] = OTHERS
) -> tuple[float, str]:
    """Our makespan over the best of the others, and which that is.

    Once the ratio is known to be below ``at_least``, the remaining strategies are not tried.
    """
    ours, best, name = makespan_seconds(instance, OURS), inf, ""
    for other in others:
        seconds = makespan_seconds(instance, other)
        if seconds < best:
            best, name = seconds, other
        if ours / best < at_least:
            break
    return ours / best, name


def restarts(seed: int) -> Iterator[Found]:
    """The worst instance of each restart, without end; each restart depends only on its number."""
    restart = 0
    while True:
        yield annealed(seed, restart)
        restart += 1


def annealed(seed: int, restart: int, steps: int = STEPS) -> Found:
    """The worst instance met by annealing a random one; ties go to the first."""
    random = seeded(seed, "worst", restart)
    instance = random_instance(random)
    ratio, best = worst_ratio(instance)
    worst = Found(restart, ratio, best, instance)
    for step in range(steps):
        heat = WARMEST * (COLDEST / WARMEST) ** (step / steps)
        changed = moved(random, instance)
        # What the new ratio must be is drawn first, so that most need not be known exactly.
        at_least = ratio * exp(heat * log(1.0 - random.random()))
        others = sorted(OTHERS, key=lambda name: (name != best, OTHERS.index(name)))
        new_ratio, new_best = worst_ratio(changed, at_least, others)
        if new_ratio < at_least:
            continue
        instance, ratio, best = changed, new_ratio, new_best
        if ratio > worst.ratio:
            worst = Found(restart, ratio, best, instance)
    return worst
