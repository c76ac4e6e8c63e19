"""Computes and prints the MATRIX paper's bound, for its workloads or any workflow."""

from pathlib import Path

from dataward.cli.output import (
    busy,
    encodable,
    print_json,
    print_warnings,
    reading_file,
    stdout_console,
)
from dataward.cli.tables import print_table
from dataward.formats import read_workflow
from dataward.model.quantities import show_seconds
from dataward.plan.matrix_benchmarks import (
    CORES_PUBLISHED,
    TASKS_PER_SECOND_PUBLISHED,
    BenchmarkShape,
    Workload,
    benchmark_bound,
)
from dataward.plan.matrix_bound import MatrixBound, MatrixSettings, Reading, matrix_bound


def bound_benchmarks(
    cores: int, settings: MatrixSettings, workload: Workload, *, json: bool
) -> None:
    found: dict[BenchmarkShape, dict[Reading, MatrixBound]] = {}
    for shape in BenchmarkShape:
        with busy(f"{shape.value}: {cores * workload.tasks_per_core:,} tasks"):
            found[shape] = {
                r: benchmark_bound(shape, cores, r, settings, workload) for r in Reading
            }
    published = TASKS_PER_SECOND_PUBLISHED if cores == CORES_PUBLISHED else {}
    if json:
        print_json(
            [
                {
                    "shape": shape.value,
                    "cores": cores,
                    "tasks": cores * workload.tasks_per_core,
                    "reading": reading.value,
                    "makespan_seconds": bound.makespan_seconds,
                    "tasks_per_second": bound.tasks_per_second,
                    "efficiency": bound.efficiency,
                    "published_tasks_per_second": published.get(shape),
                }
                for shape, readings in found.items()
                for reading, bound in readings.items()
            ]
        )
        return
    console = stdout_console()
    console.print(f"Tasks per second, {cores:,} cores, {cores * workload.tasks_per_core:,} tasks")
    headings = ("k counts ...", *(shape.value for shape in BenchmarkShape))
    rows = []
    for reading in Reading:
        rates = (found[shape][reading].tasks_per_second for shape in BenchmarkShape)
        rows.append((reading.value, *(f"{rate:,.0f}" for rate in rates)))
    if published:
        rows.append(("(the paper)", *(f"{published[shape]:,.0f}" for shape in BenchmarkShape)))
    print_table(headings, rows)
    most = cores / (workload.runtime_seconds_max / 2)
    console.print(
        f"No machine of that size can do more than {most:,.0f} a second; "
        "a reading that gives more is not a bound."
    )


def bound_workflow(file: Path, cores: int, settings: MatrixSettings, *, json: bool) -> None:
    with reading_file(file):
        workflow = read_workflow(file)
    print_warnings(workflow, file)
    found = {reading: matrix_bound(workflow, cores, settings, reading) for reading in Reading}
    if json:
        print_json(
            [
                {
                    "file": encodable(file),
                    "cores": cores,
                    "reading": reading.value,
                    "makespan_seconds": bound.makespan_seconds,
                    "tasks_per_second": bound.tasks_per_second,
                    "efficiency": bound.efficiency,
                }
                for reading, bound in found.items()
            ]
        )
        return
    rows = [
        (
            reading.value,
            show_seconds(bound.makespan_seconds),
            f"{bound.tasks_per_second:,.4g}",
            f"{bound.efficiency:.1%}",
        )
        for reading, bound in found.items()
    ]
    console = stdout_console()
    console.print(f"{workflow.name} on {cores:,} cores, by the MATRIX paper's equations")
    print_table(("k counts ...", "makespan", "tasks/s", "efficiency"), rows)
