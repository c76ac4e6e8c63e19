"""``dataward bound``: the MATRIX paper's analytical bound, for its workloads or any workflow."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import BandwidthOption, JsonOption, SeedOption
from dataward.cli.parameters import Argument, Option

CORES_MAX = 10_000_000
TASKS_PER_CORE_MAX = 1_000_000


def bound_command(
    file: Annotated[
        Path | None, Argument(help="A workflow; without it, the paper's four DAGs.")
    ] = None,
    cores: Annotated[
        int, Option(help="Cores; the paper's largest is 131072.", min=1, max=CORES_MAX)
    ] = 131072,
    bandwidth: BandwidthOption = "10Gbps",
    tasks_per_core: Annotated[
        int,
        Option(help="Tasks for each core, of the paper's DAGs.", min=1, max=TASKS_PER_CORE_MAX),
    ] = 1000,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """How fast any scheduler could run a workload, by the MATRIX paper's equations.

    Equation (1) does not say which tasks its k counts; every reading is shown beside the paper's
    own numbers, and `docs/matrix-bound.md` discusses them.

    Examples:

    - `dataward bound`
    - `dataward bound --cores 64 --tasks-per-core 10 --json`
    - `dataward bound montage.json --cores 64`
    """
    from dataward.cli.bound_report import bound_benchmarks, bound_workflow
    from dataward.model.quantities import parse_bandwidth
    from dataward.plan.matrix_benchmarks import Workload
    from dataward.plan.matrix_bound import MatrixSettings

    settings = MatrixSettings(bandwidth_bytes_per_second=parse_bandwidth(bandwidth))
    if file is None:
        bound_benchmarks(cores, settings, Workload(tasks_per_core, seed=seed), json=json)
    else:
        bound_workflow(file, cores, settings, json=json)
