"""MATRIX, figure 8: the use of the cores over time in all-pairs, by FLDS and MDL at 200 cores.

From the runs of figure 6. The paper gives no numbers: both utilisations are "quite high", MDL has a
long tail in which the use of the cores drops, FLDS does not. The tail is taken as the share of the
time, at the run's end, in which less than nine tenths of the cores are busy; it counts as long from
5% on.
"""

from dataward.reproduce.all_pairs_runs import (
    ALL_PAIRS,
    FLDS,
    MDL,
    SETUP,
    SIDES,
    SIDES_QUICK,
    SLOW_LINKS,
    largest,
    most_cores,
    pairs_cells,
)
from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart, Panel, Series
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_at_least,
    judge_at_most,
    judge_order,
    worst,
)
from dataward.reproduce.experiment import Experiment

LONG = 0.05
BUSY = 0.9


def cells(quick: bool) -> list[Cell]:
    return pairs_cells((FLDS, MDL), largest(SIDES_QUICK if quick else SIDES))


def charts(results: Results) -> list[Chart]:
    def panel(policy: str) -> Panel:
        seconds = results.mean("makespan_seconds", system=policy)
        busy = results.mean_profile("busy_profile", system=policy)
        at = [seconds * (place + 0.5) / len(busy) for place in range(len(busy))]
        series = [Series(policy, at, [100 * share for share in busy])]
        return Panel(policy, "time (s)", "cores busy (%)", series, y_max=105)

    title = f"All-pairs: cores busy over time, {most_cores(results):g} cores"
    panels = [panel(policy) for policy in (FLDS, MDL)]
    return [Chart("matrix-8", title, panels, panel_word="policy")]


def tail(profile: list[float]) -> float:
    """The share of the time after the last slice in which most cores were busy."""
    last = max((place for place, share in enumerate(profile) if share >= BUSY), default=-1)
    return 1.0 - (last + 1) / len(profile)


def find_tails(results: Results) -> Finding:
    flds, mdl = (
        tail(results.mean_profile("busy_profile", system=policy)) for policy in (FLDS, MDL)
    )
    verdict = worst(
        [
            judge_at_least(mdl, LONG, neutral=0.0),
            judge_at_most(flds, LONG, neutral=mdl),
            judge_order([mdl, flds]),
        ]
    )
    return Finding(f"the last {as_percent(mdl)} of the time by MDL, {as_percent(flds)} by FLDS",
                   verdict)  # fmt: skip


def find_high(results: Results) -> Finding:
    used = [results.mean("utilisation", system=policy) for policy in (FLDS, MDL)]
    shown = f"{as_percent(used[0])} by FLDS, {as_percent(used[1])} by MDL"
    return Finding(shown, judge_at_least(min(used), 0.75, neutral=0.5))


EXPERIMENT = Experiment(
    "matrix-8",
    "all-pairs: cores busy over time",
    f"{__doc__}{SETUP}",
    ALL_PAIRS,
    cells,
    charts,
    (
        PaperClaim(
            "Both utilisations are quite high.", "high (taken as 75%)", find_high, SLOW_LINKS
        ),
        PaperClaim(
            "MDL has a long tail in which the utilisation drops; FLDS has none.",
            "a tail by MDL, none by FLDS",
            find_tails,
            "Nodes that end early steal pairs, and fetch files for them at 1 Gb/s, 1,200 more than "
            "MDL does: the last 9% of the time by FLDS. With links of 10 Gb/s that is 1%.",
        ),
    ),
)
