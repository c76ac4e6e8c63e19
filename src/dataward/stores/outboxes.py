"""A shard's full outboxes: the tasks about which some node still has to say something."""

from collections import OrderedDict
from math import inf

from dataward.model.workflow import TaskId


class Outboxes:
    """Tasks that have ended but whose children may not know, or are ready but maybe in no queue.

    ``full`` has the time since when a task's outbox is full, ``given`` those that a patrol was
    given, with the time until when that patrol has them to itself. A task is in one of them at
    most; each has the oldest first.
    """

    def __init__(self) -> None:
        self.full: OrderedDict[TaskId, float] = OrderedDict()
        self.given: OrderedDict[TaskId, float] = OrderedDict()

    def __contains__(self, task: TaskId) -> bool:
        return task in self.full or task in self.given

    def __len__(self) -> int:
        return len(self.full) + len(self.given)

    def fill(self, task: TaskId, now: float) -> None:
        self.empty(task)  # so that the task goes to the end: oldest first
        self.full[task] = now

    def empty(self, task: TaskId) -> None:
        """Nothing is left to say about the task; maybe nothing was."""
        self.full.pop(task, None)
        self.given.pop(task, None)

    def give_next(self, now: float, stale_seconds: float, hold_seconds: float) -> TaskId | None:
        """The task whose outbox is longest due, given to a patrol; None if none is due.

        An outbox is due when it is stale, or when the patrol that was given it did not empty it in
        time. Both kinds are compared by time, so that neither holds up the other.
        """
        first: list[tuple[float, TaskId]] = []
        for outboxes, seconds in ((self.given, 0.0), (self.full, stale_seconds)):
            if outboxes:
                task, since = next(iter(outboxes.items()))
                first.append((since + seconds, task))
        due, task = min(first, default=(inf, TaskId("")))
        if due > now:
            return None
        self.empty(task)
        self.given[task] = now + hold_seconds
        return task
