"""The runs of MATRIX's four benchmark DAGs that its figures 9 and 11 are made from."""

from functools import partial

from dataward.generate import generate
from dataward.plan.matrix_bound import MatrixSettings, Reading, matrix_bound
from dataward.reproduce.cells import Cell, CellValues, Numbers, a_cell
from dataward.reproduce.kodiak import CORES_MAX, CORES_PER_NODE, NO_STAGING_AHEAD, kodiak
from dataward.reproduce.kodiak import SETUP as MACHINE
from dataward.reproduce.simulated_cells import Measured, Setup, simulation_study

BAG, PIPELINE, FAN_OUT, FAN_IN = "bag", "pipeline", "fan-out", "fan-in"
DAGS = (BAG, PIPELINE, FAN_OUT, FAN_IN)  # in the order of their published throughput
CORES = (2, 8, 32, 64, 128, CORES_MAX)
CORES_QUICK = (2, 8)
TASKS_PER_CORE = 250
TASKS_PER_CORE_QUICK = 10
SECONDS_PER_TASK = 0.0003  # that it takes to simulate

SETUP = f"""
Table 3: run times uniform over 0 to 100 ms, outputs uniform over 0 to 10 MB, degree and pipe size
10; policy FLDS with t = 0.5, tt = 10 s and polls of at most 50 s; weak scaling. The paper has 1,000
tasks a core, here there are {TASKS_PER_CORE}.
{MACHINE}"""


def set_up(values: CellValues) -> Setup:
    cores = int(values["cores"])
    recipe = partial(generate, str(values["dag"]), int(values["tasks_per_core"]) * cores)
    settings = (
        NO_STAGING_AHEAD, "submission=best", "threshold=0.5", "tt_seconds=10",
        "poll_seconds_max=50",
    )  # fmt: skip
    return Setup(recipe, kodiak(cores), strategy_of(values), settings)


def strategy_of(values: CellValues) -> str:
    return "matrix-flds"


def read_off(values: CellValues, run: Measured) -> Numbers:
    cores = run.platform.cores
    numbers = {
        "tasks_per_second": run.tasks_per_second,
        "utilisation": run.summary.utilisation,
        "locality": run.summary.locality,
    }
    machine = run.platform.machines[0]
    model = MatrixSettings(
        cores_per_node=CORES_PER_NODE,
        bandwidth_bytes_per_second=machine.down_bytes_per_second,
        latency_seconds=2 * run.platform.latency_seconds,
    )
    for reading in Reading:
        bound = matrix_bound(run.workflow, cores, model, reading)
        numbers[bound_name(reading)] = bound.tasks_per_second
    return numbers


def bound_name(reading: Reading) -> str:
    """Under which name the bound on the throughput is kept."""
    return f"bound_{reading.name.lower()}"


DAG_RUNS = simulation_study("dags", set_up, read_off, strategy_of)


WAITING_FOR_DATA = (
    "A task of the fan-in fetches nine files of 5 MB, 360 ms at 1 Gb/s beside a run of 50 ms, and "
    "its core waits. At 64 cores, links of 10 Gb/s raise the share of the bound from 46% to 99% "
    "(fan-in) and from 72% to 95% (fan-out); but 1 Gb/s is what the published all-pairs without "
    "caching speak for. Four times as many tasks, as in the paper, change nothing: 46% and 72%."
)


def dag_cells(quick: bool) -> list[Cell]:
    share = TASKS_PER_CORE_QUICK if quick else TASKS_PER_CORE
    return [
        a_cell(SECONDS_PER_TASK * share * cores, dag=dag, cores=cores, tasks_per_core=share)
        for dag in DAGS
        for cores in (CORES_QUICK if quick else CORES)
    ]
