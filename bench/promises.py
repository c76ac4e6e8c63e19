"""How often promises on simulated nodes are kept: ``python -m bench.promises --seeds 6``.

Every family of workflows, with 60 tasks, on one node and on four, asks for the earliest finish that
can be promised to it: a tighter deadline is refused, a looser one is kept more often.
"""

import argparse
from collections.abc import Iterator

from dataward import generate, simulate
from dataward.api.report import RunReport
from dataward.errors import DeadlineRefusedError
from dataward.generate.registry import SHAPES
from dataward.model.workflow import Workflow

TASKS = 60
NODES = (1, 4)
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


def promised_runs(case: str, seeds: int) -> Iterator[tuple[float, RunReport]]:
    """Each run with its promise, in seconds."""
    estimates, faults = CASES[case]
    for shape in SHAPES:
        for nodes in NODES:
            for seed in range(seeds):
                workflow = generate(shape, TASKS, seed=seed)
                promise = earliest_seconds(workflow, nodes, seed, estimates) + 1e-3
                yield (
                    promise,
                    simulate(
                        workflow,
                        nodes=nodes,
                        seed=seed,
                        estimates=estimates,
                        faults=faults,
                        deadline=promise,
                    ),
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    seeds = parser.parse_args().seeds
    for case in CASES:
        runs = list(promised_runs(case, seeds))
        kept = sum(report.summary.late_seconds <= 0 for _, report in runs)
        shares = sorted(report.summary.makespan_seconds / promise for promise, report in runs)
        middle = shares[len(shares) // 2]
        print(f"{case}: {kept} of {len(runs)} kept; half of them took {middle:.2f} of the time")


if __name__ == "__main__":
    main()
