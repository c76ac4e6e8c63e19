"""Tasks that a node keeps for whichever node asks for one; it does not run them unasked."""

from collections.abc import Collection
from typing import NamedTuple

from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId
from dataward.world import Kernel


class Changes(NamedTuple):
    """What came into a pool and what went out of it; a task in neither list is where it was."""

    came: list[QueueEntry]
    went: list[TaskId]

    def __bool__(self) -> bool:
        return bool(self.came or self.went)


class Pool:
    """Entries in the order in which they came.

    ``grown`` is set while there are any. ``due`` is set when the mover should look at them: one has
    come, or the mover itself wants to look again. Who looks clears it.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.grown = kernel.flag()
        self.due = kernel.flag()
        self._entries: dict[TaskId, QueueEntry] = {}
        self._came: dict[TaskId, QueueEntry] = {}
        self._went: list[TaskId] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task: TaskId) -> bool:
        return task in self._entries

    def tasks(self) -> Collection[TaskId]:
        return self._entries.keys()

    def put(self, entry: QueueEntry) -> None:
        if entry.task not in self._entries:
            self._entries[entry.task] = entry
            self._came[entry.task] = entry
            self.grown.set()
            self.due.set()

    def take(self, task: TaskId) -> QueueEntry:
        """The entry of a task that is in the pool; now it is not."""
        entry = self._entries.pop(task)
        if self._came.pop(task, None) is None:
            self._went.append(task)
        if not self._entries:
            self.grown.clear()
        return entry

    def remove(self, task: TaskId, up_to_generation: int | None = None) -> bool:
        """Whether a task was taken out: only if it is pooled for this generation or earlier."""
        entry = self._entries.get(task)
        if entry is None or (up_to_generation is not None and entry.generation > up_to_generation):
            return False
        self.take(task)
        return True

    def clear(self) -> None:
        for task in list(self._entries):
            self.take(task)

    def changes(self) -> Changes:
        """What has changed since this was last called."""
        changes = Changes(list(self._came.values()), self._went)
        self._came, self._went = {}, []
        return changes
