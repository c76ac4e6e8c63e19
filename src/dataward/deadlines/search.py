"""Where a request goes: which classes of holes can serve a sequence, and into which branch.

All functions take rows, one for each request, so that one call serves a live node with a single
request and a simulator with thousands of them. A class is known only within limits (`pair_limits`),
so it serves either *surely*, wherever in its limits a hole lies, or *possibly*.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.reference_points import ReferencePoints
from dataward.deadlines.summary import CLASS_LEVELS, CLASSES, LEVELS, pair_limits

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]
NONE = -1

_SIZES: Column = 2.0 ** CLASS_LEVELS.astype(np.float64)


class ServingClasses(NamedTuple):
    """Which classes serve each request, surely and possibly: rows of `CLASSES` marks."""

    surely: Mask
    possibly: Mask


def serving_classes(
    startlines: Column,
    deadlines: Column,
    work: Column,
    created: float,
    points: ReferencePoints,
) -> ServingClasses:
    """The classes whose holes can do so much work between the startlines and the deadlines.

    A hole that lies within the frame wherever it is serves with all its availability. Of another
    hole only the time counts that is surely free and in the frame; its node is at least so fast
    that its availability fills the longest hole of the class. Possibly it fills all its limits, and
    has nearly twice the availability of its level.
    """
    earliest, latest, sure_start, sure_end = pair_limits(created, points)
    longest = np.maximum(latest - earliest, 1e-9)
    start, end = startlines[:, None], deadlines[:, None]
    inside = (start <= earliest) & (latest <= end)
    overlap = np.minimum(sure_end, end) - np.maximum(sure_start, start)
    surely = np.where(inside, 1.0, np.clip(overlap / longest, 0.0, 1.0))
    reach = np.minimum(latest, end) - np.maximum(earliest, start)
    possibly = np.where(inside, 2.0, 2.0 * np.clip(reach / longest, 0.0, 1.0))
    needed = work[:, None]
    return ServingClasses(
        np.tile(surely, LEVELS) * _SIZES >= needed, np.tile(possibly, LEVELS) * _SIZES >= needed
    )


def best_class(counts: NDArray[np.integer], mask: Mask) -> NDArray[np.intp]:
    """For each row the smallest class that serves and has a hole, or `NONE`.

    The smallest, so that larger holes are left for longer sequences.
    """
    serving = (counts > 0) & mask
    best = serving.argmax(axis=1)
    return np.where(serving[np.arange(len(best)), best], best, NONE)


def largest_class(counts: NDArray[np.integer], mask: Mask) -> NDArray[np.intp]:
    """For each row the largest class that serves and has a hole, or `NONE`.

    Where nothing is sure, the largest is the likeliest to do.
    """
    found = best_class(counts[:, ::-1], mask[:, ::-1])
    return np.where(found == NONE, NONE, CLASSES - 1 - found).astype(np.intp)


def cut_in_two(
    frame: Frame, work: Sequence[float], points: ReferencePoints
) -> tuple[int, Frame, Frame] | None:
    """How to divide a sequence that no hole holds: its first piece's tasks, and both frames.

    It is cut at the task boundary nearest to the middle of its work. The frames meet at the
    reference point nearest to that share of the frame, or at the share itself if no point lies
    where both pieces keep the time that they need at the sequence's own pace. None if the sequence
    is a single task.
    """
    if len(work) < 2:
        return None
    total = sum(work)
    passed = 0.0
    options = []
    for place, length in enumerate(work[:-1]):
        passed += length
        options.append((abs(passed - total / 2), place + 1, passed))
    _, count, first = min(options)
    share = first / total if total > 0 else 0.5
    middle = frame.startline + share * (frame.deadline - frame.startline)
    spare = 0.25 * min(middle - frame.startline, frame.deadline - middle)
    near = [point for point in points if abs(point - middle) <= spare]
    cut = min(near, key=lambda point: abs(point - middle), default=middle)
    return count, Frame(frame.startline, cut), Frame(cut, frame.deadline)
