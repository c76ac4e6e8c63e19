"""The queue of one node with promises: earliest deadline first, a running task is never stopped.

A queue is a list of slots sorted by deadline. What a node promises rests on its *pushed* schedule:
every queued task moved as late as its deadline and the tasks behind it allow. Times that stay free
between pushed tasks are *holes* (PeerComp's Fig. 3); whatever is put into a hole makes no other
task late. Tasks run earlier than pushed whenever they can.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

ROUNDING_SECONDS = 1e-6  # times are sums of floats, taken in different orders


class QueueSlot(NamedTuple):
    """A task in a node's queue: by when it must end, and how long it takes on this node."""

    deadline: float
    seconds: float
    task: Any


class TimeHole(NamedTuple):
    """Time of a node that is free in its pushed schedule."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Frame(NamedTuple):
    """When a sequence may start, its startline, and by when it must end, its deadline."""

    startline: float
    deadline: float


def spread_back(deadline: float, seconds: Sequence[float]) -> list[float]:
    """The deadline of each task of a sequence: a task must leave its successor time to run."""
    deadlines = []
    for length in reversed(seconds):
        deadlines.append(deadline)
        deadline -= length
    return deadlines[::-1]


def paced(
    frame: Frame, seconds: Sequence[float], awaited: Sequence[bool], pace: float = 1.0
) -> list[float]:
    """The deadline of each task of a sequence, with time left for sequences that hang on it.

    The paper spreads the deadline back (`spread_back`). Then all slack lies before the first task,
    and a sequence that starts after one task of this sequence and ends before another has no more
    time than the tasks between. So a task that is ``awaited`` by others ends by its share of the
    frame. Tasks that nothing else waits for are spread back. With a ``pace`` of 0 awaited tasks end
    as early as they can, and what waits for them has all the slack.
    """
    deadlines = spread_back(frame.deadline, seconds)
    total = sum(seconds)
    slack = frame.deadline - frame.startline - total
    if total <= 0 or slack <= 0:
        return deadlines
    passed = total
    for place in range(len(seconds) - 1, -1, -1):
        if place < len(seconds) - 1:
            deadlines[place] = deadlines[place + 1] - seconds[place + 1]
        if awaited[place]:
            share = frame.startline + passed * (1 + pace * slack / total)
            deadlines[place] = min(deadlines[place], share)
        passed -= seconds[place]
    return deadlines


def pushed_starts(queue: Sequence[QueueSlot]) -> list[float]:
    """When each task must start at the latest, so that it and all behind it end in time."""
    starts = [0.0] * len(queue)
    after = inf
    for place in range(len(queue) - 1, -1, -1):
        slot = queue[place]
        after = min(slot.deadline, after) - slot.seconds
        starts[place] = after
    return starts


def is_kept(queue: Sequence[QueueSlot], free_from: float) -> bool:
    """Whether every deadline of the queue is kept if the node is free from then on."""
    return not queue or pushed_starts(queue)[0] >= free_from - ROUNDING_SECONDS


def holes(queue: Sequence[QueueSlot], free_from: float, until: float) -> list[TimeHole]:
    """The holes of a node up to a moment, in order.

    ``free_from`` is when the running task ends, or now. That a hole would be longer if the tasks
    before it ran early is left out, as in the paper.
    """
    found: list[TimeHole] = []
    start = free_from
    after = pushed_starts(queue)
    for place, slot in enumerate(queue):
        if start >= until:
            return found
        end = min(after[place], until)
        if end > start:
            found.append(TimeHole(start, end))
        following = after[place + 1] if place + 1 < len(queue) else inf
        start = max(min(slot.deadline, following), free_from)
    if until > start:
        found.append(TimeHole(start, until))
    return found


def usable(hole: TimeHole, frame: Frame) -> TimeHole:
    """The part of a hole within a frame; it may be empty, with an end before its start."""
    return TimeHole(max(hole.start, frame.startline), min(hole.end, frame.deadline))


def best_hole(found: Sequence[TimeHole], frame: Frame, seconds: float) -> TimeHole | None:
    """The usable part of the smallest hole that holds a sequence of this length, or None.

    The smallest, so that larger holes are left for longer sequences; equal ones by their start.
    """
    parts = [usable(hole, frame) for hole in found]
    fitting = [part for part in parts if part.seconds >= seconds]
    return min(fitting, key=lambda part: (part.seconds, part.start), default=None)


def reserved(queue: Sequence[QueueSlot], slots: Sequence[QueueSlot]) -> list[QueueSlot]:
    """The queue with more slots; among equal deadlines the order of entering stays."""
    return sorted([*queue, *slots], key=lambda slot: slot.deadline)


def idle_until(queue: Sequence[QueueSlot], now: float) -> float:
    """When a core whose tasks are not ready must be free for the first of them; maybe infinite.

    A task whose latest start has passed is late already, and nobody waits for it.
    """
    return next((at for at in pushed_starts(queue) if at >= now - ROUNDING_SECONDS), inf)


def next_to_start(
    queue: Sequence[QueueSlot], now: float, is_ready: Callable[[Any], bool]
) -> int | None:
    """The place of the task that an idle node should start now, or None.

    The first task by deadline that is ready. If a task before it is not ready, only one that ends
    before the first task skipped must start, so that no promise is broken: then the promises of all
    tasks skipped still hold, whenever they become ready until their latest starts. A task whose
    latest start has passed is late already, and holds nobody up.
    """
    limit = inf
    latest: list[float] = []
    for place, slot in enumerate(queue):
        if is_ready(slot.task) and now + slot.seconds <= limit:
            return place
        if limit == inf:
            latest = latest or pushed_starts(queue)
            limit = latest[place] if latest[place] >= now - ROUNDING_SECONDS else inf
    return None


def may_begin(queue: Sequence[QueueSlot], now: float, task: Any) -> bool:
    """Whether a task of the queue can begin now and make no other one late.

    A task of several cores must ask each of them: on every core, other tasks come before it.
    """
    return next_to_start(queue, now, lambda other: bool(other == task)) is not None
