"""The members with the lowest values, where values only grow."""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

UPDATES_MAX = 16  # outdated entries brought up to date by one question


class Firsts:
    """A heap whose entries may be outdated: an entry is updated when it reaches the top.

    A question updates a bounded number of entries, so that it costs O(log members). After many
    changes it may therefore miss a member whose value is lower than those it returns.
    """

    def __init__(self, value: Callable[[int], float], members: Iterable[int]) -> None:
        self._value = value
        self._heap = [(value(who), who) for who in members]
        heapify(self._heap)

    def add(self, who: int) -> None:
        heappush(self._heap, (self._value(who), who))

    def first(self, count: int) -> list[int]:
        """So many members with the lowest values, lowest first; equal values by index."""
        heap, value = self._heap, self._value
        taken: list[tuple[float, int]] = []
        updates = 0
        while heap and len(taken) < count:
            known, who = heap[0]
            now = value(who)
            if now != known and updates < UPDATES_MAX:
                heapreplace(heap, (now, who))
                updates += 1
            else:
                taken.append(heappop(heap))
        for entry in taken:
            heappush(heap, entry)
        return [who for _, who in taken]


class FirstsByGroup:
    """The first members of each of a few groups."""

    def __init__(
        self, value: Callable[[int], float], group_of: Sequence[int], members: Iterable[int]
    ) -> None:
        self._value = value
        self._group_of = group_of
        grouped: dict[int, list[int]] = {}
        for who in members:
            grouped.setdefault(group_of[who], []).append(who)
        self._groups = {group: Firsts(value, grouped[group]) for group in sorted(grouped)}

    def add(self, who: int) -> None:
        group = self._group_of[who]
        if group in self._groups:
            self._groups[group].add(who)
        else:
            self._groups[group] = Firsts(self._value, [who])

    def first(self, count: int) -> list[int]:
        """So many members of each group, as `Firsts.first`."""
        return [who for firsts in self._groups.values() for who in firsts.first(count)]
