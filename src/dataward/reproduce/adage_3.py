"""ADAGE, figure 3: execution time of five applications of 1,000 tasks on 1 to 1,024 nodes.

Node counts are 1, 2, 4 and so on, with 3 repetitions, as in the authors' public code; cut to one
repetition from 256 nodes on, and Epigenomics to 256 nodes, since idle nodes go on stealing for all
of its 34,000 s. The paper
gives, for Sipht, mean reductions of the execution time against each baseline, and for the other
applications a range; we take the range's ends to be the mean reductions against one baseline and
the other. A claim holds if both means are within 5 points of the range, and in direction if ADAGE
is faster than both on average.
"""

from functools import partial
from statistics import fmean

from dataward.reproduce.adage_runs import (
    ADAGE_RUNS,
    BASELINES,
    LITTLE_TO_GAIN,
    ONE_TASK_AT_A_TIME,
    OURS,
    SETUP,
    SHOWN,
    adage_cells,
    adage_series,
    reduction,
)
from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart, Panel
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_number,
    judge_range,
    worst,
)
from dataward.reproduce.experiment import Experiment

APPLICATIONS = ("sipht", "epigenomics", "inspiral", "cybershake", "montage")
NODES = tuple(2**power for power in range(11))
NODES_FEW = 8  # the counts below 256
NODES_QUICK = (1, 8)
RANGES = {
    "epigenomics": (0.15, 0.30),
    "inspiral": (0.20, 0.31),
    "cybershake": (0.18, 0.66),
    "montage": (0.01, 0.23),
}
SIPHT = {"albatross": 0.21, "matrix": 0.13}
SLACK = 0.05


def cells(quick: bool) -> list[Cell]:
    if quick:
        return adage_cells(APPLICATIONS, NODES_QUICK, [60], 1)
    few, many = NODES[:NODES_FEW], NODES[NODES_FEW:]
    others = [application for application in APPLICATIONS if application != "epigenomics"]
    return [
        *adage_cells(APPLICATIONS, few, [1000], 3),
        *adage_cells(["epigenomics"], many[:1], [1000], 1),
        *adage_cells(others, many, [1000], 1),
    ]


def charts(results: Results) -> list[Chart]:
    def panel(application: str) -> Panel:
        series = adage_series(results, "makespan_seconds", "nodes", application)
        return Panel(SHOWN[application], "nodes", "execution time (s)", series, 2, 10)

    (tasks,) = results.axis("tasks")
    title = f"Execution time, {tasks:,} tasks, nodes of 4 cores"
    panels = [panel(application) for application in APPLICATIONS]
    return [Chart("adage-3", title, panels, panel_word="application")]


def mean_reduction(results: Results, application: str, baseline: str) -> float:
    """The mean over node counts of how much shorter ADAGE's execution time is."""
    return fmean(
        reduction(
            results.mean("makespan_seconds", application=application, strategy=OURS, nodes=nodes),
            results.mean(
                "makespan_seconds", application=application, strategy=baseline, nodes=nodes
            ),
        )
        for nodes in results.axis("nodes", application=application)
    )


def find_range(application: str, results: Results) -> Finding:
    ours = {b: mean_reduction(results, application, b) for b in BASELINES}
    low, high = RANGES[application]
    return Finding(_shown(ours), judge_range(list(ours.values()), low, high, slack=SLACK))


def find_sipht(results: Results) -> Finding:
    ours = {b: mean_reduction(results, "sipht", b) for b in BASELINES}
    verdicts = [judge_range([ours[b]], SIPHT[b], SIPHT[b], slack=SLACK) for b in BASELINES]
    return Finding(_shown(ours), worst(verdicts))


def find_best(results: Results) -> Finding:
    ours = {
        (application, b): mean_reduction(results, application, b)
        for application in APPLICATIONS
        for b in BASELINES
    }
    application, baseline = max(ours, key=lambda pair: ours[pair])
    best = ours[application, baseline]
    shown = f"{as_percent(best)} ({SHOWN[application]} against {SHOWN[baseline]})"
    return Finding(shown, judge_number(best, 0.66, neutral=0.0))


def _shown(reductions: dict[str, float]) -> str:
    return ", ".join(f"{as_percent(r)} against {SHOWN[b]}" for b, r in reductions.items())


_REASONS = {
    "epigenomics": (
        "Giving sends tasks to busy nodes: ADAGE loses 22% and 42% to MATRIX on 32 and 64 nodes, "
        "and between 4% lost and 2% won elsewhere. Without giving, ADAGE takes 34,112 s on 64 "
        "nodes, as MATRIX does (34,123 s) and as the longest path allows, in place of 48,508 s; "
        "with one core a node, as in the authors' simulator, 12% less than MATRIX in place of 26% "
        "more."
    ),
    "inspiral": (
        "Giving sends tasks to busy nodes: ADAGE loses 7%, 12% and 28% to MATRIX on 16, 32 and 64 "
        "nodes. Without giving it wins 6% on 32 and loses 4% on 64. From 128 nodes on all come to "
        "the longest path, 1,405 s. One core a node, as in the authors' simulator, does not change "
        "that: 23% lost on 64 nodes."
    ),
    "cybershake": f"{ONE_TASK_AT_A_TIME} {LITTLE_TO_GAIN['cybershake']}",
    "montage": LITTLE_TO_GAIN["montage"],
}

CLAIMS = (
    PaperClaim(
        "Sipht: ADAGE is on average 21% faster than Albatross and 13% faster than MATRIX.",
        "13% against MATRIX, 21% against Albatross",
        find_sipht,
        "The longest path takes 5,149 s, and from 16 nodes on ADAGE and MATRIX are both within 1% "
        "of that: there is nothing left to gain at 7 of 11 node counts. Giving plays no part: on 8 "
        "nodes ADAGE takes 7,733 s with it and 7,748 s without it, MATRIX 7,148 s. With one core a "
        "node, as in the authors' simulator, ADAGE wins 5% on 32 nodes, and 39% against Albatross.",
    ),
    *(
        PaperClaim(
            f"{SHOWN[application]}: ADAGE reduces the execution time.",
            f"by {as_percent(low)} to {as_percent(high)}",
            partial(find_range, application),
            _REASONS.get(application, ""),
        )
        for application, (low, high) in RANGES.items()
    ),
    PaperClaim(
        "The largest average reduction of the execution time.",
        "up to 66%",
        find_best,
        ONE_TASK_AT_A_TIME,
    ),
)

EXPERIMENT = Experiment(
    "adage-3",
    "execution time of five applications over the number of nodes",
    f"{__doc__}{SETUP}",
    ADAGE_RUNS,
    cells,
    charts,
    CLAIMS,
)
