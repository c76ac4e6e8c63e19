"""The cluster that is hurt: its processes, its depots and its store, all in one directory."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from threading import Lock

import psutil
from valkey.exceptions import ValkeyError

from bench.cluster_chaos.lan import HUB, Lan
from dataward.cli.laptop_nodes import wait_for_nodes
from dataward.cluster.access import contacts_for, read_access
from dataward.cluster.founding import ClusterDirectory
from dataward.cluster.laptop import Laptop, StartedNode
from dataward.cluster.local_store import LocalStore
from dataward.cluster.store_server import LOOPBACK, StoreServer
from dataward.cluster.visitor import Visitor
from dataward.live.depot_disk import Place, files_in_depot
from dataward.live.file_digest import file_digest
from dataward.model.ids import NodeId
from dataward.model.quantities import parse_bytes

LEASE_SECONDS = 2.0
NODE_TIMEOUT_MS = 1000  # after which servers of the store take one of them for dead
SMALL_DISK_BYTES = 24 << 20
REPLICATION = "replication"  # a user of its own, so that replication alone can be refused
REPLICATION_WORDS = ("+psync", "+replconf", "+ping")


@dataclass
class Rig:
    """``with Rig(directory) as rig``: everything is up inside, and ended after it.

    The last node's depot is on a small disk of its own, where that can be made. With
    ``is_spaced``, nodes are in network namespaces; ``capacity`` is that of each depot, if any.
    """

    path: Path
    nodes: int = 4
    shards: int = 3
    replicas: int = 1
    is_spaced: bool = False
    capacity: str = ""
    laptop: Laptop = field(init=False)
    names: list[NodeId] = field(init=False)
    lan: Lan | None = field(init=False, default=None)
    has_small_disk: bool = False
    _starting: Lock = field(init=False, default_factory=Lock)  # two harms may be undone at a time

    def __post_init__(self) -> None:
        self.names = [NodeId(f"n{number}") for number in range(1, self.nodes + 1)]
        self.lan = Lan(self.names) if self.is_spaced else None
        directory = ClusterDirectory(self.path)
        self.laptop = Laptop(directory, self.lan.command_of) if self.lan else Laptop(directory)

    def __enter__(self) -> "Rig":
        self.laptop.directory.found(self.path.name)
        try:
            if self.lan is not None:
                self.lan.open()
            self.start_store()
            self.has_small_disk = self._mount_small_disk()
            self.start_nodes()
            wait_for_nodes(self.laptop, self.names)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.laptop.started():
            with suppress(ProcessLookupError):
                os.kill(node.pid, signal.SIGCONT)
        self.laptop.stop_nodes()
        self.laptop.stop_store()
        self.reap()
        if self.lan is not None:
            self.lan.close()
        if self.has_small_disk:
            shutil.copytree(self.small_depot, self.path / "small-depot", dirs_exist_ok=True)
            subprocess.run(["umount", "-l", str(self.small_depot)], check=False)

    def visitor(self, role: str = "submit") -> Visitor:
        path = self.laptop.directory.access_file(role)
        access = read_access(path)
        return Visitor(access, contacts_for(path, access))

    @property
    def capacity_bytes(self) -> float:
        return parse_bytes(self.capacity) if self.capacity else inf

    # --- nodes -----------------------------------------------------------------------------------

    def start_nodes(self) -> None:
        """Start every node that does not run."""
        options = ["--lease", f"{LEASE_SECONDS:g}s"]
        if self.capacity:
            options += ["--capacity", self.capacity]
        with self._starting:
            self.reap()
            self.laptop.start_nodes(self.nodes, 1, options)

    def wait_for(self, nodes: list[NodeId]) -> None:
        """Return when these are members, and answer."""
        wait_for_nodes(self.laptop, nodes)

    def process_of(self, node: NodeId) -> StartedNode | None:
        return next((one for one in self.laptop.started() if one.node == node), None)

    def signal(self, node: NodeId, number: signal.Signals) -> bool:
        """Whether the node runs, and has been sent the signal."""
        process = self.process_of(node)
        if process is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
        return process is not None

    def runners_of(self, node: NodeId) -> list[int]:
        process = self.process_of(node)
        if process is None:
            return []
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(process.pid).children()]
        return []

    def reap(self) -> None:
        """Wait for killed nodes: they are children of this process."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    # --- depots ----------------------------------------------------------------------------------

    def depot_of(self, node: NodeId) -> Path:
        return self.path / "depots" / node

    @property
    def small_depot(self) -> Path:
        return self.depot_of(self.names[-1])

    def files_of(self, node: NodeId) -> list[Place]:
        """All files in a node's depot, whatever their contents are."""
        depot = self.depot_of(node)
        directories = [depot / "uploads", *(run / "files" for run in (depot / "runs").glob("*"))]
        return [place for each in directories if each.is_dir() for place in files_in_depot(each)]

    def torn_files(self) -> Iterator[tuple[NodeId, str]]:
        """Nodes and digests of files whose content is not what their names say."""
        for node in self.names:
            for place in self.files_of(node):
                with suppress(FileNotFoundError), open(place.path, "rb", buffering=0) as file:
                    if file_digest(file, place.size_bytes) != place.digest:
                        yield node, place.digest

    def empty_depot(self, node: NodeId) -> None:
        for path in self.depot_of(node).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _mount_small_disk(self) -> bool:
        if os.geteuid() != 0:
            return False
        self.small_depot.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs"]
        return not subprocess.run([*command, str(self.small_depot)], check=False).returncode

    # --- store -----------------------------------------------------------------------------------

    def start_store(self) -> None:
        """Start every server that does not run; return when they are a whole store."""
        self.laptop.start_store(self.shards, self.replicas, HUB if self.lan else LOOPBACK)
        for server in self.servers():
            with suppress(ValkeyError, OSError):
                server.ask("CONFIG", "SET", "cluster-node-timeout", NODE_TIMEOUT_MS)

    def servers(self) -> list[StoreServer]:
        return LocalStore.servers(self.laptop.store)

    def pairs(self) -> list[tuple[StoreServer, StoreServer]]:
        """Each primary with the replica that follows it."""
        by_port = {server.port: server for server in self.servers()}
        found = []
        for server in by_port.values():
            with suppress(ValkeyError, OSError):
                told = server.told("INFO", "replication")
                if told["role"] == "slave" and told["master_link_status"] == "up":
                    found.append((by_port[int(told["master_port"])], server))
        return found

    def kill_server(self, server: StoreServer) -> None:
        process = server.process()
        if process is not None:
            process.kill()

    def detach(self, primary: StoreServer, replica: StoreServer) -> None:
        """Let the primary go on alone: what it acknowledges from now on, the replica never hears.

        The replica is to log in as a user of its own, and then this user is shut out.
        """
        user = ("ACL", "SETUSER", REPLICATION)
        primary.ask(*user, "reset", "on", f">{primary.password}", *REPLICATION_WORDS)
        replica.ask("CONFIG", "SET", "masteruser", REPLICATION)
        primary.ask(*user, "off")
        primary.ask("CLIENT", "KILL", "TYPE", "replica")

    def attach(self, replica: StoreServer) -> None:
        """Let it log in as everybody, when it is to follow a primary again."""
        with suppress(ValkeyError, OSError):
            replica.ask("CONFIG", "SET", "masteruser", "")
