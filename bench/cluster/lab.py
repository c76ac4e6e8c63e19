"""A store and nodes on this machine for a while, and what they have spent so far."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil

from dataward import WorkflowBuilder, write_workflow
from dataward.cli.laptop_nodes import wait_for_nodes
from dataward.cluster.access import contacts_for, read_access
from dataward.cluster.exchange import RunFactsNow
from dataward.cluster.founding import ClusterDirectory
from dataward.cluster.laptop import Laptop
from dataward.cluster.local_store import LocalStore
from dataward.cluster.store_server import StoreServer
from dataward.cluster.submitting import SubmitRequest, Submitter
from dataward.cluster.visitor import Visitor
from dataward.formats.read import read_workflow
from dataward.model.states import RunState


class Spent(NamedTuple):
    """So far; or, if subtracted, between two moments."""

    store_calls: int
    function_seconds: float  # of the store's functions, by the clock
    server_seconds: float  # of the store's servers, on their processors
    messages: int
    letters: int  # requests from node to node that had messages in them
    cpu_seconds: float  # of nodes, servers and this process

    def since(self, before: "Spent") -> "Spent":
        return Spent(*(now - then for now, then in zip(self, before, strict=True)))


@dataclass
class Lab:
    laptop: Laptop
    path: Path

    @property
    def access_file(self) -> Path:
        return self.laptop.directory.access_file("submit")

    def visitor(self) -> Visitor:
        access = read_access(self.access_file)
        return Visitor(access, contacts_for(self.access_file, access))

    async def run(self, builder: WorkflowBuilder) -> RunFactsNow:
        """How a workflow ended."""
        source = self.path / "w.json"
        write_workflow(builder.build(), source)
        async with self.visitor() as visitor:
            request, workflow = SubmitRequest(fresh=True), read_workflow(source)
            submitter = Submitter(visitor, workflow, source, request, self.path / "cache")
            name = (await submitter.submit()).run.name
            facts = await visitor.run(name)
            while facts.run.state is RunState.RUNNING:
                facts = await visitor.run(name, wait_seconds=20.0)
            return facts

    def spent(self) -> Spent:
        return asyncio.run(self._spent())

    async def _spent(self) -> Spent:
        store = self._server_spent()
        messages = letters = 0
        async with self.visitor() as visitor:
            members = (await visitor.cluster()).members
        access = read_access(self.access_file)
        for member in members:
            async with Visitor(access, [member.address]) as visitor:
                sent = (await visitor.cluster()).sent
                messages, letters = messages + sent.messages, letters + sent.letters
        return Spent(*store, messages, letters, cpu_seconds(self._processes()))

    def _servers(self) -> list[StoreServer]:
        return LocalStore.servers(self.laptop.store)

    def _server_spent(self) -> tuple[int, float, float]:
        """How many functions the store's servers were called for, their time, and all their CPU."""
        calls, microseconds, cpu = 0, 0, 0.0
        for server in self._servers():
            told = server.told("INFO", "commandstats").get("cmdstat_fcall", "calls=0,usec=0")
            numbers = dict(each.split("=") for each in told.split(","))
            calls, microseconds = calls + int(numbers["calls"]), microseconds + int(numbers["usec"])
            used = server.told("INFO", "cpu")
            cpu += float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
        return calls, microseconds / 1e6, cpu

    def _processes(self) -> list[psutil.Process]:
        """This one, and those of nodes and servers."""
        nodes = [psutil.Process(node.pid) for node in self.laptop.started()]
        servers = [process for server in self._servers() if (process := server.process())]
        return [psutil.Process(), *nodes, *servers]


def cpu_seconds(roots: list[psutil.Process]) -> float:
    """Of these processes, all below them that are alive, and all that they have waited for."""
    processes = {p.pid: p for root in roots for p in [root, *root.children(recursive=True)]}
    return sum(sum(process.cpu_times()[:4]) for process in processes.values())


@contextmanager
def lab_of(nodes: int, *, shards: int = 1, lease: str = "10s") -> Iterator[Lab]:
    """Nodes of one slot each."""
    with TemporaryDirectory(prefix="bench-cluster-") as place:
        path = Path(place)
        directory = ClusterDirectory(path / "lab")
        directory.found("lab")
        laptop = Laptop(directory)
        try:
            laptop.start_store(shards, 0)
            names = laptop.start_nodes(nodes, 1, ["--lease", lease, "--quiet"])
            wait_for_nodes(laptop, names)
            yield Lab(laptop, path)
        finally:
            laptop.stop_nodes()
            laptop.stop_store()


def seconds_of(facts: RunFactsNow) -> float:
    return facts.run.ended_at - facts.run.submitted_at
