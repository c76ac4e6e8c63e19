"""The topological order of a workflow by levels, or a cycle if there is no such order."""

from dataclasses import dataclass

import numpy as np

from dataward.model.adjacency import Adjacency, Indices, Offsets

# Below this many tasks, numpy's fixed cost per call exceeds a plain loop's cost per task. A chain
# of a million tasks has a million levels of one task each, so the difference is minutes.
NARROW = 48


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Tasks by level: level 0 has no parents, level n has its deepest parent on level n - 1.

    ``order`` lists every task, level by level and by index within a level: a topological order.
    ``level_of[task]`` is its level; level n is ``order[starts[n]:starts[n + 1]]``.
    """

    order: Indices
    starts: Offsets
    level_of: Indices

    @property
    def depth(self) -> int:
        return len(self.starts) - 1

    @property
    def width(self) -> int:
        return int(np.diff(self.starts).max(initial=0))

    def level(self, number: int) -> Indices:
        return self.order[self.starts[number] : self.starts[number + 1]]


def layers_of(parents: Adjacency, children: Adjacency) -> Layers | None:
    """The levels of a graph, or None if it has a cycle."""
    count = len(parents)
    waiting = parents.degrees().astype(np.int32)
    level = np.flatnonzero(waiting == 0).astype(np.int32)
    levels: list[Indices] = []
    while level.size:
        levels.append(level)
        if level.size <= NARROW:
            level = _next_narrow(level, children, waiting)
        else:
            level = _next_wide(level, children, waiting)
    order = np.concatenate(levels) if levels else np.empty(0, dtype=np.int32)
    if order.size < count:
        return None
    starts = np.zeros(len(levels) + 1, dtype=np.int64)
    np.cumsum([part.size for part in levels], out=starts[1:])
    level_of = np.empty(count, dtype=np.int32)
    level_of[order] = np.repeat(np.arange(len(levels), dtype=np.int32), np.diff(starts))
    return Layers(order, starts, level_of)


def _next_wide(level: Indices, children: Adjacency, waiting: Indices) -> Indices:
    targets, _ = children.gather(level)
    touched, times = np.unique(targets, return_counts=True)
    waiting[touched] -= times.astype(np.int32)
    ready: Indices = touched[waiting[touched] == 0]
    return ready


def _next_narrow(level: Indices, children: Adjacency, waiting: Indices) -> Indices:
    ready: list[int] = []
    for task in level.tolist():
        targets = children.row(task)
        if targets.size > NARROW:
            waiting[targets] -= 1
            ready.extend(targets[waiting[targets] == 0].tolist())
            continue
        for child in targets.tolist():
            left = waiting[child] - 1
            waiting[child] = left
            if left == 0:
                ready.append(child)
    ready.sort()
    return np.array(ready, dtype=np.int32)


def find_cycle(parents: Adjacency, children: Adjacency) -> list[int]:
    """The tasks of one cycle, each coming before the next; the smallest index leads.

    Call it only on a graph whose ``layers_of`` is None.
    """
    stuck = _tasks_behind_a_cycle(parents, children)
    task = int(np.flatnonzero(stuck)[0])
    seen: dict[int, int] = {}
    path: list[int] = []
    while task not in seen:
        seen[task] = len(path)
        path.append(task)
        above = parents.row(task)
        task = int(above[stuck[above]][0])
    cycle = path[seen[task] :][::-1]
    lead = cycle.index(min(cycle))
    return cycle[lead:] + cycle[:lead]


def _tasks_behind_a_cycle(parents: Adjacency, children: Adjacency) -> np.ndarray:
    waiting = parents.degrees()
    free = np.flatnonzero(waiting == 0).tolist()
    while free:
        for child in children.row(free.pop()).tolist():
            waiting[child] -= 1
            if waiting[child] == 0:
                free.append(child)
    return waiting > 0
