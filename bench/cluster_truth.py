"""Whether the simulator tells the truth about a cluster: the same workflow, for real and simulated.

    python -m bench.cluster_truth [--nodes 4] [--mbps 100] [--tasks 60] [--rounds 3]

Real nodes of one slot each run in network namespaces of this machine, with links of that bandwidth
(`tc`; it needs root). Tasks sleep, then write their files, so that cores do not matter, and sizes
are such that moving files takes about as long as the tasks do. The simulator is given the same
sizes and links, and what was measured here just before: how long each command takes without its
sleep, a message between nodes, a call of the store, and to write a file through to the disk. Run
times are estimates in both, so that tasks may move. Both makespans and the bytes moved are printed:
medians of several real runs and of several seeds, which differ from each other by some percent.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))  # where hosts in namespaces are made

from rich.console import Console  # noqa: E402

from bench.sleeping import sleeping  # noqa: E402
from cluster.namespaces import NODE_PORT, SpacedCluster, spaced_cluster  # noqa: E402
from dataward import simulate, write_workflow  # noqa: E402
from dataward.model.events import FileMoved  # noqa: E402
from dataward.model.ids import NodeId  # noqa: E402
from dataward.model.platform import Machine, Platform, StoreModel  # noqa: E402
from dataward.model.workflow import Workflow  # noqa: E402
from dataward.reports.event_file import EventFileReader  # noqa: E402

PAYLOAD = 0.94  # of an Ethernet's bytes, with TCP and TLS
ESTIMATES = "0.01"  # right to 1%, but not certain: as what a file says is to a real node
SEEDS = 15
LATENCIES = Path(__file__).with_name("measured_latencies.py")
COMMAND_TIMES = 3
SHAPES = ("montage", "epigenomics", "inspiral")


@dataclass(frozen=True, slots=True)
class Real:
    """One real run, and what was measured on its cluster before."""

    seconds: float
    moved_bytes: int
    measured: dict[str, float]


def measured_latencies(cluster: SpacedCluster, source: str, target: str) -> dict[str, float]:
    """What `measured_latencies` tells of two nodes."""
    access, address = cluster.directory.access_file("node"), cluster.nodes[target]
    words = (str(access), f"{address}:{NODE_PORT}", str(cluster.path))
    found: dict[str, float] = json.loads(
        cluster.lan.ask(source, sys.executable, str(LATENCIES), *words)
    )
    return found


def command_seconds(command: Sequence[str]) -> float:
    """How long a command takes here; nobody else should be busy."""
    with TemporaryDirectory(prefix="bench-truth-") as place:
        took = []
        for _ in range(COMMAND_TIMES):
            began = perf_counter()
            subprocess.run(command, cwd=place, check=True)
            took.append(perf_counter() - began)
    return median(took)


def real_run(workflow: Workflow, names: Sequence[str], mbps: float) -> Real:
    with TemporaryDirectory(prefix="bench-truth-") as place:
        path = Path(place)
        write_workflow(workflow, path / "w.json")
        with spaced_cluster(path / "lab") as cluster:
            cluster.start(*names, options=["--bandwidth", f"{mbps:g}Mbps"])
            for name in names:
                cluster.lan.slow_down(name, f"{mbps:g}mbit")
            measured = measured_latencies(cluster, names[0], names[1])
            ended = cluster.wait(cluster.submit(path / "w.json"))
            assert ended["state"] == "complete", ended
            runs = cluster.path / "depots"
            moved = sum(
                event.size_bytes
                for name in names
                for event in EventFileReader(runs / name / "runs" / ended["run"] / "events")
                if isinstance(event, FileMoved)
            )
    return Real(ended["seconds"], moved, measured)


def compare(out: Console, shape: str, nodes: int, mbps: float, tasks: int, rounds: int) -> float:
    rate = mbps * 1e6 / 8
    workflow = sleeping(shape, tasks, rate)
    names = [f"n{number}" for number in range(nodes)]
    runs = sorted(
        (real_run(workflow, names, mbps) for _ in range(rounds)), key=attrgetter("seconds")
    )
    real = runs[rounds // 2]
    measured = {name: median(run.measured[name] for run in runs) for name in real.measured}
    machines = tuple(
        Machine(
            NodeId(name),
            cores=1,
            disk_bytes_per_second=1 / max(measured["bytes"], 1e-12),
            sync_seconds=measured["sync"],
            up_bytes_per_second=rate * PAYLOAD,
            down_bytes_per_second=rate * PAYLOAD,
        )
        for name in names
    )
    platform = Platform(
        machines,
        latency_seconds=measured["message"] / 2,
        store=StoreModel(shards=1, latency_seconds=measured["store"] / 2),
    )
    same = sleeping(shape, tasks, rate, beyond=command_seconds)
    told = sorted(
        (one.makespan_seconds, one.bytes_moved)
        for one in (
            simulate(same, platform=platform, estimates=ESTIMATES, seed=seed).summary
            for seed in range(SEEDS)
        )
    )
    simulated, simulated_bytes = told[SEEDS // 2]
    beyond = same.runtime_seconds.mean() - workflow.runtime_seconds.mean()
    said = ", ".join(
        f"{name} {1e3 * measured[name]:.2f} ms" for name in ("message", "store", "sync")
    )
    out.print(
        f"{shape:12} {len(workflow):4} tasks  real {real.seconds:6.1f} s  "
        f"simulated {simulated:6.1f} s  ratio {simulated / real.seconds:.3f}   "
        f"moved {real.moved_bytes / 1e6:,.0f} MB, "
        f"simulated {simulated_bytes / 1e6:,.0f} MB"
    )
    out.print(
        f"{'':12} real runs {runs[0].seconds:.1f} to {runs[-1].seconds:.1f} s, seeds "
        f"{told[0][0]:.1f} to {told[-1][0]:.1f} s; measured: {said}, "
        f"{1e3 * beyond:.0f} ms of a command besides its sleep"
    )
    return simulated / real.seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_truth", description=__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--mbps", type=float, default=100.0)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="real runs of each")
    parser.add_argument("--only", choices=SHAPES, action="append")
    given = parser.parse_args()
    out = Console(width=None if sys.stdout.isatty() else 140)
    ratios = [
        compare(out, shape, given.nodes, given.mbps, given.tasks, given.rounds)
        for shape in given.only or SHAPES
    ]
    out.print(f"simulated over real, median: {median(ratios):.3f}")


if __name__ == "__main__":
    main()
