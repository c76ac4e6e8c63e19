"""How long the five applications take under our strategy, ADAGE and HEFT with links.

    python -m bench.schedules [--quick] [fair | rough | unknown | stragglers | crashes | ...]
        [--strategies adage,heft-links] [--set name=value]

Each cell is a mean over seeds of makespan over the lower bound: applications of 1,000 tasks, nodes
of 4 cores and 1 Gbps. The last row of each table is the mean of all its cells, and the column
"as planned" what the plan of `heft-links` promises, which knows everything beforehand.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log
from statistics import fmean
from time import perf_counter

from rich.console import Console
from rich.table import Table

from dataward import generate
from dataward.api.all_cores import called_on_all_cores
from dataward.api.strategy import changed_strategies
from dataward.model.platform import Machine, Platform, uniform_platform
from dataward.model.replay import as_replayed
from dataward.model.workflow import Workflow
from dataward.plan.bounds import makespan_bounds
from dataward.plan.estimates import EXACT, UNKNOWN, Estimates
from dataward.plan.heft_links import heft_links_schedule
from dataward.sim.faults import inject, parse_faults
from dataward.sim.simulation import Simulation

APPLICATIONS = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
NODES = (4, 16, 64, 256)
SEEDS = (1, 2, 3)
TASKS = 1000
PLANNED = "as planned"
OURS = "adage,heft-links,dataward"


def two_sites(nodes: int) -> Platform:
    """Two halves, with 1 Gbps and 20 ms between them; the origin is at the first."""
    equal = uniform_platform(nodes)
    machines = tuple(
        replace(machine, site="east" if number < nodes / 2 else "west")
        for number, machine in enumerate(equal.machines)
    )
    return replace(
        equal,
        machines=machines,
        site_bytes_per_second=125e6,
        site_latency_seconds=0.02,
        origin_site="east",
    )


def unequal(nodes: int) -> Platform:
    """Nodes of four kinds: twice or half the speed, more or fewer cores, slower links."""

    def as_kind(machine: Machine, kind: int) -> Machine:
        return replace(
            machine,
            speed=(1.0, 2.0, 0.5, 1.0)[kind],
            cores=(4, 4, 8, 2)[kind],
            up_bytes_per_second=(125e6, 125e6, 62.5e6, 250e6)[kind],
            down_bytes_per_second=(125e6, 125e6, 62.5e6, 250e6)[kind],
        )

    equal = uniform_platform(nodes)
    kinds = tuple(as_kind(machine, number % 4) for number, machine in enumerate(equal.machines))
    return replace(equal, machines=kinds)


@dataclass(frozen=True, slots=True)
class Weather:
    """What is known beforehand, what goes wrong, and on which machines."""

    title: str
    estimates: Estimates = EXACT
    faults: str = "none"
    platform: Callable[[int], Platform] = uniform_platform


WEATHERS = {
    "fair": Weather("run times known, no faults"),
    "rough": Weather("estimates with a sigma of 0.5", Estimates(0.5)),
    "unknown": Weather("nothing known of run times and sizes", UNKNOWN),
    "stragglers": Weather(
        "a tenth of the nodes five times slower for a while", faults="stragglers"
    ),
    "crashes": Weather("a tenth of the nodes crash", faults="crashes"),
    "sites": Weather("two sites with 1 Gbps between them", platform=two_sites),
    "unequal": Weather("nodes of four kinds", platform=unequal),
}


@dataclass(frozen=True, slots=True)
class Cell:
    application: str
    tasks: int
    nodes: int
    weather: str
    strategy: str
    seed: int
    changes: tuple[str, ...] = ()


@cache
def _workflow(application: str, tasks: int, seed: int) -> Workflow:
    return as_replayed(generate(application, tasks, seed))


def over_the_bound(cell: Cell) -> float:
    """The makespan of one simulated run, or of the plan alone, over the lower bound."""
    workflow = _workflow(cell.application, cell.tasks, cell.seed)
    weather = WEATHERS[cell.weather]
    platform = weather.platform(cell.nodes)
    bound = bound_seconds(workflow, platform)
    if cell.strategy == PLANNED:
        return heft_links_schedule(workflow, platform, {}).makespan_seconds / bound
    (strategy,) = changed_strategies(cell.strategy, list(cell.changes))
    simulation = Simulation(workflow, platform, strategy, cell.seed, estimates=weather.estimates)
    if weather.faults != "none":
        inject(simulation, parse_faults(weather.faults), 1.5 * bound)
    return simulation.run().makespan_seconds / bound


def bound_seconds(workflow: Workflow, platform: Platform) -> float:
    """A lower bound: that of as many nodes, all as good as the best one."""
    machines = platform.machines
    return makespan_bounds(
        workflow,
        nodes=len(machines),
        cores=max(machine.cores for machine in machines),
        speed=max(machine.speed for machine in machines),
        bandwidth_bytes_per_second=max(machine.down_bytes_per_second for machine in machines),
        edge_bandwidth_bytes_per_second=platform.origin_bytes_per_second,
    ).best_seconds


def measure(cells: Sequence[Cell]) -> dict[Cell, float]:
    """Each cell's makespan over its bound; a line on stderr now and then."""
    found: dict[Cell, float] = {}
    began = perf_counter()
    heavy_first = sorted(cells, key=lambda cell: -cell.nodes * cell.tasks)
    for cell, ratio in called_on_all_cores(over_the_bound, heavy_first):
        found[cell] = ratio
        if len(found) % 20 == 0 or len(found) == len(cells):
            spent = perf_counter() - began
            print(f"  {len(found)} of {len(cells)}, {spent:.0f} s", file=sys.stderr, flush=True)
    return found


def table_of(
    title: str, cells: dict[Cell, float], columns: Sequence[str], nodes: Sequence[int]
) -> Table:
    """Applications and nodes down, strategies across; means over seeds."""
    table = Table("application", "nodes", *columns, title=title)
    means: dict[str, list[float]] = {column: [] for column in columns}
    for application in dict.fromkeys(cell.application for cell in cells):
        for count in nodes:
            row = []
            for column in columns:
                same = [
                    ratio
                    for cell, ratio in cells.items()
                    if (cell.application, cell.nodes, cell.strategy) == (application, count, column)
                ]
                means[column].append(fmean(same))
                row.append(f"{means[column][-1]:.3f}")
            table.add_row(application, str(count), *row)
    table.add_row("mean", "", *(f"{fmean(means[column]):.3f}" for column in columns))
    geometric = [exp(fmean(log(ratio) for ratio in means[column])) for column in columns]
    table.add_row("geometric", "", *(f"{mean:.3f}" for mean in geometric))
    return table


def run(out: Console, *, quick: bool = False, given: argparse.Namespace | None = None) -> None:
    given = given or _parser().parse_args([])
    seeds = SEEDS[:1] if quick else SEEDS
    nodes = [int(count) for count in given.nodes.split(",")]
    for name in given.weather or WEATHERS:
        weather = WEATHERS[name]
        known = weather.estimates == EXACT and weather.faults == "none"
        columns = [*given.strategies.split(","), *([PLANNED] if known else [])]
        cells = [
            Cell(application, given.tasks, count, name, column, seed, tuple(given.set))
            for application in given.applications.split(",")
            for count in nodes
            for column in columns
            for seed in seeds
        ]
        print(f"--- {weather.title}", file=sys.stderr, flush=True)
        out.print(table_of(weather.title, measure(cells), columns, nodes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.schedules")
    parser.add_argument("weather", nargs="*", choices=[[], *WEATHERS])
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--strategies", default=OURS)
    parser.add_argument("--applications", default=",".join(APPLICATIONS))
    parser.add_argument("--nodes", default=",".join(map(str, NODES)))
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    return parser


if __name__ == "__main__":
    options = _parser().parse_args()
    run(Console(width=110), quick=options.quick, given=options)
