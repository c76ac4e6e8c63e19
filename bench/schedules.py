"""How long workflows take under our strategy, ADAGE and HEFT with links.

    python -m bench.schedules [--quick] [fair | rough | unknown | stragglers | crashes | ...]
        [--strategies adage,heft-links] [--set name=value] [--traces [DIRECTORY]]
        [--jobs 1] [--keep results.jsonl]

Each cell of a table has, for each strategy, the mean over seeds of makespan over the lower bound:
applications of 1,000 tasks, or the traces of a directory, on nodes of 4 cores and 1 Gbps. The last
row has the means of all rows. "As planned" is what the plan of `heft-links` promises, which knows
everything beforehand.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from time import perf_counter

from rich import box
from rich.console import Console
from rich.table import Table

from dataward import generate
from dataward.api.all_cores import called_on_all_cores
from dataward.api.simulate import CORES_DEFAULT, PAID_DISK, cores_for, lower_bound_seconds
from dataward.formats.read import read_workflow
from dataward.model.platform import Machine, Platform, uniform_platform
from dataward.model.replay import as_replayed
from dataward.model.workflow import Workflow
from dataward.plan.estimates import EXACT, UNKNOWN, Estimates
from dataward.plan.heft_links import heft_links_schedule
from dataward.sim.faults import inject, parse_faults
from dataward.sim.simulation import Simulation
from dataward.strategies.choosing import changed_strategies
from dataward.strategies.registry import strategy_named
from dataward.strategies.strategy import Strategy

APPLICATIONS = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
NODES = (4, 16, 64, 256)
SEEDS = (1, 2, 3)
TASKS = 1000
PLANNED = "as planned"
TAKEN = ("plan", "order", "mover")  # parts that --set can take from another strategy
OURS = "adage,heft-links,dataward"
TRACES = "../shared/workflows"  # WfCommons' traces, and DAX files of the Pegasus generator


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

    @property
    def can_be_planned(self) -> bool:
        """Whether the plan's makespan means anything; plans do not know that sites share a link."""
        return self.estimates == EXACT and self.faults == "none" and self.platform is not two_sites


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
    """One simulated run, or one plan; ``application`` may be the path of a trace."""

    application: str
    tasks: int
    nodes: int
    weather: str
    strategy: str
    seed: int
    changes: tuple[str, ...] = ()


@cache
def _workflow(application: str, tasks: int, seed: int) -> Workflow:
    if application in APPLICATIONS:
        return as_replayed(generate(application, tasks, seed))
    return as_replayed(read_workflow(Path(application)))


def over_the_bound(cell: Cell) -> float:
    """The makespan of one simulated run, or of the plan alone, over the lower bound."""
    workflow = _workflow(cell.application, cell.tasks, cell.seed)
    weather = WEATHERS[cell.weather]
    platform = suited(weather.platform(cell.nodes), workflow)
    bound = lower_bound_seconds(workflow, platform)
    if cell.strategy == PLANNED:
        return heft_links_schedule(workflow, platform, {}).makespan_seconds / bound
    simulation = Simulation(
        workflow, platform, strategy_of(cell), cell.seed, estimates=weather.estimates
    )
    if weather.faults != "none":
        inject(simulation, parse_faults(weather.faults), 1.5 * bound)
    return simulation.run().makespan_seconds / bound


def strategy_of(cell: Cell) -> Strategy:
    """The strategy with its settings changed, and perhaps a part of another, as ``plan=adage``."""
    parts = [change for change in cell.changes if change.partition("=")[0] in TAKEN]
    settings = [change for change in cell.changes if change not in parts]
    (strategy,) = changed_strategies(cell.strategy, settings)
    for part, _, other in (change.partition("=") for change in parts):
        strategy = replace(strategy, **{part: getattr(strategy_named(other), part)})
    return strategy


def suited(platform: Platform, workflow: Workflow) -> Platform:
    """The platform with cores enough for every task, and disks that measured run times include."""
    cores = cores_for(workflow)
    machines = tuple(
        replace(
            machine,
            cores=max(machine.cores, cores) if cores > CORES_DEFAULT else machine.cores,
            disk_bytes_per_second=(
                PAID_DISK if workflow.is_measured else machine.disk_bytes_per_second
            ),
        )
        for machine in platform.machines
    )
    return replace(platform, machines=machines)


def measure(cells: Sequence[Cell], jobs: int, keep: Path | None) -> dict[Cell, float]:
    """Each cell's makespan over its bound, lightest cells first; a line on stderr now and then.

    Results are added to the file ``keep``, and cells that the file has are not run again.
    """
    found = {cell: ratio for cell, ratio in _kept(keep) if cell in set(cells)}
    todo = sorted({*cells} - {*found}, key=lambda cell: (cell.tasks * cell.nodes, str(cell)))
    began = perf_counter()
    for count, (cell, ratio) in enumerate(called_on_all_cores(over_the_bound, todo, jobs), 1):
        found[cell] = ratio
        if keep is not None:
            with keep.open("a") as file:
                print(json.dumps(asdict(cell) | {"ratio": ratio}), file=file)
        if count % 20 == 0 or count == len(todo):
            spent = perf_counter() - began
            print(f"  {count} of {len(todo)}, {spent:.0f} s", file=sys.stderr, flush=True)
    return {cell: found[cell] for cell in cells}


def _kept(keep: Path | None) -> list[tuple[Cell, float]]:
    if keep is None or not keep.exists():
        return []
    found = []
    for line in keep.read_text().splitlines():
        record = json.loads(line)
        ratio = record.pop("ratio")
        found.append((Cell(**record | {"changes": tuple(record["changes"])}), ratio))
    return found


def table_of(
    title: str,
    ratios: dict[Cell, float],
    row_of: Callable[[Cell], str],
    strategies: Sequence[str],
) -> Table:
    """Rows down, nodes across; in each place the mean of every strategy, in their order."""
    nodes = sorted({cell.nodes for cell in ratios})
    rows = dict.fromkeys(map(row_of, ratios))

    def means(row: str | None, count: int | None) -> str:
        return " · ".join(
            f"{fmean(same):.3f}" if same else "–"
            for strategy in strategies
            for same in [
                [
                    ratio
                    for cell, ratio in ratios.items()
                    if cell.strategy == strategy
                    and row in (None, row_of(cell))
                    and count in (None, cell.nodes)
                ]
            ]
        )

    table = Table(
        " · ".join(strategies),
        *(f"{count} nodes" for count in nodes),
        "all",
        title=title,
        box=box.MARKDOWN,
    )
    for row in rows:
        table.add_row(row, *(means(row, count) for count in (*nodes, None)))
    if len(rows) > 1:
        table.add_row("all", *(means(None, count) for count in (*nodes, None)))
    return table


def traces_in(directory: Path) -> list[str]:
    """The traces below a directory, smallest file first, without other schemas of the same run."""
    found = [
        path
        for pattern in ("dax/*.xml*", "wfformat/*.json")
        for path in directory.glob(pattern)
        if ".schema-" not in path.name
    ]
    if not found:
        sys.exit(f"there are no traces in {directory}: give the directory with dax/ and wfformat/")
    return [str(path) for path in sorted(found, key=lambda path: (path.stat().st_size, path.name))]


def run(out: Console, *, quick: bool = False, given: argparse.Namespace | None = None) -> None:
    given = given or _parser().parse_args([])
    seeds = [int(seed) for seed in given.seeds.split(",")][: 1 if quick else None]
    traces = traces_in(Path(given.traces)) if given.traces else None
    every: dict[Cell, float] = {}
    for name in given.weather or WEATHERS:
        weather = WEATHERS[name]
        strategies = [*given.strategies.split(","), *([PLANNED] if weather.can_be_planned else [])]
        cells = [
            Cell(application, given.tasks, int(count), name, strategy, seed, tuple(given.set))
            for application in traces or given.applications.split(",")
            for count in given.nodes.split(",")
            for strategy in strategies
            for seed in seeds
        ]
        print(f"--- {weather.title}", file=sys.stderr, flush=True)
        ratios = measure(cells, given.jobs, given.keep)
        out.print(
            table_of(weather.title, ratios, lambda cell: Path(cell.application).name, strategies)
        )
        every |= ratios
    if len({cell.weather for cell in every}) > 1:
        strategies = list(dict.fromkeys(cell.strategy for cell in every))
        out.print(table_of("means", every, lambda cell: WEATHERS[cell.weather].title, strategies))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.schedules")
    parser.add_argument("weather", nargs="*", choices=[[], *WEATHERS])
    parser.add_argument("--quick", action="store_true", help="the first seed only")
    parser.add_argument("--strategies", default=OURS)
    parser.add_argument("--applications", default=",".join(APPLICATIONS))
    parser.add_argument(
        "--traces",
        nargs="?",
        const=TRACES,
        metavar="DIRECTORY",
        help=f"the traces below this directory ({TRACES}) instead of made applications",
    )
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    add_options(parser)
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", default=",".join(map(str, NODES)))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0: one for each core")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="add results to this file, and do not run what it has; after a change of the code, "
        "begin a new one",
    )


if __name__ == "__main__":
    options = _parser().parse_args()
    run(Console(width=200), quick=options.quick, given=options)
