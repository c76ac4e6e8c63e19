"""Three nodes of either world with nothing else around, asked one thing at a time."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
from blake3 import blake3

from conformance.pulled_plug import Plug
from conformance.store_cases import run_on
from dataward.kernel import AsyncioKernel, VirtualKernel
from dataward.kernel.realtime import new_event_loop
from dataward.live import depot_disk
from dataward.live.backlog import Backlog
from dataward.live.depot_disk import DepotDisk, Place, clear_incoming, files_in_depot
from dataward.live.digest_index import DigestIndex
from dataward.live.host_disk import EntryJournal, HostDisk
from dataward.live.local_network import LocalNetwork, Wires
from dataward.live.orders import Written
from dataward.live.sandbox import place_in_depot, put_in_depot
from dataward.model.events import Event
from dataward.model.operations import Commit, InputFile, OutputFile, TaskSpec
from dataward.model.platform import uniform_platform
from dataward.sim.fabric import Fabric
from dataward.sim.interference import Interference
from dataward.sim.parts import SimDisk, SimNetwork, Traffic
from dataward.sim.sim_machine import SimMachine
from dataward.sim.truth import Truth
from dataward.world import StoredFile

NODES = ("n0", "n1", "n2")
GIVEN = b"given from outside"
ESTIMATED_BYTES = 7  # what is said of a file before it is written, which proves nothing
PATIENCE_SECONDS = 60.0  # with what would otherwise hang


def a_spec(
    task: str,
    *,
    inputs: Sequence[InputFile] = (),
    outputs: Sequence[OutputFile] = (),
    **more: Any,
) -> TaskSpec:
    known = {"estimated_seconds": 1.0, "cores": 1, "memory_bytes": 0, "command": ("true",)} | more
    return TaskSpec(
        id=task,
        type="a type",
        parents=(),
        children=(),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        retries=0,
        preferred="n0",
        priority=0.0,
        backups_max=0,
        **known,
    )


def as_input(file: OutputFile, producer: str) -> InputFile:
    return InputFile(file.id, file.size_bytes, producer, file.digest)


def digest_of_bytes(content: bytes) -> str:
    return blake3(content).hexdigest()


class LiveWorld:
    """Depots below a real directory, real threads, and a plug that can be pulled."""

    disk_type: type[DepotDisk] = DepotDisk
    network_type: type[LocalNetwork] = LocalNetwork

    # How `Disk.journal` reads here: a commit need not be remembered twice. The store of these
    # nodes is a journal on the same disk, and loses nothing that it acknowledged.
    disk_keeps_a_journal = False

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.plug = Plug(directory, monkeypatch)
        self.kernel = AsyncioKernel()
        self.events: list[Event] = []
        self._runner = asyncio.Runner(loop_factory=new_event_loop)
        self._hash_threads = ThreadPoolExecutor(2)
        self._sync_thread = ThreadPoolExecutor(1)
        self._backlog = Backlog()
        self._digests: dict[str, str] = {}  # of what was stored, as a store would know
        self._words = 0
        given = directory / "given"
        given.write_bytes(GIVEN)
        outside = Place(str(given), len(GIVEN), digest_of_bytes(GIVEN), True)
        self.given = InputFile("given", len(GIVEN), "", outside.digest)
        self._wires = Wires(self.kernel, self.events.append, {"given": outside})
        self.earlier: dict[str, Place] = {}
        self.disks: dict[str, DepotDisk] = {}
        self.networks: dict[str, LocalNetwork] = {}
        for node in NODES:
            self._plug_in(node, {})

    def _disk(self, node: str, held: dict[str, Place]) -> DepotDisk:
        return self.disk_type(
            self.directory / "depot" / node,
            held,
            self.earlier,
            self._hash_threads,
            self._sync_thread,
            self._backlog,
        )

    def _plug_in(self, node: str, held: dict[str, Place]) -> None:
        disk = self._disk(node, held)
        plugged = self._wires.plug_in(node, disk)
        self.disks[node] = disk
        self.networks[node] = self.network_type(plugged.node, plugged.wires, plugged.inbox)

    async def arrival(self) -> None:
        """Wait until everything sent has arrived: between nodes of one process it has."""

    def close(self) -> None:
        self._runner.close()
        self._hash_threads.shutdown()
        self._sync_thread.shutdown()
        self._backlog.close()
        self.plug.close()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(asyncio.wait_for(coroutine, PATIENCE_SECONDS))

    # --- files -----------------------------------------------------------------------------------

    def write(self, node: str, task: str, *, large: bool = False, **contents: bytes) -> TaskSpec:
        """Have a task leave its outputs, as a runner process does; they are still to be stored."""
        written = []
        for name, content in contents.items():
            self._words += 1
            path, digest = self.directory / f"written-{self._words}", digest_of_bytes(content)
            path.write_bytes(content)
            path.chmod(0o444)  # as the sandbox leaves it
            depot = self.disks[node].directory
            if large:
                os.makedirs(f"{depot}/incoming", exist_ok=True)
                place = f"{depot}/incoming/{self._words}"
                os.rename(path, place)
                written.append(Written(name, len(content), "", place, 0))
            else:
                place = put_in_depot(str(path), depot, digest, str(self._words))
                written.append(Written(name, len(content), digest, place, 0))
            self._digests[name] = digest
        self.disks[node].wrote(task, tuple(written))
        return a_spec(task, outputs=tuple(OutputFile(name, ESTIMATED_BYTES) for name in contents))

    def digest(self, task: str, file: str, content: bytes) -> str:
        return digest_of_bytes(content)

    def is_readable(self, node: str, file: StoredFile) -> bool:
        """Whether the file really is on the disk, whole, once all pending work is done."""
        self._finish_backlog()
        place = self.disks[node].where(file.id)
        if place is None or not os.path.isfile(place.path):
            return False
        return digest_of_bytes(Path(place.path).read_bytes()) == file.digest

    def count_of_stray_files(self, node: str) -> int:
        """How many files are in the depot that the disk does not know of."""
        self._finish_backlog()
        depot = Path(self.disks[node].directory)
        there = {str(path) for path in depot.rglob("*") if path.is_file()}
        known = {self.disks[node].where(file.id).path for file in self.disks[node].files()}
        return len(there - known)

    def _finish_backlog(self) -> None:
        done = threading.Event()
        self._backlog.add(done.set)
        assert done.wait(PATIENCE_SECONDS)

    def lose(self, node: str, file: str) -> None:
        """Have a file go from the disk, for a task has written to it."""
        self.disks[node].spoil(file)

    def lose_unnoticed(self, node: str, file: str) -> None:
        """Have a file go from the disk with nobody told."""
        os.unlink(self.disks[node].where(file).path)

    # --- trouble ---------------------------------------------------------------------------------

    def reopen(self, node: str) -> None:
        """Start the node's disk again, as the next run does: the store knows names and digests."""
        depot = self.directory / "depot" / node
        clear_incoming(depot)
        contents = {p.digest: p for p in files_in_depot(depot)}
        held = {
            file: contents[digest] for file, digest in self._digests.items() if digest in contents
        }
        self._plug_in(node, held)

    def leave(self, node: str, file: str, content: bytes) -> OutputFile:
        """An earlier run has left this file at a node."""
        digest = digest_of_bytes(content)
        path = Path(place_in_depot(str(self.directory / "depot" / node), digest, "earlier"))
        path.write_bytes(content)
        path.chmod(0o444)
        depot_disk.sync_path(str(path))
        depot_disk.sync_path(str(path.parent))
        modified_ns = path.stat().st_mtime_ns
        self._digests[file] = digest
        self.earlier[file] = Place(str(path), len(content), digest, False, modified_ns)
        return OutputFile(file, len(content), digest)

    def cut_power(self, node: str) -> None:
        self._finish_backlog()
        self.plug.pull(self.directory / "depot" / node)
        self.reopen(node)

    def fill_up(self, node: str) -> None:
        self.plug.disk_is_full = True

    def empty_out(self, node: str) -> None:
        self.plug.disk_is_full = False


class HostWorld(LiveWorld):
    """Disks of a run on hosts: each has an index of its files by content, and a journal."""

    disk_keeps_a_journal = True

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.indexes = {node: DigestIndex() for node in NODES}
        self.outcomes: list[tuple[str, dict[str, str], tuple[OutputFile, ...]]] = []
        super().__init__(directory, monkeypatch)

    def close(self) -> None:
        for node in self.disks:
            self._close_disk(node)
        super().close()

    def _close_disk(self, node: str) -> None:
        disk = self.disks.get(node)
        if isinstance(disk, HostDisk):
            disk.close()
            self._finish_backlog()

    def _disk(self, node: str, held: dict[str, Place]) -> DepotDisk:
        self._close_disk(node)
        self.indexes[node] = DigestIndex()
        for place in files_in_depot(self.directory / "depot" / node):
            self.indexes[node].add(place)
        return HostDisk(
            self.directory / "depot" / node,
            held,
            self.indexes[node],
            lambda: inf,
            EntryJournal(self.directory / "commits" / node, Commit, self._backlog),
            EntryJournal(self.directory / "keeps" / node, InputFile, self._backlog),
            self._hash_threads,
            self._sync_thread,
            self._backlog,
            lambda spec, read, wrote: self.outcomes.append((spec.id, dict(read), wrote)),
        )

    def leave(self, node: str, file: str, content: bytes) -> OutputFile:
        left = super().leave(node, file, content)
        for index in self.indexes.values():  # as if they were hosts of one machine
            index.add(self.earlier[file])
        return left


class SimWorld:
    """Simulated machines under virtual time."""

    disk_type: type[SimDisk] = SimDisk
    network_type: type[SimNetwork] = SimNetwork

    disk_keeps_a_journal = True  # for the simulated store may lose acknowledged writes

    def __init__(self, cores: int = 4) -> None:
        self.kernel = VirtualKernel()
        self.events: list[Event] = []
        platform = uniform_platform(len(NODES), cores=cores)
        self.fabric = Fabric(self.kernel, platform)
        self.machines = {
            machine.id: SimMachine(machine, self.kernel, self.kernel.flag())
            for machine in platform.machines
        }
        self.interference = Interference(Random(0))
        self.seconds: dict[str, float] = {}  # how long tasks really run
        self.sizes: dict[str, int] = {}  # and what they really write
        self.truth = Truth(self.seconds, self.sizes)
        inboxes: dict[str, Any] = {node: self.kernel.queue() for node in NODES}
        traffic = Traffic(
            self.fabric, self.interference, self.machines, inboxes, self.events.append
        )
        self.given = InputFile("given", len(GIVEN), "", "as given")
        self.disks = {node: self._disk(node) for node in NODES}
        self.networks = {
            node: self.network_type(traffic, self.machines[node], inboxes[node]) for node in NODES
        }

    def _disk(self, node: str) -> SimDisk:
        return self.disk_type(self.machines[node], self.fabric, self.truth)

    async def arrival(self) -> None:
        await self.kernel.sleep(1.0)

    def close(self) -> None:
        self.kernel.close()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return run_on(self.kernel)(coroutine)

    # --- files -----------------------------------------------------------------------------------

    def write(self, node: str, task: str, *, large: bool = False, **contents: bytes) -> TaskSpec:
        self.sizes.update((name, len(content)) for name, content in contents.items())
        return a_spec(task, outputs=tuple(OutputFile(name, ESTIMATED_BYTES) for name in contents))

    def digest(self, task: str, file: str, content: bytes) -> str:
        return f"{task}/{file}"

    def is_readable(self, node: str, file: StoredFile) -> bool:
        return self.machines[node].stored.files.get(file.id) == file

    def count_of_stray_files(self, node: str) -> int:
        stored = self.machines[node].stored
        return stored.used_bytes - sum(file.size_bytes for file in stored.files.values())

    def lose(self, node: str, file: str) -> None:
        self.machines[node].stored.remove(file)

    lose_unnoticed = lose

    # --- trouble ---------------------------------------------------------------------------------

    def reopen(self, node: str) -> None:
        self.disks[node] = self._disk(node)

    def leave(self, node: str, file: str, content: bytes) -> OutputFile:
        digest = f"earlier/{file}"
        self.machines[node].stored.earlier[file] = digest
        return OutputFile(file, len(content), digest)

    def cut_power(self, node: str) -> None:
        self.machines[node].crash()
        self.machines[node].up = True
        self.reopen(node)

    def fill_up(self, node: str) -> None:
        self.machines[node].fill_up()

    def empty_out(self, node: str) -> None:
        self.machines[node].empty_out()


WORLDS = ("live", "simulated")
ON_A_HOST = "on a host"


def a_world(name: str, request: pytest.FixtureRequest, **types: type) -> LiveWorld | SimWorld:
    """A world of the kind named, closed after the test; ``types`` take the place of its own."""
    kinds = {"live": LiveWorld, ON_A_HOST: HostWorld}
    return a_world_of(kinds.get(name, SimWorld), request, **types)


def a_world_of(kind: Any, request: pytest.FixtureRequest, **types: type) -> Any:
    kind = type(kind.__name__, (kind,), types)
    if issubclass(kind, LiveWorld):
        given = (request.getfixturevalue("tmp_path"), request.getfixturevalue("monkeypatch"))
        world = kind(*given)
    else:
        world = kind()
    request.addfinalizer(world.close)
    return world
