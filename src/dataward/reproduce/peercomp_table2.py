"""PeerComp, table 2: speed-up by relative priority.

The speed-up is the time that the owner would need by itself over the time from submission to end;
the relative priority is the same over the time left until the deadline. Fork-joins of ten tasks and
Laplace solvers of nine have the paper's largest speed-ups on equal machines, 3.3 and 1.8. They
arrive for two hours; the means are over all that were accepted. There are 2,000 nodes here and a
million in the paper: a speed-up does not depend on how many nodes there are, but on how many of
them have holes.
"""

from dataward.reproduce.cells import Cell, Results, a_cell, as_number
from dataward.reproduce.charts import Chart, Panel, Series, Source, series_of
from dataward.reproduce.claims import (
    Finding,
    Judgement,
    PaperClaim,
    as_percent,
    judge_at_least,
    judge_number,
    judge_order,
    worst,
)
from dataward.reproduce.experiment import Experiment
from dataward.reproduce.peercomp_runs import PEERCOMP, SETUP

PRIORITIES = (1.1, 1.2, 1.3, 1.4)
PUBLISHED = {"Fork-join": (2.12, 2.85, 2.90, 2.92), "Laplace": (2.05, 2.09, 2.18, 2.22)}
LARGEST = {"Fork-join": 10 / 3, "Laplace": 9 / 5}
MODELS = tuple(PUBLISHED)


def cells(quick: bool) -> list[Cell]:
    nodes, minutes = (200, 60) if quick else (2_000, 120)
    return [
        a_cell(
            nodes * minutes / 7000, nodes=nodes, mix="papers", priority=priority, minutes=minutes,
            drain_minutes=90, seed=0,
        )
        for priority in PRIORITIES
    ]  # fmt: skip


def ours(results: Results, model: str) -> list[float]:
    return [y for _, y in results.curve(f"speed_up_{MODELS.index(model)}", "priority")]


def charts(results: Results) -> list[Chart]:
    speed_ups = []
    for model, title in zip(MODELS, ("(a) Fork-join", "(b) Laplace"), strict=True):
        speed_ups.append(
            Panel(
                title,
                "relative priority",
                "speed-up",
                [
                    series_of("PeerComp", list(zip(PRIORITIES, ours(results, model), strict=True))),
                    Series("PeerComp", PRIORITIES, PUBLISHED[model], Source.PAPER),
                ],
                y_max=3.8 if model == "Fork-join" else 2.5,
                level=LARGEST[model],
                level_label=f"{LARGEST[model]:.1f}: equal machines",
            )
        )
    return [Chart("peercomp-table2", "Speed-up of accepted workflows", speed_ups)]


def find_published(results: Results, model: str) -> Finding:
    found = ours(results, model)
    judged = [judge_number(a, b, neutral=1.0) for a, b in zip(found, PUBLISHED[model], strict=True)]
    kind = MODELS.index(model)
    shares = [y for _, y in results.curve(f"accepted_{kind}", "priority")]
    accepted = f"{as_percent(min(shares))} to {as_percent(max(shares))} of them accepted"
    return Finding(f"{', '.join(f'{a:.2f}' for a in found)}; {accepted}", worst(judged))


def find_rising(results: Results) -> Finding:
    judged, parts = [], []
    for model in MODELS:
        found = ours(results, model)
        judged.append(judge_order(found[::-1]))
        parts.append(f"{model}: from {found[0]:.2f} to {found[-1]:.2f}")
    return Finding("; ".join(parts), worst(judged))


def find_above(results: Results) -> Finding:
    best = max(ours(results, "Laplace"))
    return Finding(f"{best:.2f}", judge_at_least(best, LARGEST["Laplace"], neutral=1.5))


def find_below(results: Results) -> Finding:
    best = max(ours(results, "Fork-join"))
    is_below = best < LARGEST["Fork-join"]
    return Finding(f"{best:.2f}", Judgement.HOLDS if is_below else Judgement.FAILS)


def find_kept(results: Results) -> Finding:
    late = sum(results.numbers("late"))
    ended = sum(as_number(n) for n in results.numbers("ended"))
    shown = f"{late:,.0f} of {ended:,.0f} late"
    return Finding(shown, Judgement.HOLDS if not late else Judgement.FAILS)


def find_fork_join(results: Results) -> Finding:
    return find_published(results, "Fork-join")


def find_laplace(results: Results) -> Finding:
    return find_published(results, "Laplace")


SLOW_FIRST = (
    "Best fit takes the hole with the least availability, and availability is work: of two idle "
    "nodes the slower one is taken. With 500 nodes, a load of 0.3 and priority 1.2, most nodes are "
    "idle, and fork-joins reach 1.96 and Laplace solvers 1.62. With the load of 1 tasks also wait "
    "for tasks of earlier deadlines. How busy the paper's nodes were, and how their speeds differ, "
    "it does not say."
)

EXPERIMENT = Experiment(
    "peercomp-table2",
    "speed-up by relative priority",
    f"{__doc__}{SETUP}",
    PEERCOMP,
    cells,
    charts,
    (
        PaperClaim(
            "The speed-up of fork-joins at priorities 1.1 to 1.4.",
            "2.12, 2.85, 2.90, 2.92",
            find_fork_join,
            SLOW_FIRST,
        ),
        PaperClaim(
            "The speed-up of Laplace solvers at priorities 1.1 to 1.4.",
            "2.05, 2.09, 2.18, 2.22",
            find_laplace,
            SLOW_FIRST,
        ),
        PaperClaim("The speed-up increases with the priority.", "increases", find_rising),
        PaperClaim(
            "Laplace solvers do better than on equal machines, as tasks run on faster ones.",
            "up to 2.22, above 1.8",
            find_above,
            SLOW_FIRST,
        ),
        PaperClaim(
            "Fork-joins do not reach what equal machines would allow.",
            "up to 2.92, below 3.3",
            find_below,
        ),
        PaperClaim("Constraints for deadlines are guaranteed.", "guaranteed", find_kept),
    ),
)
