"""The virtual kernel beside SimPy and SimGrid: sleeps, queues, time-outs that were not needed.

`python -m bench.kernel` prints rates and ratios. SimGrid is Debian's python3-simgrid, which only
the system's Python can load, so it runs in a process of its own.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import simpy
from rich.console import Console
from rich.table import Table

from dataward.kernel import VirtualKernel

ROUNDS = 3
SLEEPERS, SLEEPS = 1000, 200
FEW_SLEEPERS, THEIR_SLEEPS = 100, 1000
PAIRS, ITEMS = 100, 1500
WAITERS, WAITS = 100, 1000
TIMERS = 200_000
MANY = 1_000_000

PAUSES = [random.Random(1).uniform(0.1, 10.0) for _ in range(997)]

# Every peer gets the same sleepers and the same sleeps: SimGrid's actors are threads, whose start
# would weigh on its rate if they slept but a few times.
SIMGRID = f"""
import sys, time
sleepers, sleeps = int(sys.argv[1]), int(sys.argv[2])
from simgrid import Actor, Engine, NetZone, this_actor
pauses = {PAUSES!r}
engine = Engine(["bench", "--log=root.thres:critical"])
zone = NetZone.create_full_zone("zone")
host = zone.create_host("host", 1e9)
zone.seal()
def sleeper(n):
    for k in range(sleeps):
        this_actor.sleep_for(pauses[(n + k) % len(pauses)])
for n in range(sleepers):
    Actor.create(f"a{{n}}", host, sleeper, n)
start = time.perf_counter()
engine.run()
print(sleepers * sleeps / (time.perf_counter() - start))
"""

MEMORY = f"""
import resource
from dataward.kernel import VirtualKernel
kernel = VirtualKernel()
async def sleeper(n):
    await kernel.sleep(1.0 + n * 1e-6)
def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak_bytes()
for n in range({MANY}):
    kernel.spawn(sleeper(n))
kernel.run_until(0.5)
print((peak_bytes() - before) / {MANY})
kernel.run_until(5.0)
"""


def sleeps_on_dataward(sleepers: int, sleeps: int) -> float:
    kernel = VirtualKernel()

    async def sleeper(n: int) -> None:
        for k in range(sleeps):
            await kernel.sleep(PAUSES[(n + k) % len(PAUSES)])

    for n in range(sleepers):
        kernel.spawn(sleeper(n))
    return _rate(sleepers * sleeps, lambda: kernel.run_until(1e9))


def sleeps_on_simpy(sleepers: int, sleeps: int) -> float:
    env = simpy.Environment()

    def sleeper(n: int):
        for k in range(sleeps):
            yield env.timeout(PAUSES[(n + k) % len(PAUSES)])

    for n in range(sleepers):
        env.process(sleeper(n))
    return _rate(sleepers * sleeps, env.run)


def sleeps_on_simgrid(sleepers: int, sleeps: int) -> float | None:
    """None where SimGrid is not installed; a SimGrid that fails is an error, not an absence."""
    python = "/usr/bin/python3"
    probe = [python, "-c", "import simgrid"]
    if not Path(python).exists() or subprocess.run(probe, capture_output=True).returncode:
        return None
    command = [python, "-c", SIMGRID, str(sleepers), str(sleeps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def ticks_on_dataward() -> float:
    """Every sleeper on the same beat: all fall on one instant."""
    kernel = VirtualKernel()

    async def sleeper() -> None:
        for _ in range(SLEEPS):
            await kernel.sleep(1.0)

    for _ in range(SLEEPERS):
        kernel.spawn(sleeper())
    return _rate(SLEEPERS * SLEEPS, lambda: kernel.run_until(1e9))


def ticks_on_simpy() -> float:
    env = simpy.Environment()

    def sleeper():
        for _ in range(SLEEPS):
            yield env.timeout(1.0)

    for _ in range(SLEEPERS):
        env.process(sleeper())
    return _rate(SLEEPERS * SLEEPS, env.run)


def items_on_dataward() -> float:
    kernel = VirtualKernel()

    async def producer(queue) -> None:
        for item in range(ITEMS):
            queue.put(item)
            if item % 10 == 0:
                await kernel.sleep(1.0)

    async def consumer(queue) -> None:
        for _ in range(ITEMS):
            await queue.get()

    for _ in range(PAIRS):
        queue = kernel.queue()
        kernel.spawn(producer(queue))
        kernel.spawn(consumer(queue))
    return _rate(PAIRS * ITEMS, lambda: kernel.run_until(1e9))


def items_on_simpy() -> float:
    env = simpy.Environment()

    def producer(store):
        for item in range(ITEMS):
            store.put(item)
            if item % 10 == 0:
                yield env.timeout(1.0)

    def consumer(store):
        for _ in range(ITEMS):
            yield store.get()

    for _ in range(PAIRS):
        store = simpy.Store(env)
        env.process(producer(store))
        env.process(consumer(store))
    return _rate(PAIRS * ITEMS, env.run)


def handovers_on_dataward() -> float:
    """Two fibers pass one item to and fro: every get has to wait."""
    kernel = VirtualKernel()

    async def player(mine, theirs, serves: bool) -> None:
        if serves:
            theirs.put(0)
        for _ in range(ITEMS):
            theirs.put(await mine.get())

    for _ in range(PAIRS):
        left, right = kernel.queue(), kernel.queue()
        kernel.spawn(player(left, right, True))
        kernel.spawn(player(right, left, False))
    return _rate(PAIRS * ITEMS * 2, lambda: kernel.run_until(1e9))


def handovers_on_simpy() -> float:
    env = simpy.Environment()

    def player(mine, theirs, serves: bool):
        if serves:
            theirs.put(0)
        for _ in range(ITEMS):
            theirs.put((yield mine.get()))

    for _ in range(PAIRS):
        left, right = simpy.Store(env), simpy.Store(env)
        env.process(player(left, right, True))
        env.process(player(right, left, False))
    return _rate(PAIRS * ITEMS * 2, env.run)


def unneeded_timeouts_on_dataward() -> float:
    kernel = VirtualKernel()

    async def waiter(n: int) -> None:
        event = kernel.flag()
        for _ in range(WAITS):
            kernel.call_at(kernel.now() + 1.0 + n * 0.001, event.set)
            await event.wait(60.0)
            event.clear()

    for n in range(WAITERS):
        kernel.spawn(waiter(n))
    return _rate(WAITERS * WAITS, lambda: kernel.run_until(1e9))


def unneeded_timeouts_on_simpy() -> float:
    env = simpy.Environment()

    def waiter(n: int):
        for _ in range(WAITS):
            # A time-out is SimPy's own delayed event: the cheapest way it has to set one later.
            event = env.timeout(1.0 + n * 0.001)
            yield event | env.timeout(60.0)

    for n in range(WAITERS):
        env.process(waiter(n))
    return _rate(WAITERS * WAITS, env.run)


def callbacks_on_dataward() -> float:
    kernel = VirtualKernel()
    calls = 0

    def again(n: int) -> None:
        nonlocal calls
        calls += 1
        if calls < TIMERS:
            kernel.call_at(kernel.now() + PAUSES[calls % len(PAUSES)], again, n)

    for n in range(SLEEPERS):
        kernel.call_at(PAUSES[n % len(PAUSES)], again, n)
    return _rate(TIMERS, lambda: kernel.run_until(1e9))


def callbacks_on_simpy() -> float:
    env = simpy.Environment()
    calls = 0

    def again(_: simpy.Event) -> None:
        nonlocal calls
        calls += 1
        if calls < TIMERS:
            env.timeout(PAUSES[calls % len(PAUSES)]).callbacks.append(again)

    for n in range(SLEEPERS):
        env.timeout(PAUSES[n % len(PAUSES)]).callbacks.append(again)
    return _rate(TIMERS, env.run)


Measure = Callable[[], float | None]
Case = tuple[str, Measure, Measure, Measure | None]


def _sleeps(sleepers: int, sleeps: int) -> Case:
    peers = (sleeps_on_dataward, sleeps_on_simpy, sleeps_on_simgrid)
    ours, simpys, simgrids = (partial(peer, sleepers, sleeps) for peer in peers)
    return f"sleeps, {sleepers:,} fibers", ours, simpys, simgrids


CASES: list[Case] = [
    _sleeps(SLEEPERS, SLEEPS),
    _sleeps(FEW_SLEEPERS, THEIR_SLEEPS),
    ("sleeps, on one beat", ticks_on_dataward, ticks_on_simpy, None),
    ("queue, items", items_on_dataward, items_on_simpy, None),
    ("queue, hand-overs", handovers_on_dataward, handovers_on_simpy, None),
    ("time-outs not needed", unneeded_timeouts_on_dataward, unneeded_timeouts_on_simpy, None),
    ("callbacks", callbacks_on_dataward, callbacks_on_simpy, None),
]


def run(out: Console) -> None:
    """Measure every case, the peers taking turns, and print medians and ratios."""
    table = Table("events a second", "dataward", "SimPy", "ratio", "SimGrid", "ratio")
    for name, *measures in CASES:
        ours, simpys, simgrids = _medians(measures)
        simgrid = ("", "") if measures[2] is None else _beside(ours, simgrids)
        table.add_row(name, f"{ours:,.0f}", *_beside(ours, simpys), *simgrid)
    out.print(table)
    out.print(f"{MANY:,} fibers asleep: {_bytes_per_sleeping_fiber():,.0f} bytes each")


def _medians(measures: list[Measure | None]) -> list[float | None]:
    rates: list[list[float | None]] = [[] for _ in measures]
    for _ in range(ROUNDS):
        for measure, seen in zip(measures, rates, strict=True):
            seen.append(measure() if measure is not None else None)
    return [None if None in seen else median(seen) for seen in rates]


def _beside(ours: float, theirs: float | None) -> tuple[str, str]:
    if theirs is None:
        return "not installed", ""
    return f"{theirs:,.0f}", f"{ours / theirs:.2f}x"


def _rate(events: int, work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return events / (perf_counter() - start)


def _bytes_per_sleeping_fiber() -> float:
    command = [sys.executable, "-c", MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    run(Console())
