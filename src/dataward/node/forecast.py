"""When this node could start a task, by what it has under way and what waits."""

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from math import exp, inf

from dataward.model.estimate import Estimate, estimate_of
from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId
from dataward.node.attempts import UnderWay
from dataward.node.learned_times import LearnedTimes

LATE_SHARE = 0.2  # a task that is sure to run for a minute is late after so much more of it
OVERDUE_SHARE = 0.25  # what an overdue task still takes, as a share of what it has taken


def expected_seconds(entry: QueueEntry, times: LearnedTimes) -> float:
    """How long a task should run here."""
    return times.expected_seconds(estimate_of(entry.seconds, entry.spread), entry.task_type)


def remaining_seconds(attempt: UnderWay, now: float, times: LearnedTimes) -> float:
    """How long an attempt that runs should still keep its core."""
    elapsed = now - (now if attempt.started_at is None else attempt.started_at)
    expected = expected_seconds(attempt.entry, times)
    return expected - elapsed if elapsed <= expected else OVERDUE_SHARE * elapsed


def overrun_seconds(attempt: UnderWay, now: float, times: LearnedTimes) -> float:
    """By how much an attempt that runs has taken longer than was estimated."""
    if attempt.started_at is None or attempt.has_run or attempt.entry.spread == inf:
        return 0.0
    return max(now - attempt.started_at - attempt.entry.seconds / times.speed, 0.0)


def cores_free_in(
    attempts: Iterable[UnderWay],
    cores: int,
    now: float,
    times: LearnedTimes,
    taken_seconds: Sequence[float] = (),
) -> list[float]:
    """In how many seconds each core is free of the attempts that run: a heap.

    Others may have had some of the cores for so many seconds: nobody knows for how much longer, so
    it is taken to be for as long again.
    """
    running = [remaining_seconds(a, now, times) for a in attempts if a.runs]
    free = sorted([*running, *taken_seconds])[-cores:]
    free = [0.0] * (cores - len(free)) + free
    heapify(free)
    return free


def starts_in(
    entries: Sequence[QueueEntry], free: list[float], times: LearnedTimes
) -> dict[TaskId, float]:
    """In how many seconds each of these tasks would start, in this order, as cores are free.

    ``free`` is changed: afterwards it says when cores are free of these tasks too.
    """
    starts = {}
    for entry in entries:
        starts[entry.task] = free[0]
        heapreplace(free, free[0] + expected_seconds(entry, times))
    return starts


def late_after_seconds(entry: QueueEntry, times: LearnedTimes) -> float:
    """After how many seconds of running a task is late.

    That is when nineteen of twenty tasks with such an estimate would have ended. The estimate is
    the one that was given for this machine, and not what the node has learned: a node that has
    become slow knows it.
    """
    given = times.here(estimate_of(entry.seconds, entry.spread))
    learned = times.estimate(entry.task_type)
    known: Estimate = given if given.spread <= learned.spread else learned
    return known.seconds * max(1 + LATE_SHARE, exp(min(2 * known.spread, 20.0)))
