"""Places every task of a workflow on cores whose promises are all known: one machine, or a few.

In a tree of nodes a whole sequence is asked for at once (`promising.py`), since a question takes
time. Where every schedule is at hand, tasks are placed one by one, the longest chain first, each
where it ends first. What was promised before stays as it is: tasks go into the holes that it leaves
in its pushed schedule. So a deadline that is later than the end of a plan can always be promised.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from dataward.deadlines.local_schedule import QueueSlot, TimeHole, holes
from dataward.deadlines.promising import NodeSchedule
from dataward.model.ids import NodeId
from dataward.model.workflow import Seconds, Workflow

LEAST_SECONDS = 1e-9  # free times shorter than this are rounding


@dataclass(frozen=True, slots=True, eq=False)
class FilePlaces:
    """Which nodes have which files, by index, and how many bytes each counts as.

    A file that comes from a slow place counts as more than it has.
    """

    located: Mapping[int, Sequence[NodeId]]
    size_bytes: Seconds


@dataclass(frozen=True, slots=True)
class OpenWork:
    """The tasks that are to be promised, by their place among them, and who waits for whom.

    ``under_way`` tasks run already, each on some core (the first, if it has several). A task that
    ends is known to others after ``lag_seconds``. ``files`` is None if they need not be moved.
    """

    tasks: Sequence[int]  # by place, their indices in the workflow
    parents: Sequence[Sequence[int]]
    children: Sequence[Sequence[int]]
    order: Sequence[int]  # parents before children
    widths: Sequence[int]
    lag_seconds: float = 0.0
    under_way: Mapping[int, int] = field(default_factory=dict)
    workflow: Workflow | None = None  # whose files are moved
    files: "FilePlaces | None" = None

    def __len__(self) -> int:
        return len(self.tasks)


def open_work(
    workflow: Workflow,
    is_open: Sequence[bool],
    lag_seconds: float = 0.0,
    under_way: Mapping[int, int] | None = None,
    files: FilePlaces | None = None,
) -> OpenWork:
    """The open tasks of a workflow; ``under_way`` has tasks by their index."""
    tasks = [task for task, still in enumerate(is_open) if still]
    place = {task: number for number, task in enumerate(tasks)}
    parents, children = workflow.parents.lister(), workflow.children.lister()
    order = [place[task] for task in workflow.layers.order.tolist() if task in place]
    widths = workflow.cores.tolist()
    return OpenWork(
        tasks,
        [[place[p] for p in parents(task) if p in place] for task in tasks],
        [[place[c] for c in children(task) if c in place] for task in tasks],
        order,
        [widths[task] for task in tasks],
        lag_seconds,
        {place[task]: core for task, core in (under_way or {}).items() if task in place},
        workflow,
        files,
    )


class PlannedSlot(NamedTuple):
    """When and where a task is planned, and the hole that it is in."""

    cores: tuple[int, ...]
    start: float
    seconds: float
    hole: TimeHole

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class CorePlan:
    """A slot for every task, by place; ``order`` is that of their starts, parents first."""

    work: OpenWork
    slots: Sequence[PlannedSlot]
    extra: Sequence[float]  # of each slot's seconds, those in which files come in
    speeds: Sequence[float]  # of the core that each task is on
    order: Sequence[int]
    now: float

    @property
    def finish(self) -> float:
        return max((slot.end for slot in self.slots), default=self.now)

    def latest_ends(self, deadline: float) -> list[float]:
        """By when each task must end, so that all of them end by the deadline.

        That is as late as can be: before its children start, before what is planned next on its
        cores, and within its hole.
        """
        work, slots = self.work, self.slots
        latest = [0.0] * len(slots)
        following: dict[int, float] = {}  # by core, the latest start of the task planned next
        for place in reversed(self.order):
            cores, _, seconds, hole = slots[place]
            end = min(deadline, hole.end, *(following.get(core, inf) for core in cores))
            for child in work.children[place]:
                end = min(end, latest[child] - slots[child].seconds - work.lag_seconds)
            latest[place] = end
            following.update(dict.fromkeys(cores, end - seconds))
        return latest

    def ends_if(self, futures: Seconds) -> Seconds:
        """When all has ended in each future; a row of ``futures`` has the seconds of each task.

        Cores keep to the planned order, and each task starts as soon as it can.
        """
        work = self.work
        ends: list[Seconds] = [np.zeros(0)] * len(self.slots)
        free: dict[int, Seconds] = {}
        last = np.full(len(futures), self.now)
        for place in self.order:
            slot = self.slots[place]
            start = np.full(len(futures), max(slot.hole.start, self.now))
            for core in slot.cores:
                if core in free:
                    np.maximum(start, free[core], out=start)
            for parent in work.parents[place]:
                np.maximum(start, ends[parent] + work.lag_seconds, out=start)
            end = start + (futures[:, place] / self.speeds[place] + self.extra[place])
            free.update(dict.fromkeys(slot.cores, end))
            ends[place] = end
            np.maximum(last, end, out=last)
        return last

    def queues(self, deadline: float) -> dict[int, list[QueueSlot]]:
        """What each core has promised then: slots by deadline, each with the task's index."""
        latest = self.latest_ends(deadline)
        found: dict[int, list[QueueSlot]] = {}
        for place in self.order:
            slot = QueueSlot(latest[place], self.slots[place].seconds, self.work.tasks[place])
            for core in self.slots[place].cores:
                found.setdefault(core, []).append(slot)
        return {core: sorted(found[core], key=lambda slot: slot.deadline) for core in sorted(found)}


def core_plan(
    work: OpenWork, cores: Sequence[NodeSchedule], seconds: Sequence[float], now: float
) -> CorePlan:
    """A plan in which tasks take so many seconds, by place, at speed 1.

    Tasks are taken by the longest chain below them, and go where they end first; then where more of
    their files are, then to the lowest core.
    """
    planner = _Planner(work, cores, now)
    for place in sorted(work.under_way):
        planner.put_running(place, seconds[place])
    for place in _by_urgency(work, seconds):
        if place not in work.under_way:
            planner.put(place, seconds[place])
    return planner.plan()


def _by_urgency(work: OpenWork, seconds: Sequence[float]) -> list[int]:
    bottom = list(seconds)
    for place in reversed(work.order):
        below = max((bottom[child] for child in work.children[place]), default=-work.lag_seconds)
        bottom[place] += below + work.lag_seconds
    rank = {place: number for number, place in enumerate(work.order)}
    return sorted(range(len(work)), key=lambda place: (-bottom[place], rank[place]))


class _FreeTimes:
    """The free times of one core, in order; what is taken is cut out."""

    __slots__ = ("_ends", "_holes", "_starts")

    def __init__(self, schedule: NodeSchedule, now: float) -> None:
        self._holes = holes(schedule.queue, max(schedule.free_from, now), inf)
        self._starts = [hole.start for hole in self._holes]
        self._ends = [hole.end for hole in self._holes]

    def earliest(self, ready: float, seconds: float) -> float:
        """When so many seconds are free in one piece, from ``ready`` on."""
        place = bisect_left(self._ends, ready + seconds)
        while max(self._starts[place], ready) + seconds > self._ends[place]:
            place += 1
        return max(self._starts[place], ready)

    def starts_after(self, ready: float) -> list[float]:
        return [ready, *(start for start in self._starts if start > ready)]

    def take(self, start: float, seconds: float) -> TimeHole:
        """Cut a piece out of the free times. Returns the hole between promises that it is in."""
        place = bisect_left(self._ends, start + seconds)
        end = self._ends[place]
        before, after = (self._starts[place], start), (start + seconds, end)
        pieces = [piece for piece in (before, after) if piece[1] - piece[0] > LEAST_SECONDS]
        self._starts[place : place + 1] = [piece[0] for piece in pieces]
        self._ends[place : place + 1] = [piece[1] for piece in pieces]
        return next(hole for hole in self._holes if hole.end >= end)


class _Planner:
    def __init__(self, work: OpenWork, cores: Sequence[NodeSchedule], now: float) -> None:
        self._work = work
        self._cores = cores
        self._now = now
        self._free = [_FreeTimes(core, now) for core in cores]
        self._nodes: dict[NodeId, list[int]] = {}
        for number, core in enumerate(cores):
            self._nodes.setdefault(core.node, []).append(number)
        self._slots: dict[int, PlannedSlot] = {}
        self._extra: dict[int, float] = {}
        self._have: dict[int, set[NodeId]] = {
            file: set(nodes) for file, nodes in (work.files.located if work.files else {}).items()
        }

    def put_running(self, place: int, seconds: float) -> None:
        first = self._work.under_way[place]
        beside = [core for core in self._nodes[self._cores[first].node] if core != first]
        cores = (first, *beside[: self._work.widths[place] - 1])
        whole = TimeHole(self._now, inf)
        for core in cores:
            self._free[core].take(self._free[core].earliest(self._now, seconds), seconds)
        self._slots[place] = PlannedSlot(cores, self._now, seconds, whole)
        self._note(place, self._cores[first].node, 0.0)

    def put(self, place: int, seconds: float) -> None:
        ready = self._now
        for parent in self._work.parents[place]:
            ready = max(ready, self._slots[parent].end + self._work.lag_seconds)
        best: tuple[float, float, tuple[int, ...], float, float, NodeId] | None = None
        for node, cores in self._nodes.items():
            missing = self._missing_bytes(place, node)
            extra = missing / self._cores[cores[0]].bytes_per_second
            whole = seconds / self._cores[cores[0]].speed + extra
            start, chosen = self._earliest(cores, place, ready, whole)
            key = (start + whole, missing, chosen)
            if best is None or key < best[:3]:
                best = (*key, start, extra, node)
        assert best is not None, "there is no core"
        _, _, chosen, start, extra, node = best
        whole = seconds / self._cores[chosen[0]].speed + extra
        taken = [self._free[core].take(start, whole) for core in chosen]
        hole = TimeHole(max(h.start for h in taken), min(h.end for h in taken))
        self._slots[place] = PlannedSlot(chosen, start, whole, hole)
        self._note(place, node, extra)

    def _earliest(
        self, cores: Sequence[int], place: int, ready: float, seconds: float
    ) -> tuple[float, tuple[int, ...]]:
        """When and on which cores of a node the task can start first; a wide task on several."""
        width = min(self._work.widths[place], len(cores))
        if width == 1:
            start, core = min((self._free[core].earliest(ready, seconds), core) for core in cores)
            return start, (core,)
        starts = sorted({at for core in cores for at in self._free[core].starts_after(ready)})
        for start in starts:
            fitting = [c for c in cores if self._free[c].earliest(start, seconds) == start]
            if len(fitting) >= width:
                return start, tuple(fitting[:width])
        raise AssertionError("after all promises every core is free")

    def _missing_bytes(self, place: int, node: NodeId) -> float:
        work = self._work
        if work.files is None or work.workflow is None:
            return 0.0
        files, sizes = work.workflow.inputs.row(work.tasks[place]).tolist(), work.files.size_bytes
        return float(sum(sizes[f] for f in files if node not in self._have.get(f, ())))

    def _note(self, place: int, node: NodeId, extra: float) -> None:
        self._extra[place] = extra
        if self._work.files is not None and self._work.workflow is not None:
            workflow, task = self._work.workflow, self._work.tasks[place]
            for row in (workflow.inputs.row(task), workflow.outputs.row(task)):
                for file in row.tolist():
                    self._have.setdefault(file, set()).add(node)

    def plan(self) -> CorePlan:
        count = len(self._work)
        slots = [self._slots[place] for place in range(count)]
        rank = {place: number for number, place in enumerate(self._work.order)}
        order = sorted(range(count), key=lambda p: (slots[p].start, slots[p].end, rank[p]))
        extra = [self._extra[place] for place in range(count)]
        speeds = [self._cores[slot.cores[0]].speed for slot in slots]
        return CorePlan(self._work, slots, extra, speeds, order, self._now)
