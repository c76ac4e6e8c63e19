"""MATRIX, figure 12: the analytical bound on four benchmark DAGs, up to 128K cores.

Computed, not simulated, as in the paper: 1,000 tasks a core, so 131,072,000 tasks at 128K cores
(taken as 131,072). Bandwidth, latency and the size of a task are those of the authors' SimMatrix
(10 Gb/s, 0.6 ms, 100 B). Equation (1) leaves open what its k counts; the chart shows the equation
as printed, and as LEVEL_FULLEST reads it, by which the claims are judged. docs/matrix-bound.md
discusses all readings. A number holds within a tenth of the published one.
"""

from functools import partial

from dataward.plan.matrix_benchmarks import (
    CORES_PUBLISHED,
    TASKS_PER_SECOND_PUBLISHED,
    BenchmarkShape,
    benchmark_bound,
)
from dataward.plan.matrix_bound import MatrixSettings, Reading
from dataward.reproduce.cells import Cell, CellValues, Numbers, Results, Study, a_cell, as_number
from dataward.reproduce.charts import Chart, Panel, Source, series_of
from dataward.reproduce.claims import Finding, PaperClaim, judge_number, judge_order
from dataward.reproduce.experiment import Experiment

READINGS = (Reading.LEVEL_FULLEST, Reading.PRINTED)
CORES = tuple(2**power for power in range(1, 18, 2))
CORES_QUICK = (2, 32)
POSSIBLE = 20.0  # a second and core, at 50 ms a task
SECONDS_PER_CORE = 0.00005  # that the bound takes to compute
REVISION = 1  # raised when the bound is computed in another way


def measure(values: CellValues) -> Numbers:
    shape, reading = BenchmarkShape(values["shape"]), Reading(values["reading"])
    bound = benchmark_bound(shape, int(values["cores"]), reading)
    return {"tasks_per_second": bound.tasks_per_second, "efficiency": bound.efficiency}


def settings(values: CellValues) -> str:
    return repr((REVISION, MatrixSettings()))


def no_strategy(values: CellValues) -> str:
    return ""


BOUNDS = Study("bounds", measure, settings, no_strategy)


def cells(quick: bool) -> list[Cell]:
    return [
        a_cell(SECONDS_PER_CORE * cores, shape=shape.value, reading=reading.value, cores=cores)
        for shape in BenchmarkShape
        for reading in READINGS
        for cores in (CORES_QUICK if quick else CORES)
    ]


def charts(results: Results) -> list[Chart]:
    def curve(shape: BenchmarkShape, reading: Reading) -> list[tuple[float, float]]:
        chosen = {"shape": shape.value, "reading": reading.value}
        return results.curve("tasks_per_second", "cores", **chosen)

    def panel(reading: Reading) -> Panel:
        lines = [
            series_of(shape.value, [(x, y / x) for x, y in curve(shape, reading)], Source.BOUND)
            for shape in BenchmarkShape
        ]
        lines += [
            series_of(shape.value, [(CORES_PUBLISHED, rate / CORES_PUBLISHED)], Source.PAPER)
            for shape, rate in TASKS_PER_SECOND_PUBLISHED.items()
        ]
        title = f"per core; k as in {reading.value!r}"
        return Panel(
            title, "cores", "tasks per second and core", lines, 2,
            level=POSSIBLE, level_label="no machine can do more",
        )  # fmt: skip

    rates = [
        series_of(shape.value, curve(shape, READINGS[0]), Source.BOUND) for shape in BenchmarkShape
    ]
    in_all = Panel(
        f"in all; k as in {READINGS[0].value!r}", "cores", "tasks per second", rates, 2, 10
    )
    title = "The analytical bound on throughput"
    panels = [in_all, *(panel(reading) for reading in READINGS)]
    return [Chart("matrix-12", title, panels, panel_word="reading", series_word="DAG")]


def at_most_cores(results: Results, shape: BenchmarkShape) -> float:
    cores = max(as_number(c) for c in results.axis("cores"))
    reading = READINGS[0].value
    return results.mean("tasks_per_second", shape=shape.value, reading=reading, cores=cores)


def find_rate(shape: BenchmarkShape, results: Results) -> Finding:
    ours = at_most_cores(results, shape)
    return Finding(_shown(ours), judge_number(ours, TASKS_PER_SECOND_PUBLISHED[shape]))


def find_order(results: Results) -> Finding:
    rates = [at_most_cores(results, shape) for shape in BenchmarkShape]
    named = zip(BenchmarkShape, rates, strict=True)
    shown = ", ".join(f"{shape.value} {_shown(rate)}" for shape, rate in named)
    return Finding(shown, judge_order(rates))


def _shown(rate: float) -> str:
    return f"{rate / 1e6:.2f}M tasks/s" if rate >= 1e6 else f"{rate:,.0f} tasks/s"


_FANS = (
    "no reading of the formulas in which waits follow from k and l separates the DAGs by so much, "
    "since waits add up to the same total over any set of levels; the paper may have taken waits "
    "from runs of MATRIX."
)
_REASONS = {BenchmarkShape.FAN_OUT: _FANS, BenchmarkShape.FAN_IN: _FANS}

EXPERIMENT = Experiment(
    "matrix-12",
    "the analytical bound up to 128K cores",
    __doc__ or "",
    BOUNDS,
    cells,
    charts,
    (
        *(
            PaperClaim(
                f"The bound on the {shape.value} at {CORES_PUBLISHED // 1024}K cores.",
                _shown(rate),
                partial(find_rate, shape),
                _REASONS.get(shape, ""),
            )
            for shape, rate in TASKS_PER_SECOND_PUBLISHED.items()
        ),
        PaperClaim(
            "The bag has the highest bound, then pipeline, fan-out and fan-in.",
            "bag, pipeline, fan-out, fan-in",
            find_order,
            _FANS,
        ),
    ),
)
