"""Packs the bars of attempts into lanes, so that bars in one lane do not overlap."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from dataward.reports.attempts import Attempt


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of an attempt, drawn on one or more neighbouring lanes."""

    start: float
    stop: float
    first_lane: int
    lanes: int
    kind: str
    attempt: Attempt


Span = tuple[float, float, int, str, Attempt]  # start, stop, number of lanes, kind, attempt


def pack(spans: Iterable[Span]) -> list[Bar]:
    """The spans as bars, each on the lowest lanes that are free at its start.

    A span on lanes that are not neighbours becomes several bars. Spans that start together are
    placed in the order they are given.
    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes_made = 0
    bars = []
    for start, stop, wanted, kind, attempt in sorted(spans, key=lambda span: span[0]):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lanes = []
        for _ in range(wanted):
            if not free:
                heappush(free, lanes_made)
                lanes_made += 1
            lanes.append(heappop(free))
        for lane in lanes:
            heappush(busy, (stop, lane))
        bars += [
            Bar(start, stop, first, count, kind, attempt) for first, count in _neighbours(lanes)
        ]
    return bars


def lanes_of(bars: Sequence[Bar]) -> int:
    return max((bar.first_lane + bar.lanes for bar in bars), default=0)


def merged(bars: Iterable[Bar], shortest_seconds: float) -> list[Bar]:
    """Fewer bars that look the same: a very short bar joins a bar of its kind that is very near."""
    kept: list[Bar] = []
    last: dict[tuple[int, int], int] = {}
    for bar in bars:
        key = (bar.first_lane, bar.lanes)
        before = last.get(key)
        if before is not None and _join(kept[before], bar, shortest_seconds):
            one = kept[before]
            kept[before] = Bar(one.start, bar.stop, *key, one.kind, one.attempt)
        else:
            last[key] = len(kept)
            kept.append(bar)
    return kept


def _join(one: Bar, other: Bar, shortest_seconds: float) -> bool:
    if one.kind != other.kind or other.start - one.stop >= shortest_seconds:
        return False
    return min(one.stop - one.start, other.stop - other.start) < shortest_seconds


def _neighbours(lanes: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for lane in sorted(lanes):
        if runs and sum(runs[-1]) == lane:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((lane, 1))
    return runs
