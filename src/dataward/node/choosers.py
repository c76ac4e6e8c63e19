"""Which task of a pool a node is given."""

from heapq import heappop, heappush
from typing import Protocol

from dataward.model.ids import NodeId
from dataward.model.workflow import TaskId
from dataward.node.pool import Changes


class Chooser(Protocol):
    """Knows the tasks of one pool; it is told of every change to it."""

    def update(self, changes: Changes) -> None:
        """Take note of what came into the pool, and of what left it other than by `choose`."""
        ...

    def choose(self, node: NodeId) -> TaskId:
        """The task for this node, which leaves the pool. There must be one."""
        ...


class FirstCome:
    """The most urgent task first, whichever node asks; equal urgency goes by id."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, int] = {}  # those in the pool, each with the number of its stay
        self._heap: list[tuple[float, TaskId, int]] = []
        self._stays = 0

    def update(self, changes: Changes) -> None:
        for task in changes.went:
            self._tasks.pop(task, None)
        for entry in changes.came:
            self._stays += 1
            self._tasks[entry.task] = self._stays
            heappush(self._heap, (entry.priority, entry.task, self._stays))

    def choose(self, node: NodeId) -> TaskId:
        while True:
            _, task, stay = heappop(self._heap)
            if self._tasks.get(task) == stay:
                del self._tasks[task]
                return task
