"""Worker-centric, figure 5: makespan and file transfers over the room of a site's data server.

With background jobs. "Comparable" is taken as within a tenth, "steady" as the largest makespan
within a tenth of the smallest.
"""

from dataward.reproduce.cells import Cell, Results
from dataward.reproduce.charts import Chart
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_at_most,
    judge_cases,
    judge_order,
)
from dataward.reproduce.coadd_runs import (
    AFFINITY,
    BY_CAPACITY,
    COADD_RUNS,
    COMBINED,
    COMBINED_2,
    OVERLAP,
    REST,
    REST_2,
    ROOM_ENOUGH,
    SETUP,
    WORKER_CENTRIC,
    at_each,
    best_among,
    coadd_cells,
    mean_of,
    panel_of,
)
from dataward.reproduce.experiment import Experiment


def cells(quick: bool) -> list[Cell]:
    return coadd_cells(BY_CAPACITY, quick)


def charts(results: Results) -> list[Chart]:
    room = "room of a site (files)"
    panels = [
        panel_of(results, "makespan_hours", "capacity", "(a)", room, "makespan (hours)"),
        panel_of(results, "files_moved", "capacity", "(b)", room, "file transfers"),
    ]
    title = "Makespan and file transfers over a site's room, with background jobs"
    return [Chart("worker-5", title, panels, series_word="algorithm")]


def find_randomised(results: Results) -> Finding:
    found = at_each(results, "makespan_hours", "capacity")
    best = {room: best_among(row) for room, row in found.items()}
    right = sum(algorithm in (REST_2, COMBINED_2) for algorithm in best.values())
    shown = ", ".join(f"{algorithm} at {room:,.0f}" for room, algorithm in best.items())
    return Finding(f"best: {shown}", judge_cases(right, len(best)))


def excess(row: dict[str, float]) -> float:
    """By which share storage affinity is above the mean of the worker-centric algorithms."""
    return row[AFFINITY] / mean_of(row, WORKER_CENTRIC) - 1.0


def find_premature(results: Results) -> Finding:
    over = [excess(row) for row in at_each(results, "makespan_hours", "capacity").values()]
    shown = f"{over[0]:+.1%} at the smallest room, {over[-1]:+.1%} at the largest"
    return Finding(shown, judge_order([over[0], over[-1]]))


def find_comparable(results: Results) -> Finding:
    *_, row = at_each(results, "makespan_hours", "capacity").values()
    return Finding(f"{excess(row):+.1%}", judge_at_most(abs(excess(row)), 0.1, neutral=0.25))


def find_overlap(results: Results) -> Finding:
    found = at_each(results, "makespan_hours", "capacity").values()
    others = (REST, COMBINED, REST_2, COMBINED_2)
    right = sum(all(row[OVERLAP] > row[other] for other in others) for row in found)
    over = max(row[OVERLAP] / mean_of(row, others) - 1.0 for row in found)
    shown = f"at {right} of {len(found)} sizes; at most {as_percent(over)} above the others' mean"
    return Finding(shown, judge_cases(right, len(found)))


def find_transfers(results: Results) -> Finding:
    found = at_each(results, "files_moved", "capacity").values()
    others = (REST, COMBINED, REST_2, COMBINED_2)
    right = sum(row[OVERLAP] > mean_of(row, others) for row in found)
    moved = next(iter(found))
    shown = f"{moved[OVERLAP]:,.0f} against {mean_of(moved, others):,.0f} at the smallest room"
    return Finding(shown, judge_cases(right, len(found)))


def find_steady(results: Results) -> Finding:
    found = list(at_each(results, "makespan_hours", "capacity").values())
    spread = max(
        max(row[a] for row in found) / min(row[a] for row in found) - 1.0 for a in WORKER_CENTRIC
    )
    shown = f"within {as_percent(spread)}"
    return Finding(shown, judge_at_most(spread, 0.1, neutral=0.25))


EXPERIMENT = Experiment(
    "worker-5",
    "makespan and transfers over a site's room",
    f"{__doc__}{SETUP}",
    COADD_RUNS,
    cells,
    charts,
    (
        PaperClaim(
            "The randomised algorithms, rest.2 and combined.2, perform best at all sizes.",
            "rest.2 or combined.2, always",
            find_randomised,
        ),
        PaperClaim(
            "Storage affinity suffers from small rooms more than worker-centric algorithms do.",
            "worse at small rooms",
            find_premature,
            ROOM_ENOUGH,
        ),
        PaperClaim(
            "With large rooms, storage affinity is comparable to worker-centric algorithms.",
            "comparable (taken as within 10%)",
            find_comparable,
        ),
        PaperClaim(
            "Among the worker-centric metrics, overlap performs worst.",
            "overlap is worst",
            find_overlap,
        ),
        PaperClaim(
            "Overlap usually transfers more files than the other metrics.",
            "more transfers",
            find_transfers,
        ),
        PaperClaim(
            "The makespan of worker-centric algorithms is steady over the room.",
            "steady (taken as within 10%)",
            find_steady,
        ),
    ),
)
