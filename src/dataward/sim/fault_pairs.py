"""Which faults are tried in small worlds: every single one, and pairs in an order that is fixed."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from dataward.sim.script import PointFault, Track
from dataward.sim.small_worlds import Scripted, SmallWorld, Tried

GOLDEN = (5**0.5 - 1) / 2


def single_faults(calm: Tried) -> list[Scripted]:
    """Every fault at every point of a world that was tried without any, and held."""
    if calm.problem:
        return []
    return [
        (calm.world, (PointFault(track, point),))
        for track in calm.world.tracks
        for point in track.points(calm.struck, calm.ended)
    ]


@dataclass
class PairGroup:
    """All pairs whose first fault is on one track and whose second is on another.

    The second strikes at a later point of the run than the first: a pair is not tried twice.
    """

    firsts: list[Tried]
    second: Track

    def __post_init__(self) -> None:
        self._points = [self.second.points(first.struck, first.ended) for first in self.firsts]
        self._ends = list(accumulate(len(points) for points in self._points))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, number: int) -> Scripted:
        place = bisect_right(self._ends, number)
        first, points = self.firsts[place], self._points[place]
        fault = PointFault(self.second, points[number - self._ends[place]])
        return first.world, (*first.faults, fault)


def pair_groups(singles: Sequence[Tried]) -> list[PairGroup]:
    """All pairs of faults, once every single fault was tried; what failed alone is in no pair."""
    firsts: dict[tuple[SmallWorld, Track], list[Tried]] = {}
    for tried in singles:
        if not tried.problem:
            firsts.setdefault((tried.world, tried.faults[0].track), []).append(tried)
    groups = [PairGroup(f, track) for (world, _), f in firsts.items() for track in world.tracks]
    return [group for group in groups if len(group)]


def in_turn(groups: Sequence[PairGroup]) -> Iterator[Scripted]:
    """Every pair of every group once, so ordered that any beginning is spread evenly.

    One pair of each group in turn, as long as it has any.
    """
    turns = [(group, spread(len(group))) for group in groups]
    while turns:
        left = []
        for group, order in turns:
            number = next(order, None)
            if number is not None:
                yield group[number]
                left.append((group, order))
        turns = left


def spread(count: int) -> Iterator[int]:
    """The numbers below a count, each once; those that come first are spread evenly over all.

    Steps by the golden section, round and round, halve the largest gaps again and again; the few
    numbers that come up a second time are left out.
    """
    seen: set[int] = set()
    place = 0.0
    while len(seen) < count:
        place = (place + GOLDEN) % 1.0
        number = int(place * count)
        if number not in seen:
            seen.add(number)
            yield number
