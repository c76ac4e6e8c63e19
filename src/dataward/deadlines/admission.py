"""Whether a workflow can be promised by a deadline: accepted with promises, or refused and why.

Run times are known with a spread, so futures are drawn, as for a forecast. Each task is reserved
for a quantile of its run time, the lowest with which the whole plan is kept in nine futures of ten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from dataward.deadlines.core_plan import CorePlan, FilePlaces, OpenWork, core_plan, open_work
from dataward.deadlines.local_schedule import QueueSlot
from dataward.deadlines.promising import NodeSchedule
from dataward.model.remaining import Remaining
from dataward.model.seeds import seeded
from dataward.model.workflow import Seconds
from dataward.plan.estimates import Estimated
from dataward.plan.task_times import DrawnTimes, known_times

SURE = 0.9  # how often a promise should hold
FUTURES = 200
FUTURES_MIN = 20
TASKS_DRAWN = 500_000  # in all futures together
TASKS_PLANNED = 60_000  # in all plans that are tried
SURE_MAX = 0.99  # what is estimated is never quite sure
LOWEST = 0.5  # the lowest quantile that is tried


@dataclass(frozen=True, slots=True, eq=False)
class WantedPromise:
    """A workflow that is to be promised, as far as it is open, and what is known of it.

    Every task holds its core for ``overhead_seconds`` more, and others can use what it made after
    ``lag_seconds``; ``disk_seconds`` are those in which each task reads and writes its files.
    ``plan_spread`` is how far plans are off in the whole, as a sigma, even if all run times are
    known. ``under_way`` tells on which core a task runs already; ``files`` is None if they need not
    be moved.
    """

    known: Estimated
    remaining: Remaining
    overhead_seconds: float = 0.0
    lag_seconds: float = 0.0
    plan_spread: float = 0.0
    under_way: Mapping[int, int] = field(default_factory=dict)
    files: FilePlaces | None = None
    disk_seconds: Seconds | None = None

    def work(self) -> OpenWork:
        return open_work(
            self.known.workflow,
            self.remaining.is_open.tolist(),
            self.lag_seconds,
            self.under_way,
            self.files,
        )


@dataclass(frozen=True, slots=True)
class AcceptedDeadline:
    """All tasks are promised. Times are on the clock of the schedules that were given.

    ``queues`` has for each core the slots that it has promised, earliest deadline first, each with
    a task's index. The workflow ends by ``finish`` with the probability ``sure``; half of the
    futures end by ``expected``, if nobody else comes in between.
    """

    queues: Mapping[int, Sequence[QueueSlot]]
    finish: float
    expected: float
    sure: float

    def later(self, seconds: float) -> "AcceptedDeadline":
        """The same promises on a clock that shows so many seconds more."""
        queues = {
            core: [slot._replace(deadline=slot.deadline + seconds) for slot in queue]
            for core, queue in self.queues.items()
        }
        return AcceptedDeadline(queues, self.finish + seconds, self.expected + seconds, self.sure)

    def deadlines(self) -> dict[int, float]:
        """By when each task ends at the latest."""
        return {slot.task: slot.deadline for queue in self.queues.values() for slot in queue}

    def cores(self) -> dict[int, list[int]]:
        """The cores that each task is promised by, in ascending order."""
        found: dict[int, list[int]] = {}
        for core, queue in self.queues.items():
            for slot in queue:
                found.setdefault(slot.task, []).append(core)
        return found


@dataclass(frozen=True, slots=True)
class RefusedDeadline:
    """Nothing is promised. ``earliest`` is the earliest finish that can be, infinite if none.

    ``path_seconds`` is the length of the critical path, if the deadline leaves less time than that;
    else 0. ``unknown`` are the types of tasks whose run times nothing is known of.
    """

    earliest: float = inf
    path_seconds: float = 0.0
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class BestPromise:
    """The plan that can be promised earliest, and when it ends in each future."""

    plan: CorePlan
    ends: Seconds
    finish: float  # the plan ends by then, and so do nine futures of ten
    path_seconds: float
    is_exact: bool

    def by(self, deadline: float) -> AcceptedDeadline:
        """The promises that follow from a deadline, which is not before ``finish``."""
        sure = float((self.ends <= deadline).mean())
        return AcceptedDeadline(
            self.plan.queues(deadline),
            deadline,
            float(np.median(self.ends)),
            sure if self.is_exact else min(sure, SURE_MAX),
        )

    def refusal(self, now: float, deadline: float) -> RefusedDeadline:
        """The answer to a deadline before ``finish``."""
        is_short = deadline - now < self.path_seconds
        return RefusedDeadline(self.finish, self.path_seconds if is_short else 0.0)


def admit(
    wanted: WantedPromise, cores: Sequence[NodeSchedule], now: float, deadline: float
) -> AcceptedDeadline | RefusedDeadline:
    """Whether the workflow is promised by the deadline. The same question has the same answer.

    A deadline that is not before the `earliest` of a refusal is accepted.
    """
    unknown = unknown_types(wanted)
    if unknown:
        return RefusedDeadline(unknown=unknown)
    best = best_promise(wanted, cores, now)
    return best.by(deadline) if deadline >= best.finish else best.refusal(now, deadline)


def unknown_types(wanted: WantedPromise) -> tuple[str, ...]:
    """The types of open tasks of which no task has an estimate, in the workflow's order."""
    workflow, spread = wanted.known.workflow, wanted.known.spread
    has_estimate = (spread < inf) & (workflow.runtime_seconds > 0)
    known = set(workflow.types[has_estimate].tolist())
    known |= set(workflow.types[wanted.remaining.measured_seconds > 0].tolist())
    opened = dict.fromkeys(workflow.types[wanted.remaining.is_open].tolist())
    return tuple(workflow.type_names[kind] for kind in sorted(opened) if kind not in known)


def best_promise(wanted: WantedPromise, cores: Sequence[NodeSchedule], now: float) -> BestPromise:
    """The promise with the earliest finish; something is known of every type of task.

    A higher quantile makes a plan longer, and the plan is kept more often. The lowest that suffices
    is found by halving; of all plans tried, the one that can be promised first is taken.
    """
    work = wanted.work()
    if not len(work):
        return BestPromise(core_plan(work, cores, [], now), np.full(1, now), now, 0.0, True)
    futures, is_exact = futures_of(wanted, work)
    factors = _plan_factors(wanted, len(futures))
    ranked = np.sort(futures, axis=0)
    low, high = int(LOWEST * (len(ranked) - 1)), len(ranked) - 1
    path = path_seconds_of(work, cores, ranked[low].tolist())
    tries = 1 if is_exact else max(min(TASKS_PLANNED // len(work), 6), 1)
    best: BestPromise | None = None
    while tries:
        tries -= 1
        middle = (low + high) // 2 if tries or best else ceil(0.75 * high)
        plan = core_plan(work, cores, ranked[middle].tolist(), now)
        ends = now + (plan.ends_if(futures) - now) * factors
        kept_by = float(np.quantile(ends, SURE, method="higher"))
        finish = max(plan.finish, kept_by)
        if best is None or finish < best.finish:
            best = BestPromise(plan, ends, finish, path, is_exact)
        low, high = (middle, high) if kept_by > plan.finish else (low, middle)
    assert best is not None
    return best


def futures_of(wanted: WantedPromise, work: OpenWork) -> tuple[NDArray[np.float64], bool]:
    """Futures, each a row of what the open tasks still take; and whether all are the same."""
    known, remaining = wanted.known, wanted.remaining
    tasks = list(work.tasks)
    if not known.spread[tasks].any() and not known.common:
        seconds = known.workflow.runtime_seconds[tasks].copy()
        for place in work.under_way:
            so_far = remaining.running.get(work.tasks[place], 0.0)
            seconds[place] = max(seconds[place] - so_far, 0.0)
        return seconds[None, :] + _beside(wanted, tasks), True
    times = known_times(known, remaining)
    assert times is not None, "something is known of every type"
    random = RandomState(seeded("admission").getrandbits(32))
    drawn = DrawnTimes(times, remaining, random)
    count = max(min(FUTURES, TASKS_DRAWN // len(work)), FUTURES_MIN)
    return np.array(list(drawn.futures(count))) + _beside(wanted, tasks), False


def _beside(wanted: WantedPromise, tasks: list[int]) -> Seconds:
    """For how long each task holds its core besides its run time."""
    beside = np.full(len(tasks), wanted.overhead_seconds)
    return beside if wanted.disk_seconds is None else beside + wanted.disk_seconds[tasks]


def _plan_factors(wanted: WantedPromise, count: int) -> Seconds:
    """By how much the whole takes longer than planned in each future."""
    random = RandomState(seeded("admission", "plans").getrandbits(32))
    factors: Seconds = np.exp(wanted.plan_spread * random.standard_normal(count))
    return factors


def path_seconds_of(
    work: OpenWork, cores: Sequence[NodeSchedule], seconds: Sequence[float]
) -> float:
    """The length of the critical path on the fastest core."""
    longest = [0.0] * len(work)
    for place in work.order:
        above = max((longest[p] + work.lag_seconds for p in work.parents[place]), default=0.0)
        longest[place] = above + seconds[place]
    return max(longest) / max(core.speed for core in cores)
