"""A small experiment of ADAGE's study, with strategies that are here."""

from dataward.reproduce.adage_runs import ADAGE_RUNS
from dataward.reproduce.cells import Cell, Results, a_cell
from dataward.reproduce.charts import Chart, Panel, series_of
from dataward.reproduce.claims import Finding, Judgement, PaperClaim, judge_order
from dataward.reproduce.experiment import Experiment

STRATEGIES = ("adage", "adage-random")


def cells(quick: bool) -> list[Cell]:
    return [
        a_cell(application="montage", tasks=30, nodes=nodes, strategy=strategy, repetition=0)
        for strategy in STRATEGIES
        for nodes in ((2,) if quick else (1, 2))
    ]


def charts(results: Results) -> list[Chart]:
    lines = [
        series_of(name, results.curve("makespan_seconds", "nodes", strategy=name))
        for name in STRATEGIES
    ]
    panel = Panel("Montage", "nodes", "seconds", lines, 2, 10)
    return [Chart("small-1", "A small one", [panel])]


def find(results: Results) -> Finding:
    ours, theirs = (results.mean("makespan_seconds", strategy=name) for name in STRATEGIES)
    return Finding(f"{ours:.1f} s and {theirs:.1f} s", judge_order([theirs, ours]))


def never(results: Results) -> Finding:
    return Finding("nobody", judge_order([0, 1]))


def partly(results: Results) -> Finding:
    return Finding("a half", Judgement.DIRECTION)


def always(results: Results) -> Finding:
    return Finding("a whole", Judgement.HOLDS)


SMALL = Experiment(
    "small-1",
    "a small one",
    "Small.\n\nNothing is assumed.",
    ADAGE_RUNS,
    cells,
    charts,
    (
        PaperClaim("ADAGE is faster | than chance.", "faster", find),
        PaperClaim("Somebody is right.", "somebody", never, "it was made up."),
        PaperClaim("Half is there.", "all", partly, "half was left out."),
        PaperClaim("All is there.", "all", always, "nobody asks why."),
    ),
)
