"""Worker-centric, figure 6: utilisation over a site's room, and makespan over workers per site.

(a) With background jobs, from the runs of figure 5; utilisation is the share of the whole time in
which a worker computes, fast or slowed down by background jobs. (b) Without background jobs.
"Flattens" is taken as: from 6 to 8 workers the makespan falls by less than half of what a third
more workers could save.
"""

from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_at_least,
    judge_at_most,
    judge_cases,
    judge_order,
)
from dataward.reproduce.coadd_runs import (
    AFFINITY,
    BY_CAPACITY,
    BY_WORKERS,
    COADD_RUNS,
    COMBINED_2,
    DEFAULT,
    NEARLY_EQUAL,
    ROOM_ENOUGH,
    SETUP,
    SHORT_TRANSFERS,
    WORKER_CENTRIC,
    at_each,
    best_among,
    coadd_cells,
    mean_of,
    panel_of,
)
from dataward.reproduce.experiment import Experiment


def cells(quick: bool) -> list[Cell]:
    return coadd_cells(BY_CAPACITY, quick) + coadd_cells(BY_WORKERS, quick)


def charts(results: Results) -> list[Chart]:
    panels = [
        panel_of(
            results, "utilisation", "capacity", "(a) with background jobs",
            "room of a site (files)", "utilisation (%)", times=100, background=1,
        ),
        panel_of(
            results, "makespan_hours", "workers", "(b) without background jobs",
            "workers per site", "makespan (hours)", background=0,
        ),
    ]  # fmt: skip
    title = "Utilisation over a site's room, makespan over its workers"
    return [Chart("worker-6", title, panels, series_word="algorithm")]


def find_utilisation(results: Results) -> Finding:
    found = at_each(results, "utilisation", "capacity", background=1)
    row = found.get(DEFAULT.capacity) or next(iter(found.values()))
    least = min(row[algorithm] for algorithm in WORKER_CENTRIC)
    return Finding(f"at least {as_percent(least)}", judge_at_least(least, 0.9, neutral=0.75))


def find_low(results: Results) -> Finding:
    row = next(iter(at_each(results, "utilisation", "capacity", background=1).values()))
    ours, theirs = mean_of(row, WORKER_CENTRIC), row[AFFINITY]
    shown = f"{as_percent(theirs)} against {as_percent(ours)} on average"
    return Finding(shown, judge_order([ours, theirs]))


def find_best(results: Results) -> Finding:
    found = at_each(results, "makespan_hours", "workers", background=0)
    best = {count: best_among(row) for count, row in found.items()}
    shown = ", ".join(f"{algorithm} with {count:g}" for count, algorithm in best.items())
    right = sum(algorithm == COMBINED_2 for algorithm in best.values())
    return Finding(f"best: {shown}", judge_cases(right, len(best)))


def find_flat(results: Results) -> Finding:
    found = at_each(results, "makespan_hours", "workers", background=0)
    (few, before), (many, last) = list(found.items())[-2:]
    saved = 1.0 - mean_of(last, last) / mean_of(before, before)
    possible = 1.0 - few / many
    shown = f"{saved:.1%} saved from {few:g} to {many:g} workers, of {possible:.0%} possible"
    return Finding(shown, judge_at_most(saved / possible, 0.5, neutral=1.0))


def find_affinity(results: Results) -> Finding:
    found = list(at_each(results, "makespan_hours", "workers", background=0).values())
    over = [row[AFFINITY] / mean_of(row, WORKER_CENTRIC) - 1.0 for row in (found[0], found[-1])]
    shown = f"{over[0]:+.1%} with the fewest workers, {over[1]:+.1%} with the most"
    return Finding(shown, judge_order(over))


EXPERIMENT = Experiment(
    "worker-6",
    "utilisation over a site's room, makespan over its workers",
    f"{__doc__}{SETUP}",
    COADD_RUNS,
    cells,
    charts,
    (
        PaperClaim(
            "Worker-centric algorithms keep workers busy at the defaults.",
            "above 90%",
            find_utilisation,
        ),
        PaperClaim(
            "Storage affinity has a low utilisation with the smallest room.",
            "low",
            find_low,
            ROOM_ENOUGH,
        ),
        PaperClaim(
            "combined.2 mostly has the shortest makespan.", "combined.2", find_best, NEARLY_EQUAL
        ),
        PaperClaim(
            "The makespan flattens as the number of workers grows.",
            "flattens",
            find_flat,
            SHORT_TRANSFERS,
        ),
        PaperClaim(
            "Storage affinity does better, beside the others, with more workers.",
            "better with more workers",
            find_affinity,
        ),
    ),
)
