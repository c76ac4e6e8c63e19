"""Files from one host to another, over loopback, beside curl that fetches them from nginx.

    python -m bench.transfer [--size-mb 2000] [--small 10000] [--rounds 3] [--directory DIR]

Two processes: a host that serves, and a node that fetches as it does for a task, through the same
code: hashed, written, and taken into its depot. curl writes to a file of the same disk and hashes
nothing. With TLS, both show certificates of one cluster. Rounds are taken in turn; the table has
the best of each, for the machine may have other things to do, and the ratio of these. Before each,
as many bytes are written to the disk and removed: a virtual machine may have given memory back that
was free for two seconds, and getting it again takes longer than the transfer. CPU is that of both
ends, in the same round. nginx and curl are Debian's; without them only ours are shown.
"""

import argparse
import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from blake3 import blake3
from rich.console import Console
from rich.table import Table

from dataward.cluster.authority import Authority
from dataward.kernel import AsyncioKernel
from dataward.kernel.realtime import new_event_loop
from dataward.live.backlog import Backlog
from dataward.live.credentials import Credentials, Role
from dataward.live.depot_disk import DepotDisk, Place
from dataward.live.node_server import NodeServer
from dataward.live.peer_client import PeerClient
from dataward.live.remote_network import RemoteNetwork
from dataward.model.events import Event
from dataward.model.ids import NodeId
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId, TaskId

HOST = "127.0.0.1"
SMALL_BYTES = 10_000
SERVER_NAME = Role.NODE.value
NGINX = """
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/nginx.log;
events {{}}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
  client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2;
  fastcgi_temp_path {directory}/t3; uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;
  server {{ listen {host}:{plain_port}; root {directory}/served; }}
  server {{
    listen {host}:{tls_port} ssl; root {directory}/served;
    ssl_protocols TLSv1.3; ssl_verify_client on;
    ssl_certificate {directory}/own.pem; ssl_certificate_key {directory}/key.pem;
    ssl_client_certificate {directory}/authority.pem;
  }}
}}
"""


class Took(NamedTuple):
    seconds: float
    cpu_seconds: float


class Sample(NamedTuple):
    """What is fetched: the digests are the names of the files in ``served/``."""

    name: str
    digests: tuple[str, ...]
    size_bytes: int  # of each

    @property
    def total_bytes(self) -> int:
        return self.size_bytes * len(self.digests)


# --- what is served ------------------------------------------------------------------------------


def a_sample(served: Path, name: str, size_bytes: int, count: int) -> Sample:
    """Files of random bytes; a large one repeats its first MiB, with a number in each."""
    digests = []
    for number in range(count):
        path, hasher = served / "unnamed", blake3()
        block, left_bytes = bytearray(os.urandom(min(size_bytes, 1 << 20))), size_bytes
        with open(path, "wb") as file:
            while left_bytes:
                block[:8] = (number ^ left_bytes).to_bytes(8)
                part = memoryview(block)[:left_bytes]
                file.write(part)
                hasher.update(part)
                left_bytes -= len(part)
        digests.append(hasher.hexdigest())
        path.rename(served / digests[-1])
    return Sample(name, tuple(digests), size_bytes)


def credentials_in(directory: Path) -> Credentials:
    names = ("authority.pem", "own.pem", "key.pem")
    return Credentials(*((directory / name).read_text() for name in names))


def issue(directory: Path) -> None:
    authority = Authority.found("bench")
    own = authority.issue("a host", [Role.NODE])
    (directory / "authority.pem").write_text(own.authority)
    (directory / "own.pem").write_text(own.certificate)
    (directory / "key.pem").write_text(own.key)


async def serve(directory: Path, port: int, *, tls: bool) -> None:
    """The process of the host that serves; it ends with SIGTERM."""

    def find(digest: str) -> Place | None:
        path = directory / "served" / digest
        return Place(str(path), path.stat().st_size, digest, False) if path.exists() else None

    logging.disable()  # whoever looks whether the port is open shows no certificate
    credentials = credentials_in(directory) if tls else None
    server = NodeServer(
        lambda run: None, find, lambda: str(directory / "put"), lambda *_: None, credentials
    )
    await server.start(HOST, port)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    await server.close()


# --- who fetches ---------------------------------------------------------------------------------


async def fetch(sample: Sample, directory: Path, port: int, *, tls: bool) -> float:
    """How many seconds a node takes to have all files in its depot."""
    depot = Path(tempfile.mkdtemp(dir=directory))
    threads, backlog, events = ThreadPoolExecutor(2), Backlog(), list[Event]()
    disk = DepotDisk(depot, {}, {}, threads, threads, backlog)
    client = PeerClient(lambda _: f"{HOST}:{port}", credentials_in(directory) if tls else None)
    await client.open()
    network = RemoteNetwork(
        NodeId("here"), "bench", AsyncioKernel(), disk, {}, client, events.append
    )
    files = [
        InputFile(FileId(digest), sample.size_bytes, TaskId("t"), digest)
        for digest in sample.digests
    ]
    began = time.perf_counter()
    await asyncio.gather(*(network.fetch(file, NodeId("there")) for file in files))
    took = time.perf_counter() - began
    assert len(disk.files()) == len(set(sample.digests))
    await network.close()
    await client.close()
    threads.shutdown()
    backlog.close()
    shutil.rmtree(depot)
    return took


def by_ours(sample: Sample, directory: Path, port: int, *, tls: bool) -> float:
    """In a process of its own; its start is not counted, as a node's is not."""
    command = [*ITSELF, "fetch", str(directory), str(port), *(["tls"] if tls else [])]
    listed = "\n".join((str(sample.size_bytes), *sample.digests))
    done = subprocess.run(command, input=listed, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def by_curl(sample: Sample, directory: Path, port: int, *, tls: bool) -> float:
    into = Path(tempfile.mkdtemp(dir=directory))
    scheme, name = ("https", SERVER_NAME) if tls else ("http", HOST)
    urls = into / "urls"
    urls.write_text(
        "".join(
            f'url = "{scheme}://{name}:{port}/{digest}"\noutput = "{into}/{digest}"\n'
            for digest in sample.digests
        )
    )
    keys = [
        "--resolve", f"{name}:{port}:{HOST}", "--cacert", "authority.pem", "--cert", "own.pem",
        "--key", "key.pem",
    ]  # fmt: skip
    command = ["curl", "-sS", "--fail", *(keys if tls else []), "-K", str(urls)]
    began = time.perf_counter()
    subprocess.run(command, cwd=directory, check=True)
    took = time.perf_counter() - began
    shutil.rmtree(into)
    return took


# --- rounds --------------------------------------------------------------------------------------

ITSELF = (sys.executable, "-m", "bench.transfer")


def free_port() -> int:
    with socket.create_server((HOST, 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def running(command: list[str], ports: list[int]) -> Iterator[psutil.Process]:
    process = subprocess.Popen(command)
    try:
        for port in ports:
            while True:
                with suppress(OSError), socket.create_connection((HOST, port)):
                    break
                if process.poll() is not None:
                    raise SystemExit(f"{command[0]} did not start")
                time.sleep(0.01)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def cpu_of(server: psutil.Process) -> float:
    """CPU seconds of the server with its children, and of our own children that have ended."""
    processes = [server, *server.children(recursive=True)]
    ours = os.times()
    serving = sum(sum(process.cpu_times()[:2]) for process in processes)
    return serving + ours.children_user + ours.children_system


def touch_memory(directory: Path, size_bytes: int) -> None:
    """Have the machine hold so much free memory that files can be written to at once."""
    path = directory / "touched"
    block = bytes(1 << 20)
    with open(path, "wb", buffering=0) as file:
        for _ in range(0, size_bytes, len(block)):
            file.write(block)
    path.unlink()


def timed(server: psutil.Process, fetched: Callable[[], float]) -> Took:
    before = cpu_of(server)
    seconds = fetched()
    return Took(seconds, cpu_of(server) - before)


def compare(directory: Path, samples: list[Sample], rounds: int, out: Console) -> None:
    has_nginx = shutil.which("nginx") is not None and shutil.which("curl") is not None
    table = Table("files", "over", "ours s", "curl s", "ratio", "ours MB/s", "CPU s", "curl's")
    plain_port, tls_port = free_port(), free_port()
    conf = directory / "nginx.conf"
    conf.write_text(
        NGINX.format(directory=directory, host=HOST, plain_port=plain_port, tls_port=tls_port)
    )
    nginx = ["nginx", "-p", str(directory), "-c", str(conf)]
    for sample in samples:
        for tls in (False, True):
            ours, theirs, port = list[Took](), list[Took](), free_port()
            serving = [*ITSELF, "serve", str(directory), str(port), *(["tls"] if tls else [])]
            for _ in range(rounds):
                with running(serving, [port]) as server:
                    touch_memory(directory, sample.total_bytes)
                    ours.append(timed(server, partial(by_ours, sample, directory, port, tls=tls)))
                if has_nginx:
                    at = tls_port if tls else plain_port
                    with running(nginx, [at]) as server:
                        touch_memory(directory, sample.total_bytes)
                        theirs.append(
                            timed(server, partial(by_curl, sample, directory, at, tls=tls))
                        )
            table.add_row(*row_of(sample, "TLS" if tls else "plain", ours, theirs))
    out.print(table)


def row_of(sample: Sample, over: str, ours: list[Took], theirs: list[Took]) -> list[str]:
    best = min(ours)
    shown = [sample.name, over, f"{best.seconds:.2f}"]
    other = min(theirs) if theirs else None
    shown.append(f"{other.seconds:.2f}" if other else "–")
    shown.append(f"{other.seconds / best.seconds:.2f}" if other else "–")
    shown.append(f"{sample.total_bytes / best.seconds / 1e6:.0f}")
    shown.append(f"{min(took.cpu_seconds for took in ours):.2f}")
    shown.append(f"{min(took.cpu_seconds for took in theirs):.2f}" if theirs else "–")
    return shown


def run(out: Console, *, quick: bool = False, **given: int) -> None:
    size_mb, small = (
        (200, 1000) if quick else (given.get("size_mb", 2000), given.get("small", 10_000))
    )
    with tempfile.TemporaryDirectory(dir=given.get("directory")) as made:
        directory = Path(made)
        directory.chmod(0o755)  # nginx's own user reads in it
        (directory / "served").mkdir()
        issue(directory)
        samples = [
            a_sample(directory / "served", f"1 of {size_mb} MB", size_mb * 10**6, 1),
            a_sample(
                directory / "served", f"{small} of {SMALL_BYTES // 1000} kB", SMALL_BYTES, small
            ),
        ]
        compare(directory, samples, given.get("rounds", 3), out)


def main() -> None:
    match sys.argv[1:]:
        case ["serve", directory, port, *tls]:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(serve(Path(directory), int(port), tls=bool(tls)))
            return
        case ["fetch", directory, port, *tls]:
            size_bytes, *digests = sys.stdin.read().split()
            sample = Sample("", tuple(digests), int(size_bytes))
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                print(runner.run(fetch(sample, Path(directory), int(port), tls=bool(tls))))
            return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mb", type=int, default=2000, help="of the large file")
    parser.add_argument("--small", type=int, default=10_000, help="how many small files")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many is shown")
    parser.add_argument("--directory", help="where files are made; default: the system's")
    run(Console(width=110), **vars(parser.parse_args()))


if __name__ == "__main__":
    main()
