"""When nodes have cores free, with an index of the nodes that may be free first."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf

from dataward.plan.first_free import FirstFree
from dataward.plan.gaps import CoresUsed, Gap, first_start, keep_longest

HOLES_MAX = 64  # gaps remembered of each node, besides the time after its last task


class FreeCores:
    """The cores of all nodes over time, as far as tasks are planned on them.

    Like `Gaps`, but it answers questions about single nodes and about the first nodes of a kind,
    at a cost that does not grow with the number of nodes. ``shortest_seconds`` has, for each width
    of tasks, the run time of the shortest: gaps in which no task fits are forgotten. So are, of
    more than `HOLES_MAX` gaps of a node, the shortest. Time that is forgotten stays unused.
    """

    def __init__(
        self, cores: Sequence[int], kinds: Sequence[int], shortest_seconds: Mapping[int, float]
    ) -> None:
        self._cores = cores
        self._used = [CoresUsed() for _ in cores]
        self._tables = {
            width: _Table(cores, kinds, width, seconds)
            for width, seconds in sorted(shortest_seconds.items())
        }

    def first(self, width: int, kind: int, ready: float, seconds: float) -> list[int]:
        """Nodes of this kind that may be the first to have the cores free for so long."""
        index = self._tables[width].by_kind.get(kind)
        return index.first(ready, seconds) if index is not None else []

    def is_wide(self, node: int, width: int) -> bool:
        return self._cores[node] >= width

    def free_for_good(self, node: int, width: int) -> float:
        """When the node, which is wide enough, has the cores free after its last task."""
        return self._tables[width].gaps[node][-1][0]

    def start_on(self, node: int, width: int, ready: float, seconds: float) -> float:
        """When a task can start on this node, which is wide enough."""
        return first_start(self._tables[width].gaps[node], ready, seconds)

    def take(self, node: int, width: int, start: float, end: float) -> None:
        """Plan a task on a node, at a time that `start_on` has returned."""
        if not start < end:
            return  # a task without duration takes no cores
        cores = self._cores[node]
        for first, last, used in self._used[node].add(start, end, width):
            free = cores - used
            for needed, table in self._tables.items():
                if free < needed <= cores:
                    table.cut(node, first, last)


class _Table:
    """The gaps of all nodes for tasks of one width, by node and by kind of node."""

    def __init__(
        self, cores: Sequence[int], kinds: Sequence[int], width: int, shortest_seconds: float
    ) -> None:
        self._shortest = shortest_seconds
        self._kinds = kinds
        self.gaps: list[list[Gap]] = [[(0.0, inf)] if count >= width else [] for count in cores]
        self.by_kind: dict[int, FirstFree] = {}
        for node, gaps in enumerate(self.gaps):
            for gap in gaps:
                self.by_kind.setdefault(kinds[node], FirstFree()).add(node, gap)

    def cut(self, node: int, first: float, last: float) -> None:
        """Take this time out of the gap that contains it, if there is one."""
        gaps = self.gaps[node]
        at = bisect_right(gaps, (first, inf)) - 1
        if at < 0 or gaps[at][1] <= first:
            return
        index = self.by_kind[self._kinds[node]]
        start, end = gaps[at]
        index.remove(node, gaps[at])
        pieces = [gap for gap in ((start, first), (last, end)) if self._is_useful(gap)]
        gaps[at : at + 1] = pieces
        for piece in pieces:
            index.add(node, piece)
        for gap in keep_longest(gaps, HOLES_MAX + 1):
            index.remove(node, gap)

    def _is_useful(self, gap: Gap) -> bool:
        return gap[1] - gap[0] >= self._shortest and gap[0] < gap[1]
