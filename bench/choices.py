"""Whether the strategy that `--strategy best` chooses for a real run is the best of those it tried.

    python -m bench.choices [--tasks 100] [--rounds 2] [--applications montage,sipht]

Each application is run on four nodes of one slot, once to learn run times, then with every
candidate in turn. Tasks sleep, so that a busy machine matters little. Printed are the median
makespans, which strategy is chosen with what was learned, and by how much it is above the best.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from bench.sleeping import sleeping
from dataward import run, write_workflow
from dataward.api.run import RunRequest, prepared
from dataward.model.workflow import Workflow
from dataward.runs.best_strategy import CANDIDATES, best_strategy_for
from dataward.strategies.registry import DEFAULT

APPLICATIONS = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
NODES = 4
MEAN_SECONDS = 0.5  # of a task: the choice may take 2% of the run, and a task takes about 1 ms
BYTES_PER_SECOND = 1e6


def makespan(workflow: Workflow, source: Path, out: Path, strategy: str) -> float:
    everything = list(workflow.type_names)
    report = run(source, out=out, force=everything, nodes=NODES, slots=1, strategy=strategy)
    assert report.is_complete, report.failures
    return report.summary.makespan_seconds


def row_of(application: str, tasks: int, rounds: int, place: Path) -> tuple[list[str], float]:
    workflow = sleeping(application, tasks, BYTES_PER_SECOND, MEAN_SECONDS)
    source, learned = place / f"{application}.json", place / f"{application}.run"
    write_workflow(workflow, source)
    makespan(workflow, source, learned, DEFAULT)
    everything = tuple(workflow.type_names)
    todo = prepared(
        workflow, source, RunRequest(out=learned, force=everything, nodes=NODES, slots=1)
    )
    choice = best_strategy_for(todo.workflow, todo.source, todo.directory, todo.options)
    taken: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        for name in CANDIDATES:
            out = place / f"{application}-{name}-{number}.run"
            taken[name].append(makespan(workflow, source, out, name))
    seconds = {name: median(taken[name]) for name in CANDIDATES}
    above = seconds[choice.name] / min(seconds.values()) - 1
    cells = [f"{seconds[name]:.2f}" for name in CANDIDATES]
    return [application, *cells, choice.name, f"{above:.1%}"], above


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.choices", description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--applications", default=",".join(APPLICATIONS))
    given = parser.parse_args()
    out = Console(width=None if sys.stdout.isatty() else 140)
    table = Table("seconds", *CANDIDATES, "chosen", "above the best")
    found = []
    with TemporaryDirectory(prefix="bench-choices-") as place:
        for application in given.applications.split(","):
            cells, above = row_of(application, given.tasks, given.rounds, Path(place))
            print(" ".join(cells), file=sys.stderr, flush=True)
            table.add_row(*cells)
            found.append(above)
    out.print(table)
    out.print(f"above the best, mean: {fmean(found):.1%}")


if __name__ == "__main__":
    main()
