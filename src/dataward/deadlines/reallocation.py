"""What is left of a promised workflow when a node is lost or late, and is asked for anew."""

from collections.abc import Collection, Mapping, Sequence
from math import inf

from dataward.deadlines.frames import Allocation, Outline
from dataward.deadlines.local_schedule import ROUNDING_SECONDS
from dataward.deadlines.reservations import Promise


def rest_of_workflow(
    work: Sequence[float],
    parents: Sequence[Sequence[int]],
    kept: Mapping[int, Promise],
    asked: Collection[int],
    now: float,
    deadline: float,
    lag_seconds: float = 0.0,
    cores: Sequence[int] = (),
) -> Allocation:
    """The question for the tasks ``asked`` for, where promises for others are ``kept``.

    All other tasks are complete. Each task is asked for by itself, in the stage after its parents.
    """
    children: list[list[int]] = [[] for _ in work]
    for task, row in enumerate(parents):
        for parent in row:
            children[parent].append(task)
    order = _parents_first(parents, children)
    stage: dict[int, int] = {}
    longest = [0.0] * len(work)
    for task in order:
        before = [stage[parent] for parent in parents[task] if parent in stage]
        if task in asked:
            stage[task] = max(before, default=-1) + 1
        is_open = task in asked or task in kept
        above = max((longest[parent] for parent in parents[task]), default=0.0)
        longest[task] = above + (work[task] if is_open else 0.0)
    tasks = sorted(asked)
    place = {task: number for number, task in enumerate(tasks)}
    stages: list[list[int]] = [[] for _ in range(max(stage.values(), default=-1) + 1)]
    for task in tasks:
        stages[stage[task]].append(place[task])
    outline = Outline(
        [[task] for task in tasks],
        stages,
        work,
        parents,
        children,
        order,
        max(longest, default=0.0),
        sum(work[task] for task in tasks),
        cores,
    )
    allocation = Allocation(outline, now, deadline, lag_seconds)
    for task in range(len(work)):
        if task not in asked:
            allocation.promise(task, *kept.get(task, Promise(now, now)))
    assert all((allocation.latest_ends[task] == inf) == (task in asked) for task in order)
    return allocation


def overtaken(
    parents: Sequence[Sequence[int]], promises: Mapping[int, Promise], lag_seconds: float
) -> set[int]:
    """The promised tasks that cannot start by their latest starts, since parents end too late.

    What is not promised has ended. A task that is overtaken ends as much later as it starts.
    """
    children: list[list[int]] = [[] for _ in parents]
    for task, row in enumerate(parents):
        for parent in row:
            children[parent].append(task)
    found: set[int] = set()
    ends = {task: promise.latest_end for task, promise in promises.items()}
    for task in _parents_first(parents, children):
        ready = max((ends[p] + lag_seconds for p in parents[task] if p in ends), default=-inf)
        if task in ends and ready > promises[task].latest_start + ROUNDING_SECONDS:
            found.add(task)
            ends[task] += ready - promises[task].latest_start
    return found


def _parents_first(
    parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> list[int]:
    left = [len(row) for row in parents]
    order = [task for task, count in enumerate(left) if not count]
    for task in order:
        for child in children[task]:
            left[child] -= 1
            if not left[child]:
                order.append(child)
    return order
