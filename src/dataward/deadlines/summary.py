"""Availability summaries: how many holes of each class there are in a branch of the tree.

A hole's class is its end point, its span and its level. It ends at its end point or after the point
before; it covers ``span`` intervals between points, the first of which begins when the summary was
created; its availability, in seconds of work at speed 1, is at least two to the power of its level.
A summary is a row of counts, one for each class, so that the summary of a branch is the sum of its
children's. Classes are numbered so that a smaller hole comes first: by level, then span, then end.
"""

from collections.abc import Iterable
from math import frexp

import numpy as np
from numpy.typing import NDArray

from dataward.deadlines.local_schedule import TimeHole
from dataward.deadlines.reference_points import POINTS, ReferencePoints

LEVEL_LEAST = 5  # holes of less than half a minute of work are not told of
LEVEL_MOST = 17  # a day and a half; longer holes count as this long
LEVELS = LEVEL_MOST - LEVEL_LEAST + 1

HoleCounts = NDArray[np.int32]
Kinds = NDArray[np.intp]

# Every pair of an end point and a span, in the order in which a level's classes are numbered.
PAIRS = sorted(
    ((end, span) for end in range(POINTS) for span in range(1, end + 2)),
    key=lambda pair: (pair[1], pair[0]),
)
PAIR_ENDS: Kinds = np.array([end for end, _ in PAIRS])
PAIR_SPANS: Kinds = np.array([span for _, span in PAIRS])
CLASSES = LEVELS * len(PAIRS)
CLASS_LEVELS: Kinds = np.repeat(np.arange(LEVEL_LEAST, LEVEL_MOST + 1), len(PAIRS))
_NUMBER = {pair: number for number, pair in enumerate(PAIRS)}


def level_of(work_seconds: float) -> int:
    """The level of an availability, rounded down to a power of two; below the least: -1."""
    level = frexp(work_seconds)[1] - 1
    return -1 if level < LEVEL_LEAST or work_seconds <= 0 else min(level, LEVEL_MOST)


def class_of(hole: TimeHole, speed: float, created: float, points: ReferencePoints) -> int:
    """The class of a hole of a node, or -1 if it is too small to tell of or already over.

    What a hole has before the summary's creation, or beyond the last point, does not count.
    """
    start, end = max(hole.start, created), min(hole.end, points[-1])
    level = level_of((end - start) * speed)
    if level < 0:
        return -1
    last = next(number for number, point in enumerate(points) if end <= point)
    first = sum(point <= start for point in points)  # the interval in which the hole starts
    return (level - LEVEL_LEAST) * len(PAIRS) + _NUMBER[last, last - first + 1]


def rest_class(number: int, work_seconds: float) -> int:
    """The class of what is left of a hole of this class after so much work; -1 if too little is.

    The rest counts as being where the hole was: its node's next report tells how it really is.
    """
    level = level_of(2.0 ** int(CLASS_LEVELS[number]) - work_seconds)
    return (level - LEVEL_LEAST) * len(PAIRS) + number % len(PAIRS) if level >= 0 else -1


def classes_of(
    found: Iterable[TimeHole], speed: float, created: float, points: ReferencePoints
) -> list[int]:
    """The classes of a node's holes, smallest first; those that are too small are left out."""
    classes = [class_of(hole, speed, created, points) for hole in found]
    return sorted(number for number in classes if number >= 0)


def summary_of(classes: Iterable[int]) -> HoleCounts:
    """The summary of one node's holes."""
    counts = np.zeros(CLASSES, dtype=np.int32)
    for number in classes:
        counts[number] += 1
    return counts


def summed(summaries: Iterable[HoleCounts]) -> HoleCounts:
    """The summary of a branch, from its children's."""
    total = np.zeros(CLASSES, dtype=np.int32)
    for counts in summaries:
        total += counts
    return total


def pair_limits(created: float, points: ReferencePoints) -> tuple[NDArray[np.float64], ...]:
    """For each pair: from when and until when its holes may last, and surely do last.

    A hole starts at or after the first limit and before the third, and ends after the fourth and at
    or before the second. Where the third is after the fourth, no moment is sure to be free.
    """
    edges = np.array([created, *points])
    ends, starts = PAIR_ENDS + 1, PAIR_ENDS + 1 - PAIR_SPANS
    return edges[starts], edges[ends], edges[starts + 1], edges[ends - 1]


def carried_over(
    before: tuple[float, ReferencePoints], after: tuple[float, ReferencePoints]
) -> Kinds:
    """The class under later points of a hole of each class under earlier ones; -1 if it is over.

    Its end moves to the first point that is not before it, its start to the last that is not after
    it, so a summary that was made a little earlier can be summed with newer ones. Until the hole's
    node tells of it again, the hole may end sooner than its class says.
    """
    created, points = after
    earliest, latest, _, _ = pair_limits(*before)
    kinds = np.full(CLASSES, -1)
    for pair, (start, end) in enumerate(zip(earliest, latest, strict=True)):
        if end <= created:
            continue
        last = next(number for number, point in enumerate(points) if end <= point)
        first = sum(point <= start for point in points)
        first = min(first, last)
        moved = _NUMBER[last, last - first + 1]
        for level in range(LEVELS):
            kinds[level * len(PAIRS) + pair] = level * len(PAIRS) + moved
    return kinds


def with_new_points(counts: HoleCounts, kinds: Kinds) -> HoleCounts:
    """A summary, or rows of them, moved to later points by what `carried_over` found."""
    moved = np.zeros_like(counts)
    for before in np.flatnonzero(kinds >= 0):
        moved[..., kinds[before]] += counts[..., before]
    return moved
