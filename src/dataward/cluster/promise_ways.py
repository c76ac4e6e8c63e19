"""In which ways the tree is asked for a deadline, one after the other until one is accepted.

A workflow that is refused may be accepted with another pace, with an earlier deadline, or if it
begins later: its first sequence takes the smallest hole that serves, and in a small hole among the
promises of others the sequences that hang on the first one may find no time. Later, after all that
was promised, it finds the cluster idle.
"""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log
from typing import NamedTuple

from dataward.deadlines.frames import Allocation
from dataward.deadlines.promising import PACES, NodeSchedule, promised
from dataward.model.ids import NodeId

GRID = 1.02  # only powers of this are asked for, in seconds: who asks again asks the same
EARLIER = (0, 1, 2, 3, 5)  # steps of the grid below the time that a workflow has
LATER = (0, 1, 3, 5, 8, 11, 15, 20, 26, 33, 43, 57, 75, 99, 130, 186)  # up to 40 times as long
SPARE, SPARE_SECONDS = 0.04, 2.0  # who is told of an earliest finish takes time to ask for it
WINDOWS = (1.05, 1.5, 2.5)  # how much of an idle cluster's time is left if it begins later
IDLE_STEP, IDLE_STEPS = 1.1, 20  # by which the time is stretched that an idle cluster takes
IDLE_WORK_MAX = 20_000  # tasks times slots for which that is reckoned
LEAST_SECONDS = 1.0


class AskedWay(NamedTuple):
    """After how many seconds the workflow may begin, and how much of its slack is shared."""

    begin_seconds: float
    pace: float


class IdleTime(NamedTuple):
    """About how long all takes at least if nothing else is promised, and with which pace."""

    seconds: float
    pace: float | None = None  # None: that was not found


def seconds_until(now: float, deadline: float) -> list[float]:
    """The times to ask for, so that all ends by the deadline: the longest first."""
    step = floor(log(max(deadline - now, 1e-9), GRID) + 1e-9)
    return [GRID ** (step - back) for back in EARLIER]


def seconds_from(least: float) -> list[float]:
    """The times to ask for, to find one that is accepted and not much longer than it must be."""
    step = ceil(log(max(least, LEAST_SECONDS), GRID) - 1e-9)
    return [GRID ** (step + more) for more in LATER]


def told_finish(now: float, seconds: float) -> float:
    """The finish to tell if promises are to be had within so many seconds, and nobody is faster."""
    return now + GRID * seconds + min(SPARE_SECONDS, SPARE * seconds)


def ways(seconds: float, idle: IdleTime) -> Iterator[AskedWay]:
    """The ways to ask for a workflow within so many seconds."""
    for pace in PACES:
        yield AskedWay(0.0, pace)
    if idle.pace is not None:
        for window in WINDOWS:
            if window * idle.seconds < seconds:
                yield AskedWay(seconds - window * idle.seconds, idle.pace)


def least_seconds(allocation: Allocation, speeds: Sequence[float]) -> float:
    """All that is asked for takes no less, whatever is promised."""
    outline = allocation.outline
    path = outline.minimum_length_seconds / max(speeds) if _is_whole(allocation) else 0.0
    total = outline.total_length_seconds
    if outline.cores:
        tasks = [task for row in outline.sequences for task in row]
        total = sum(outline.work[task] * outline.cores[task] for task in tasks)
    return max(path, total / sum(speeds))


def idle_time(allocation: Allocation, speeds: Sequence[float]) -> IdleTime:
    """How long slots of these speeds take that have promised nothing.

    For the rest of a workflow, or a very large one, only a lower bound. Tasks of several cores are
    reckoned as if they took one each: which slots belong together is not known here.
    """
    outline = allocation.outline
    seconds = least = max(least_seconds(allocation, speeds), LEAST_SECONDS)
    if not _is_whole(allocation) or len(outline) * len(speeds) > IDLE_WORK_MAX:
        return IdleTime(least)
    nodes = [NodeSchedule(NodeId(""), speed=speed) for speed in speeds]
    for _ in range(IDLE_STEPS):
        for pace in PACES:
            if promised(outline, nodes, 0.0, seconds, allocation.lag_seconds, paces=(pace,)):
                return IdleTime(seconds, pace)
        seconds *= IDLE_STEP
    return IdleTime(least)


def _is_whole(allocation: Allocation) -> bool:
    """Whether nothing of the workflow has been promised: of the rest, some tasks may have begun."""
    return not any(map(allocation.is_promised, range(len(allocation.outline))))
