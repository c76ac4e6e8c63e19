"""PeerComp, beside figure 6: how allocation time grows from a hundred nodes to a million.

The paper says that the search is bounded to logarithmic time by the balanced tree; it has no figure
of that. The means are over all sizes of figure 6. The claim holds if the mean grows no more than
the depth of the tree does; the line is fitted by least squares.
"""

from math import log10

from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart, Panel, series_of
from dataward.reproduce.claims import Finding, PaperClaim, judge_at_most
from dataward.reproduce.experiment import Experiment
from dataward.reproduce.peercomp_runs import (
    MILLION,
    PEERCOMP,
    SETUP,
    logarithmic_fit,
    ten_minutes,
)

COUNTS = (100, 1_000, 10_000, 100_000, MILLION)


def cells(quick: bool) -> list[Cell]:
    return [ten_minutes(nodes) for nodes in ((100, 400, 2_000) if quick else COUNTS)]


def charts(results: Results) -> list[Chart]:
    points = results.curve("allocation_mean", "nodes")
    start, slope, _ = logarithmic_fit(points)
    fit = [(nodes, start + slope * log10(nodes)) for nodes, _ in points]
    panels = [
        Panel(
            "(a) Allocation time",
            "nodes",
            "mean allocation time (s)",
            [series_of("PeerComp", points), series_of("fitted: a + b log10(nodes)", fit)],
            x_base=10,
        ),
        Panel(
            "(b) Hops of a request",
            "nodes",
            "mean hops until served",
            [series_of("PeerComp", results.curve("hops_mean", "nodes"))],
            x_base=10,
        ),
    ]
    return [Chart("peercomp-growth", "Growth with the number of nodes", panels)]


def find_logarithmic(results: Results) -> Finding:
    points = results.curve("allocation_mean", "nodes")
    start, slope, fit = logarithmic_fit(points)
    (fewest, first), (most, last) = points[0], points[-1]
    shown = (
        f"{first:.2f} s with {fewest:,.0f} nodes, {last:.2f} s with {most:,.0f}; "
        f"{start:.2f} + {slope:.2f} log10(nodes), R² {fit:.2f}"
    )
    # As the depth of the tree grows, at most; in proportion to the nodes would be 10,000 times.
    bound = log10(most) / log10(fewest)
    return Finding(shown, judge_at_most(last / first, bound, neutral=(most / fewest) ** 0.5))


EXPERIMENT = Experiment(
    "peercomp-growth",
    "allocation time from a hundred nodes to a million",
    f"{__doc__}{SETUP}",
    PEERCOMP,
    cells,
    charts,
    (
        PaperClaim(
            "Allocation is bounded to logarithmic time by the balanced tree.",
            "logarithmic",
            find_logarithmic,
        ),
    ),
)
