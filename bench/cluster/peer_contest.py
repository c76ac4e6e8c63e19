"""No-op functions, commands and a file DAG on a cluster of two, beside Ray and Dask on two."""

from rich.console import Console

from bench.peers.bench import ROUNDS, played, shown_as, write_record
from bench.peers.contest import ON_CLUSTER, QUICK_SIZES, RAY, REPOSITORY, SATURATED_DASK, SIZES
from bench.peers.environments import python_of
from bench.peers.tables import Targets, rates_table, ratios_table

RECORD = REPOSITORY / "build" / "cluster-calls.json"
WORKLOADS = ("functions", "commands", "files")
CONTESTANTS = (ON_CLUSTER, SATURATED_DASK, RAY)

TARGETS: Targets = {
    (RAY.name, "functions"): 5.0,
    (SATURATED_DASK.name, "functions"): 5.0,
    (RAY.name, "commands"): 1.2,
    (RAY.name, "files"): 1.2,
}


def show_calls(out: Console, quick: bool) -> None:
    sizes = {workload: (QUICK_SIZES if quick else SIZES)[workload] for workload in WORKLOADS}
    pythons = {each.name: python_of(each) for each in CONTESTANTS}
    outcomes = played(sizes, CONTESTANTS, pythons, rounds=1 if quick else ROUNDS)
    write_record(RECORD, sizes, outcomes)
    out.print(rates_table(shown_as(CONTESTANTS, pythons), sizes, outcomes))
    out.print(ratios_table(WORKLOADS, outcomes, ON_CLUSTER, (SATURATED_DASK, RAY), TARGETS))
    if quick:
        out.print("The targets are meant for the full sizes; these were a tenth.", highlight=False)
