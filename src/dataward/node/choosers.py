"""Which task of a pool a node is given. Choosers that look at data are in `data_choosers`."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Protocol

from dataward.model.ids import NodeId
from dataward.model.workflow import FileId, TaskId
from dataward.node.pool import Changes


class Chooser(Protocol):
    """Knows the tasks of one pool; it is told of every change to it."""

    async def update(self, changes: Changes) -> None:
        """Take note of what came into the pool, and of what left it other than by `choose`."""
        ...

    def on_evicted(self, node: NodeId, files: Sequence[FileId]) -> None:
        """Take note of files that have gone from a node."""
        ...

    def choose(self, node: NodeId) -> TaskId | None:
        """The task for this node, which leaves the pool; None if none of them is for this node.

        There must be a task in the pool.
        """
        ...


class FirstCome:
    """The most urgent task first, whichever node asks; equal urgency goes by id."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, int] = {}  # those in the pool, each with the number of its stay
        self._heap: list[tuple[float, TaskId, int]] = []
        self._stays = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def __reversed__(self) -> Iterator[TaskId]:
        """The tasks, the one that came last first."""
        return reversed(self._tasks)

    async def update(self, changes: Changes) -> None:
        self.note(changes)

    def note(self, changes: Changes) -> None:
        """What `update` does: this chooser need not wait for anything."""
        for task in changes.went:
            self.remove(task)
        for entry in changes.came:
            self.add(entry.task, entry.priority)

    def add(self, task: TaskId, priority: float) -> None:
        self._stays += 1
        self._tasks[task] = self._stays
        heappush(self._heap, (priority, task, self._stays))

    def remove(self, task: TaskId) -> None:
        """A task has left; nothing happens if it is not here."""
        self._tasks.pop(task, None)

    def on_evicted(self, node: NodeId, files: Sequence[FileId]) -> None:
        """This chooser does not look at files."""

    def choose(self, node: NodeId) -> TaskId:
        while True:
            _, task, stay = heappop(self._heap)
            if self._tasks.get(task) == stay:
                del self._tasks[task]
                return task
