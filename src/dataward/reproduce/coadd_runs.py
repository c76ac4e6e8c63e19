"""The runs of Coadd that the worker-centric paper's figures 5 to 10 are made from."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean

from dataward.generate import generate
from dataward.generate.coadd import OUTPUT_BYTES, STRIP_MIN
from dataward.reproduce.cells import Cell, CellValues, Numbers, Results, Value, a_cell, as_number
from dataward.reproduce.charts import Panel, series_of
from dataward.reproduce.grid import SETUP as GRID
from dataward.reproduce.grid import SITES_MAX, TOPOLOGIES, grid
from dataward.reproduce.simulated_cells import Measured, Setup, simulation_study

TASKS = 6000
TASKS_QUICK = 60
STRIPS = 12  # the survey's camera has 6 columns, and two scans interleave
SECONDS_PER_HOUR = 3600.0

AFFINITY = "storage affinity"
OVERLAP, REST, COMBINED = "overlap", "rest", "combined"
REST_2, COMBINED_2 = "rest.2", "combined.2"
WORKER_CENTRIC = (OVERLAP, REST, COMBINED, REST_2, COMBINED_2)
ALGORITHMS: dict[str, tuple[str, tuple[str, ...]]] = {
    AFFINITY: ("storage-affinity", (f"backups_max={SITES_MAX}",)),
    OVERLAP: ("worker-centric", ("metric=overlap", "choose=1")),
    REST: ("worker-centric", ("metric=rest", "choose=1")),
    COMBINED: ("worker-centric", ("metric=combined", "choose=1")),
    REST_2: ("worker-centric", ("metric=rest", "choose=2")),
    COMBINED_2: ("worker-centric", ("metric=combined", "choose=2")),
}
OF_EVERY_SITE = (
    "transfers_max=1", "staging_ahead=0", "inputs_from_origin=on", "lease_seconds=7200",
    "validation_seconds=3600",
)  # fmt: skip
# "Once every 5 minutes ... a floating-point number uniformly at random between 0 to 100."
BACKGROUND = "background=0.5,background_seconds=300,background_steady=1"

SETUP = f"""
The workload is the first 6,000 tasks of Coadd. Defaults (table 1): 1,000 MFLOP per file, room for
6,000 files at a site, 1 worker a site, 10 sites, files of 25 MB. Background jobs redraw the load of
every worker every 5 minutes, uniformly from 0 to 100%.

How the tasks lie on the sky is not published either, and it decides how often a file is needed at
several sites. On a single strip, all sites follow each other along it, and every file goes to five
of ten sites; the paper's table 4 has 1.5 transfers a file. So there are {STRIPS} strips here, side
by side, as the survey has (6 columns of the camera, scanned twice).

Which tasks are replicated first, and how often, the paper does not say of storage affinity: see
`node/affinity_chooser.py`; the number of replicas is not limited.
{GRID}"""

ROOM_ENOUGH = (
    "The generated tasks share files with their neighbours on a strip only, and both ways to "
    "schedule go along the strips, so that 3,000 files are room enough."
)

NEARLY_EQUAL = (
    "All worker-centric metrics but overlap come within 1% of each other with one worker a site "
    "(453.7 to 454.6 h on 10 sites, 148.9 to 150.1 h on 26), and within 5% with more."
)
SHORT_TRANSFERS = (
    "At the published bandwidths a file takes 13 s here, but 27 to 91 s by the paper's own table "
    "4: with transfers so much shorter, the makespan is more a matter of what is computed. "
    "At a quarter of the bandwidths, `rest` keeps workers busy for 17% of the time at 50 MFLOP "
    "(the paper: 20%), in place of 39% (first topology)."
)


@dataclass(frozen=True, slots=True)
class GridCase:
    """One column of a figure: what differs from table 1's defaults."""

    capacity: int = 6000  # files
    workers: int = 1
    sites: int = 10
    mflop: int = 1000
    file_mb: int = 25
    background: int = 1
    tasks: int = field(default=TASKS)


DEFAULT = GridCase()
CAPACITIES = (3000, 6000, 15_000, 30_000)
WORKERS = (2, 4, 6, 8)
COSTS = (50, 200, 400, 600, 800, 1000)
FILE_SIZES = (5, 25, 50)
SITE_COUNTS = (10, 14, 18, 22, 26)

BY_CAPACITY = tuple(replace(DEFAULT, capacity=files) for files in CAPACITIES)
BY_WORKERS = tuple(replace(DEFAULT, workers=count, background=0) for count in WORKERS)
BY_COST_ALONE = tuple(replace(DEFAULT, mflop=cost, background=0) for cost in COSTS)
BY_COST = tuple(replace(DEFAULT, mflop=cost) for cost in COSTS)
BY_FILE_SIZE = tuple(replace(DEFAULT, file_mb=size) for size in FILE_SIZES)
BY_SITES = tuple(replace(DEFAULT, sites=count) for count in SITE_COUNTS)


def set_up(values: CellValues) -> Setup:
    strategy, settings = ALGORITHMS[str(values["algorithm"])]
    tasks, topology = int(values["tasks"]), int(values["topology"])
    file_mb = int(values["file_mb"])
    recipe = partial(
        generate,
        "coadd",
        tasks,
        strips=STRIPS if tasks >= STRIPS * STRIP_MIN else 2,
        file_mb=file_mb,
        seconds_per_file=as_number(values["mflop"]) / 1000.0,
    )
    platform = grid(
        topology,
        int(values["sites"]),
        int(values["workers"]),
        # The quick version has room in proportion, but for one task's files and its successor's.
        max(int(values["capacity"]) * tasks // TASKS, 220),
        file_mb * 1_000_000,
        tasks * OUTPUT_BYTES,
    )
    faults = BACKGROUND if values["background"] else "none"
    return Setup(recipe, platform, strategy, (*OF_EVERY_SITE, *settings), faults, topology)


def strategy_of(values: CellValues) -> str:
    return ALGORITHMS[str(values["algorithm"])][0]


def read_off(values: CellValues, run: Measured) -> Numbers:
    """Numbers by worker are means over all sites."""
    summary, gauges, cores = run.summary, run.gauges, run.platform.cores
    staging, moving = sum(gauges.staging_seconds.values()), sum(gauges.transfer_seconds.values())
    return {
        "makespan_hours": summary.makespan_seconds / SECONDS_PER_HOUR,
        "files_moved": summary.files_moved,
        "utilisation": summary.busy_share,
        "transferring_share": gauges.transferring_seconds() / summary.makespan_seconds,
        "waiting_hours_per_worker": max(staging - moving, 0.0) / cores / SECONDS_PER_HOUR,
        "transfer_hours_per_worker": moving / cores / SECONDS_PER_HOUR,
        "files_moved_per_worker": summary.files_moved / cores,
        "replicas_run": summary.replicas_run,
    }


COADD_RUNS = simulation_study("coadd", set_up, read_off, strategy_of)


def coadd_cells(
    cases: Iterable[GridCase], quick: bool, algorithms: Iterable[str] = tuple(ALGORITHMS)
) -> list[Cell]:
    """Cells for each case; the quick version has the first and the last case, cut down."""
    chosen = list(cases)
    if quick:
        chosen = [replace(case, tasks=TASKS_QUICK, sites=max(case.sites // 5, 2))
                  for case in (chosen[0], chosen[-1])]  # fmt: skip
    topologies = range(1 if quick else len(TOPOLOGIES))
    return [
        a_cell(
            case.tasks * (4.5 + 0.25 * case.sites) / TASKS,  # 7 s on 10 sites, 11 s on 26
            algorithm=algorithm,
            topology=topology,
            **_values(case),
        )
        for case in chosen
        for algorithm in algorithms
        for topology in topologies
    ]


def _values(case: GridCase) -> dict[str, Value]:
    return {
        "capacity": case.capacity,
        "workers": case.workers,
        "sites": case.sites,
        "mflop": case.mflop,
        "file_mb": case.file_mb,
        "background": case.background,
        "tasks": case.tasks,
    }


def panel_of(
    results: Results,
    number: str,
    over: str,
    title: str,
    x_label: str,
    y_label: str,
    *,
    times: float = 1.0,
    **values: Value,
) -> Panel:
    """A line for every algorithm."""
    lines = []
    for algorithm in results.axis("algorithm", **values):
        curve = results.curve(number, over, algorithm=algorithm, **values)
        lines.append(series_of(str(algorithm), [(x, times * y) for x, y in curve]))
    return Panel(title, x_label, y_label, lines)


def at_each(
    results: Results, number: str, over: str, **values: Value
) -> dict[float, dict[str, float]]:
    """The number of every algorithm at each value of ``over``, in rising order."""
    axis = sorted(as_number(x) for x in results.axis(over, **values))
    return {
        x: {
            str(algorithm): results.mean(number, **{**values, over: x}, algorithm=algorithm)
            for algorithm in results.axis("algorithm", **values)
        }
        for x in axis
    }


def best_among(found: dict[str, float]) -> str:
    return min(found, key=lambda algorithm: found[algorithm])


def reductions(found: dict[float, dict[str, float]], algorithm: str) -> dict[float, float]:
    """At each place, by which share the algorithm is below storage affinity."""
    return {x: 1.0 - row[algorithm] / row[AFFINITY] for x, row in found.items()}


def mean_of(found: dict[str, float], algorithms: Iterable[str]) -> float:
    return fmean(found[algorithm] for algorithm in algorithms)
