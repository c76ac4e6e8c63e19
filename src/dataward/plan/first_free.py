"""Which of many equal things is free first: an index of gaps, so that not all are looked at."""

from bisect import bisect_left, bisect_right, insort
from math import frexp, inf

from dataward.plan.gaps import Gap

Hole = tuple[float, float, int]  # from, to, whose

LOOKED_AT = 3  # holes of about one length that are looked at on either side of a moment
SHORTER_THAN_ANY = -1100  # below the exponent of any float


class FirstFree:
    """The gaps of things that can stand for each other: cores of equal nodes, lanes of a link.

    The last gap of each thing never ends; these gaps are sorted by start. All others, here called
    holes, are kept by length, in classes that double, and sorted by start in each class. So a
    question costs O(log gaps) for each class of lengths. A change moves the entries behind it in
    a list: for a thousand things this takes less than finding the place.
    """

    def __init__(self) -> None:
        self._lasts: list[tuple[float, int]] = []
        self._holes: dict[int, list[Hole]] = {}

    def add(self, who: int, gap: Gap) -> None:
        start, end = gap
        if end == inf:
            insort(self._lasts, (start, who))
        else:
            insort(self._holes.setdefault(_length_class(end - start), []), (start, end, who))

    def remove(self, who: int, gap: Gap) -> None:
        start, end = gap
        if end == inf:
            del self._lasts[bisect_left(self._lasts, (start, who))]
        else:
            holes = self._holes[_length_class(end - start)]
            del holes[bisect_left(holes, (start, end, who))]

    def first(self, ready: float, seconds: float) -> list[int]:
        """Up to three that may be the first to be free for so long, from ``ready`` on.

        If some are free for good by ``ready``: the one that has been free for longest, and the one
        for shortest. If none is: the first two to be free for good and, before them, the one with
        the first hole that is long enough, if that comes earlier.
        """
        lasts = self._lasts
        free = bisect_right(lasts, (ready, inf))
        if free:
            return [lasts[0][1], lasts[free - 1][1]]
        found = [who for _, who in lasts[:2]]
        whose = self._first_hole(ready, seconds, lasts[0][0])
        return found if whose is None else [whose, *found]

    def _first_hole(self, ready: float, seconds: float, before: float) -> int | None:
        """Whose hole lets something of that length start first, and before that time.

        Of each class of lengths only the holes around ``ready`` are looked at. Nothing is missed
        among those that begin later, unless they are about as long as what is to fit in.
        """
        best: tuple[float, int] = before, -1
        least = _length_class(seconds)
        for length, holes in self._holes.items():
            if length >= least:
                at = bisect_left(holes, (ready, inf, 0))
                for start, end, who in holes[max(at - LOOKED_AT, 0) : at + LOOKED_AT]:
                    begin = start if start > ready else ready
                    if begin + seconds <= end and (begin, who) < best:
                        best = begin, who
        return best[1] if best[0] < before else None


def _length_class(seconds: float) -> int:
    return frexp(seconds)[1] if seconds > 0 else SHORTER_THAN_ANY
