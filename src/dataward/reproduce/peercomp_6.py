"""PeerComp, figure 6: how long it takes to allocate workflows of different widths.

A million nodes, ten simulated minutes; the paper does not give its sizes. Here fork-joins of 5 to
40 tasks are all allocated in 2 stages, Laplace solvers of 9 to 36 tasks in more and more. Deadlines
have the relative priority 1.2. The time is from the submission until the last node has confirmed.
"""

from dataward.deadlines.frames import outline_of
from dataward.generate import generate
from dataward.reproduce.cells import Cell, Results, as_profile
from dataward.reproduce.charts import Chart, Panel, Series
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    judge_at_least,
    judge_at_most,
)
from dataward.reproduce.experiment import Experiment
from dataward.reproduce.peercomp_runs import (
    MILLION,
    PEERCOMP,
    SETUP,
    SIZES,
    most_nodes,
    shown_nodes,
    ten_minutes,
)

FEW_SECONDS = 5.0


def cells(quick: bool) -> list[Cell]:
    return [ten_minutes(2_000 if quick else MILLION)]


def profile(results: Results, kind: int) -> list[float]:
    """The allocation times of one kind, by percent of its workflows."""
    ((_, numbers),) = results.where(nodes=most_nodes(results))
    return list(as_profile(numbers[f"allocation_{kind}"]))


def charts(results: Results) -> list[Chart]:
    panels = []
    for model, title in (("fork-join", "(a) Fork-join"), ("laplace", "(b) Laplace")):
        series = []
        for kind, (name, tasks) in enumerate(SIZES):
            if name == model:
                width = outline_of(generate(name, tasks)).width
                x = profile(results, kind)
                label = f"{tasks} tasks, width {width}"
                series.append(Series(label, x, [float(p) for p in range(len(x))]))
        panels.append(
            Panel(title, "allocation time (s)", "workflows allocated (%)", series, y_max=100.0)
        )
    title = f"Allocation time, {shown_nodes(most_nodes(results))}"
    return [Chart("peercomp-6", title, panels, series_word="workflow")]


def medians(results: Results, model: str) -> list[float]:
    return [profile(results, k)[50] for k, (name, _) in enumerate(SIZES) if name == model]


def find_few_seconds(results: Results) -> Finding:
    slowest = max(profile(results, kind)[95] for kind in range(len(SIZES)))
    every = [m for name in ("fork-join", "laplace") for m in medians(results, name)]
    shown = f"medians of {min(every):.1f} to {max(every):.1f} s; 95% within {slowest:.1f} s"
    return Finding(shown, judge_at_most(max(every), FEW_SECONDS, neutral=30.0))


def find_steady(results: Results) -> Finding:
    ours = medians(results, "fork-join")
    shown = f"medians {', '.join(f'{m:.2f}' for m in ours)} s with 5 to 40 tasks"
    return Finding(shown, judge_at_most(max(ours) / min(ours), 1.5, neutral=3.0))


def find_growing(results: Results) -> Finding:
    ours = medians(results, "laplace")
    shown = f"medians {', '.join(f'{m:.2f}' for m in ours)} s with 9 to 36 tasks"
    return Finding(shown, judge_at_least(ours[-1] / ours[0], 1.5, neutral=1.0))


EXPERIMENT = Experiment(
    "peercomp-6",
    "allocation time by width on a million nodes",
    f"{__doc__}{SETUP}",
    PEERCOMP,
    cells,
    charts,
    (
        PaperClaim(
            "Workflows are allocated in a few seconds.",
            "a few seconds (taken as a median of 5 s or less)",
            find_few_seconds,
        ),
        PaperClaim(
            "The allocation time of fork-joins varies very little with their size.",
            "very little (taken as medians within a factor of 1.5)",
            find_steady,
            "From 10 tasks on they are within a factor of 1.6. Of 5 tasks the critical path is "
            "three: at priority 1.2 its frame is 1.4 times as long as itself, where that of 40 "
            "tasks is 11 times as long, so few holes surely serve, and requests climb to the root.",
        ),
        PaperClaim(
            "The allocation time of Laplace solvers grows significantly with their size.",
            "grows significantly (taken as by half or more)",
            find_growing,
        ),
    ),
)
