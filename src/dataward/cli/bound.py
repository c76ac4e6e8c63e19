"""``dataward bound``: the MATRIX paper's analytical bound, for its workloads or any workflow."""

from pathlib import Path
from typing import Annotated

import typer

from dataward.cli.output import (
    busy,
    encodable,
    plain_table,
    print_json,
    print_table,
    print_warnings,
    reading_file,
    stdout_console,
)
from dataward.formats import read_workflow
from dataward.model.quantities import parse_bandwidth, show_seconds
from dataward.plan.matrix_benchmarks import (
    CORES_PUBLISHED,
    TASKS_PER_SECOND_PUBLISHED,
    BenchmarkShape,
    Workload,
    benchmark_bound,
)
from dataward.plan.matrix_bound import MatrixBound, MatrixSettings, Reading, matrix_bound

# Far beyond any machine; with more, drawing the random run times would take hours.
CORES_MAX = 10_000_000
TASKS_PER_CORE_MAX = 1_000_000


def bound_command(
    file: Annotated[
        Path | None, typer.Argument(help="A workflow; without it, the paper's four DAGs.")
    ] = None,
    cores: Annotated[
        int, typer.Option(help="Cores; the paper's largest is 131072.", min=1, max=CORES_MAX)
    ] = CORES_PUBLISHED,
    bandwidth: Annotated[str, typer.Option(help="Each node's link, as 10Gbps.")] = "10Gbps",
    tasks_per_core: Annotated[
        int,
        typer.Option(
            help="Tasks for each core, of the paper's DAGs.", min=1, max=TASKS_PER_CORE_MAX
        ),
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of run times and sizes.", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """How fast any scheduler could run a workload, by the MATRIX paper's equations.

    Equation (1) does not say which tasks its k counts; every reading is shown beside the paper's
    own numbers, and `docs/matrix-bound.md` discusses them.

    Examples:

    - `dataward bound`
    - `dataward bound --cores 64 --tasks-per-core 10 --json`
    - `dataward bound montage.json --cores 64`
    """
    settings = MatrixSettings(bandwidth_bytes_per_second=parse_bandwidth(bandwidth))
    if file is None:
        _bound_benchmarks(cores, settings, Workload(tasks_per_core, seed=seed), json=json)
    else:
        _bound_workflow(file, cores, settings, json=json)


def _bound_benchmarks(
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
    table = plain_table("k counts ...", *(shape.value for shape in BenchmarkShape))
    for reading in Reading:
        rates = (found[shape][reading].tasks_per_second for shape in BenchmarkShape)
        table.add_row(reading.value, *(f"{rate:,.0f}" for rate in rates))
    if published:
        table.add_row("(the paper)", *(f"{published[shape]:,.0f}" for shape in BenchmarkShape))
    print_table(console, table)
    most = cores / (workload.runtime_seconds_max / 2)
    console.print(
        f"No machine of that size can do more than {most:,.0f} a second; "
        "a reading that gives more is not a bound."
    )


def _bound_workflow(file: Path, cores: int, settings: MatrixSettings, *, json: bool) -> None:
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
    table = plain_table("k counts ...", "makespan", "tasks/s", "efficiency")
    for reading, bound in found.items():
        table.add_row(
            reading.value,
            show_seconds(bound.makespan_seconds),
            f"{bound.tasks_per_second:,.4g}",
            f"{bound.efficiency:.1%}",
        )
    console = stdout_console()
    console.print(f"{workflow.name} on {cores:,} cores, by the MATRIX paper's equations")
    print_table(console, table)
