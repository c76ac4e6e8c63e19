"""How often promises on simulated nodes are kept: ``python -m bench.promises --seeds 6``.

Every family of workflows, with 60 tasks, on one node and on four, asks for the earliest finish that
can be promised to it, and for 1.25, 1.5 and 2 times as long: a tighter deadline is refused, and a
looser one is kept more often. Beside it, how often ADAGE and our own strategy, which promise
nothing, end by the same deadlines. EDF is not among them: tasks of one workflow have one deadline.
"""

import argparse
from collections.abc import Iterator

from dataward import generate, simulate
from dataward.errors import DeadlineRefusedError
from dataward.generate.registry import SHAPES
from dataward.model.workflow import Workflow

TASKS = 60
NODES = (1, 4)
SLACKS = (1.0, 1.25, 1.5, 2.0)  # times the earliest promise
OTHERS = ("adage", "dataward")
CASES = {
    "exact estimates": ("exact", "none"),
    "estimates with sigma 0.5": ("0.5", "none"),
    "stragglers": ("exact", "stragglers"),
    "crashes": ("exact", "crashes"),
}


def earliest_seconds(workflow: Workflow, nodes: int, seed: int, estimates: str) -> float:
    try:
        simulate(workflow, nodes=nodes, seed=seed, estimates=estimates, deadline=1e-4)
    except DeadlineRefusedError as refused:
        return refused.earliest_seconds
    raise AssertionError("no workflow takes so little time")


def share_kept(makespans: list[float], promises: list[float], slack: float) -> str:
    """How many end by so many times the promise, of how many."""
    kept = sum(m <= slack * p for m, p in zip(makespans, promises, strict=True))
    return f"{kept}/{len(promises)}"


def scenes(seeds: int) -> Iterator[tuple[Workflow, int, int]]:
    """Every workflow, with its number of nodes and its seed."""
    for shape in SHAPES:
        for nodes in NODES:
            for seed in range(seeds):
                yield generate(shape, TASKS, seed=seed), nodes, seed


def promised_runs(case: str, slack: float, promises: list[float], seeds: int) -> list[float]:
    """The makespans of runs that were promised so many times the earliest promise."""
    estimates, faults = CASES[case]
    return [
        simulate(
            workflow, nodes=nodes, seed=seed, estimates=estimates, faults=faults,
            deadline=slack * promise,
        ).summary.makespan_seconds
        for (workflow, nodes, seed), promise in zip(scenes(seeds), promises, strict=True)
    ]  # fmt: skip


def other_runs(case: str, strategy: str, seeds: int) -> list[float]:
    """The makespans of runs by a strategy that promises nothing."""
    estimates, faults = CASES[case]
    return [
        simulate(
            workflow, nodes=nodes, seed=seed, estimates=estimates, faults=faults, strategy=strategy
        ).summary.makespan_seconds
        for workflow, nodes, seed in scenes(seeds)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    given = parser.parse_args()
    seeds = given.seeds
    for case in given.case:
        estimates, _ = CASES[case]
        promises = [earliest_seconds(w, n, seed, estimates) + 1e-3 for w, n, seed in scenes(seeds)]
        row = []
        for slack in SLACKS:
            ends = promised_runs(case, slack, promises, seeds)
            row.append(f"{slack:g}x {share_kept(ends, promises, slack)}")
            if slack == 1.0:
                shares = sorted(e / p for e, p in zip(ends, promises, strict=True))
                row.append(f"(half took {shares[len(shares) // 2]:.2f} of the time)")
        print(f"{case}: promised {', '.join(row)}", flush=True)
        for strategy in OTHERS:
            ends = other_runs(case, strategy, seeds)
            row = [f"{slack:g}x {share_kept(ends, promises, slack)}" for slack in SLACKS]
            print(f"  {strategy}: {', '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
