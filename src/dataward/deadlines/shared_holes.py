"""When several slots of one host are free together: holes for tasks of several cores."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dataward.deadlines.local_schedule import Frame, TimeHole, usable


class SharedHole(NamedTuple):
    """Time in which a slot is free, and so are the slots ``beside`` it, by their numbers."""

    start: float
    end: float
    beside: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        return self.end - self.start


def shared_holes(
    own: Sequence[TimeHole], others: Mapping[int, Sequence[TimeHole]], count: int
) -> list[SharedHole]:
    """The times in which a slot and ``count`` of the others are free without a break.

    A time that lies within a longer one of the same hole of the slot is left out. Of the others
    those are taken that stay free longest, then those with the lowest numbers.
    """
    found: list[SharedHole] = []
    for hole in own:
        parts = [
            (part, number)
            for number, theirs in others.items()
            for part in (usable(other, Frame(*hole)) for other in theirs)
            if part.seconds > 0
        ]
        longest = hole.start
        for start in sorted({part.start for part, _ in parts}):
            free = sorted((-part.end, n) for part, n in parts if part.start <= start < part.end)
            if len(free) >= count and -free[count - 1][0] > longest:
                longest = -free[count - 1][0]
                found.append(SharedHole(start, longest, tuple(n for _, n in free[:count])))
    return found


def best_shared_hole(
    own: Sequence[TimeHole],
    others: Mapping[int, Sequence[TimeHole]],
    count: int,
    frame: Frame,
    seconds: float,
) -> SharedHole | None:
    """The smallest time within the frame in which so many seconds can be had together, or None.

    Equal ones by their start, as `best_hole` does for one slot.
    """
    parts = [part for part in (usable(hole, frame) for hole in own) if part.seconds >= seconds]
    fitting = [one for one in shared_holes(parts, others, count) if one.seconds >= seconds]
    return min(fitting, key=lambda one: (one.seconds, one.start), default=None)
