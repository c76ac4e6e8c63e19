"""How much work waits in a node's ready queue, by what is known of run times now."""

from math import inf

from dataward.model.estimate import Estimate, estimate_of
from dataward.model.operations import QueueEntry
from dataward.node.learned_times import LearnedTimes


class _Waiting:
    """The waiting tasks of one type whose run times are not certain, and how they are weighed."""

    __slots__ = ("estimated_seconds", "factor", "guessed_seconds", "guesses", "mean", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self.estimated_seconds = 0.0  # of tasks that have estimates of their own
        self.guesses = 0  # tasks that have none
        self.guessed_seconds = 0.0  # what those count as if nothing was learned
        self.factor = 1.0
        self.mean = 0.0  # 0: nothing was learned

    def weigh_by(self, times: LearnedTimes, task_type: str) -> None:
        self.factor = times.factor(task_type)
        learned = times.estimate(task_type)
        self.mean = learned.seconds if learned.spread < inf else 0.0

    def change(self, given: Estimate, count: int) -> float:
        """The weight of a task that comes (``count`` 1) or leaves (-1), now counted."""
        self.tasks += count
        if given.spread < inf:
            self.estimated_seconds += count * given.seconds
            return given.seconds * self.factor
        self.guesses += count
        self.guessed_seconds += count * given.seconds
        return self.mean or given.seconds

    @property
    def seconds(self) -> float:
        guesses = self.guesses * self.mean if self.mean else self.guessed_seconds
        return self.estimated_seconds * self.factor + guesses


class WaitingLoad:
    """The sum of the expected run times of all tasks in a queue.

    A run time that is certain counts as it is. All other tasks are weighed by what the node has
    learned, and weighed again each time it has learned a tenth more: otherwise those that came
    before the first task had run would count as guesses for ever. So weighing costs O(types in the
    queue) a few dozen times in a run, and adding or removing a task costs O(1).
    """

    def __init__(self, times: LearnedTimes) -> None:
        self._times = times
        self._tasks = 0
        self._certain_seconds = 0.0
        self._other_seconds = 0.0
        self._waiting: dict[str, _Waiting] = {}
        self._weigh_at_runs = 1

    @property
    def seconds(self) -> float:
        return self._certain_seconds + self._other_seconds

    def add(self, entry: QueueEntry) -> None:
        self._tasks += 1
        given = estimate_of(entry.seconds, entry.spread)
        if given.spread == 0:
            self._certain_seconds += given.seconds
            return
        waiting = self._waiting.get(entry.task_type)
        if waiting is None:
            waiting = self._waiting[entry.task_type] = _Waiting()
            waiting.weigh_by(self._times, entry.task_type)
        self._other_seconds += waiting.change(given, 1)

    def remove(self, entry: QueueEntry) -> None:
        """Take out a task that was added; an empty queue has no load, not even by rounding."""
        self._tasks -= 1
        if not self._tasks:
            self._certain_seconds = self._other_seconds = 0.0
            self._waiting.clear()
            return
        given = estimate_of(entry.seconds, entry.spread)
        if given.spread == 0:
            self._certain_seconds -= given.seconds
            return
        waiting = self._waiting[entry.task_type]
        self._other_seconds -= waiting.change(given, -1)
        if not waiting.tasks:
            del self._waiting[entry.task_type]

    def weigh_again(self) -> None:
        """Weigh all tasks by what is known now, if enough was learned since they were weighed."""
        runs = self._times.runs
        if runs < self._weigh_at_runs:
            return
        self._weigh_at_runs = runs + max(runs // 10, 1)
        for task_type, waiting in self._waiting.items():
            waiting.weigh_by(self._times, task_type)
        self._other_seconds = sum(waiting.seconds for waiting in self._waiting.values())
