"""The store on a Valkey server of this machine: operations a second, server time and memory a task.

`python -m bench.store_on_server` prints the table. Each task is submitted with two parents, told of
both, queued, claimed, begun, committed, let go of, and its outbox is emptied: nine operations, with
a hundred tasks in each call. Server time is the CPU time of the server's main thread, in the
quickest of some rounds: other work on the machine makes it longer, never shorter. `python -m
bench.store_on_server 1000000` does so with a million tasks, in one round.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table
from valkey import Valkey

from dataward.cluster.store_server import server_programs
from dataward.model.operations import (
    Begin,
    Claim,
    Commit,
    Copy,
    Delivered,
    Enqueue,
    Forget,
    InputFile,
    Join,
    LetGo,
    Notify,
    OutputFile,
    QueueEntry,
    Submit,
    TaskSpec,
)
from dataward.stores.connection import connect
from dataward.stores.valkey import ValkeyStore

TASKS = 10_000
TOGETHER = 100
ROUNDS = 5
NODE = "node-1"
DIGEST = "0123456789abcdef" * 4


@contextmanager
def a_server(program: str) -> Iterator[str]:
    """The path of the socket of a server that keeps nothing on disk."""
    with TemporaryDirectory() as directory:
        path = str(Path(directory) / "s")
        command = [program, "--port", "0", "--unixsocket", path, "--save", ""]
        process = subprocess.Popen(
            [*command, "--slowlog-log-slower-than", "-1", "--dir", directory],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        for line in process.stdout:
            if b"ready to accept connections" in line.lower():
                break
        try:
            yield path
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def name(number: int) -> str:
    return f"task_{number:08}"


def a_spec(number: int) -> TaskSpec:
    parents = (name(number - 1), name(number - 2))
    return TaskSpec(
        name(number),
        "bench",
        parents,
        (name(number + 1), name(number + 2)),
        tuple(InputFile(f"{parent}.out", 1000, parent) for parent in parents),
        (OutputFile(f"{name(number)}.out", 1000),),
        12.5,
        cores=1,
        memory_bytes=0,
        retries=2,
        preferred=NODE,
        priority=number / 3,
        backups_max=1,
        command=("program", "-x", f"{parents[0]}.out", f"{name(number)}.out"),
    )


def notices(number: int) -> list[Notify]:
    return [
        Notify(name(number), parent, 1, False, (Copy(f"{parent}.out", NODE, 1000, DIGEST),))
        for parent in (name(number - 1), name(number - 2))
    ]


def entry(number: int) -> QueueEntry:
    return QueueEntry(number / 3, name(number), False, 12.5)


def attempt(number: int) -> str:
    return f"{NODE}.1.{number}"


def commit(number: int) -> Commit:
    outputs = (OutputFile(f"{name(number)}.out", 999, DIGEST),)
    return Commit(name(number), attempt(number), NODE, (), 1, outputs)


class Gauge:
    """What the server has used so far."""

    def __init__(self, path: str) -> None:
        self._client = Valkey(unix_socket_path=path)

    def memory_bytes(self) -> int:
        return int(self._client.info("memory")["used_memory"])

    def cpu_micros(self) -> float:
        used = self._client.info("cpu")
        return 1e6 * sum(used[f"used_cpu_{kind}_main_thread"] for kind in ("user", "sys"))

    def close(self) -> None:
        self._client.close()


async def measure(path: str, tasks: int) -> dict[str, float]:
    """Bytes a task in each state, and speeds. What has been forgotten is submitted once more."""
    gauge = Gauge(path)
    batches = [range(first, first + TOGETHER) for first in range(0, tasks, TOGETHER)]
    found: dict[str, float] = {}
    async with connect(f"unix://{path}") as connection:
        store = ValkeyStore(connection)
        await store.call([Join(NODE, 1, 1e6)])
        memory, cpu, start = gauge.memory_bytes(), gauge.cpu_micros(), perf_counter()
        for batch in batches:
            await store.call([Submit(a_spec(i)) for i in batch])
        found["waiting"] = (gauge.memory_bytes() - memory) / tasks
        for batch in batches:
            await _live(store, batch)
        seconds = perf_counter() - start
        found["micros"] = (gauge.cpu_micros() - cpu) / tasks
        found["complete"] = (gauge.memory_bytes() - memory) / tasks
        found["operations"] = 9 * tasks / seconds
        for batch in batches:
            await store.call([Forget(name(i)) for i in batch])
        found["forgotten"] = (gauge.memory_bytes() - memory) / tasks
        for batch in batches:
            await store.call([Submit(a_spec(i)) for i in batch])
            await store.call([notice for i in batch for notice in notices(i)])
        found["ready"] = (gauge.memory_bytes() - memory) / tasks - found["forgotten"]
    gauge.close()
    return found


async def _live(store: ValkeyStore, batch: range) -> None:
    await store.call([notice for i in batch for notice in notices(i)])
    await store.call([Enqueue(NODE, (entry(i),)) for i in batch])
    claimed: Any = (await store.call([Claim(NODE, 1, batch.start, TOGETHER, 0.0)]))[0]
    stays = [(each.task, at) for each, at in zip(claimed.entries, claimed.tickets, strict=True)]
    await store.call([Begin(name(i), attempt(i), NODE) for i in batch])
    await store.call([commit(i) for i in batch])
    await store.call([LetGo(NODE, 1, (stay,)) for stay in stays])
    await store.call([Delivered(name(i), 1) for i in batch])


def run(out: Console, tasks: int = TASKS, rounds: int = ROUNDS) -> None:
    states = ("waiting", "ready", "complete", "forgotten")
    heads = ("operations a second", "server µs a task", *(f"bytes {state}" for state in states))
    table = Table("store", *heads, title=f"{tasks:,} tasks, {TOGETHER} in a call, one shard")
    for program, path in sorted(server_programs().items()):
        found = min((_round(path, tasks) for _ in range(rounds)), key=lambda each: each["micros"])
        keys = ("operations", "micros", *states)
        table.add_row(program, *(f"{found[key]:,.0f}" for key in keys))
    out.print(table)


def _round(path: str, tasks: int) -> dict[str, float]:
    with a_server(path) as socket:
        return asyncio.run(measure(socket, tasks))


if __name__ == "__main__":
    if sys.argv[1:]:
        run(Console(), int(sys.argv[1]), 1)
    else:
        run(Console())
