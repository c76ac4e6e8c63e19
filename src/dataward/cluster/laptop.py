"""A whole cluster on this machine: a store and nodes, all processes that outlive their starter.

Everything is in the cluster's directory: ``store/`` for the store, ``depots/NODE`` and
``logs/NODE.log`` for each node, and ``nodes.json`` with the processes that were started.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from dataward.cluster.founding import ClusterDirectory
from dataward.cluster.local_store import LocalStore
from dataward.cluster.store_server import LOOPBACK
from dataward.errors import DatawardError
from dataward.live.durability import replace_content
from dataward.model.ids import NodeId

END_SECONDS = 20.0
POLL_SECONDS = 0.05


class NodesFailed(DatawardError):  # noqa: N818 - says what went wrong on this machine
    """A node of this machine did not start; the end of its log says why."""


class StartedNode(msgspec.Struct, frozen=True):
    """A process; its start time tells it from a later one of the same number."""

    node: NodeId
    pid: int
    began: float
    slots: int = 0  # 0: not known
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Laptop:
    """The cluster in this directory."""

    directory: ClusterDirectory
    command_of: Callable[[NodeId, list[str]], list[str]] = lambda node, command: command
    """How a node is started, given the command for this machine itself"""

    @property
    def store(self) -> Path:
        return self.directory.path / "store"

    def log_of(self, node: NodeId) -> Path:
        return self.directory.path / "logs" / f"{node}.log"

    @property
    def _list(self) -> Path:
        return self.directory.path / "nodes.json"

    def start_store(self, shards: int, replicas: int, address: str = LOOPBACK) -> str:
        """Start the store, unless it is up, and name it in the nodes' access file."""
        url = LocalStore.start(self.store, shards=shards, replicas=replicas, address=address)
        self.directory.name_store(url)
        return url

    def started(self) -> list[StartedNode]:
        """The nodes that were started here and still run."""
        try:
            known = msgspec.json.decode(self._list.read_bytes(), type=list[StartedNode])
        except (OSError, msgspec.MsgspecError):
            return []
        return [node for node in known if _is_running(node)]

    def start_nodes(self, count: int, slots: int, options: list[str]) -> list[NodeId]:
        """The names of the nodes, so many in all; those that run already stay."""
        running = self.started()
        taken = {node.node for node in running}
        wanted = [NodeId(f"n{number}") for number in range(1, count + 1)]
        for node in wanted:
            if node not in taken:
                running.append(self._start(node, slots, options))
                replace_content(self._list, msgspec.json.encode(running))
        return wanted

    def _start(self, node: NodeId, slots: int, options: list[str]) -> StartedNode:
        path, log = self.directory.path.absolute(), self.log_of(node).absolute()
        log.parent.mkdir(exist_ok=True)
        depot = path / "depots" / node
        depot.parent.mkdir(exist_ok=True)
        command = [
            sys.executable, "-m", "dataward.cli.main", "node",
            "--access", str(path / "node.access"), "--name", node,
            "--depot", str(depot), "--slots", str(slots), *options,
        ]  # fmt: skip
        with open(os.devnull, "rb") as nothing, open(log, "ab") as output:
            streams = [
                (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ]
            command = self.command_of(node, command)
            pid = os.posix_spawnp(
                command[0], command, os.environ, file_actions=streams, setsid=True
            )
        return StartedNode(node, pid, psutil.Process(pid).create_time(), slots, tuple(options))

    def check_running(self, nodes: list[NodeId]) -> None:
        """Raise NodesFailed if one of these has ended."""
        running = {node.node for node in self.started()}
        for node in nodes:
            if node not in running:
                raise NodesFailed(f"node {node} has ended: {_last_line(self.log_of(node))}")

    def stop_nodes(self) -> list[NodeId]:
        """End the nodes that were started here, at once; then none of them runs."""
        running = self.started()
        for node in running:
            for _ in range(2):  # the second time it ends at once
                with suppress(ProcessLookupError):
                    os.kill(node.pid, signal.SIGTERM)
        until = time.monotonic() + END_SECONDS
        while (left := [node for node in running if _is_running(node)]) and _is_before(until):
            time.sleep(POLL_SECONDS)
        for node in left:
            with suppress(ProcessLookupError):
                os.kill(node.pid, signal.SIGKILL)
        self._list.unlink(missing_ok=True)
        return [node.node for node in running]

    def stop_store(self) -> bool:
        """Whether the store was up, and is not any more."""
        was_up = LocalStore.is_up(self.store)
        LocalStore.stop(self.store)
        return was_up


def _is_before(seconds: float) -> bool:
    return time.monotonic() < seconds


def _is_running(node: StartedNode) -> bool:
    try:
        process = psutil.Process(node.pid)
        is_same = abs(process.create_time() - node.began) < 1.0
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _last_line(path: Path) -> str:
    with suppress(OSError):
        lines = path.read_text("utf-8", errors="replace").strip().splitlines()
        if lines:
            return lines[-1][-300:]
    return f"see {path}"
