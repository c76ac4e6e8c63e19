"""ADAGE, figure 4: execution time of 1,000 to 10,000 tasks on 1,024 nodes.

Montage and CyberShake. The paper does not say how many sizes lie between, nor how often each was
run; here there are 1,000, 3,000 and 10,000 tasks, with 3 repetitions of the smallest (figure
3 has them too) and one of each other. The claim is about growth: how many seconds are added between
the smallest and the largest workflow.
"""

from dataward.reproduce.adage_runs import (
    ADAGE_RUNS,
    BASELINES,
    BOTH,
    NODES_MAX,
    OURS,
    SETUP,
    SHOWN,
    STRATEGIES_COMPARED,
    adage_cells,
    adage_series,
)
from dataward.reproduce.cells import Cell, Results, as_number
from dataward.reproduce.charts import Chart, Panel
from dataward.reproduce.claims import Finding, PaperClaim, judge_cases
from dataward.reproduce.experiment import Experiment


def cells(quick: bool) -> list[Cell]:
    if quick:
        return adage_cells(BOTH, [8], [60, 120], 1)
    smallest = adage_cells(BOTH, [NODES_MAX], [1000], 3)
    return smallest + adage_cells(BOTH, [NODES_MAX], [3000, 10_000], 1)


def charts(results: Results) -> list[Chart]:
    def panel(application: str) -> Panel:
        series = adage_series(results, "makespan_seconds", "tasks", application)
        return Panel(SHOWN[application], "tasks", "execution time (s)", series)

    (nodes,) = results.axis("nodes")
    title = f"Execution time over the number of tasks, {nodes:,} nodes"
    return [Chart("adage-4", title, [panel(a) for a in BOTH], panel_word="application")]


def growth(results: Results, application: str, strategy: str) -> float:
    """The seconds that the largest workflow takes longer than the smallest."""
    sizes = sorted(as_number(size) for size in results.axis("tasks"))
    small, large = (
        results.mean("makespan_seconds", application=application, strategy=strategy, tasks=size)
        for size in (sizes[0], sizes[-1])
    )
    return large - small


def find_growth(results: Results) -> Finding:
    grown = {a: {s: growth(results, a, s) for s in STRATEGIES_COMPARED} for a in BOTH}
    right = sum(grown[a][OURS] < grown[a][b] for a in BOTH for b in BASELINES)
    shown = "; ".join(
        f"{SHOWN[a]}: "
        + ", ".join(f"{SHOWN[s]} +{grown[a][s]:,.0f} s" for s in STRATEGIES_COMPARED)
        for a in BOTH
    )
    return Finding(shown, judge_cases(right, len(BOTH) * len(BASELINES)))


EXPERIMENT = Experiment(
    "adage-4",
    "execution time over the number of tasks",
    f"{__doc__}{SETUP}",
    ADAGE_RUNS,
    cells,
    charts,
    (
        PaperClaim(
            "Up to 10,000 tasks on 1,024 nodes, ADAGE's execution time grows slower than that of "
            "both baselines.",
            "slower than both, on Montage and CyberShake",
            find_growth,
        ),
    ),
)
