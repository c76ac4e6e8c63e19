"""When links are free: each carries one file after another."""

from bisect import bisect_right
from math import inf

import numpy as np
from numpy.typing import NDArray

from dataward.model.workflow import Seconds
from dataward.plan.gaps import Gap, keep_longest

GAPS_MAX = 16  # gaps remembered of each link, besides the time after its last file


class LinkSlots:
    """The gaps between the files that links are planned to carry; the last gap never ends.

    Of the gaps of a link only the longest are remembered, so that a question about all links costs
    O(links). Time that is forgotten stays unused.
    """

    def __init__(self, links: int) -> None:
        self._gaps: list[list[Gap]] = [[(0.0, inf)] for _ in range(links)]
        # The first gaps of all links are in the first row, and so on.
        self._starts = np.full((GAPS_MAX + 1, links), inf)
        self._ends = np.full((GAPS_MAX + 1, links), -inf)
        self._starts[0], self._ends[0] = 0.0, inf
        self._rows = 1  # so many rows are in use

    def gaps(self, link: int) -> list[Gap]:
        """The gaps of a link, in order of time. Leave the list as it is."""
        return self._gaps[link]

    def first_starts(
        self, ready: Seconds | float, seconds: Seconds, links: NDArray[np.intp] | slice
    ) -> Seconds:
        """When each of these links could start to carry a file that is ready then."""
        begin = np.maximum(self._starts[: self._rows, links], ready)
        begin[begin + seconds > self._ends[: self._rows, links]] = inf
        first: Seconds = begin.min(axis=0)
        return first

    def put(self, link: int, gaps: list[Gap]) -> None:
        """Replace the gaps of a link: files were planned in some of them."""
        keep_longest(gaps, GAPS_MAX + 1)
        self._gaps[link] = gaps
        count = len(gaps)
        self._rows = max(self._rows, count)
        self._starts[:count, link] = [gap[0] for gap in gaps]
        self._ends[:count, link] = [gap[1] for gap in gaps]
        self._starts[count:, link], self._ends[count:, link] = inf, -inf


def without(gaps: list[Gap], start: float, end: float) -> list[Gap]:
    """The gaps that are left when this time, which is within one of them, is taken."""
    at = bisect_right(gaps, (start, inf)) - 1
    first, last = gaps[at]
    assert first <= start <= end <= last, "a link carries one file at a time"
    pieces = [gap for gap in ((first, start), (end, last)) if gap[0] < gap[1]]
    return [*gaps[:at], *pieces, *gaps[at + 1 :]]


def take(gaps: list[Gap], start: float, end: float) -> None:
    """Take this time, which is within one of the gaps, out of the list itself.

    Of more than twice `GAPS_MAX` gaps the shortest are forgotten, so that a task with thousands of
    inputs does not walk through thousands of gaps for each.
    """
    at = bisect_right(gaps, (start, inf)) - 1
    first, last = gaps[at]
    assert first <= start <= end <= last, "a link carries one file at a time"
    gaps[at : at + 1] = [gap for gap in ((first, start), (end, last)) if gap[0] < gap[1]]
    if len(gaps) > 2 * GAPS_MAX:
        keep_longest(gaps, GAPS_MAX + 1)


def first_meeting(one: list[Gap], other: list[Gap], ready: float, seconds: float) -> float:
    """The first time from ``ready`` on at which both links are free for so many seconds."""
    i = max(bisect_right(one, (ready, inf)) - 1, 0)
    j = max(bisect_right(other, (ready, inf)) - 1, 0)
    one_start, one_end = one[i]
    other_start, other_end = other[j]
    while True:
        start = one_start if one_start > other_start else other_start
        end = (start if start > ready else ready) + seconds
        if end <= one_end and end <= other_end:
            return start if start > ready else ready
        if one_end < other_end:
            i += 1
            one_start, one_end = one[i]
        else:
            j += 1
            other_start, other_end = other[j]
