"""How much work waits in a node's ready queue, by what is known of run times now."""

from math import inf

from dataward.model.estimate import Estimate, estimate_of
from dataward.model.operations import QueueEntry
from dataward.node.learned_times import LearnedTimes


class _Waiting:
    """Waiting tasks whose run times are not certain, all weighed alike."""

    __slots__ = ("estimated_seconds", "factor", "guessed_seconds", "guesses", "mean", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self.estimated_seconds = 0.0  # of tasks that have estimates of their own
        self.guesses = 0  # tasks that have none
        self.guessed_seconds = 0.0  # what those count as if nothing was learned
        self.factor = 1.0
        self.mean = 0.0  # 0: nothing was learned

    def weigh_by(self, times: LearnedTimes, task_type: str | None) -> None:
        self.factor = times.factor(task_type)
        learned = times.estimate(task_type)
        self.mean = learned.seconds if learned.spread < inf else 0.0

    def change(self, given: Estimate, count: int) -> None:
        """Count a task that comes (``count`` 1) or leaves (-1)."""
        self.tasks += count
        if given.spread < inf:
            self.estimated_seconds += count * given.seconds
        else:
            self.guesses += count
            self.guessed_seconds += count * given.seconds

    def weight(self, given: Estimate) -> float:
        """What a task counts for."""
        if given.spread < inf:
            return given.seconds * self.factor
        return self.mean or given.seconds

    def take_over(self, others: "_Waiting", count: int) -> None:
        """Count the tasks of others too (``count`` 1), or no longer (-1)."""
        self.tasks += count * others.tasks
        self.estimated_seconds += count * others.estimated_seconds
        self.guesses += count * others.guesses
        self.guessed_seconds += count * others.guessed_seconds

    @property
    def seconds(self) -> float:
        guesses = self.guesses * self.mean if self.mean else self.guessed_seconds
        return self.estimated_seconds * self.factor + guesses


def _is_certain(entry: QueueEntry) -> bool:
    return entry.spread == 0 and entry.seconds > 0


class WaitingLoad:
    """The sum of the expected run times of all tasks in a queue.

    A run time that is certain counts as it is. All other tasks are weighed by what the node has
    learned, and weighed again each time it has learned a tenth more: otherwise those that came
    before the first task had run would count as guesses for ever. Tasks of all types that have not
    run here are weighed alike, and together: there may be as many types as tasks. So weighing
    costs O(types in the queue that have run) a few dozen times in a run, and adding or removing a
    task costs O(1).
    """

    def __init__(self, times: LearnedTimes) -> None:
        self._times = times
        self._tasks = 0
        self._certain_seconds = 0.0
        self._other_seconds = 0.0
        self._waiting: dict[str, _Waiting] = {}  # by type
        self._known: dict[str, _Waiting] = {}  # those of types that have run
        self._strange = _Waiting()  # all others together
        self._types_seen = 0  # of how many types it was looked whether they wait
        self._weigh_at_runs = 1

    @property
    def seconds(self) -> float:
        return self._certain_seconds + self._other_seconds

    def add(self, entry: QueueEntry) -> None:
        self._tasks += 1
        if _is_certain(entry):
            self._certain_seconds += entry.seconds / self._times.speed
            return
        given = self._times.here(estimate_of(entry.seconds, entry.spread))
        waiting = self._waiting.get(entry.task_type)
        if waiting is None:
            waiting = self._waiting[entry.task_type] = _Waiting()
            if self._times.knows(entry.task_type):
                waiting.weigh_by(self._times, entry.task_type)
                self._known[entry.task_type] = waiting
        self._change(waiting, entry, given, 1)

    def remove(self, entry: QueueEntry) -> None:
        """Take out a task that was added; an empty queue has no load, not even by rounding."""
        self._tasks -= 1
        if not self._tasks:
            self._certain_seconds = self._other_seconds = 0.0
            self._waiting.clear()
            self._known.clear()
            self._strange = _Waiting()
            return
        if _is_certain(entry):
            self._certain_seconds -= entry.seconds / self._times.speed
            return
        given = self._times.here(estimate_of(entry.seconds, entry.spread))
        waiting = self._waiting[entry.task_type]
        self._change(waiting, entry, given, -1)
        if not waiting.tasks:
            del self._waiting[entry.task_type]
            self._known.pop(entry.task_type, None)

    def _change(self, waiting: _Waiting, entry: QueueEntry, given: Estimate, count: int) -> None:
        waiting.change(given, count)
        if entry.task_type in self._known:
            self._other_seconds += count * waiting.weight(given)
            return
        if not self._strange.tasks:
            self._strange = _Waiting()
            self._strange.weigh_by(self._times, None)
        self._strange.change(given, count)
        self._other_seconds += count * self._strange.weight(given)

    def weigh_again(self) -> None:
        """Weigh all tasks by what is known now, if enough was learned since they were weighed."""
        runs = self._times.runs
        if runs < self._weigh_at_runs:
            return
        self._weigh_at_runs = runs + max(runs // 10, 1)
        self._sort_types()
        for task_type, waiting in self._known.items():
            waiting.weigh_by(self._times, task_type)
        if not self._strange.tasks:
            self._strange = _Waiting()  # without what rounding has left
        self._strange.weigh_by(self._times, None)
        self._other_seconds = self._strange.seconds
        self._other_seconds += sum(waiting.seconds for waiting in self._known.values())

    def _sort_types(self) -> None:
        """Tell types that have run since they were last sorted from those that have not."""
        for task_type in self._times.types_since(self._types_seen):
            waiting = self._waiting.get(task_type)
            if waiting is not None and task_type not in self._known:
                self._known[task_type] = waiting
                self._strange.take_over(waiting, -1)
        self._types_seen = self._times.types_seen
