"""What a cluster of real processes on this machine costs, and what moves on it.

    python -m bench.cluster [--quick]

- the rate of commands from 1,000 to 10,000 tasks, with store calls, server time and messages a task
- locality: producers of 20 MB and ten consumers of each, on two nodes: what moves
- recovery: 200 tasks of 0.1 s on two slots, a node killed after 2 s: what is lost
- an idle node: its processor time, and what it asks of the store in a minute

Beside peers: ``python -m bench.peers --only 'dataward, cluster of 2' --only Ray``.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from rich.console import Console

from dataward import WorkflowBuilder, write_workflow
from dataward.cli.laptop_nodes import wait_for_nodes
from dataward.cluster.access import contacts_for, read_access
from dataward.cluster.event_tail import EventTail
from dataward.cluster.exchange import RunFactsNow
from dataward.cluster.founding import ClusterDirectory
from dataward.cluster.laptop import Laptop
from dataward.cluster.submitting import SubmitRequest, Submitter
from dataward.cluster.visitor import Visitor
from dataward.formats.read import read_workflow
from dataward.model.events import Event, FileMoved
from dataward.model.quantities import show_bytes, show_seconds
from dataward.model.states import RunState
from dataward.stores.connection import connect

IDLE_SECONDS = 60.0


@dataclass
class Cluster:
    laptop: Laptop
    path: Path

    def visitor(self) -> Visitor:
        path = self.laptop.directory.access_file("submit")
        access = read_access(path)
        return Visitor(access, contacts_for(path, access))

    async def run(self, builder: WorkflowBuilder) -> tuple[RunFactsNow, list[Event]]:
        """How a workflow ended, and all its events."""
        source = self.path / "w.json"
        write_workflow(builder.build(), source)
        async with self.visitor() as visitor:
            request = SubmitRequest(fresh=True)
            workflow = read_workflow(source)
            submitted = await Submitter(
                visitor, workflow, source, request, self.path / "cache"
            ).submit()
            name = submitted.run.name
            facts = await visitor.run(name)
            while facts.run.state is RunState.RUNNING:
                facts = await visitor.run(name, wait_seconds=20.0)
            tail = EventTail(visitor, name, {})
            return facts, [*await tail.new_events(), *tail.rest()]

    async def server_seconds(self) -> tuple[int, float]:
        """How many functions the store's server was called for, and the time they took."""
        connection = connect(read_access(self.laptop.directory.access_file("node")).store)
        try:
            stats = await connection.send("", "INFO", "commandstats")
        finally:
            await connection.close()
        called = stats.get("cmdstat_fcall", {"calls": 0, "usec": 0})
        return int(called["calls"]), int(called["usec"]) / 1e6


@contextmanager
def cluster_of(nodes: int, slots: int = 1, lease: str = "10s") -> Iterator[Cluster]:
    with TemporaryDirectory(prefix="bench-cluster-") as place:
        path = Path(place)
        directory = ClusterDirectory(path / "lab")
        directory.found("lab")
        laptop = Laptop(directory)
        try:
            laptop.start_store(1, 0)
            names = laptop.start_nodes(nodes, slots, ["--lease", lease, "--quiet"])
            wait_for_nodes(laptop, names)
            yield Cluster(laptop, path)
        finally:
            laptop.stop_nodes()
            laptop.stop_store()


def seconds_of(facts: RunFactsNow) -> float:
    return facts.run.ended_at - facts.run.submitted_at


def commands(count: int) -> WorkflowBuilder:
    wf = WorkflowBuilder("commands")
    for number in range(count):
        wf.task(f"t{number}", command=("true",))
    return wf


def show_rates(out: Console, sizes: list[int]) -> None:
    out.print("commands `true`, 2 nodes x 1 slot")
    with cluster_of(2) as cluster:
        asyncio.run(cluster.run(commands(100)))
        for size in sizes:
            calls, busy = asyncio.run(cluster.server_seconds())
            facts, _ = asyncio.run(cluster.run(commands(size)))
            calls_after, busy_after = asyncio.run(cluster.server_seconds())
            assert facts.counts == {"complete": size}
            out.print(
                f"  {size:>7,} tasks  {size / seconds_of(facts):8,.0f} a second  "
                f"{(calls_after - calls) / size:.2f} store calls and "
                f"{1e6 * (busy_after - busy) / size:.0f} µs of the server a task"
            )


def show_locality(out: Console, producers: int, size_bytes: int) -> None:
    wf = WorkflowBuilder("locality")
    for number in range(producers):
        made = f"data{number}"
        wf.file(made, size_bytes)
        wf.command(
            f"head -c {size_bytes} /dev/zero | tr '\\0' '{number % 10}' > {made}", outputs=[made]
        )
        for reader in range(10):
            read = f"r{number}-{reader}"
            wf.command(f"wc -c < {made} > {read}", inputs=[made], outputs=[read])
    with cluster_of(2) as cluster:
        facts, events = asyncio.run(cluster.run(wf))
    moved = sum(event.size_bytes for event in events if isinstance(event, FileMoved))
    out.print(
        f"locality: {producers} files of {show_bytes(size_bytes)}, {10 * producers} readers, "
        f"2 nodes: {show_seconds(seconds_of(facts))}, {show_bytes(moved)} moved"
    )


def show_recovery(out: Console) -> None:
    wf = WorkflowBuilder("recovery")
    for number in range(200):
        wf.task(f"t{number}", command=("sleep", "0.1"))
    with cluster_of(2) as cluster:
        calm, _ = asyncio.run(cluster.run(wf))
    with cluster_of(2) as cluster:
        (one, _) = cluster.laptop.started()
        process = psutil.Process(one.pid)
        children = process.children()

        async def killed() -> tuple[RunFactsNow, list[Event]]:
            asyncio.get_running_loop().call_later(2.5, os.kill, one.pid, signal.SIGKILL)
            return await cluster.run(wf)

        facts, _ = asyncio.run(killed())
        for child in children:
            if child.is_running():
                child.kill()
    # From then on, one slot is left of two.
    took = seconds_of(facts)
    ideal = 2.0 + 2 * (seconds_of(calm) - 2.0)
    out.print(
        f"recovery: {show_seconds(seconds_of(calm))} undisturbed; with a node killed after 2 s "
        f"{show_seconds(took)}, {show_seconds(max(took - ideal, 0.0))} more than one slot needs"
    )


def show_idle(out: Console, seconds: float) -> None:
    with cluster_of(2) as cluster:
        processes = [psutil.Process(node.pid) for node in cluster.laptop.started()]
        calls, _ = asyncio.run(cluster.server_seconds())
        before = [sum(process.cpu_times()[:2]) for process in processes]
        time.sleep(seconds)
        after = [sum(process.cpu_times()[:2]) for process in processes]
        calls_after, _ = asyncio.run(cluster.server_seconds())
    share = max(b - a for a, b in zip(before, after, strict=True)) / seconds
    asked = (calls_after - calls) / len(processes) * 60 / seconds
    out.print(f"an idle node: {100 * share:.2f}% of a core, {asked:.0f} store calls a minute")


def run(out: Console, quick: bool = False) -> None:
    show_rates(out, [1_000, 3_000] if quick else [1_000, 10_000, 100_000])
    show_locality(out, 10 if quick else 40, 20_000_000)
    show_recovery(out)
    show_idle(out, 10.0 if quick else IDLE_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    run(Console(width=None if sys.stdout.isatty() else 120), quick=parser.parse_args().quick)


if __name__ == "__main__":
    main()
