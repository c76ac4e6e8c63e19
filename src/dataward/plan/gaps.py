"""When nodes have cores free: the gaps between planned tasks, and which one ends a task first."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from dataward.model.workflow import Seconds

Gap = tuple[float, float]


class Gaps:
    """The cores of all nodes over time, as far as tasks are planned on them.

    A gap is a longest stretch of time in which a node has enough cores free for tasks of one width.
    The last gap of a node never ends. The gaps of all nodes are in one table for each width, so
    that numpy compares all of them at once: finding the best of g gaps costs some 10 ns times g,
    and there are at most as many gaps as nodes and planned tasks.
    """

    def __init__(self, cores: Sequence[int], widths: Iterable[int]) -> None:
        self._cores = list(cores)
        self._used: list[CoresUsed] = [CoresUsed() for _ in cores]
        self._tables = {width: _Table(cores, width) for width in sorted(set(widths))}

    def best(
        self, width: int, ready: Seconds, seconds: Seconds, extra: Seconds | None = None
    ) -> tuple[int, float]:
        """The node on which a task ends first, and the start of the task there.

        ``ready`` is when the task could start on each node if cores were free; ``seconds`` is how
        long it runs there; ``extra`` is added to its ends. Equal ends go to the lowest index.
        """
        table = self._tables[width]
        starts, ends, nodes = table.starts_from(ready, seconds)
        total = ends if extra is None else ends + extra[nodes]
        least = total.min()
        at = np.flatnonzero(total == least)
        best = at[np.lexsort((starts[at], nodes[at]))[0]]
        return int(nodes[best]), float(starts[best])

    def ends(self, width: int, ready: Seconds, seconds: Seconds) -> Seconds:
        """When the task would end on each node; infinity where the node has too few cores."""
        _, ends, nodes = self._tables[width].starts_from(ready, seconds)
        found = np.full(len(self._cores), inf)
        np.minimum.at(found, nodes, ends)
        return found

    def start_on(self, node: int, width: int, ready: float, seconds: float) -> float:
        """When a task can start on this node."""
        return self._tables[width].start_on(node, ready, seconds)

    def take(self, node: int, width: int, start: float, end: float) -> None:
        """Plan a task on a node, in a gap that was found for it."""
        if not start < end:
            return  # a task without duration takes no cores
        for first, last, used in self._used[node].add(start, end, width):
            free = self._cores[node] - used
            for needed, table in self._tables.items():
                if free < needed <= self._cores[node]:
                    table.cut(node, first, last)


def first_start(gaps: list[Gap], ready: float, seconds: float) -> float:
    """The first time from ``ready`` on at which a gap is long enough; the last gap never ends."""
    if gaps[-1][0] <= ready:
        return ready
    for start, end in gaps[max(bisect_right(gaps, (ready, inf)) - 1, 0) :]:
        begin = start if start > ready else ready
        if begin + seconds <= end:
            return begin
    raise AssertionError("the last gap never ends")


def keep_longest(gaps: list[Gap], count: int) -> list[Gap]:
    """Remove the shortest gaps until so many are left, and return those removed.

    Of equal ones the first goes first.
    """
    removed = []
    while len(gaps) > count:
        lengths = [end - start for start, end in gaps]
        removed.append(gaps.pop(lengths.index(min(lengths))))
    return removed


class CoresUsed:
    """How many cores of one node are in use, from each moment at which that changes."""

    def __init__(self) -> None:
        self._times = [0.0]
        self._counts = [0]

    def add(self, start: float, end: float, width: int) -> list[tuple[float, float, int]]:
        """Use ``width`` cores more. Returns the stretches between as (from, to, cores used)."""
        first, last = self._at(start), self._at(end)
        stretches = []
        for i in range(first, last):
            self._counts[i] += width
            stretches.append((self._times[i], self._times[i + 1], self._counts[i]))
        return stretches

    def _at(self, time: float) -> int:
        """Where the stretch that begins at this time is; one is divided if none begins there."""
        at = bisect_left(self._times, time)
        if at == len(self._times) or self._times[at] != time:
            self._times.insert(at, time)
            self._counts.insert(at, self._counts[at - 1])
        return at


class _Table:
    """All gaps for tasks of one width. A slot that is not in use has a gap that ends before 0."""

    def __init__(self, cores: Sequence[int], width: int) -> None:
        wide = [node for node, count in enumerate(cores) if count >= width]
        self._size = len(wide)
        room = 2 * len(wide) + 16
        self._starts = np.zeros(room)
        self._ends = np.full(room, -1.0)
        self._nodes = np.zeros(room, dtype=np.intp)
        self._nodes[: len(wide)] = wide
        self._ends[: len(wide)] = inf
        self._spare: list[int] = []
        # The gaps of each node, by their starts, and the slots they are in.
        self._gaps: dict[int, list[Gap]] = {node: [(0.0, inf)] for node in wide}
        self._slots: dict[int, list[int]] = {node: [slot] for slot, node in enumerate(wide)}

    def starts_from(
        self, ready: Seconds, seconds: Seconds
    ) -> tuple[Seconds, Seconds, NDArray[np.intp]]:
        """For each gap: the task's start, its end (infinity if the gap is too short), the node."""
        size = self._size
        nodes = self._nodes[:size]
        starts = np.maximum(self._starts[:size], ready[nodes])
        ends = starts + seconds[nodes]
        ends[ends > self._ends[:size]] = inf
        return starts, ends, nodes

    def start_on(self, node: int, ready: float, seconds: float) -> float:
        return first_start(self._gaps[node], ready, seconds)

    def cut(self, node: int, first: float, last: float) -> None:
        """Take this time out of the gap that contains it, if there is one."""
        gaps, slots = self._gaps[node], self._slots[node]
        at = bisect_right(gaps, (first, inf)) - 1
        if at < 0 or gaps[at][1] <= first:
            return
        start, end = gaps[at]
        assert last <= end, "a stretch of equal use is within one gap"
        self._free(slots[at])
        pieces = [gap for gap in ((start, first), (last, end)) if gap[0] < gap[1]]
        gaps[at : at + 1] = pieces
        slots[at : at + 1] = [self._put(node, gap) for gap in pieces]

    def _put(self, node: int, gap: Gap) -> int:
        if self._spare:
            slot = self._spare.pop()
        else:
            slot = self._size
            self._size += 1
            if slot == len(self._starts):
                self._grow()
        self._starts[slot], self._ends[slot] = gap
        self._nodes[slot] = node
        return slot

    def _free(self, slot: int) -> None:
        self._ends[slot] = -1.0
        self._spare.append(slot)

    def _grow(self) -> None:
        more = len(self._starts)
        self._starts = np.concatenate([self._starts, np.zeros(more)])
        self._ends = np.concatenate([self._ends, np.full(more, -1.0)])
        self._nodes = np.concatenate([self._nodes, np.zeros(more, dtype=np.intp)])
