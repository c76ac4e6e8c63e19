"""What a node has learned of run times from the tasks that it has run.

Run times are those of this node: a task takes longer on a slow machine, and its load should say so.
Estimates are those of a machine of speed 1.
"""

from collections.abc import Iterator
from itertools import islice
from math import exp, inf, log, log1p, sqrt

from dataward.model.estimate import GUESS, Estimate

LEAST_SECONDS = 0.001  # a shorter run costs its node as much, and measures only overhead
ONE_RUN_SPREAD = 1.0  # what is assumed of a type that has run once
TYPES_MAX = 10_000  # a node that lives long may see any number; the first one known goes first


class RunningMean:
    """The mean and the variance of numbers, updated number by number (Welford)."""

    __slots__ = ("_squares", "count", "mean")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)

    @property
    def variance(self) -> float:
        return self._squares / (self.count - 1) if self.count > 1 else 0.0


class _Learned:
    """What is known of one type of task, or of all."""

    __slots__ = ("errors", "seconds")

    def __init__(self) -> None:
        self.seconds = RunningMean()
        self.errors = RunningMean()  # logarithms of measured over estimated run times

    def add(self, seconds: float, error: float | None) -> None:
        self.seconds.add(seconds)
        if error is not None:
            self.errors.add(error)


_NOTHING = _Learned()


class LearnedTimes:
    """Run times by type of task: the mean where a task has no estimate, a correction where it has.

    The mean of all tasks stands in for a type that has not run.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed  # of this node's machine
        self._all = _Learned()
        self._by_type: dict[str, _Learned] = {}  # in the order in which they first ran
        self.types_seen = 0  # how many have come to be known, with those forgotten since

    def knows(self, task_type: str) -> bool:
        """Whether a task of this type has run."""
        return task_type in self._by_type

    def types_since(self, seen: int) -> Iterator[str]:
        """The types that have come to be known since so many were, the latest first."""
        return islice(reversed(self._by_type), self.types_seen - seen)

    def here(self, given: Estimate) -> Estimate:
        """An estimate as it holds on this node's machine."""
        return given if self.speed == 1.0 else Estimate(given.seconds / self.speed, given.spread)

    def learn(self, task_type: str, seconds: float, estimated_seconds: float = 0.0) -> None:
        """Record how long a completed task ran, and its estimate, if it had one."""
        learned = self._by_type.get(task_type)
        if learned is None:
            if len(self._by_type) >= TYPES_MAX:
                del self._by_type[next(iter(self._by_type))]
            learned = self._by_type[task_type] = _Learned()
            self.types_seen += 1
        seconds = max(seconds, LEAST_SECONDS)
        error = None
        if estimated_seconds > 0:
            error = log(seconds / max(estimated_seconds / self.speed, LEAST_SECONDS))
        learned.add(seconds, error)
        self._all.add(seconds, error)

    @property
    def runs(self) -> int:
        """How many completed tasks were learned from."""
        return self._all.seconds.count

    @property
    def average_seconds(self) -> float:
        """The average run time of completed tasks, of all types; 0 if there are none."""
        return self._all.seconds.mean

    def estimate(self, task_type: str | None) -> Estimate:
        """The mean run time of this type and its spread; of all types if this has not run.

        None stands for any type that has not run.
        """
        learned = (self._of(task_type) or self._all).seconds
        if not learned.count:
            return GUESS
        if learned.count == 1:
            return Estimate(learned.mean, ONE_RUN_SPREAD)
        return Estimate(learned.mean, sqrt(log1p(learned.variance / learned.mean**2)))

    def factor(self, task_type: str | None) -> float:
        """By how much estimates of this type were too short; below 1 if they were too long.

        This is the geometric mean of measured over estimated run times: one task that took a
        thousand times as long as estimated moves the mean of ten by a factor of 2, and errors to
        both sides cancel out. A type has to show its error: no error counts as one more task among
        all, and the error of all as one more task of the type.
        """
        pooled = _drawn_to(0.0, self._all.errors)
        return exp(_drawn_to(pooled, (self._of(task_type) or _NOTHING).errors))

    def _of(self, task_type: str | None) -> _Learned | None:
        return None if task_type is None else self._by_type.get(task_type)

    def expected_seconds(self, given: Estimate, task_type: str) -> float:
        """How long a task of this type should run, by its own estimate and by what was learned."""
        given = self.here(given)
        if given.spread == 0:
            return given.seconds
        if given.spread < inf:
            return given.seconds * self.factor(task_type)
        learned = self.estimate(task_type)
        return learned.seconds if learned is not GUESS else given.seconds


def _drawn_to(prior: float, known: RunningMean) -> float:
    """The mean of these numbers, with one more number that was not measured."""
    return (prior + known.count * known.mean) / (known.count + 1)
