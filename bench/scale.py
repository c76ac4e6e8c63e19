"""What a task costs as workflows grow: generate, save, load and inspect, up to a million tasks.

    python -m bench.scale [--quick]

Each measurement has a process of its own, so that peaks of memory do not mix. Beside the seconds on
the clock stand microseconds of CPU per task, which a busy machine disturbs less: it is they that
must not grow.
"""

import argparse
import gc
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from dataward import WorkflowBuilder, generate, makespan_bounds, read_workflow, write_workflow
from dataward.model.workflow import Workflow
from dataward.plan.critical_path import bottom_levels, critical_path

T = TypeVar("T")
Measured = dict[str, tuple[float, float]]  # seconds and CPU seconds; bytes and bytes for a peak

SIZES = (10_000, 100_000, 1_000_000)
SIZES_QUICK = (1_000, 10_000, 100_000)
EDGES_PER_TASK = 3
FILE, PEAK = "file", "peak memory above start"
ROOT = Path(__file__).parent.parent


@dataclass
class Stopwatch:
    """Seconds of each step, on the clock and of CPU."""

    steps: Measured = field(default_factory=dict)

    def time(self, step: str, work: Callable[[], T]) -> T:
        gc.collect()
        began, began_cpu = perf_counter(), process_time()
        result = work()
        self.steps[step] = (perf_counter() - began, process_time() - began_cpu)
        return result


def make(watch: Stopwatch, tasks: int, path: Path) -> None:
    workflow = watch.time("generate", lambda: generate("montage", tasks))
    watch.time("save", lambda: write_workflow(workflow, path))


def use(watch: Stopwatch, tasks: int, path: Path) -> None:
    workflow = watch.time("load", lambda: read_workflow(path))
    assert len(workflow) == tasks
    inspect(watch, workflow)


def random_graph(watch: Stopwatch, tasks: int, path: Path) -> None:
    """Declared edges only, each task after three random earlier ones."""
    rng = random.Random(1)

    def build() -> Workflow:
        wf = WorkflowBuilder("random")
        for i in range(tasks):
            after = {f"t{rng.randrange(i)}" for _ in range(EDGES_PER_TASK)} if i else ()
            wf.task(f"t{i}", name="step", runtime_seconds=1.0 + i % 7, after=sorted(after))
        return wf.build()

    workflow = watch.time("build", build)
    inspect(watch, workflow)


def inspect(watch: Stopwatch, workflow: Workflow) -> None:
    watch.time("layers", lambda: workflow.layers)
    watch.time("bottom levels", lambda: bottom_levels(workflow))
    watch.time("critical path", lambda: critical_path(workflow))
    watch.time(
        "bounds",
        lambda: makespan_bounds(workflow, nodes=64, cores=8, bandwidth_bytes_per_second=1.25e8),
    )


STEPS = {"make": make, "use": use, "random_graph": random_graph}


def run(out: Console, quick: bool = False) -> None:
    """Measure every size and print seconds, microseconds per task and peaks of memory."""
    sizes = SIZES_QUICK if quick else SIZES
    montages = {}
    for tasks in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "montage.json"
            _progress(f"montage, {tasks:,} tasks")
            montages[tasks] = [_measured(step, tasks, path) for step in ("make", "use")]
            size_bytes = float(path.stat().st_size)
        montages[tasks].append({FILE: (size_bytes, size_bytes)})
    _print(out, "Montage", montages)
    graphs = {}
    for tasks in sizes:
        _progress(f"random graph, {tasks:,} tasks, {EDGES_PER_TASK * tasks:,} edges")
        graphs[tasks] = [_measured("random_graph", tasks, Path("unused"))]
    _print(out, f"random graph, {EDGES_PER_TASK} edges a task", graphs)


def _print(out: Console, title: str, measured: dict[int, list[Measured]]) -> None:
    """One row a step: its seconds and, beside them, its microseconds per task."""
    table = Table("step", *(f"{n:,} tasks" for n in measured), title=title, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    first = next(iter(measured.values()))
    for place, process in enumerate(first):
        for step in process:
            cells = [_cell(step, runs[place][step], tasks) for tasks, runs in measured.items()]
            table.add_row(step, *cells, end_section=step == PEAK)
    out.print(table)


def _cell(step: str, value: tuple[float, float], tasks: int) -> str:
    if step in (FILE, PEAK):
        return f"{value[0] / 1e6:,.0f} MB {value[1] / tasks:6,.0f} B "
    return f"{value[0]:.3f} s {value[1] / tasks * 1e6:5.1f} µs"


def _measured(step: str, tasks: int, path: Path) -> Measured:
    command = [sys.executable, "-m", "bench.scale", "--step", step, str(tasks), str(path)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: Measured = json.loads(done.stdout)
    return found


def _measure(step: str, tasks: int, path: Path) -> Measured:
    before = peak_bytes()
    watch = Stopwatch()
    STEPS[step](watch, tasks, path)
    rise = peak_bytes() - before
    return watch.steps | {PEAK: (rise, rise)}


def peak_bytes() -> float:
    """Linux counts into ru_maxrss what the process that started this one held; VmHWM is ours."""
    status = Path("/proc/self/status")
    if status.exists():
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(found.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _progress(doing: str) -> None:
    print(f"scale: {doing} ...", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ten times smaller")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        step, tasks, path = given.step
        print(json.dumps(_measure(step, int(tasks), Path(path))))
    else:
        run(Console(), quick=given.quick)


if __name__ == "__main__":
    main()
