"""Hosts of a test's own on this machine: network namespaces, joined by a bridge in another one.

Nothing outside of these namespaces changes, so tests may run beside each other, with the same
addresses. Everything is removed at the end.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import pytest

from dataward.cluster.access import read_access
from dataward.cluster.founding import ClusterDirectory
from file_changes import wait_for_files
from valkey_servers import READY, program_of

NETWORK = "10.99.0"
STORE_PORT = 6379
NODE_PORT = 7000
END_SECONDS = 600.0
BAD_LINK = str(Path(__file__).with_name("bad_link.py"))
MEMBERS = str(Path(__file__).with_name("members.py"))


class BadLink(NamedTuple):
    """Each way, a frame takes so long, and so many of them are lost."""

    delay_seconds: float = 0.0
    loss: float = 0.0


class Lan:
    """Hosts with addresses of their own; ``cut`` one off, ``heal`` it, or ``shape`` its link."""

    def __init__(self) -> None:
        self._token = token_hex(3)
        self._hosts: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Skips the test where namespaces cannot be made."""
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            pytest.skip("network namespaces need root, and the commands ip and tc")
        made = subprocess.run(["ip", "netns", "add", self._space("switch")], capture_output=True)
        if made.returncode:
            pytest.skip(f"no network namespace can be made here: {made.stderr.decode().strip()}")
        self._in("switch", "ip", "link", "add", "name", "bridge0", "type", "bridge")
        self._in("switch", "ip", "link", "set", "bridge0", "up")

    def add(self, host: str, link: BadLink | None = None) -> str:
        """The address of a new host."""
        self._hosts.append(host)
        address, port, space = f"{NETWORK}.{len(self._hosts)}", f"port-{host}", self._space(host)
        subprocess.run(["ip", "netns", "add", space], check=True)
        if link is None:
            words = ("ip", "link", "add", "name", port, "type", "veth")
            self._in("switch", *words, "peer", "name", "eth0", "netns", space)
        else:
            self._start_link(host, port, link)
        self._in("switch", "ip", "link", "set", port, "master", "bridge0", "up")
        self._in(host, "ip", "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._in(host, "ip", "link", "set", device, "up")
        return address

    def _start_link(self, host: str, port: str, link: BadLink) -> None:
        if not os.path.exists("/dev/net/tun"):
            pytest.skip("a bad link needs /dev/net/tun")
        words = (port, f"peer-{host}", str(link.delay_seconds), str(link.loss), host)
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._space("switch"), sys.executable, BAD_LINK, *words],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"ready\n"
        peer = ("ip", "link", "set", f"peer-{host}")
        self._in("switch", *peer, "netns", self._space(host), "name", "eth0")

    def cut(self, host: str) -> None:
        """Pull the plug: nothing comes or goes, and nobody is told."""
        self._in("switch", "ip", "link", "set", f"port-{host}", "down")

    def heal(self, host: str) -> None:
        self._in("switch", "ip", "link", "set", f"port-{host}", "up")

    def slow_down(self, host: str, rate: str) -> None:
        """Let no more than this through, each way, as ``10mbit``."""
        words = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "100ms")
        self._in(host, "tc", "qdisc", "replace", "dev", "eth0", *words)
        self._in("switch", "tc", "qdisc", "replace", "dev", f"port-{host}", *words)

    def start(self, host: str, log: Path, *command: str) -> subprocess.Popen[bytes]:
        """A process on a host; it is ended with the network."""
        with open(log, "ab") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self._space(host), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def ask(self, host: str, *command: str) -> str:
        """What a command prints on a host; fails if it does not end well."""
        done = subprocess.run(
            ["ip", "netns", "exec", self._space(host), *command],
            capture_output=True,
            text=True,
            timeout=END_SECONDS,
        )
        assert not done.returncode, done.stderr
        return done.stdout

    def close(self) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for host in [*self._hosts, "switch"]:
            subprocess.run(["ip", "netns", "delete", self._space(host)], check=False)

    def _space(self, host: str) -> str:
        return f"dataward-{self._token}-{host}"

    def _in(self, host: str, *command: str) -> None:
        subprocess.run(["ip", "netns", "exec", self._space(host), *command], check=True)


class SpacedCluster:
    """A store, nodes and a submitter, each on a host of its own."""

    def __init__(self, lan: Lan, path: Path) -> None:
        self.lan = lan
        self.path = path
        self.directory = ClusterDirectory(path)
        self.directory.found(path.name)
        self.nodes: dict[str, str] = {}  # addresses
        self.lan.add("submitter")

    def start_store(self) -> None:
        address, program = self.lan.add("store"), program_of("any")
        where = self.path / "store"
        where.mkdir()
        options = {
            "bind": address, "port": STORE_PORT, "requirepass": "secret", "save": "",
            "appendonly": "no", "dir": where,
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.lan.start("store", where / "log", program, *words)
        self.directory.name_store(f"valkey://:secret@{address}:{STORE_PORT}")
        log = where / "log"
        wait_for_files(lambda: READY in log.read_bytes().lower(), "the store is up", where)

    def start_node(
        self, node: str, *before: str, link: BadLink | None = None, options: Sequence[str] = ()
    ) -> None:
        """Start a node on a new host; ``before`` are words before its command."""
        self.nodes[node] = address = self.lan.add(node, link)
        self.lan.start(
            node, self.path / f"{node}.log", *before,
            sys.executable, "-m", "dataward.cli.main", "node",
            "--access", str(self.directory.access_file("node")), "--name", node,
            "--depot", str(self.path / "depots" / node), "--slots", "1", "--lease", "3s",
            "--listen", f"{address}:{NODE_PORT}", *options,
        )  # fmt: skip

    def start(self, *nodes: str, options: Sequence[str] = ()) -> None:
        self.start_store()
        for node in nodes:
            self.start_node(node, options=options)
        self.wait_for_members(*nodes)

    def wait_for_members(self, *nodes: str) -> None:
        """Return when these are the members."""
        store = read_access(self.directory.access_file("node")).store
        self.lan.ask("submitter", sys.executable, MEMBERS, store, self.path.name, *nodes)

    def submit(self, workflow: Path, *options: str) -> str:
        """The name of the run."""
        told = self.dataward("submit", str(workflow), "--fresh", "--quiet", "--json", *options)
        return str(told["run"])

    def wait(self, run: str) -> dict[str, Any]:
        """How a run has ended; fails if that is not well."""
        told: dict[str, Any] = self.dataward("watch", run, "--quiet", "--json")
        return told

    def fetch(self, run: str, directory: Path) -> None:
        self.dataward("fetch", run, "-o", str(directory), "--json")

    def dataward(self, command: str, *words: str) -> Any:
        """What a command of the submitter prints as JSON."""
        first = next(iter(self.nodes.values()), "")
        said = self.lan.ask(
            "submitter", sys.executable, "-m", "dataward.cli.main", command, *words,
            "--access", str(self.directory.access_file("submit")),
            "--contact", f"{first}:{NODE_PORT}",
        )  # fmt: skip
        return json.loads(said)


@contextmanager
def spaced_cluster(path: Path) -> Iterator[SpacedCluster]:
    """A cluster without a node yet, on hosts of its own."""
    lan = Lan()
    lan.open()
    try:
        yield SpacedCluster(lan, path)
    finally:
        lan.close()
