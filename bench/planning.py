"""What planning a task costs as workflows and clusters grow, by our strategy and by others.

    python -m bench.planning [--quick] [--applications montage,sipht] [--plans dataward,heft-links]

Microseconds of CPU for each task: what must not grow much with tasks and nodes. Equal nodes of 4
cores and 1 Gbps.
"""

import argparse
import gc
from time import process_time

from rich.console import Console
from rich.table import Table

from dataward import generate
from dataward.model.platform import uniform_platform
from dataward.model.workflow import Workflow
from dataward.strategies.registry import strategy_named
from dataward.strategies.strategy import Strategy

TASKS, TASKS_QUICK = (1_000, 10_000, 100_000), (1_000, 10_000)
NODES = (16, 64, 256, 1000)


def micros_per_task(strategy: Strategy, workflow: Workflow, nodes: int) -> float:
    platform = uniform_platform(nodes)
    gc.collect()
    began = process_time()
    strategy.plan(workflow, platform, {}, 1)
    return (process_time() - began) / len(workflow) * 1e6


def run(
    out: Console,
    *,
    quick: bool = False,
    applications: str = "montage",
    plans: str = "dataward,heft-links",
) -> None:
    """Print a table for each plan: applications and tasks down, nodes across."""
    for name in plans.split(","):
        table = Table("application", "tasks", *(f"{n} nodes" for n in NODES), title=name)
        for application in applications.split(","):
            for tasks in TASKS_QUICK if quick else TASKS:
                workflow = generate(application, tasks, 1)
                assert workflow.layers  # computed once and kept, whatever is planned
                cells = [micros_per_task(strategy_named(name), workflow, n) for n in NODES]
                table.add_row(application, f"{tasks:,}", *(f"{cell:.0f} µs" for cell in cells))
        out.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planning")
    parser.add_argument("--quick", action="store_true", help="without 100,000 tasks")
    parser.add_argument("--applications", default="montage")
    parser.add_argument("--plans", default="dataward,heft-links")
    given = parser.parse_args()
    run(Console(), quick=given.quick, applications=given.applications, plans=given.plans)


if __name__ == "__main__":
    main()
