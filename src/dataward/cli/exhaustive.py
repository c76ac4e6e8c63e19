"""``dataward seeds --exhaustive``: small worlds with every single fault, then pairs of faults."""

import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from multiprocessing import get_context

from dataward.cli.exit_codes import ExitCode
from dataward.cli.output import (
    busy,
    print_json,
    stderr_console,
    stdout_console,
)
from dataward.cli.tables import print_table
from dataward.sim.fault_pairs import in_turn, pair_groups, single_faults
from dataward.sim.script import PointKind
from dataward.sim.small_worlds import Scripted, SmallWorld, Tried, parse_world, try_world, worlds_by
from dataward.strategies.registry import DEFAULT, strategy_named

CHUNK = 16
SHOWN = 10  # failing worlds printed; --json has them all


@dataclass
class TriedWorlds:
    """How many worlds were tried, by the kinds of their faults, and those that failed."""

    kinds: Counter[tuple[PointKind, ...]] = field(default_factory=Counter)
    failed: list[Tried] = field(default_factory=list)
    pairs_possible: int = 0
    seconds: float = 0.0

    def add(self, tried: Tried) -> Tried:
        """The same, counted; if it failed, its problem and the command that replays it go out."""
        self.kinds[tuple(fault.track.kind for fault in tried.faults)] += 1
        if tried.problem:
            self.failed.append(tried)
            if len(self.failed) <= SHOWN:
                replay = f"  replay: dataward seeds --exhaustive --world '{tried}'"
                if tried.world.strategy != DEFAULT:
                    replay += f" --strategy {tried.world.strategy}"
                stderr_console().print(f"{tried}: {tried.problem}\n{replay}", soft_wrap=True)
        return tried

    def count(self, faults: int) -> int:
        """How many worlds with so many faults were tried."""
        return sum(count for kinds, count in self.kinds.items() if len(kinds) == faults)


def try_exhaustively(strategy: str, world: str | None, minutes: float, *, json: bool) -> None:
    """Replay one world with its faults, or try all faults in one world or in every world."""
    strategy = strategy_named(strategy).name
    chosen, faults = parse_world(world, strategy) if world else (None, ())
    tally = TriedWorlds()
    began = time.perf_counter()
    if chosen is not None and faults:
        tally.add(try_world(chosen, faults))
    else:
        _try_all(tally, worlds_by(strategy) if chosen is None else (chosen,), minutes)
    tally.seconds = time.perf_counter() - began
    if json:
        print_json(_document(tally))
    elif not faults:
        _print(tally)
    elif not tally.failed:
        stdout_console().print(f"{world} holds", soft_wrap=True)
    if tally.failed:
        raise SystemExit(ExitCode.FAILED)


def _try_all(tally: TriedWorlds, worlds: Iterable[SmallWorld], minutes: float) -> None:
    """Each world without faults and with every single fault; then pairs, for so many minutes."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        with busy("every single fault"):
            calm = [tally.add(try_world(world)) for world in worlds]
            alone = [one for world in calm for one in single_faults(world)]
            singles = [tally.add(tried) for tried in _in_order(pool, cores, alone)]
        groups = pair_groups(singles)
        tally.pairs_possible = sum(map(len, groups))
        until = time.perf_counter() + 60 * minutes
        with busy(f"pairs of faults, for {minutes:g} minutes"):
            for tried in _in_order(pool, cores, in_turn(groups), until):
                tally.add(tried)


def _in_order(
    pool: ProcessPoolExecutor, cores: int, worlds: Iterable[Scripted], until: float = inf
) -> Iterator[Tried]:
    """What became of each world, in the given order; after ``until`` no more are begun."""
    left = iter(worlds)
    under_way: deque[Future[list[Tried]]] = deque()
    while True:
        while len(under_way) < 2 * cores and time.perf_counter() < until:
            chunk = list(islice(left, CHUNK))
            if not chunk:
                break
            under_way.append(pool.submit(_try_chunk, chunk))
        if not under_way:
            return
        yield from under_way.popleft().result()


def _try_chunk(worlds: list[Scripted]) -> list[Tried]:
    return [try_world(world, faults) for world, faults in worlds]


def _document(tally: TriedWorlds) -> dict[str, object]:
    kinds = {
        "+".join(kind.value for kind in kinds) or "none": n for kinds, n in tally.kinds.items()
    }
    verdicts = [{"world": str(tried), "problem": tried.problem} for tried in tally.failed]
    return {
        "worlds": tally.kinds.total(),
        "failed": len(tally.failed),
        "pairs_possible": tally.pairs_possible,
        "kinds": kinds,
        "verdicts": verdicts,
    }


def _print(tally: TriedWorlds) -> None:
    console = stdout_console()
    rows = []
    for kind in PointKind:
        pairs = (tally.kinds[kind, second] for second in PointKind)
        rows.append((kind.value, *(f"{n:,}" for n in (tally.kinds[kind,], *pairs))))
    print_table(("first", "alone", *(kind.value for kind in PointKind)), rows)
    worlds, bad = tally.kinds.total(), len(tally.failed)
    console.print(
        f"{worlds - bad:,} of {worlds:,} small worlds hold: {tally.count(1):,} single faults, "
        f"{tally.count(2):,} of {tally.pairs_possible:,} pairs, {tally.seconds:.0f} s",
        soft_wrap=True,
    )
