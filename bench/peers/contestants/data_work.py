"""Work that is about data: objects that are made, and calls that read some of them.

As in `workloads`, a contestant is a script: `python data_on_ray.py joins 100` prints one line of
JSON. The second argument is the percentage of the full size that each object has. Besides seconds,
it says how many bytes went over the loopback interface, if the run has a network of its own, and
how much processor time all processes of the run took. It imports only the standard library.
"""

import json
import mmap
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from random import Random
from time import perf_counter, sleep
from typing import Any, NamedTuple

MB = 1_000_000
PAGE_BYTES = 4096
WARM_UP_CALLS = 4  # for each node
WARM_UP_SECONDS = 0.1  # of each, so that all nodes have some
MEMORY_TIMES = 4  # all objects at their makers, as they are made, and copies at other nodes


class DataWork(NamedTuple):
    """Objects by size, and which of them each call reads, on nodes with one slot each."""

    nodes: int
    sizes: list[int]
    reads: list[tuple[int, ...]]
    room_bytes: int = 0  # at each node, for objects; 0: as much as there is

    @property
    def tasks(self) -> int:
        return len(self.sizes) + len(self.reads)


def locality(percent: int) -> DataWork:
    """40 objects of 20 MB, ten readers of each."""
    return DataWork(2, [20 * MB * percent // 100] * 40, [(i,) for i in range(40)] * 10)


def skewed_sizes(percent: int) -> list[int]:
    """40 sizes from 1 to 100 MB, each 1.125 times the one before; made in no order of size."""
    sizes = [round(MB * 100 ** (i / 39)) * percent // 100 for i in range(40)]
    Random(1).shuffle(sizes)
    return sizes


def joins(percent: int) -> DataWork:
    """200 calls that read two objects each, drawn at random."""
    draw = Random(2)
    return DataWork(
        4, skewed_sizes(percent), [tuple(draw.sample(range(40), 2)) for _ in range(200)]
    )


def hot(percent: int) -> DataWork:
    """One object of 100 MB that all of 200 calls read, each with one of 40 objects of 5 MB."""
    sizes = [5 * MB * percent // 100] * 40 + [100 * MB * percent // 100]
    return DataWork(4, sizes, [(40, i) for i in range(40)] * 5)


def tight(percent: int) -> DataWork:
    """The joins, where no node has room for more than 60% of all objects."""
    work = joins(percent)
    return work._replace(room_bytes=sum(work.sizes) * 60 // 100)


WORK: dict[str, Callable[[int], DataWork]] = {f.__name__: f for f in (locality, joins, hot, tight)}


# --- what is called -------------------------------------------------------------------------------


def warmed_up(number: int) -> Any:
    """A small object, by a process that has imported all it needs."""
    import numpy

    sleep(WARM_UP_SECONDS)
    return numpy.full(PAGE_BYTES, number, dtype=numpy.uint8)


def made(number: int, size_bytes: int) -> Any:
    """An object unlike all others, as somebody who computes has it."""
    import numpy

    array = numpy.arange(number, number + (size_bytes + 7) // 8, dtype=numpy.int64)
    return array.view(numpy.uint8)[:size_bytes]


def read(*objects: Any) -> int:
    """How many bytes there were; all of them are looked at, as `wc -l` looks at those of files."""
    import numpy

    largest = [each[: len(each) // 8 * 8].view(numpy.int64).max() for each in objects]
    assert len(largest) == len(objects)
    return sum(map(len, objects))


FUNCTIONS = (warmed_up, made, read)


class DataPeer(NamedTuple):
    """What a script must be able to do; ``told_bytes`` is what the engine counts as moved."""

    submit: Callable[..., Any]
    gather: Callable[[list[Any]], Iterable[Any]]
    told_bytes: Callable[[], float | None] = lambda: None


def read_all(peer: DataPeer, work: DataWork) -> None:
    objects = [peer.submit(made, i, size) for i, size in enumerate(work.sizes)]
    results = [peer.submit(read, *(objects[i] for i in needs)) for needs in work.reads]
    expected = [sum(work.sizes[i] for i in needs) for needs in work.reads]
    assert list(peer.gather(results)) == expected


# --- what is measured -----------------------------------------------------------------------------


class Spent(NamedTuple):
    """So far, by all processes of the run."""

    wall_seconds: float
    cpu_seconds: float
    network_bytes: int | None

    @classmethod
    def now(cls) -> "Spent":
        return cls(perf_counter(), cpu_seconds(), network_bytes())

    def until_now(self) -> "Spent":
        """What was spent since then."""
        now = Spent.now()
        moved = None
        if now.network_bytes is not None and self.network_bytes is not None:
            moved = now.network_bytes - self.network_bytes
        return Spent(
            now.wall_seconds - self.wall_seconds, now.cpu_seconds - self.cpu_seconds, moved
        )

    def report(self, tasks: int, told_bytes: float | None) -> None:
        print(
            json.dumps(
                {
                    "seconds": self.wall_seconds,
                    "tasks": tasks,
                    "cpu_seconds": self.cpu_seconds,
                    "network_bytes": self.network_bytes,
                    "told_bytes": told_bytes,
                }
            ),
            flush=True,
        )


def network_bytes() -> int | None:
    """Everything that was sent over loopback, where nobody but this run uses it."""
    if not os.environ.get("DATAWARD_BENCH_OWN_NETWORK"):
        return None
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return None


def cpu_seconds() -> float:
    """Of all processes that carry the run's mark, and of those they have waited for."""
    mark = f"DATAWARD_BENCH_RUN={os.environ.get('DATAWARD_BENCH_RUN', '')}".encode()
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                after_name = (process / "stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, after_name[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for_calm() -> None:
    """Wait until what was started has done its first work, for a few seconds at most."""
    for _ in range(20):
        before = cpu_seconds()
        sleep(0.25)
        if cpu_seconds() - before < 0.03:
            return


def have_memory(work: DataWork) -> None:
    """Use and free as much memory as the run may need, so that the machine has it.

    A virtual machine gives memory back that was free for two seconds, and the first use of it
    afterwards takes up to 2 s of processor time for each GB: as much as all the rest of a run.
    """
    size_bytes = MEMORY_TIMES * sum(work.sizes)
    with mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        chunk = bytes(MB)
        for at in range(0, size_bytes - MB + 1, MB):
            memory[at : at + MB] = chunk


def main(open_peer: Callable[[DataWork], AbstractContextManager[DataPeer]]) -> None:
    """Does the work that the command line names, on a peer that is up and warm."""
    work = WORK[sys.argv[1]](int(sys.argv[2]))
    with open_peer(work) as peer:
        warm = [peer.submit(warmed_up, i) for i in range(WARM_UP_CALLS * work.nodes)]
        list(peer.gather([peer.submit(read, each) for each in warm]))
        del warm
        wait_for_calm()
        have_memory(work)
        told, spent = peer.told_bytes(), Spent.now()
        read_all(peer, work)
        took, told_after = spent.until_now(), peer.told_bytes()
        grown = None if told is None or told_after is None else told_after - told
        took.report(work.tasks, grown)
