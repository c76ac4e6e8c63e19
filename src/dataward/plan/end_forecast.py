"""When a run will end, with a range: futures are drawn, and each is scheduled."""

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState

from dataward.model.remaining import Remaining
from dataward.model.seeds import seeded
from dataward.model.workflow import Seconds
from dataward.plan.critical_path import critical_path
from dataward.plan.estimates import Estimated
from dataward.plan.list_schedule import ListSchedule, Resources
from dataward.plan.task_times import DrawnTimes, known_times

FUTURES = 100
FUTURES_MIN = 20
TASKS_DRAWN = 500_000  # in all futures together: some 0.1 s
TASKS_SCHEDULED = 40_000  # likewise
LONG_SECONDS = 20.0  # a run that takes less is not worth as many futures: 0.2 s are 1% of this
SCHEDULED_MAX = 300_000  # a longer list of tasks is not scheduled, only bounded
RANGE = (5.0, 50.0, 95.0)  # percentiles: 90 of 100 runs should end within them
WIDEST = 2.0  # a wider range, as a share of the whole run, says nothing

# What a list schedule does not know. One node keeps to it within some percent; several nodes decide
# for themselves, and took up to 1.5 times as long (five applications on 4 to 64 nodes), never less.
SCHEDULE_SPREAD = 0.06
SHARE_MAX = 4.0
NODES_SPREAD = 0.22
STAGING_SPREAD = 0.35


@dataclass(frozen=True, slots=True)
class EndForecast:
    """How many seconds a run takes: as likely more as less, and in 9 of 10 cases within a range."""

    seconds: float
    low_seconds: float
    high_seconds: float

    def after(self, seconds: float) -> "EndForecast":
        """The same forecast from an earlier moment on."""
        return EndForecast(
            seconds + self.seconds, seconds + self.low_seconds, seconds + self.high_seconds
        )

    def left_after(self, seconds: float) -> "EndForecast | None":
        """What the forecast says that many seconds later; None if the run should have ended."""
        if seconds >= self.high_seconds:
            return None
        return EndForecast(
            max(self.seconds - seconds, 0.0),
            max(self.low_seconds - seconds, 0.0),
            self.high_seconds - seconds,
        )

    def holds(self, seconds: float) -> bool:
        return self.low_seconds <= seconds <= self.high_seconds


def either(one: EndForecast, other: EndForecast) -> EndForecast:
    """A forecast if nobody knows which of two cases it will be."""
    return EndForecast(
        (one.seconds + other.seconds) / 2,
        min(one.low_seconds, other.low_seconds),
        max(one.high_seconds, other.high_seconds),
    )


NO_TIME = EndForecast(0.0, 0.0, 0.0)


def forecast_end(
    known: Estimated, remaining: Remaining, resources: Resources, seed: int = 0
) -> EndForecast | None:
    """How long a run still takes; None if too little is known to say.

    That is so if no run time is known; or if nothing is known of some type of task, and the range
    is therefore much wider than the whole run is long.
    The same arguments give the same answer. Of many tasks fewer futures are drawn, and only some of
    them are scheduled: the others take as many times their own lower bound as those did.
    """
    if not remaining.is_open.any():
        return NO_TIME
    times = known_times(known, remaining)
    if times is None:
        return None
    random = RandomState(seeded(seed, "forecast").getrandbits(32))
    drawn = DrawnTimes(times, remaining, random)
    ends = _ends(known, remaining, resources, drawn, random)
    if resources.nodes > 1:
        crowd = min(int(remaining.is_open.sum()) / (2 * resources.cores), 1.0)
        stretch = NODES_SPREAD * crowd  # a few tasks find a free node each
        ends *= np.exp(stretch * np.maximum(random.standard_normal(len(ends)), 0.0))
    # The less of a run is left, the less errors even out in what is left.
    share = np.sqrt((remaining.at_seconds + ends) / np.maximum(ends, 1e-9))
    spread = SCHEDULE_SPREAD * np.minimum(share, SHARE_MAX)
    ends *= np.exp(spread * random.standard_normal(len(ends)))
    low, middle, high = np.percentile(ends, RANGE).tolist()
    if drawn.is_vague and high - low > WIDEST * (remaining.at_seconds + middle):
        return None
    return EndForecast(middle, low, high)


def _ends(
    known: Estimated,
    remaining: Remaining,
    resources: Resources,
    drawn: DrawnTimes,
    random: RandomState,
) -> Seconds:
    """When the run ends in each future."""
    workflow, is_open = known.workflow, remaining.is_open
    expected = np.zeros(len(workflow))
    expected[is_open] = drawn.expected()
    tasks = np.flatnonzero(is_open)
    width = np.minimum(workflow.cores[tasks], resources.cores)
    path = critical_path(workflow, expected).tasks
    rough = max(expected[tasks] @ width / resources.cores, expected[path].sum())
    count, scheduled = _numbers(len(tasks), rough)
    schedule = ListSchedule(workflow, remaining, expected, resources)
    # Files are what a core waits for. Of 4,000 commands `true` without any, each kept its core for
    # 0.06 ms longer than it ran.
    has_files = workflow.inputs.degrees() + workflow.outputs.degrees() > 0
    beside = resources.overhead_seconds * has_files[tasks]
    on_path = schedule.place[path[is_open[path]]]
    bounds, ends = np.empty(count), np.empty(scheduled)
    slowness = np.exp(STAGING_SPREAD * random.standard_normal(count))
    for i, seconds in enumerate(drawn.futures(count)):
        seconds = seconds / resources.speed + beside
        bounds[i] = max(seconds @ width / resources.cores, seconds[on_path].sum())
        if i < scheduled:
            ends[i] = schedule.end_seconds(seconds.tolist(), float(slowness[i]))
    if scheduled == count:
        return ends
    over = float((ends / np.maximum(bounds[:scheduled], 1e-9)).mean()) if scheduled else 1.0
    return bounds * over


def _numbers(tasks: int, rough_seconds: float) -> tuple[int, int]:
    """How many futures are drawn, and how many of them are scheduled."""
    effort = min(rough_seconds / LONG_SECONDS, 1.0)
    count = min(FUTURES * effort, TASKS_DRAWN / tasks)
    count = max(round(count), FUTURES_MIN)
    if tasks > SCHEDULED_MAX:
        return count, 0
    return count, min(count, max(TASKS_SCHEDULED // tasks, 1))
