"""ADAGE, figure 6: how many tasks are complete after how long, on 1,024 nodes.

CyberShake and Montage of 1,000 tasks, from the runs of figure 3. The paper gives no numbers: ADAGE
"achieves the peak of completed tasks much faster". We take the moment at which nine tenths of the
tasks are complete; "much faster" holds if that is at least a tenth earlier than for both baselines.
"""

from functools import partial

from dataward.reproduce.adage_runs import (
    ADAGE_RUNS,
    BASELINES,
    BOTH,
    LITTLE_TO_GAIN,
    NODES_MAX,
    OURS,
    SETUP,
    SHOWN,
    STRATEGIES_COMPARED,
    adage_cells,
    reduction,
)
from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart, Panel, Series
from dataward.reproduce.claims import Finding, PaperClaim, as_percent, judge_at_least
from dataward.reproduce.experiment import Experiment

MUCH = 0.1
NINE_TENTHS = 90  # of the hundredths of all tasks


def cells(quick: bool) -> list[Cell]:
    if quick:
        return adage_cells(BOTH, [8], [60], 1)
    return adage_cells(BOTH, [NODES_MAX], [1000], 3)


def completions(results: Results, application: str, strategy: str) -> list[float]:
    return results.mean_profile("completion_seconds", application=application, strategy=strategy)


def charts(results: Results) -> list[Chart]:
    (tasks,) = results.axis("tasks")
    (nodes,) = results.axis("nodes")

    def panel(application: str) -> Panel:
        series = []
        for strategy in STRATEGIES_COMPARED:
            at = completions(results, application, strategy)
            done = [int(tasks) * place / (len(at) - 1) for place in range(len(at))]
            series.append(Series(SHOWN[strategy], at, done))
        return Panel(SHOWN[application], "time (s)", "tasks complete", series)

    title = f"Tasks complete over time, {nodes:,} nodes"
    return [Chart("adage-6", title, [panel(a) for a in BOTH], panel_word="application")]


def find_earlier(application: str, results: Results) -> Finding:
    at = {s: completions(results, application, s)[NINE_TENTHS] for s in STRATEGIES_COMPARED}
    earlier = {b: reduction(at[OURS], at[b]) for b in BASELINES}
    shown = ", ".join(f"{as_percent(earlier[b])} earlier than {SHOWN[b]}" for b in BASELINES)
    return Finding(shown, judge_at_least(min(earlier.values()), MUCH, neutral=0.0))


EXPERIMENT = Experiment(
    "adage-6",
    "tasks complete over time",
    f"{__doc__}{SETUP}",
    ADAGE_RUNS,
    cells,
    charts,
    tuple(
        PaperClaim(
            f"{SHOWN[application]}: ADAGE reaches the peak of completed tasks much faster than "
            "both baselines.",
            "much faster (no number)",
            partial(find_earlier, application),
            LITTLE_TO_GAIN[application],
        )
        for application in BOTH
    ),
)
