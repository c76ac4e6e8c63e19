"""Worker-centric, figure 7: file transfers and utilisation per worker, over workers per site.

Without background jobs, from the runs of figure 6 (b).
"""

from itertools import pairwise

from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart
from dataward.reproduce.claims import Finding, PaperClaim, as_percent, judge_cases, judge_order
from dataward.reproduce.coadd_runs import (
    ALGORITHMS,
    BY_WORKERS,
    COADD_RUNS,
    SETUP,
    at_each,
    coadd_cells,
    mean_of,
    panel_of,
)
from dataward.reproduce.experiment import Experiment


def cells(quick: bool) -> list[Cell]:
    return coadd_cells(BY_WORKERS, quick)


def charts(results: Results) -> list[Chart]:
    workers = "workers per site"
    panels = [
        panel_of(
            results, "files_moved_per_worker", "workers", "(a)", workers,
            "file transfers per worker",
        ),
        panel_of(
            results, "utilisation", "workers", "(b)", workers, "utilisation (%)", times=100
        ),
    ]  # fmt: skip
    title = "Transfers and utilisation per worker, without background jobs"
    return [Chart("worker-7", title, panels, series_word="algorithm")]


def find_falling(results: Results) -> Finding:
    found = list(at_each(results, "files_moved_per_worker", "workers").values())
    right = sum(before[a] > after[a] for a in ALGORITHMS for before, after in pairwise(found))
    ends = [mean_of(row, ALGORITHMS) for row in (found[0], found[-1])]
    shown = f"from {ends[0]:,.0f} to {ends[1]:,.0f} on average"
    return Finding(shown, judge_cases(right, len(ALGORITHMS) * (len(found) - 1)))


def find_contention(results: Results) -> Finding:
    found = list(at_each(results, "utilisation", "workers").values())
    ends = [mean_of(row, ALGORITHMS) for row in (found[0], found[-1])]
    shown = f"from {as_percent(ends[0])} to {as_percent(ends[1])} on average"
    return Finding(shown, judge_order(ends))


EXPERIMENT = Experiment(
    "worker-7",
    "transfers and utilisation per worker",
    f"{__doc__}{SETUP}",
    COADD_RUNS,
    cells,
    charts,
    (
        PaperClaim(
            "Transfers per worker fall as the number of workers at a site grows.",
            "falling",
            find_falling,
        ),
        PaperClaim(
            "Workers wait longer for the site's data server as their number grows.",
            "utilisation falls",
            find_contention,
        ),
    ),
)
