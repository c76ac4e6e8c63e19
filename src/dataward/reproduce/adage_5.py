"""ADAGE, figure 5: completed tasks per second over the number of nodes.

CyberShake and Montage of 1,000 tasks, from the runs of figure 3, with 3 repetitions at 1,024 nodes.
Throughput is the number of tasks over the execution time. A claim holds if both published gains at
1,024 nodes are met within a tenth.
"""

from functools import partial

from dataward.reproduce.adage_3 import NODES, NODES_FEW, NODES_QUICK
from dataward.reproduce.adage_runs import (
    ADAGE_RUNS,
    BASELINES,
    BOTH,
    LITTLE_TO_GAIN,
    OURS,
    SETUP,
    SHOWN,
    STRATEGIES_COMPARED,
    adage_cells,
    adage_series,
)
from dataward.reproduce.cells import Cell, Results, as_number
from dataward.reproduce.charts import Chart, Panel
from dataward.reproduce.claims import Finding, PaperClaim, as_percent, judge_number, worst
from dataward.reproduce.experiment import Experiment

GAINS = {
    "cybershake": {"matrix": 13.77, "albatross": 0.83},
    "montage": {"matrix": 0.50, "albatross": 0.11},
}


def cells(quick: bool) -> list[Cell]:
    if quick:
        return adage_cells(BOTH, NODES_QUICK, [60], 1)
    few, between, most = NODES[:NODES_FEW], NODES[NODES_FEW:-1], NODES[-1:]
    return [
        *adage_cells(BOTH, few, [1000], 3),
        *adage_cells(BOTH, between, [1000], 1),
        *adage_cells(BOTH, most, [1000], 3),
    ]


def charts(results: Results) -> list[Chart]:
    def panel(application: str) -> Panel:
        series = adage_series(results, "tasks_per_second", "nodes", application)
        return Panel(SHOWN[application], "nodes", "tasks per second", series, x_base=2)

    (tasks,) = results.axis("tasks")
    panels = [panel(application) for application in BOTH]
    return [Chart("adage-5", f"Throughput, {tasks:,} tasks", panels, panel_word="application")]


def find_gain(application: str, results: Results) -> Finding:
    nodes = max(as_number(n) for n in results.axis("nodes"))
    rate = {
        s: results.mean("tasks_per_second", application=application, strategy=s, nodes=nodes)
        for s in STRATEGIES_COMPARED
    }
    gains = {b: rate[OURS] / rate[b] - 1.0 for b in BASELINES}
    published = GAINS[application]
    verdicts = [judge_number(gains[b], published[b], neutral=0.0) for b in BASELINES]
    shown = ", ".join(f"{gains[b]:+.0%} against {SHOWN[b]}" for b in BASELINES)
    return Finding(shown, worst(verdicts))


def _claim(application: str) -> PaperClaim:
    published = GAINS[application]
    return PaperClaim(
        f"{SHOWN[application]}: at 1,024 nodes ADAGE completes more tasks per second.",
        ", ".join(f"+{as_percent(published[b])} against {SHOWN[b]}" for b in BASELINES),
        partial(find_gain, application),
        LITTLE_TO_GAIN[application],
    )


EXPERIMENT = Experiment(
    "adage-5",
    "throughput over the number of nodes",
    f"{__doc__}{SETUP}",
    ADAGE_RUNS,
    cells,
    charts,
    tuple(_claim(application) for application in BOTH),
)
