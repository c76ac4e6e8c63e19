"""MATRIX, figure 6: all-pairs beside data diffusion and the best cases, and by three policies.

(a) Efficiency at 200 cores of MATRIX (FLDS), data diffusion (files come from GPFS once, then are
cached; one central index), active storage (every file in every node's memory: the strategy
`workqueue`) and the best case of a parallel file system (every task reads both its files from it;
it is never the limit, only the nodes' own links are: `workqueue` without caching). (b) The policies
MLB, MDL and FLDS up to 200 cores.
"""

from dataward.reproduce.all_pairs_runs import (
    ACTIVE,
    ALL_PAIRS,
    DIFFUSION,
    FLDS,
    MDL,
    MLB,
    PARALLEL,
    SETUP,
    SIDES,
    SIDES_QUICK,
    SLOW_LINKS,
    efficiency,
    largest,
    most_cores,
    pairs_cells,
)
from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart, Panel, PanelKind, Series, series_of
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_at_most,
    judge_number,
    judge_order,
    worst,
)
from dataward.reproduce.experiment import Experiment

POLICIES = (FLDS, MDL, MLB)
PUBLISHED = (85.9, 91.0, 75.0, 20.0)  # the last: "less than 20%"
OTHERS = (ACTIVE, DIFFUSION, PARALLEL)


def cells(quick: bool) -> list[Cell]:
    sides = SIDES_QUICK if quick else SIDES
    return pairs_cells(POLICIES, sides.items()) + pairs_cells(OTHERS, largest(sides))


def charts(results: Results) -> list[Chart]:
    cores = most_cores(results)
    names = ["MATRIX\n(FLDS)", *(other.replace(" ", "\n") for other in OTHERS)]
    shares = [100 * efficiency(results, s) for s in (FLDS, *OTHERS)]
    bars = [Series("here", names, shares), Series("the paper", names, PUBLISHED)]
    compared = Panel(
        f"(a) {cores:g} cores", "system", "efficiency (%)", bars, kind=PanelKind.BARS, y_max=105
    )
    lines = [
        series_of(
            policy,
            [(x, 100 * y) for x, y in results.curve("efficiency", "cores", system=policy)],
        )
        for policy in POLICIES
    ]
    policies = Panel("(b) policies", "cores", "efficiency (%)", lines, x_base=2, y_max=105)
    title = "All-pairs: efficiency"
    return [Chart("matrix-6", title, [compared, policies], series_word="series")]


def find_beside_diffusion(results: Results) -> Finding:
    ours, theirs = efficiency(results, FLDS), efficiency(results, DIFFUSION)
    sizes = [judge_number(ours, 0.859, neutral=0.5), judge_number(theirs, 0.75, neutral=0.5)]
    verdict = worst([*sizes, judge_order([ours, theirs])])
    return Finding(f"{as_percent(ours)} against {as_percent(theirs)}", verdict)


def find_beside_active(results: Results) -> Finding:
    ours, best = efficiency(results, FLDS), efficiency(results, ACTIVE)
    verdict = worst([judge_number(ours / best, 0.859 / 0.91, neutral=0.5),
                     judge_number(best, 0.91, neutral=0.5)])  # fmt: skip
    return Finding(f"{as_percent(ours)} against {as_percent(best)}", verdict)


def find_parallel(results: Results) -> Finding:
    ours = efficiency(results, PARALLEL)
    return Finding(as_percent(ours), judge_at_most(ours, 0.2, neutral=0.5))


def find_policies(results: Results) -> Finding:
    shares = [efficiency(results, policy) for policy in POLICIES]
    named = zip(POLICIES, shares, strict=True)
    shown = ", ".join(f"{policy} {as_percent(share)}" for policy, share in named)
    return Finding(shown, judge_order(shares))


EXPERIMENT = Experiment(
    "matrix-6",
    "all-pairs against data diffusion and the best cases, and by policy",
    f"{__doc__}{SETUP}",
    ALL_PAIRS,
    cells,
    charts,
    (
        PaperClaim(
            "MATRIX is more efficient than data diffusion at 200 cores.",
            "85.9% against 75%",
            find_beside_diffusion,
            "Data diffusion's index knows every cache, and so gives each node pairs of files that "
            "it has: 20,000 files are moved, against 51,000 by FLDS, which sends a pair to the "
            "node of its first file. The paper puts the difference down to the central index "
            "being slow; here the index answers as fast as any store. " + SLOW_LINKS,
        ),
        PaperClaim(
            "MATRIX is close to the best case, active storage.",
            "85.9% against 91%",
            find_beside_active,
            SLOW_LINKS,
        ),
        PaperClaim(
            "Without locality, from a parallel file system, efficiency is low.",
            "under 20%",
            find_parallel,
            "Two cores that share 1 Gb/s need 384 ms for two tasks' files. If both fetch and then "
            "both compute, 100 of 484 ms are work, 21%: about what is seen here.",
        ),
        PaperClaim(
            "FLDS is the best policy, MDL is next, MLB is the worst.",
            "FLDS, MDL, MLB",
            find_policies,
            "Algorithm 1 sends a pair to its first file's node, always of the first set, of which "
            "a node has 5 on average but the fullest has 10: MDL waits for that "
            "node. With either file first in turn, MDL reaches 72% in place of 63% at 32 cores, "
            "as much as MLB (73%). MLB does not pay for its transfers as in the paper, because "
            "caches fill: 80% of its inputs are found on the node at 200 cores.",
        ),
    ),
)
