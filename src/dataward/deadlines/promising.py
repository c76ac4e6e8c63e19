"""Whether and when a workflow can be promised on nodes whose schedules are known.

This is what one machine, or the owner of a few nodes, asks: every schedule is at hand, so no
summaries are needed. A search through a tree of nodes asks for the same sequences with the same
frames, one hop at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dataward.deadlines.frames import Allocation, Outline, awaited, frames_of_stage
from dataward.deadlines.local_schedule import (
    Frame,
    QueueSlot,
    best_hole,
    holes,
    paced,
    reserved,
)
from dataward.deadlines.search import cut_in_two
from dataward.model.ids import NodeId

HORIZON_SECONDS = 1e7  # holes are looked for up to four months ahead
# Some workflows fit on one node neither with all of their slack shared nor with none of it.
PACES = (1.0, 0.0, 0.5)
TRIES = 24  # halvings until the earliest promise is found: to a part in 16 million


@dataclass(frozen=True, slots=True)
class NodeSchedule:
    """What a node has promised, and how fast it works: one core of a node, or a simulated node.

    What the node does not hold of a task's inputs comes in at ``bytes_per_second``.
    """

    node: NodeId
    queue: Sequence[QueueSlot] = ()
    free_from: float = 0.0
    speed: float = 1.0
    bytes_per_second: float = 1e9


class TaskPromise(NamedTuple):
    """A task is run by this node (an index), and ends at the latest at ``deadline``."""

    node: int
    deadline: float
    seconds: float

    @property
    def latest_start(self) -> float:
        return self.deadline - self.seconds


class Staging(NamedTuple):
    """What a task reads from outside its sequence: bytes in all, and bytes that each node has."""

    bytes: float
    held: Mapping[int, float]

    def missing(self, node: int) -> float:
        return self.bytes - self.held.get(node, 0.0)


class SequenceRequest(NamedTuple):
    """A sequence to be placed: its tasks, when, and which of them others wait for."""

    tasks: Sequence[int]
    frame: Frame
    awaited: Sequence[bool]
    pace: float = 1.0


def pieces_of(
    request: SequenceRequest, count: int, first: Frame, second: Frame
) -> tuple[SequenceRequest, SequenceRequest]:
    """A request as two; the second piece waits for the last task of the first."""
    before = [*request.awaited[: count - 1], True]
    return (
        request._replace(tasks=request.tasks[:count], frame=first, awaited=before),
        request._replace(
            tasks=request.tasks[count:], frame=second, awaited=request.awaited[count:]
        ),
    )


NO_DATA: Mapping[int, Staging] = {}


def promised(
    outline: Outline,
    nodes: Sequence[NodeSchedule],
    now: float,
    deadline: float,
    lag_seconds: float = 0.0,
    data: Mapping[int, Staging] = NO_DATA,
    paces: Sequence[float] = PACES,
) -> list[TaskPromise] | None:
    """A promise for each task that keeps the deadline and all earlier promises, or None.

    If a workflow does not fit with its slack shared, it is tried with tasks that others wait for
    as early as they can be, and then with half of its slack shared.
    """
    for pace in paces:
        allocation = Allocation(outline, now, deadline, lag_seconds, pace)
        found = _all_placed(allocation, list(nodes), data)
        if found is not None:
            return found
    return None


def _all_placed(
    allocation: Allocation, schedules: list[NodeSchedule], data: Mapping[int, Staging]
) -> list[TaskPromise] | None:
    outline = allocation.outline
    found: dict[int, TaskPromise] = {}
    for stage in range(outline.width):
        frames = frames_of_stage(allocation, stage)
        for sequence, frame in zip(outline.stages[stage], frames, strict=True):
            tasks = outline.sequences[sequence]
            flags = awaited(allocation, tasks)
            request = SequenceRequest(tasks, frame, flags, allocation.pace)
            placed = _placed(request, outline, schedules, data)
            if placed is None:
                return None
            for task, promise in placed.items():
                allocation.promise(task, promise.latest_start, promise.deadline)
            found |= placed
    return [found[task] for task in range(len(outline))]


def earliest_promise(
    outline: Outline,
    nodes: Sequence[NodeSchedule],
    now: float,
    lag_seconds: float = 0.0,
    data: Mapping[int, Staging] = NO_DATA,
) -> float:
    """About the earliest deadline that can be promised now.

    The deadline is halved towards from one that surely can be kept: all work on one node, after
    all that any node has promised. A deadline between two that cannot be kept may well be; this
    returns one for which `promised` has found promises.
    """

    def can(deadline: float) -> bool:
        return promised(outline, nodes, now, deadline, lag_seconds, data) is not None

    low = now + outline.minimum_length_seconds / max(node.speed for node in nodes)
    if can(low):
        return low
    high = low
    while not can(high):
        high = now + 2 * max(high - now, 1.0)
        assert high < now + HORIZON_SECONDS, "an idle node can do any workflow"
    for _ in range(TRIES):
        middle = (low + high) / 2
        low, high = (low, middle) if can(middle) else (middle, high)
    return high


def _placed(
    request: SequenceRequest,
    outline: Outline,
    schedules: list[NodeSchedule],
    data: Mapping[int, Staging],
) -> dict[int, TaskPromise] | None:
    """Promises for a sequence, whole on one node or else cut in two; nodes' queues grow by it.

    Among nodes with a hole that fits, the node that has more of the data wins, then the smaller
    hole, then the earlier node. Returns None, with the queues as they were, if nothing fits.
    """
    tasks = request.tasks
    best = None
    for number, schedule in enumerate(schedules):
        missing = sum(data[task].missing(number) for task in tasks if task in data)
        seconds = [outline.work[task] / schedule.speed for task in tasks]
        seconds[0] += missing / schedule.bytes_per_second
        hole = best_hole(
            holes(schedule.queue, schedule.free_from, HORIZON_SECONDS), request.frame, sum(seconds)
        )
        if hole is not None:
            key = (missing, hole.seconds, number)
            if best is None or key < best[0]:
                best = key, number, Frame(*hole), seconds
    if best is None:
        return _cut_and_placed(request, outline, schedules, data)
    _, number, part, seconds = best
    deadlines = paced(part, seconds, request.awaited, request.pace)
    slots = [QueueSlot(d, s, t) for d, s, t in zip(deadlines, seconds, tasks, strict=True)]
    queue = reserved(schedules[number].queue, slots)
    schedules[number] = replace(schedules[number], queue=queue)
    return {
        task: TaskPromise(number, slot.deadline, slot.seconds)
        for task, slot in zip(tasks, slots, strict=True)
    }


def _cut_and_placed(
    request: SequenceRequest,
    outline: Outline,
    schedules: list[NodeSchedule],
    data: Mapping[int, Staging],
) -> dict[int, TaskPromise] | None:
    work = [outline.work[task] for task in request.tasks]
    cut = cut_in_two(request.frame, work, ())
    if cut is None:
        return None
    count, *frames = cut
    before = list(schedules)
    found: dict[int, TaskPromise] = {}
    for piece in pieces_of(request, count, *frames):
        placed = _placed(piece, outline, schedules, data)
        if placed is None:
            schedules[:] = before
            return None
        found |= placed
    return found
