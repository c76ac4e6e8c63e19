"""Worker-centric, figure 8: utilisation and transfer time over the unit computation cost.

Without background jobs; 50, 200, 400, 600, 800 and 1,000 MFLOP per file. Transfer time is the time
in which the file server sends at least one file, as a share of the makespan.
"""

from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart
from dataward.reproduce.claims import Finding, PaperClaim, as_percent, judge_number, worst
from dataward.reproduce.coadd_runs import (
    ALGORITHMS,
    BY_COST_ALONE,
    COADD_RUNS,
    SETUP,
    SHORT_TRANSFERS,
    at_each,
    coadd_cells,
    mean_of,
    panel_of,
)
from dataward.reproduce.experiment import Experiment


def cells(quick: bool) -> list[Cell]:
    return coadd_cells(BY_COST_ALONE, quick)


def charts(results: Results) -> list[Chart]:
    cost = "MFLOP per file"
    panels = [
        panel_of(results, "utilisation", "mflop", "(a)", cost, "utilisation (%)", times=100),
        panel_of(
            results, "transferring_share", "mflop", "(b)", cost,
            "transfer time, of the makespan (%)", times=100,
        ),
    ]  # fmt: skip
    title = "Utilisation and transfer time over the computation cost"
    return [Chart("worker-8", title, panels, series_word="algorithm")]


def ends(results: Results, number: str) -> list[float]:
    """The mean over all algorithms at the lowest and the highest cost."""
    found = list(at_each(results, number, "mflop").values())
    return [mean_of(row, ALGORITHMS) for row in (found[0], found[-1])]


def find_utilisation(results: Results) -> Finding:
    low, high = ends(results, "utilisation")
    verdict = worst([judge_number(low, 0.2, neutral=0.5, near=0.5),
                     judge_number(high, 0.9, neutral=0.5)])  # fmt: skip
    return Finding(f"from {as_percent(low)} to {as_percent(high)}", verdict)


def find_transfer(results: Results) -> Finding:
    low, high = ends(results, "transferring_share")
    verdict = worst([judge_number(low, 1.0, neutral=0.75),
                     judge_number(high, 0.5, neutral=0.75, near=0.25)])  # fmt: skip
    return Finding(f"from {as_percent(low)} to {as_percent(high)}", verdict)


EXPERIMENT = Experiment(
    "worker-8",
    "utilisation and transfer time over the computation cost",
    f"{__doc__}{SETUP}",
    COADD_RUNS,
    cells,
    charts,
    (
        PaperClaim(
            "Utilisation rises with the unit cost, 50 to 1,000 MFLOP.",
            "from roughly 20% to 90%",
            find_utilisation,
            SHORT_TRANSFERS,
        ),
        PaperClaim(
            "The file server transfers for almost the whole makespan at 50 MFLOP, for half of it "
            "at 1,000.",
            "from almost 100% to roughly 50%",
            find_transfer,
        ),
    ),
)
