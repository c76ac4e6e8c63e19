"""The runs of all-pairs that MATRIX's figures 6, 7 and 8 are made from."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from dataward.generate import generate
from dataward.model.platform import GBPS, Placement
from dataward.reproduce.cells import Cell, CellValues, Numbers, Results, a_cell, as_number
from dataward.reproduce.kodiak import (
    CORES_MAX,
    GPFS_BYTES_PER_SECOND,
    NO_STAGING_AHEAD,
    kodiak,
)
from dataward.reproduce.kodiak import SETUP as MACHINE
from dataward.reproduce.simulated_cells import Measured, Setup, simulation_study

TASK_SECONDS = 0.1
# How many files each set has at so many cores: 1,250 tasks a core, as at 200 cores in the paper.
SIDES = {2: 50, 8: 100, 32: 200, CORES_MAX: 500}
SIDES_QUICK = {2: 6, 8: 12}
ALL_NODES = 1_000_000  # copies of each file: as many as there are nodes

SECONDS_PER_TASK = 0.0003  # that it takes to simulate

SETUP = f"""
Every pair of files from two sets of 500 is compared by a task of 100 ms that reads both files of 12
MB: 250,000 tasks. Every node starts with as many files, drawn at random; FLDS has tt = 20 s,
best-case submission and t = 0.5. The paper scales strongly, up to 200 cores; here the full 500 x
500 runs at 200 cores only, and at fewer cores the sets are smaller, so that every core has the same
1,250 tasks. Efficiency is the ideal time, all run times over the number of cores, over the actual
one.

The pairs come in a drawn order. MATRIX's queues are heaps by data size, which is the same for all
pairs here, and are filled by all schedulers at once, so nodes do not take their pairs row by row.
If they did, all nodes would want the same file from the same holder at the same time: at 200 cores,
FLDS would reach 30% and data diffusion 8.2%.
{MACHINE}"""


@dataclass(frozen=True, slots=True)
class PairsSystem:
    strategy: str
    settings: tuple[str, ...] = ()
    placement: Placement = Placement.DEALT
    copies: int = 1
    origin_bytes_per_second: float = GPFS_BYTES_PER_SECOND


_FLDS = ("submission=best", "threshold=0.5", "tt_seconds=20", "poll_seconds_max=50")

FLDS, MDL, MLB = "FLDS", "MDL", "MLB"
NO_CACHING = "FLDS without caching"
DIFFUSION, ACTIVE, PARALLEL = "data diffusion", "active storage", "parallel file system"
SYSTEMS = {
    FLDS: PairsSystem("matrix-flds", _FLDS),
    MDL: PairsSystem("matrix-mdl", ("submission=best",)),
    MLB: PairsSystem("matrix-mlb", ("submission=best",)),
    NO_CACHING: PairsSystem("matrix-flds", (*_FLDS, "caching=off")),
    DIFFUSION: PairsSystem("data-diffusion", (), Placement.EDGE),
    # In the best case every file is in every node's memory ...
    ACTIVE: PairsSystem("workqueue", (), Placement.DEALT, ALL_NODES),
    # ... and the file system is never the limit, only the nodes' links are.
    PARALLEL: PairsSystem("workqueue", ("caching=off",), Placement.EDGE, 1, 1000 * GBPS),
}


def set_up(values: CellValues) -> Setup:
    system = SYSTEMS[str(values["system"])]
    platform = kodiak(
        int(values["cores"]),
        placement=system.placement,
        copies=system.copies,
        origin_bytes_per_second=system.origin_bytes_per_second,
    )
    recipe = partial(generate, "all-pairs", int(values["side"]) ** 2, drawn=1)
    return Setup(recipe, platform, system.strategy, (NO_STAGING_AHEAD, *system.settings))


def strategy_of(values: CellValues) -> str:
    return SYSTEMS[str(values["system"])].strategy


def read_off(values: CellValues, run: Measured) -> Numbers:
    seconds, cores = run.summary.makespan_seconds, run.platform.cores
    return {
        "efficiency": TASK_SECONDS * len(run.workflow) / cores / seconds,
        "makespan_seconds": seconds,
        "utilisation": run.summary.utilisation,
        "hits": run.summary.locality,
        "files_moved": run.summary.files_moved,
        "busy_profile": run.busy_profile,
    }


ALL_PAIRS = simulation_study("all-pairs", set_up, read_off, strategy_of)


def pairs_cells(systems: Iterable[str], sides: Iterable[tuple[int, int]]) -> list[Cell]:
    return [
        a_cell(SECONDS_PER_TASK * side * side, system=system, cores=cores, side=side)
        for system in systems
        for cores, side in sides
    ]  # fmt: skip


def largest(sides: dict[int, int]) -> list[tuple[int, int]]:
    return [max(sides.items())]


def most_cores(results: Results) -> float:
    return max(as_number(cores) for cores in results.axis("cores"))


def efficiency(results: Results, system: str) -> float:
    """At the largest scale."""
    return results.mean("efficiency", system=system, cores=most_cores(results))


SLOW_LINKS = (
    "Every node needs all 500 files of the other set, at 1 Gb/s 48 s of transfers beside 125 s of "
    "work, and a core waits while its file comes. With links of 10 Gb/s, FLDS reaches 92% at 200 "
    "cores; but then FLDS without caching would be far above the published 50% (77% at 32 cores "
    "and 8 Gb/s), so we stay with 1 Gb/s. Fetching one task ahead is worth less: 89% in place of "
    "82% at 32 cores."
)
