"""Worker-centric, figure 10: makespan and file transfers over the number of sites.

With background jobs. The text does not give the numbers of sites; here there are 10 to 26.
"""

from itertools import pairwise

from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_cases,
    judge_number,
)
from dataward.reproduce.coadd_runs import (
    ALGORITHMS,
    BY_SITES,
    COADD_RUNS,
    COMBINED,
    COMBINED_2,
    NEARLY_EQUAL,
    REST,
    REST_2,
    SETUP,
    SHORT_TRANSFERS,
    at_each,
    best_among,
    coadd_cells,
    panel_of,
    reductions,
)
from dataward.reproduce.experiment import Experiment


def cells(quick: bool) -> list[Cell]:
    return coadd_cells(BY_SITES, quick)


def charts(results: Results) -> list[Chart]:
    panels = [
        panel_of(results, "makespan_hours", "sites", "(a)", "sites", "makespan (hours)"),
        panel_of(results, "files_moved", "sites", "(b)", "sites", "file transfers"),
    ]
    title = "Makespan and file transfers over the number of sites, with background jobs"
    return [Chart("worker-10", title, panels, series_word="algorithm")]


def find_best(results: Results) -> Finding:
    best = {
        sites: best_among(row) for sites, row in at_each(results, "makespan_hours", "sites").items()
    }
    shown = ", ".join(f"{algorithm} at {sites:g}" for sites, algorithm in best.items())
    right = sum(algorithm == COMBINED_2 for algorithm in best.values())
    return Finding(f"best: {shown}", judge_cases(right, len(best)))


def find_less(results: Results) -> Finding:
    less = reductions(at_each(results, "makespan_hours", "sites"), COMBINED_2)
    sites = max(less, key=lambda x: less[x])
    shown = f"{as_percent(less[sites])} less, at {sites:g} sites"
    return Finding(shown, judge_number(less[sites], 0.17, neutral=0.0))


def find_falling(results: Results) -> Finding:
    found = list(at_each(results, "makespan_hours", "sites").values())
    right = sum(before[a] > after[a] for a in ALGORITHMS for before, after in pairwise(found))
    steps = len(ALGORITHMS) * (len(found) - 1)
    return Finding(f"in {right} of {steps} steps", judge_cases(right, steps))


def find_randomised(results: Results) -> Finding:
    found = at_each(results, "makespan_hours", "sites").values()
    right = sum(
        row[randomised] < row[plain]
        for row in found
        for randomised, plain in ((REST_2, REST), (COMBINED_2, COMBINED))
    )
    return Finding(f"in {right} of {2 * len(found)} cases", judge_cases(right, 2 * len(found)))


EXPERIMENT = Experiment(
    "worker-10",
    "makespan and transfers over the number of sites",
    f"{__doc__}{SETUP}",
    COADD_RUNS,
    cells,
    charts,
    (
        PaperClaim("combined.2 performs best.", "combined.2", find_best, NEARLY_EQUAL),
        PaperClaim(
            "In the best case, combined.2 takes less time than storage affinity.",
            "roughly 17% less",
            find_less,
            SHORT_TRANSFERS,
        ),
        PaperClaim("The makespan falls as the number of sites grows.", "falling", find_falling),
        PaperClaim(
            "Randomised algorithms perform better than deterministic ones.",
            "better",
            find_randomised,
            NEARLY_EQUAL,
        ),
    ),
)
