"""The embedded store on this machine's disk: syncs, commits, tasks, and opening it again.

`python -m bench.store` prints a table for each. The memory store beside it shows what the journal
costs; a bare append and sync of as many bytes shows what the disk does.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from rich.console import Console
from rich.table import Table

from dataward.kernel import AsyncioKernel
from dataward.model.operations import Begin, Commit, OutputFile, Submit, TaskSpec
from dataward.stores.embedded import Done, EmbeddedSettings, EmbeddedStore, Work
from dataward.stores.memory import MemoryStore
from dataward.world import Store

BATCHES = (1, 10, 100, 1000)
CALLERS = (1, 10, 100, 1000)
SECONDS = 2.0
TASKS = 10_000
NEVER = EmbeddedSettings(compact_bytes_min=1 << 60)


class CountingThread:
    """What ``live`` does for a store: one thread that waits for the disk."""

    def __init__(self) -> None:
        self.syncs = 0
        self._pool = ThreadPoolExecutor(1)

    def __call__(self, work: Work, done: Done) -> None:
        self.syncs += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(lambda future: done(future.exception()))

    def close(self) -> None:
        self._pool.shutdown()


@contextmanager
def a_directory():
    # Beside the repository, not in /tmp, which may be memory.
    with TemporaryDirectory(dir=Path(__file__).parents[1], prefix=".bench-store-") as directory:
        yield Path(directory)


def a_spec(id: str) -> TaskSpec:
    outputs = (OutputFile(f"{id}.out", 1000),)
    return TaskSpec(id, "bench", (), (), (), outputs, 1.0, 1, 0, 0, "n1", 1.0, 0)


def commit(task: str) -> Commit:
    return Commit(task, "n1.1.1", "n1", (), 1)


def embedded(main: Callable[[AsyncioKernel, Store], Awaitable[int]]) -> tuple[int, int, float]:
    """What `main` counted, syncs, and seconds, on a new store."""
    thread, kernel = CountingThread(), AsyncioKernel()
    with a_directory() as directory:
        store = EmbeddedStore(directory, kernel.now, kernel, 4, thread, NEVER)
        counted, seconds = _timed(kernel, store, main)
        thread.close()
        store.close()
    return counted, thread.syncs, seconds


def in_memory(main: Callable[[AsyncioKernel, Store], Awaitable[int]]) -> float:
    """What `main` counted, a second."""
    kernel = AsyncioKernel()
    counted, seconds = _timed(kernel, MemoryStore(kernel.now, 4), main)
    return counted / seconds


def _timed(
    kernel: AsyncioKernel, store: Store, main: Callable[[AsyncioKernel, Store], Awaitable[int]]
) -> tuple[int, float]:
    start = perf_counter()
    counted = kernel.run(main(kernel, store))
    return counted, perf_counter() - start


def commits_in_batches_of(size: int):
    """One caller, who puts so many commits into each call."""

    async def main(kernel: AsyncioKernel, store: Store) -> int:
        committed, end = 0, kernel.now() + SECONDS
        while kernel.now() < end:
            tasks = [f"t{committed + i}" for i in range(size)]
            await store.call([Submit(a_spec(task)) for task in tasks])
            await store.call([commit(task) for task in tasks])
            committed += size
        return committed

    return main


def commits_by_callers(count: int):
    """So many callers, each with one commit at a time: the store makes the batches."""

    async def main(kernel: AsyncioKernel, store: Store) -> int:
        end = kernel.now() + SECONDS

        async def caller(n: int) -> int:
            committed = 0
            while kernel.now() < end:
                task = f"t{n}-{committed}"
                await store.call([Submit(a_spec(task))])
                await store.call([commit(task)])
                committed += 1
            return committed

        callers = [kernel.spawn(caller(n)) for n in range(count)]
        return sum([await caller.join() for caller in callers])

    return main


def lives_of_tasks(at_a_time: int):
    """`TASKS` tasks submitted, begun and committed, by 16 callers with so many in each call."""

    async def main(kernel: AsyncioKernel, store: Store) -> int:
        names = iter([f"t{i}" for i in range(TASKS)])

        async def caller() -> None:
            while tasks := [task for task, _ in zip(names, range(at_a_time), strict=False)]:
                await store.call([Submit(a_spec(task)) for task in tasks])
                await store.call([Begin(task, "n1.1.1", "n1") for task in tasks])
                await store.call([commit(task) for task in tasks])

        for fiber in [kernel.spawn(caller()) for _ in range(16)]:
            await fiber.join()
        return TASKS

    return main


def bare_syncs_a_second(size_bytes: int = 300, count: int = 200) -> float:
    with a_directory() as directory, open(directory / "bare", "ab", buffering=0) as file:
        start = perf_counter()
        for _ in range(count):
            file.write(bytes(size_bytes))
            getattr(os, "fdatasync", os.fsync)(file.fileno())
        return count / (perf_counter() - start)


def opening(out: Console) -> None:
    """A directory after 10,000 lives of tasks, as it was written and as compaction leaves it."""
    table = Table("opening it again", "operations", "MB", "s", "operations a second", "MB/s")
    with a_directory() as directory:
        _fill(directory, NEVER)
        _add_opening(table, "from operations", directory, 3 * TASKS)
        _fill(directory, EmbeddedSettings(compact_bytes_min=0, compact_ratio=1.0))
        _add_opening(table, "from a snapshot", directory, 3 * TASKS)
    out.print(table)


def _fill(directory: Path, settings: EmbeddedSettings) -> None:
    """The second time all is known, and a call more makes the journal be written anew."""
    kernel = AsyncioKernel()
    with EmbeddedStore(directory, lambda: 0.0, kernel, 4, settings=settings) as store:
        kernel.run(lives_of_tasks(1000)(kernel, store))


def _add_opening(table: Table, name: str, directory: Path, operations: int) -> None:
    size_mb = (directory / "journal").stat().st_size / 1e6
    start = perf_counter()
    EmbeddedStore(directory, lambda: 0.0, AsyncioKernel(), 4, settings=NEVER).close()
    seconds = perf_counter() - start
    rates = (f"{operations / seconds:,.0f}", f"{size_mb / seconds:.0f}")
    table.add_row(name, f"{operations:,}", f"{size_mb:.1f}", f"{seconds:.2f}", *rates)


def run(out: Console) -> None:
    out.print(f"the disk itself: {bare_syncs_a_second():,.0f} appends and syncs a second")
    heads = ("syncs a second", "calls a sync", "memory", "of memory's")
    table = Table("commits", "commits a second", *heads, title="submit, then commit")
    for size in BATCHES:
        _add(table, f"1 caller, {size} in a call", commits_in_batches_of(size), 2 / size)
    for count in CALLERS[1:]:
        _add(table, f"{count} callers, 1 in a call", commits_by_callers(count), 2)
    out.print(table)
    table = Table(
        "tasks", "tasks a second", *heads, title=f"{TASKS:,} tasks: submit, begin, commit"
    )
    for size in (1, 10, 100):
        _add(table, f"16 callers, {size} in a call", lives_of_tasks(size), 3 / size)
    out.print(table)
    opening(out)


def _add(table: Table, name: str, main, calls_each: float) -> None:
    counted, syncs, seconds = embedded(main)
    beside, rate = in_memory(main), counted / seconds
    shares = (f"{counted * calls_each / syncs:.1f}", f"{beside:,.0f}", f"{rate / beside:.0%}")
    table.add_row(name, f"{rate:,.0f}", f"{syncs / seconds:,.0f}", *shares)


if __name__ == "__main__":
    run(Console())
