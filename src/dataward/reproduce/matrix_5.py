"""MATRIX, figure 5: image stacking over locality, and the use of the cores over time.

A task cuts an object out of a 2 MB image in 158 ms and writes 10 KB; a last task adds up all
cut-outs. Locality is the number of tasks per image. (a) The mean time per task and core at 128
cores, for MATRIX (policy MDL, images dealt out to the nodes' memories at random, best-case
submission), data diffusion (images come from GPFS once and are then cached) and GPFS itself (every
task reads its image from GPFS, compressed to 2 MB or not, 6 MB). (b) MATRIX at 200 cores and
locality 30.

The numbers of tasks at each locality are those of Falkon's data diffusion paper (DADC 2008), 23,695
to 154,345; they are cut to 12,800, 100 a core, except at locality 30, which has all 23,695. The
paper clocks from before the images are copied into the system, but its MATRIX takes 158 ms a task
at any locality, which leaves no time for that: here MATRIX starts with the images in place. GPFS is
the strategy `workqueue` without caching. Decompression is taken to be part of the 158 ms.
"""

from dataclasses import dataclass
from functools import partial

from dataward.generate import generate
from dataward.model.platform import Placement
from dataward.reproduce.cells import Cell, CellValues, Numbers, Results, a_cell, as_number
from dataward.reproduce.charts import Chart, Panel, Series, series_of
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_at_least,
    judge_at_most,
    judge_number,
    worst,
)
from dataward.reproduce.experiment import Experiment
from dataward.reproduce.kodiak import CORES_MAX, NO_STAGING_AHEAD, SETUP, kodiak
from dataward.reproduce.simulated_cells import Measured, Setup, simulation_study

IDEAL_SECONDS = 0.158
LOCALITIES = (1, 1.38, 2, 3, 4, 5, 10, 20, 30)
CORES_COMPARED = 128
TASKS_COMPARED = 12_800
TASKS_AT_30 = 23_695
SECONDS_PER_TASK = 0.0003  # that it takes to simulate


@dataclass(frozen=True, slots=True)
class StackingSystem:
    strategy: str
    settings: tuple[str, ...]
    placement: Placement
    image_mb: float = 2.0


SYSTEMS = {
    "MATRIX": StackingSystem("matrix-mdl", ("submission=best",), Placement.DEALT),
    "data diffusion": StackingSystem("data-diffusion", (), Placement.EDGE),
    "GPFS, 2 MB": StackingSystem("workqueue", ("caching=off",), Placement.EDGE),
    "GPFS, 6 MB": StackingSystem("workqueue", ("caching=off",), Placement.EDGE, 6.0),
}


def set_up(values: CellValues) -> Setup:
    system = SYSTEMS[str(values["system"])]
    recipe = partial(
        generate,
        "image-stacking",
        int(values["tasks"]) + 1,
        locality=values["locality"],
        image_mb=system.image_mb,
    )
    platform = kodiak(int(values["cores"]), placement=system.placement)
    return Setup(recipe, platform, system.strategy, (NO_STAGING_AHEAD, *system.settings))


def strategy_of(values: CellValues) -> str:
    return SYSTEMS[str(values["system"])].strategy


def read_off(values: CellValues, run: Measured) -> Numbers:
    seconds, cores = run.summary.makespan_seconds, run.platform.cores
    return {
        "seconds_per_task": seconds * cores / len(run.workflow),
        "utilisation": run.summary.utilisation,
        "makespan_seconds": seconds,
        "busy_profile": run.busy_profile,
    }


STACKING = simulation_study("stacking", set_up, read_off, strategy_of)


def cells(quick: bool) -> list[Cell]:
    cores = 16 if quick else CORES_COMPARED
    sizes = {1: 320, 30: 320} if quick else dict.fromkeys(LOCALITIES, TASKS_COMPARED)
    if not quick:
        sizes[30] = TASKS_AT_30
    compared = [
        a_cell(SECONDS_PER_TASK * tasks, system=system, locality=locality, cores=cores, tasks=tasks)
        for system in SYSTEMS
        for locality, tasks in sizes.items()
    ]
    most, many = (24, 480) if quick else (CORES_MAX, TASKS_AT_30)
    return [
        *compared,
        a_cell(SECONDS_PER_TASK * many, system="MATRIX", locality=30, cores=most, tasks=many),
    ]


def charts(results: Results) -> list[Chart]:
    fewer, most = (as_number(c) for c in sorted(results.axis("cores"), key=as_number))
    curves = [
        series_of(
            system,
            [
                (x, 1000 * y)
                for x, y in results.curve(
                    "seconds_per_task", "locality", system=system, cores=fewer
                )
            ],
        )
        for system in SYSTEMS
    ]
    over_locality = Panel(
        f"(a) {fewer:g} cores",
        "locality (tasks per image)",
        "time per task and core (ms)",
        curves,
        x_base=10,
        y_base=10,
        level=1000 * IDEAL_SECONDS,
        level_label="ideal: 158 ms",
    )
    seconds = results.mean("makespan_seconds", cores=most)
    busy = results.mean_profile("busy_profile", cores=most)
    at = [seconds * (place + 0.5) / len(busy) for place in range(len(busy))]
    shares = [100 * share for share in busy]
    over_time = Panel(
        f"(b) MATRIX, {most:g} cores, locality 30",
        "time (s)",
        "cores busy (%)",
        [Series("MATRIX", at, shares)],
        y_max=105,
    )
    return [Chart("matrix-5", "Image stacking", [over_locality, over_time], series_word="system")]


def per_task(results: Results, system: str) -> list[float]:
    """Seconds per task and core, at rising locality."""
    fewer = min(as_number(c) for c in results.axis("cores"))
    curve = results.curve("seconds_per_task", "locality", system=system, cores=fewer)
    return [y for _, y in curve]


def find_constant(results: Results) -> Finding:
    ours = per_task(results, "MATRIX")
    shown = f"{1000 * min(ours):.0f} to {1000 * max(ours):.0f} ms"
    return Finding(shown, judge_at_most(max(ours), 1.15 * IDEAL_SECONDS, neutral=2 * IDEAL_SECONDS))


def find_diffusion(results: Results) -> Finding:
    ours = per_task(results, "data diffusion")
    shown = f"{1000 * ours[0]:.0f} ms at locality 1, {1000 * ours[-1]:.0f} ms at 30"
    falls = judge_at_least(ours[0] / ours[-1], 1.5, neutral=1.0)
    ends_near = judge_at_most(ours[-1], 1.15 * IDEAL_SECONDS, neutral=2 * IDEAL_SECONDS)
    return Finding(shown, worst([falls, ends_near]))


def find_gpfs(results: Results) -> Finding:
    parts, spread, least = [], 0.0, float("inf")
    for system in ("GPFS, 2 MB", "GPFS, 6 MB"):
        ours = per_task(results, system)
        spread = max(spread, max(ours) / min(ours) - 1.0)
        least = min(least, min(ours))
        parts.append(f"{system}: {1000 * min(ours):.0f} to {1000 * max(ours):.0f} ms")
    steady = judge_at_most(spread, 0.1, neutral=0.5)
    high = judge_at_least(least, 1.5 * IDEAL_SECONDS, neutral=IDEAL_SECONDS)
    return Finding("; ".join(parts), worst([steady, high]))


def find_utilisation(results: Results) -> Finding:
    most = max(as_number(c) for c in results.axis("cores"))
    ours = results.mean("utilisation", cores=most)
    return Finding(as_percent(ours), judge_number(ours, 0.75, neutral=0.5))


LAST_TASK = (
    "The last task brings every cut-out to one node, one small file after another: 99% of the "
    "12,800 tasks are complete after 15.9 s of 18.1 s (MATRIX, locality 1), which is 161 ms a task."
)

EXPERIMENT = Experiment(
    "matrix-5",
    "image stacking over locality, and utilisation",
    f"{__doc__}{SETUP}",
    STACKING,
    cells,
    charts,
    (
        PaperClaim(
            "MATRIX's time per task is almost constant over locality and close to the ideal.",
            "near 158 ms at any locality, 128 cores",
            find_constant,
            LAST_TASK,
        ),
        PaperClaim(
            "Data diffusion takes long at low locality and comes close to the ideal at 30.",
            "large at locality 1, near 158 ms at 30",
            find_diffusion,
            LAST_TASK,
        ),
        PaperClaim(
            "GPFS's time per task stays at a high constant value whatever the locality.",
            "constant and high",
            find_gpfs,
        ),
        PaperClaim("MATRIX's utilisation at 200 cores and locality 30.", "75%", find_utilisation),
    ),
)
