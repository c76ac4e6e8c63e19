"""What simulating costs, and what ADAGE's parts are worth.

    python -m bench.simulation [--quick] [growth | figure3 | ablation]

- growth: microseconds of CPU per simulated task, from a thousand tasks to a million and from 16
  nodes to 16,384; it may grow like a logarithm, no faster.
- figure3: ADAGE's Figure 3, five applications of 1,000 tasks on 1 to 1,024 nodes of 4 cores.
- ablation: ADAGE whole and without each of its parts, on 256 nodes, in fair weather and foul.
"""

import argparse
import gc
import sys
from collections.abc import Sequence
from statistics import mean
from time import perf_counter, process_time

from rich.console import Console
from rich.table import Table

from dataward import generate
from dataward.model.platform import uniform_platform
from dataward.plan.bounds import makespan_bounds
from dataward.reports.run_summary import RunSummary, RunTally
from dataward.sim.faults import inject, parse_faults
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES

APPLICATIONS = ("sipht", "epigenomics", "inspiral", "cybershake", "montage")
WEATHER = ("none", "stragglers", "crashes")
SEEDS = (1, 2, 3)


def simulate(
    shape: str, tasks: int, nodes: int, strategy: str = "adage", faults: str = "none", seed: int = 1
) -> RunSummary:
    workflow = generate(shape, tasks, seed)
    platform = uniform_platform(nodes)
    tally = RunTally()
    simulation = Simulation(workflow, platform, STRATEGIES[strategy], seed, [tally.add])
    if faults != "none":
        bound = makespan_bounds(
            workflow, nodes=nodes, cores=4, bandwidth_bytes_per_second=125e6
        ).best_seconds
        inject(simulation, parse_faults(faults), 1.5 * bound)
    simulation.run()
    return tally.summary()


def growth(out: Console, *, quick: bool = False) -> None:
    """CPU per task as tasks and nodes grow. Pipelines of ten, as in the MATRIX paper."""
    sizes = (1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    clusters = (16, 128, 1_024) if quick else (16, 128, 1_024, 16_384)
    table = Table("tasks", "nodes", "CPU s", "to start the nodes", "µs a task", title="Growth")
    for tasks, nodes in [*((n, 64) for n in sizes), *((10_000, n) for n in clusters)]:
        start = _cpu_seconds("bag", 1, nodes)
        whole = _cpu_seconds("pipeline", tasks, nodes)
        per_task = (whole - start) / tasks * 1e6
        table.add_row(
            f"{tasks:,}", f"{nodes:,}", f"{whole:.1f}", f"{start:.1f}", f"{per_task:,.0f}"
        )
        print(f"  {tasks} tasks on {nodes} nodes: {whole:.1f} s", file=sys.stderr, flush=True)
    out.print(table)


def _cpu_seconds(shape: str, tasks: int, nodes: int) -> float:
    workflow = generate(shape, tasks, 1)
    simulation = Simulation(workflow, uniform_platform(nodes), STRATEGIES["adage"], 1)
    gc.collect()
    began = process_time()
    simulation.run()
    return process_time() - began


def figure3(out: Console, *, quick: bool = False) -> None:
    """Makespans of five applications as nodes grow, and how long the whole sweep took."""
    nodes = (1, 4, 16, 64) if quick else tuple(2**i for i in range(11))
    began = perf_counter()
    table = Table("application", *map(str, nodes), title="Figure 3: makespan in s, 1,000 tasks")
    for shape in APPLICATIONS:
        row = [f"{simulate(shape, 1_000, n).makespan_seconds:,.0f}" for n in nodes]
        table.add_row(shape, *row)
        print(f"  {shape}: {perf_counter() - began:.0f} s so far", file=sys.stderr, flush=True)
    out.print(table)
    out.print(f"The sweep took {perf_counter() - began:.0f} s of wall time.")


def ablation(out: Console, *, quick: bool = False) -> None:
    """Each part's worth: mean makespan over seeds, as a multiple of the whole ADAGE's."""
    nodes, seeds = (256, SEEDS[:1]) if quick else (256, SEEDS)
    for faults in WEATHER:
        table = Table("without", *APPLICATIONS, "runs wasted", title=f"{nodes} nodes, {faults}")
        whole: list[float] = []
        for strategy in STRATEGIES:
            spans, wasted = [], 0
            for shape in APPLICATIONS:
                runs = [simulate(shape, 1_000, nodes, strategy, faults, seed) for seed in seeds]
                spans.append(mean(run.makespan_seconds for run in runs))
                wasted += sum(run.replicas_wasted for run in runs)
            whole = whole or spans
            table.add_row(strategy, *_beside(spans, whole), f"{wasted / len(seeds):,.0f}")
            print(f"  {faults}, {strategy}", file=sys.stderr, flush=True)
        out.print(table)


def _beside(spans: Sequence[float], whole: Sequence[float]) -> list[str]:
    if spans is whole:
        return [f"{span:,.0f} s" for span in spans]
    return [f"{span / first:.3f}" for span, first in zip(spans, whole, strict=True)]


PARTS = {"growth": growth, "figure3": figure3, "ablation": ablation}


def run(out: Console, *, quick: bool = False) -> None:
    for part in PARTS.values():
        part(out, quick=quick)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.simulation")
    parser.add_argument("part", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    for name in given.part or PARTS:
        PARTS[name](Console(width=110), quick=given.quick)
