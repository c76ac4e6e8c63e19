"""Whether the simulator tells the truth about a cluster: the same workflow, for real and simulated.

    python -m bench.cluster_truth [--nodes 4] [--mbps 100] [--tasks 60]

Real nodes of one slot each run in network namespaces of this machine, with links of that bandwidth
(`tc`; it needs root). Tasks sleep, then write their files, so that cores do not matter, and sizes
are such that moving files takes about as long as the tasks do. The simulator is given the same run
times, sizes, links and measured latency; run times are estimates in both, so that tasks may move.
Printed are both makespans and bytes moved, of the simulator the median of several seeds.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))  # where hosts in namespaces are made

from rich.console import Console  # noqa: E402

from bench.sleeping import sleeping  # noqa: E402
from cluster.namespaces import NODE_PORT, SpacedCluster, spaced_cluster  # noqa: E402
from dataward import simulate, write_workflow  # noqa: E402
from dataward.model.events import FileMoved  # noqa: E402
from dataward.model.ids import NodeId  # noqa: E402
from dataward.model.platform import Machine, Platform  # noqa: E402
from dataward.reports.event_file import EventFileReader  # noqa: E402

PAYLOAD = 0.94  # of an Ethernet's bytes, with TCP and TLS
DISK_BYTES_PER_SECOND = 1e9
ESTIMATES = "0.01"  # right to 1%, but not certain: as what a file says is to a real node
SEEDS = 5
# To connect takes one way there and back.
CONNECT = f"""
import socket, statistics, sys, time
took = []
for _ in range(20):
    began = time.perf_counter()
    socket.create_connection((sys.argv[1], {NODE_PORT})).close()
    took.append(time.perf_counter() - began)
print(statistics.median(took))
"""
SHAPES = ("montage", "epigenomics", "inspiral")


def latency_of(cluster: SpacedCluster, source: str, target: str) -> float:
    """One way, in seconds."""
    return float(cluster.lan.ask(source, sys.executable, "-c", CONNECT, target)) / 2


def compare(out: Console, shape: str, nodes: int, mbps: float, tasks: int) -> float:
    rate = mbps * 1e6 / 8
    workflow = sleeping(shape, tasks, rate)
    names = [f"n{number}" for number in range(nodes)]
    with TemporaryDirectory(prefix="bench-truth-") as place:
        path = Path(place)
        write_workflow(workflow, path / "w.json")
        with spaced_cluster(path / "lab") as cluster:
            cluster.start(*names, options=["--bandwidth", f"{mbps:g}Mbps"])
            for name in names:
                cluster.lan.slow_down(name, f"{mbps:g}mbit")
            latency = latency_of(cluster, names[0], cluster.nodes[names[1]])
            ended = cluster.wait(cluster.submit(path / "w.json"))
            assert ended["state"] == "complete", ended
            runs = cluster.path / "depots"
            moved = sum(
                event.size_bytes
                for name in names
                for event in EventFileReader(runs / name / "runs" / ended["run"] / "events")
                if isinstance(event, FileMoved)
            )
    machines = tuple(
        Machine(
            NodeId(name),
            cores=1,
            disk_bytes_per_second=DISK_BYTES_PER_SECOND,
            up_bytes_per_second=rate * PAYLOAD,
            down_bytes_per_second=rate * PAYLOAD,
        )
        for name in names
    )
    platform = Platform(machines, latency_seconds=latency)
    told = sorted(
        (one.makespan_seconds, one.bytes_moved)
        for one in (
            simulate(workflow, platform=platform, estimates=ESTIMATES, seed=seed).summary
            for seed in range(SEEDS)
        )
    )
    real, (simulated, simulated_bytes) = ended["seconds"], told[SEEDS // 2]
    out.print(
        f"{shape:12} {len(workflow):4} tasks  real {real:6.1f} s  simulated {simulated:6.1f} s  "
        f"ratio {simulated / real:.3f}   moved {moved / 1e6:,.0f} MB, "
        f"simulated {simulated_bytes / 1e6:,.0f} MB"
    )
    return simulated / real


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_truth", description=__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--mbps", type=float, default=100.0)
    parser.add_argument("--tasks", type=int, default=60)
    given = parser.parse_args()
    out = Console(width=None if sys.stdout.isatty() else 140)
    ratios = [compare(out, shape, given.nodes, given.mbps, given.tasks) for shape in SHAPES]
    out.print(f"simulated over real, median: {median(ratios):.3f}")


if __name__ == "__main__":
    main()
