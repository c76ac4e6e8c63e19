"""Worker-centric, table 4: waiting and transfers of the rest metric, by workers per site.

The paper has one particular site; here the numbers are means over all sites, per worker, from the
runs of figure 6 (b). Waiting is the time from a worker's request to its inputs, less the time in
which the data server was transferring files. The numbers of transfers are compared relative to 2
workers, since they depend on the site; such a ratio holds within a quarter of the published one. In
the chart of the quick version, published numbers are scaled to its number of tasks.
"""

from collections.abc import Sequence

from dataward.reproduce.cells import Cell, Results, as_number
from dataward.reproduce.charts import Chart, Panel, Series, Source, series_of
from dataward.reproduce.claims import Finding, PaperClaim, judge_number, judge_order, worst
from dataward.reproduce.coadd_runs import (
    BY_WORKERS,
    COADD_RUNS,
    REST,
    SETUP,
    TASKS,
    WORKERS,
    coadd_cells,
)
from dataward.reproduce.experiment import Experiment

WAITING = (3.59, 40.32, 98.35, 75.93)
MOVING = (30.35, 45.45, 33.85, 18.81)
TRANSFERS = (3998.5, 2086.5, 1335.17, 906.38)
NEAR = 0.25


def cells(quick: bool) -> list[Cell]:
    return coadd_cells(BY_WORKERS, quick, [REST])


def charts(results: Results) -> list[Chart]:
    workers = "workers per site"
    hours = [
        series_of("waiting", results.curve("waiting_hours_per_worker", "workers")),
        series_of("transfer", results.curve("transfer_hours_per_worker", "workers")),
    ]
    moved = [series_of("transfers", results.curve("files_moved_per_worker", "workers"))]
    (tasks,) = results.axis("tasks")
    cut = as_number(tasks) / TASKS

    def published(name: str, numbers: Sequence[float]) -> Series:
        return Series(name, WORKERS, [cut * number for number in numbers], Source.PAPER)

    hours += [published("waiting", WAITING), published("transfer", MOVING)]
    moved += [published("transfers", TRANSFERS)]
    panels = [
        Panel("time", workers, "hours per worker", hours),
        Panel("files", workers, "file transfers per worker", moved),
    ]
    return [Chart("worker-table4", "The rest metric, per worker", panels, series_word="what")]


def find_transfers(results: Results) -> Finding:
    moved = [y for _, y in results.curve("files_moved_per_worker", "workers")]
    ours = [count / moved[0] for count in moved]
    published = [count / TRANSFERS[0] for count in TRANSFERS]
    verdict = worst([
        judge_number(o, p, neutral=1.0, near=NEAR)
        for o, p in zip(ours[1:], published[1:], strict=False)
    ])  # fmt: skip
    counts = ", ".join(f"{count:,.0f}" for count in moved)
    ratios = ", ".join(f"{ratio:.2f}" for ratio in ours)
    return Finding(f"{counts} (ratios {ratios})", verdict)


def find_transfer_time(results: Results) -> Finding:
    """From 4 workers on, where the paper's fall."""
    hours = [y for _, y in results.curve("transfer_hours_per_worker", "workers")][1:]
    shown = ", ".join(f"{each:.1f}" for each in hours)
    return Finding(f"{shown} h", judge_order(hours) if len(hours) > 1 else judge_order([1, 0]))


def find_waiting(results: Results) -> Finding:
    hours = [y for _, y in results.curve("waiting_hours_per_worker", "workers")]
    shown = ", ".join(f"{each:.1f}" for each in hours)
    return Finding(f"{shown} h", judge_order([max(hours[1:]), hours[0]]))


EXPERIMENT = Experiment(
    "worker-table4",
    "waiting and transfers of the rest metric",
    f"{__doc__}{SETUP}",
    COADD_RUNS,
    cells,
    charts,
    (
        PaperClaim(
            "Transfers per worker fall with 2, 4, 6 and 8 workers.",
            "3998.5, 2086.5, 1335.2, 906.4 (ratios 1, 0.52, 0.33, 0.23)",
            find_transfers,
        ),
        PaperClaim(
            "Transfer time per worker falls from 4 workers on.", "45.5, 33.9, 18.8 h",
            find_transfer_time,
        ),
        PaperClaim(
            "Waiting for the data server is least with 2 workers, and peaks with more.",
            "3.6, 40.3, 98.4, 75.9 h",
            find_waiting,
        ),
    ),
)  # fmt: skip
