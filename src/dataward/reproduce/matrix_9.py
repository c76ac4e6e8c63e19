"""MATRIX, figure 9: throughput of four benchmark DAGs by FLDS, up to 200 cores.

"Increasing linearly with the scale" is taken to hold if a core completes at least 80% as many tasks
a second at 200 cores as at 8, the fewest on more than one node.
"""

from dataward.reproduce.cells import Cell, Results, as_number
from dataward.reproduce.charts import Chart, Panel, series_of
from dataward.reproduce.claims import (
    Finding,
    PaperClaim,
    as_percent,
    judge_at_least,
    judge_order,
)
from dataward.reproduce.dag_runs import (
    BAG,
    DAG_RUNS,
    DAGS,
    FAN_IN,
    FAN_OUT,
    SETUP,
    WAITING_FOR_DATA,
    dag_cells,
)
from dataward.reproduce.experiment import Experiment

LINEAR = 0.8


def cells(quick: bool) -> list[Cell]:
    return dag_cells(quick)


def charts(results: Results) -> list[Chart]:
    lines = [series_of(dag, results.curve("tasks_per_second", "cores", dag=dag)) for dag in DAGS]
    shares = [
        series_of(dag, [(x, 100 * y) for x, y in results.curve("utilisation", "cores", dag=dag)])
        for dag in DAGS
    ]
    panels = [
        Panel("throughput", "cores", "tasks per second", lines, 2, 10),
        Panel("efficiency", "cores", "utilisation (%)", shares, x_base=2, y_max=105),
    ]
    return [Chart("matrix-9", "Benchmark DAGs by FLDS", panels, series_word="DAG")]


def find_bag(results: Results) -> Finding:
    least = min(results.numbers("utilisation", dag=BAG))
    return Finding(f"at least {as_percent(least)}", judge_at_least(least, 0.9, neutral=0.75))


def find_linear(results: Results) -> Finding:
    scales = sorted(as_number(cores) for cores in results.axis("cores"))
    kept = {}
    for dag in DAGS[1:]:
        few, many = (
            results.mean("tasks_per_second", dag=dag, cores=cores) / cores
            for cores in (scales[1], scales[-1])
        )
        kept[dag] = many / few
    shown = ", ".join(f"{dag} {as_percent(share)}" for dag, share in kept.items())
    return Finding(f"{shown} of the rate per core", judge_at_least(min(kept.values()), LINEAR,
                                                                   neutral=0.5))  # fmt: skip


def find_order(results: Results) -> Finding:
    most = max(as_number(cores) for cores in results.axis("cores"))
    rates = [results.mean("tasks_per_second", dag=dag, cores=most) for dag in DAGS]
    shown = ", ".join(f"{dag} {rate:,.0f}" for dag, rate in zip(DAGS, rates, strict=True))
    return Finding(f"{shown} tasks/s", judge_order(rates))


EXPERIMENT = Experiment(
    "matrix-9",
    "throughput of four benchmark DAGs",
    f"{__doc__}{SETUP}",
    DAG_RUNS,
    cells,
    charts,
    (
        PaperClaim("The bag of tasks is nearly optimal at all scales.", "90% or more", find_bag),
        PaperClaim(
            "The throughput of the other three DAGs grows linearly with the scale.",
            "linear (taken as 80% of the rate per core)",
            find_linear,
            WAITING_FOR_DATA,
        ),
        PaperClaim(
            f"The bag is fastest, then pipeline, then {FAN_OUT}, and {FAN_IN} is slowest.",
            "bag, pipeline, fan-out, fan-in",
            find_order,
        ),
    ),
)
