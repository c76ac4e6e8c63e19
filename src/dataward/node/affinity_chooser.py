"""Chooses by a plan: a node is given the tasks that prefer it, and then replicas of others' tasks.

Which task is replicated, storage affinity decides: how many bytes of the task's inputs the node
has. The tasks of a pool that prefer one node are that node's line, the most urgent first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dataward.model.answers import Standing
from dataward.model.ids import NodeId
from dataward.model.operations import InputFile
from dataward.model.workflow import TaskId
from dataward.node.choosers import FirstCome
from dataward.node.data_choosers import PoolOverlaps
from dataward.node.overlaps import Measure
from dataward.node.pool import Changes
from dataward.node.store_client import StoreClient


@dataclass(frozen=True, slots=True)
class _Run:
    """A task that nodes were given: its inputs, and which nodes, the first one first."""

    inputs: tuple[InputFile, ...]
    nodes: list[NodeId]


class AffinityChooser(PoolOverlaps):
    """Knows the tasks of the pool and those that nodes were given, until it is told of their end.

    ``overlaps`` has the tasks that no node was given. A task of the pool that was given as a
    replica stays in its line: the node it was planned for runs it too, unless it ends before.
    """

    def __init__(self, store: StoreClient) -> None:
        super().__init__(store, Measure.BYTES)
        self._lines: dict[NodeId, FirstCome] = {}
        self._line_of: dict[TaskId, FirstCome] = {}
        self._runs: dict[TaskId, _Run] = {}
        self._closed: dict[TaskId, _Run] = {}  # of tasks that may have no more replicas

    # --- what is in the pool ---------------------------------------------------------------------

    async def update(self, changes: Changes) -> None:
        for task in changes.went:
            self.forget(task)
        await super().update(Changes(changes.came, []))

    async def _add(self, tasks: Sequence[Standing]) -> None:
        for task in tasks:
            self.forget(task.task)  # nodes that were given it before do not run it any more
        await super()._add(tasks)
        for task in tasks:
            line = self._lines.setdefault(task.preferred, FirstCome())
            line.add(task.task, task.priority)
            self._line_of[task.task] = line

    def forget(self, task: TaskId) -> None:
        """A task has ended, or is in the pool no more and was not given to anybody."""
        self.leave(task)
        self.overlaps.remove(task)
        self._runs.pop(task, None)
        self._closed.pop(task, None)

    def leave(self, task: TaskId) -> None:
        """A task has left the pool; nothing happens if it was not there."""
        line = self._line_of.pop(task, None)
        if line is not None:
            line.remove(task)

    # --- what nodes are given --------------------------------------------------------------------

    @property
    def given(self) -> Collection[TaskId]:
        """The tasks that nodes were given; some may have ended."""
        return [*self._runs, *self._closed]

    def runner_of(self, task: TaskId) -> NodeId:
        """The node that was given this task first."""
        return self._run_of(task).nodes[0]

    def _run_of(self, task: TaskId) -> _Run:
        return self._runs[task] if task in self._runs else self._closed[task]

    def close(self, task: TaskId) -> None:
        """A task that was given to nodes may have no more replicas than it has."""
        if task in self._runs:
            self._closed[task] = self._runs.pop(task)

    def choose(self, node: NodeId) -> TaskId | None:
        """The first task of the node's line."""
        line = self._lines.get(node)
        if not line:
            return None
        task = line.choose(node)
        del self._line_of[task]
        self.give(task, node)
        return task

    def give(self, task: TaskId, node: NodeId) -> None:
        """A node runs a task, and so has the task's inputs."""
        if task in self.overlaps:
            self._runs[task] = _Run(self.overlaps.inputs_of(task), [node])
            self.overlaps.give(task, node)
        else:
            run = self._run_of(task)
            run.nodes.append(node)
            self.overlaps.place([file.id for file in run.inputs], node)

    def replica(self, node: NodeId) -> TaskId | None:
        """The task of which a node should run a replica; None if there is none for this node.

        Tasks that the fewest nodes were given come first, those with the largest affinity to this
        node among them. Equal affinities go to the task that came last, since its turn would come
        last. If the node has nothing that any task waiting reads, it helps the node with the
        longest line.
        """
        task = self._not_given(node)
        return self._given_least(node) if task is None else task

    def _not_given(self, node: NodeId) -> TaskId | None:
        if not len(self.overlaps):
            return None
        tasks = self.overlaps.compare(node)
        affinity = np.where(tasks.open, tasks.overlap, -1)
        place = len(affinity) - 1 - int(affinity[::-1].argmax())
        return tasks.tasks[place] if affinity[place] > 0 else self._last_of_longest_line()

    def _last_of_longest_line(self) -> TaskId | None:
        """The last task that no node was given, of the longest line that has one."""
        by_node = (self._lines[node] for node in sorted(self._lines))
        lines: list[FirstCome] = sorted(by_node, key=len, reverse=True)
        waiting = (task for line in lines for task in reversed(line) if task in self.overlaps)
        return next(waiting, None)

    def _given_least(self, node: NodeId) -> TaskId | None:
        others = [(task, run) for task, run in self._runs.items() if node not in run.nodes]
        fewest = min((len(run.nodes) for _, run in others), default=0)
        affinity = {
            task: self.overlaps.overlap_of(run.inputs, node)
            for task, run in others
            if len(run.nodes) == fewest
        }
        return max(affinity, key=lambda task: affinity[task], default=None)
