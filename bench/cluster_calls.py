"""Calls of no-op functions on a cluster of this machine, beside the executor of one process.

    python -m bench.cluster_calls [--calls 20000] [--rounds 3]

Two nodes of one slot each and one Valkey server; beside them `Executor(nodes=2, slots=1)`. Rounds
are taken in turn; the table has the best of each, since the machine may have other things to do,
and the CPU time of all processes for each call, which says more where it does.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from dataward import Executor
from dataward.cli.laptop_nodes import wait_for_nodes
from dataward.cluster.founding import ClusterDirectory
from dataward.cluster.laptop import Laptop

NODES = 2
CHAIN = 100
WIDTH = 10  # of the tree
ALONE = 200  # calls, one after another

Work = Callable[[Executor, int], int]


def noop(*needs: object) -> None:
    return None


def independent(executor: Executor, calls: int) -> int:
    for future in [executor.submit(noop) for _ in range(calls)]:
        future.result()
    return calls


def chains(executor: Executor, calls: int) -> int:
    ends = []
    for _ in range(calls // CHAIN):
        future = executor.submit(noop)
        for _ in range(CHAIN - 1):
            future = executor.submit(noop, future)
        ends.append(future)
    for future in ends:
        future.result()
    return calls // CHAIN * CHAIN


def tree(executor: Executor, calls: int) -> int:
    level = [executor.submit(noop) for _ in range(calls)]
    made = calls
    while len(level) > 1:
        level = [executor.submit(noop, *level[i : i + WIDTH]) for i in range(0, len(level), WIDTH)]
        made += len(level)
    level[0].result()
    return made


def alone(executor: Executor, calls: int) -> int:
    for _ in range(ALONE):
        executor.submit(noop).result()
    return ALONE


WORK: dict[str, Work] = {
    "independent": independent,
    f"chains of {CHAIN}": chains,
    f"fan-in tree of {WIDTH}": tree,
    "one at a time": alone,
}


class Taken(NamedTuple):
    calls_per_second: float
    cpu_us: float  # for each call


@contextmanager
def a_cluster() -> Iterator[tuple[Path, list[int]]]:
    """The access file of those who submit, and the processes of nodes and server."""
    with TemporaryDirectory() as place:
        directory = ClusterDirectory(Path(place) / "lab")
        directory.found("lab")
        laptop = Laptop(directory)
        before = {process.pid for process in psutil.process_iter()}
        try:
            laptop.start_store(1, 0)
            wait_for_nodes(laptop, laptop.start_nodes(NODES, 1, []))
            ours = [
                process.pid
                for process in psutil.process_iter()
                if process.pid not in before and place in " ".join(process.cmdline())
            ]
            yield directory.access_file("submit"), ours
        finally:
            laptop.stop_nodes()
            laptop.stop_store()


def cpu_seconds(roots: list[int]) -> float:
    """Of these processes and all below them that are alive."""
    total = 0.0
    for pid in roots:
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            times = process.cpu_times()
            total += times.user + times.system
    return total


def taken(executor: Executor, work: Work, calls: int, others: list[int]) -> Taken:
    roots = [psutil.Process().pid, *others]
    cpu, began = cpu_seconds(roots), time.perf_counter()
    made = work(executor, calls)
    seconds = time.perf_counter() - began
    return Taken(made / seconds, (cpu_seconds(roots) - cpu) / made * 1e6)


def best(rounds: list[Taken]) -> Taken:
    return Taken(max(r.calls_per_second for r in rounds), min(r.cpu_us for r in rounds))


def run(out: Console, *, quick: bool = False, calls: int = 20_000, rounds: int = 3) -> None:
    calls, rounds = (2_000, 1) if quick else (calls, rounds)
    found: dict[tuple[str, str], list[Taken]] = {}
    with a_cluster() as (access, processes):
        kinds: dict[str, tuple[Callable[[], Any], list[int]]] = {
            "one process": (partial(Executor, nodes=NODES, slots=1), []),
            "cluster": (partial(Executor, access=access), processes),
        }
        for _ in range(rounds):
            for kind, (make, others) in kinds.items():
                with make() as executor:
                    independent(executor, 1000)  # processes start, and functions are timed
                    for name, work in WORK.items():
                        one = taken(executor, work, calls, others)
                        found.setdefault((name, kind), []).append(one)
    table = Table(title=f"calls a second, and CPU of all processes; load {psutil.getloadavg()[0]}")
    for column in ("", "one process /s", "cluster /s", "ratio", "one process", "cluster"):
        table.add_column(column, justify="right")
    for name in WORK:
        local, far = best(found[name, "one process"]), best(found[name, "cluster"])
        table.add_row(
            name,
            f"{local.calls_per_second:,.0f}",
            f"{far.calls_per_second:,.0f}",
            f"{far.calls_per_second / local.calls_per_second:.2f}",
            f"{local.cpu_us:.1f} us",
            f"{far.cpu_us:.1f} us",
        )
    out.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    run(Console(), calls=given.calls, rounds=given.rounds)
