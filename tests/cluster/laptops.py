"""Clusters of real processes on this machine, each in a directory of a test's own."""

import asyncio
import os
import select
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dataward.cli.laptop_nodes import wait_for_nodes
from dataward.cluster.access import contacts_for, read_access
from dataward.cluster.exchange import RunFactsNow
from dataward.cluster.founding import ClusterDirectory
from dataward.cluster.laptop import Laptop
from dataward.cluster.results import fetched
from dataward.cluster.submitting import SubmitRequest, SubmittedRun, Submitter
from dataward.cluster.visitor import Visitor
from dataward.formats.read import read_workflow
from dataward.model.ids import NodeId
from dataward.model.states import RunState
from valkey_servers import program_of

END_SECONDS = 600.0

T = TypeVar("T")


@dataclass
class LaptopCluster:
    """A cluster that is up; what is asked of it takes a visitor of its own."""

    laptop: Laptop
    nodes: list[NodeId]
    slots: int
    options: list[str]

    @property
    def path(self) -> Path:
        return self.laptop.directory.path

    @property
    def submit_access(self) -> Path:
        return self.laptop.directory.access_file("submit")

    def visitor(self, role: str = "submit") -> Visitor:
        path = self.laptop.directory.access_file(role)
        access = read_access(path)
        return Visitor(access, contacts_for(path, access))

    def submit(self, workflow: Path, **asked: object) -> SubmittedRun:
        async def work() -> SubmittedRun:
            async with self.visitor() as visitor:
                request = SubmitRequest(**asked)  # type: ignore[arg-type]
                read = read_workflow(workflow)
                return await Submitter(
                    visitor, read, workflow, request, self.path / "cache"
                ).submit()

        return asyncio.run(work())

    def wait(self, run: str, seconds: float = END_SECONDS) -> RunFactsNow:
        """How a run has ended. Fails if it does not within so many seconds."""

        async def work() -> RunFactsNow:
            async with asyncio.timeout(seconds), self.visitor() as visitor:
                await visitor.cluster()
                while True:
                    facts = await visitor.run(run, wait_seconds=10.0)
                    if facts.run.state is not RunState.RUNNING:
                        return facts

        return asyncio.run(work())

    def fetch(self, run: str, directory: Path) -> dict[str, bytes]:
        """The contents of a run's results, by name."""

        async def work() -> None:
            async with self.visitor("read") as visitor:
                await fetched(visitor, run, (), directory)

        asyncio.run(work())
        return contents_of(directory)

    def ask(self, work: Callable[[Visitor], Awaitable[T]]) -> T:
        """What a host of the cluster answers."""

        async def asked() -> T:
            async with self.visitor() as visitor:
                await visitor.cluster()
                return await work(visitor)

        return asyncio.run(asked())

    def pid_of(self, node: str) -> int:
        return next(one.pid for one in self.laptop.started() if one.node == node)

    def kill(self, node: str) -> None:
        """Kill a node's process, as a power cut would; it has ended when this returns."""
        ended = os.pidfd_open(self.pid_of(node))
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        select.select([ended], [], [])
        os.close(ended)

    def start(self, count: int) -> None:
        """Have so many nodes in all, those that were killed included."""
        self.nodes = self.laptop.start_nodes(count, self.slots, self.options)
        wait_for_nodes(self.laptop, self.nodes)


def contents_of(directory: Path) -> dict[str, bytes]:
    """The contents of all files below a directory, by their path from there."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@contextmanager
def laptop_cluster(
    path: Path,
    nodes: int = 2,
    *,
    slots: int = 1,
    shards: int = 1,
    replicas: int = 0,
    lease: str = "3s",
    options: Sequence[str] = (),
) -> Iterator[LaptopCluster]:
    """A cluster in this directory, ended with everything in it. Skips where no server is."""
    program_of("any")
    directory = ClusterDirectory(path)
    directory.found(path.name)
    laptop, given = Laptop(directory), ["--lease", lease, *options]
    try:
        laptop.start_store(shards, replicas)
        names = laptop.start_nodes(nodes, slots, given)
        wait_for_nodes(laptop, names)
        yield LaptopCluster(laptop, names, slots, given)
    finally:
        laptop.stop_nodes()
        laptop.stop_store()
