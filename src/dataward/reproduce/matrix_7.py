"""MATRIX, figure 7: all-pairs by FLDS, with and without caching what was moved.

Without caching (`caching=off`), a node drops a fetched file when no task of its own reads it any
more.
"""

from dataward.reproduce.all_pairs_runs import (
    ALL_PAIRS,
    FLDS,
    NO_CACHING,
    SETUP,
    SIDES,
    SIDES_QUICK,
    SLOW_LINKS,
    efficiency,
    most_cores,
    pairs_cells,
)
from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart, Panel, series_of
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_at_least,
    judge_at_most,
)
from dataward.reproduce.experiment import Experiment

BOTH_WAYS = {"caching": FLDS, "no caching": NO_CACHING}


def cells(quick: bool) -> list[Cell]:
    sides = SIDES_QUICK if quick else SIDES
    return pairs_cells(BOTH_WAYS.values(), sides.items())


def charts(results: Results) -> list[Chart]:
    def line(number: str, name: str) -> list[tuple[float, float]]:
        curve = results.curve(number, "cores", system=BOTH_WAYS[name])
        return [(x, 100 * y) for x, y in curve]

    efficiencies = [series_of(name, line("efficiency", name)) for name in BOTH_WAYS]
    hits = [series_of(name, line("hits", name)) for name in BOTH_WAYS]
    panels = [
        Panel("efficiency", "cores", "efficiency (%)", efficiencies, x_base=2, y_max=105),
        Panel("inputs found on the node", "cores", "of all inputs (%)", hits, x_base=2, y_max=105),
    ]
    return [Chart("matrix-7", "All-pairs by FLDS, with and without caching", panels)]


def find_without(results: Results) -> Finding:
    ours = efficiency(results, NO_CACHING)
    return Finding(as_percent(ours), judge_at_most(ours, 0.5, neutral=efficiency(results, FLDS)))


def find_with(results: Results) -> Finding:
    ours = efficiency(results, FLDS)
    verdict = judge_at_least(ours, 0.85, neutral=efficiency(results, NO_CACHING))
    return Finding(as_percent(ours), verdict)


def find_hits(results: Results) -> Finding:
    ours = results.mean("hits", system=FLDS, cores=most_cores(results))
    without = results.mean("hits", system=NO_CACHING, cores=most_cores(results))
    return Finding(as_percent(ours), judge_at_least(ours, 0.8, neutral=without))


EXPERIMENT = Experiment(
    "matrix-7",
    "all-pairs with and without caching",
    f"{__doc__}{SETUP}",
    ALL_PAIRS,
    cells,
    charts,
    (
        PaperClaim("Without caching, FLDS is inefficient at 200 cores.", "under 50%", find_without),
        PaperClaim(
            "With caching, FLDS is efficient at 200 cores.", "above 85%", find_with, SLOW_LINKS
        ),
        PaperClaim("Most inputs are found in the node's cache.", "above 80%", find_hits),
    ),
)
