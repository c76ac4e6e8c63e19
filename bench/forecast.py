"""Whether runs end within the range that was forecast: 90 of 100 should.

    python -m bench.forecast [--seeds 8] [--live 0] [--strategies adage,dataward]

Simulated: five applications on 1, 4 and 16 nodes, estimates with a sigma of 0.3 and 0.5, forecast
before the run and when a quarter, a half and three quarters of it are over; with no estimates at
all, only those. Live: runnable applications, each run several times on this machine, forecast from
the run before. A row counts forecasts; "none" are those that were not made since too little
was known. The width of a range is a share of the makespan; the
ratio is that of the makespan to the middle of the forecast.
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from statistics import fmean, median

from rich.console import Console
from rich.table import Table

from dataward import generate, run
from dataward.api.all_cores import called_on_all_cores
from dataward.formats.write import write_workflow
from dataward.generate import make_runnable, write_inputs
from dataward.model.events import Event
from dataward.model.platform import uniform_platform
from dataward.model.replay import as_replayed
from dataward.plan.end_forecast import EndForecast, forecast_end
from dataward.plan.estimates import Estimates, as_estimated
from dataward.plan.list_schedule import resources_of
from dataward.reports.progress import RunProgress
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES

APPLICATIONS = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
NODES = (1, 4, 16)
SIGMAS = (0.3, 0.5, inf)
MOMENTS = (0.0, 0.25, 0.5, 0.75)
TASKS = 200
LIVE = {"montage": 0.004, "epigenomics": 2e-5, "sipht": 5e-4}  # how run times are scaled
LIVE_TASKS = 60


@dataclass(frozen=True, slots=True)
class Case:
    application: str
    nodes: int
    sigma: float
    strategy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A forecast of a makespan, and the makespan."""

    label: str
    forecast: EndForecast | None
    makespan_seconds: float


def judged(case: Case) -> list[Verdict]:
    """The forecasts of one simulated run, at each of the moments."""
    workflow = as_replayed(generate(case.application, TASKS, case.seed))
    platform, estimates = uniform_platform(case.nodes), Estimates(case.sigma)
    events: list[Event] = []
    makespan = (
        Simulation(
            workflow,
            platform,
            STRATEGIES[case.strategy],
            case.seed,
            [events.append],
            estimates=estimates,
        )
        .run()
        .makespan_seconds
    )
    known, progress = as_estimated(workflow, estimates, case.seed), RunProgress(workflow)
    found, waiting = [], [share * makespan for share in MOMENTS]
    for event in events:
        while waiting and event.at >= waiting[0] and (event.at or progress.counts().tasks):
            now = waiting.pop(0)
            left = forecast_end(known, progress.remaining(now), resources_of(platform), case.seed)
            label = f"sigma {estimates}, at {now / makespan:.0%}"
            found.append(Verdict(label, left.after(now) if left else None, makespan))
        progress.add(event)
    return found if case.sigma < inf else found[1:]


def lived(runs: int, place: Path) -> Iterator[Verdict]:
    """The forecasts of real runs, each but the first of its application."""
    for name, scale in LIVE.items():
        workflow = make_runnable(generate(name, LIVE_TASKS, 1), scale, 1e-4)
        path = place / f"{name}.json"
        write_workflow(workflow, path)
        write_inputs(workflow, place / f"{name}.inputs")
        for number in range(runs):
            report = run(path, out=place / f"{name}.run", force=list(workflow.type_names), slots=2)
            if number:
                makespan = report.summary.makespan_seconds
                yield Verdict(f"live, {name}", report.forecast, makespan)


def print_table(out: Console, verdicts: Iterable[Verdict]) -> None:
    by_label: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_label.setdefault(verdict.label, []).append(verdict)
    table = Table()
    for heading in (
        "",
        "forecasts",
        "none",
        "inside",
        "below",
        "above",
        "width",
        "ratio",
    ):
        table.add_column(heading, justify="left" if not heading else "right")
    every = [one for row in by_label.values() for one in row]
    for label, row in [*sorted(by_label.items()), ("all", every)]:
        table.add_row(label, *_cells(row))
    out.print(table)


def _cells(row: list[Verdict]) -> list[str]:
    made = [(one.forecast, one.makespan_seconds) for one in row if one.forecast is not None]
    if not made:
        return ["0", str(len(row)), *"-----"]
    return [
        str(len(made)),
        str(len(row) - len(made)),
        f"{fmean(f.holds(m) for f, m in made):.1%}",
        f"{fmean(m < f.low_seconds for f, m in made):.1%}",
        f"{fmean(m > f.high_seconds for f, m in made):.1%}",
        f"{median((f.high_seconds - f.low_seconds) / m for f, m in made):.2f}",
        f"{exp(fmean(log(m / max(f.seconds, 1e-9)) for f, m in made)):.2f}",
    ]


def run_bench(out: Console, seeds: int, live: int, strategies: list[str]) -> None:
    cases = [
        Case(application, nodes, sigma, strategy, seed)
        for application in APPLICATIONS
        for nodes in NODES
        for sigma in SIGMAS
        for strategy in strategies
        for seed in range(1, seeds + 1)
    ]
    if cases:
        done = called_on_all_cores(judged, cases)
        print_table(out, [verdict for _, found in done for verdict in found])
    if live:
        with tempfile.TemporaryDirectory() as place:
            print_table(out, lived(live, Path(place)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8, help="of each simulated case; 0: none")
    parser.add_argument("--live", type=int, default=0, help="runs of each real application")
    parser.add_argument("--strategies", default="adage,dataward")
    given = parser.parse_args()
    run_bench(Console(), given.seeds, given.live, given.strategies.split(","))


if __name__ == "__main__":
    main()
