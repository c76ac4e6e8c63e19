"""PeerComp's decomposition of a workflow into sequences of tasks, longest first (its Fig. 2)."""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from dataward.model.adjacency import Adjacency, Indices
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.critical_path import bottom_levels


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Row i of ``tasks`` is the i-th sequence extracted, its tasks in order.

    ``stages`` tells when each sequence can be submitted: in stage 1 if it depends on no other, in
    stage n + 1 if its start or deadline follows from a sequence of stage n.
    """

    tasks: Adjacency
    seconds: Seconds
    stages: Indices

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def width(self) -> int:
        """How many stages it takes to submit the workflow: PeerComp's width of a workflow."""
        return int(self.stages.max())

    @property
    def minimum_length_seconds(self) -> float:
        """The length of the first sequence, which is the critical path."""
        return float(self.seconds[0])

    @property
    def total_length_seconds(self) -> float:
        return float(self.seconds.sum())


def decompose(workflow: Workflow, seconds: Seconds | None = None) -> Sequences:
    """The workflow as sequences: first the critical path, then always the longest path left.

    Tasks already extracted may touch a path only at its ends: they may be parents of its first task
    and children of its last, but of no other task of the path. "Longest" means in seconds. Ties go
    to the lowest index, at the start and at every step; a path also takes along tasks without
    duration that can come before its start. PeerComp treats staging as negligible; ours is not, so
    pass ``seconds`` that include it.

    Extracting a path only removes tasks and cuts edges, so a task's longest way down only shrinks.
    Known lengths therefore stay upper bounds, kept in a heap of all tasks and in a heap of children
    for each task. A length is computed again only when it reaches the top of a heap, and only down
    to where its path was cut; each time costs O(log tasks). There is no good bound on how often
    that happens; with a hundred thousand tasks it was 3 times per task in a wide graph, 12 in a
    grid, 37 in 316 random layers, which took seconds. Computing all paths anew for every sequence
    would cost tasks times sequences.
    """
    own = workflow.runtime_seconds if seconds is None else np.asarray(seconds, dtype=np.float64)
    rest = _Rest(workflow, own, bottom_levels(workflow, own))
    found: list[list[int]] = []
    while path := rest.longest():
        rest.extract(path)
        found.append(path)
    flat = np.array([task for path in found for task in path], dtype=np.int32)
    starts = np.zeros(len(found) + 1, dtype=np.int64)
    np.cumsum([len(path) for path in found], out=starts[1:])
    tasks = Adjacency(starts, flat)
    lengths: Seconds = np.add.reduceat(own[flat], starts[:-1])
    return Sequences(tasks, lengths, _stages(workflow, found))


class _Rest:
    """The tasks not yet extracted; finds the longest path among them."""

    def __init__(self, workflow: Workflow, own: Seconds, bottom: Seconds) -> None:
        self._own = own.tolist()
        self._children = list(workflow.children.rows())
        self._parents = list(workflow.parents.rows())
        count = len(workflow)
        self._gone = bytearray(count)
        self._above = bytearray(count)  # whose parent is extracted: can only be first in a path
        self._below = bytearray(count)  # whose child is extracted: can only be last in a path
        self._length = bottom.tolist()  # an upper bound on the longest way down
        self._next = [-1] * count
        self._exact = bytearray(count)  # length and next are exact, until an edge below is cut
        self._led_by: dict[int, list[int]] = {}  # the tasks whose next is this one
        self._onward: dict[int, list[tuple[float, int]]] = {}
        self._starts = [(-length, task) for task, length in enumerate(self._length)]
        heapify(self._starts)

    def longest(self) -> list[int]:
        """The longest path left, or an empty list."""
        starts, length = self._starts, self._length
        while starts:
            known, task = starts[0]
            if self._gone[task]:
                heappop(starts)
                continue
            self._settle(task)
            if length[task] != -known:
                heapreplace(starts, (-length[task], task))
                continue
            return self._from(task)
        return []

    def extract(self, path: list[int]) -> None:
        for task in path:
            self._gone[task] = 1
            self._onward.pop(task, None)
        cut: list[int] = []
        for task in path:
            for child in self._children[task]:
                if not self._above[child]:
                    self._above[child] = 1
                    cut.extend(self._led_by.pop(child, ()))
            for parent in self._parents[task]:
                if not self._below[parent]:
                    self._below[parent] = 1
                    cut.append(parent)
        while cut:
            task = cut.pop()
            if self._exact[task]:
                self._exact[task] = 0
                cut.extend(self._led_by.pop(task, ()))

    def _from(self, task: int) -> list[int]:
        """The path from this task down, with the tasks without duration that can come before."""
        lead: list[int] = []
        first = task
        while not self._above[first]:
            before = [p for p in self._parents[first] if not self._gone[p] and not self._below[p]]
            if not before:
                break
            first = before[0]
            lead.append(first)
        path = lead[::-1]
        while task >= 0:
            path.append(task)
            task = self._next[task]
        return path

    def _settle(self, task: int) -> None:
        """Make length and next step exact for this task and for all on its way down."""
        exact, length = self._exact, self._length
        stack = [] if exact[task] else [task]
        while stack:
            task = stack[-1]
            child = self._likeliest_child(task)
            if child >= 0 and not exact[child]:
                stack.append(child)
                continue
            self._next[task] = child
            length[task] = self._own[task] + (length[child] if child >= 0 else 0.0)
            exact[task] = 1
            if child >= 0:
                self._led_by.setdefault(child, []).append(task)
            stack.pop()

    def _likeliest_child(self, task: int) -> int:
        """The child with the longest known way down among those that may follow, or -1."""
        if self._below[task]:
            self._onward.pop(task, None)
            return -1
        heap = self._onward.get(task)
        if heap is None:
            heap = self._onward[task] = [(-self._length[c], c) for c in self._children[task]]
            heapify(heap)
        while heap:
            known, child = heap[0]
            if self._above[child]:  # it stays so; if the child were extracted, _below would be set
                heappop(heap)
            elif self._length[child] != -known:
                heapreplace(heap, (-self._length[child], child))
            else:
                return child
        return -1


def _stages(workflow: Workflow, sequences: list[list[int]]) -> Indices:
    """The stage of each sequence: one more than the latest of the earlier sequences it touches."""
    stage_of = [0] * len(workflow)
    stages = []
    parents, children = list(workflow.parents.rows()), list(workflow.children.rows())
    for path in sequences:
        before = max([stage_of[p] for p in parents[path[0]]], default=0)
        after = max([stage_of[c] for c in children[path[-1]]], default=0)
        stage = max(before, after) + 1
        for task in path:
            stage_of[task] = stage
        stages.append(stage)
    return np.array(stages, dtype=np.int32)
