"""Draws run times that the open tasks of a run may have, given estimates and what was measured.

The logarithm of a run time is that of its estimate, plus an error that all tasks of the run share
(the machine is slow today), one that tasks of its type share, and one of its own. All three are
normal. What the run has measured narrows the first two, and tells how large the third is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from dataward.model.remaining import Remaining
from dataward.model.workflow import Seconds
from dataward.plan.estimates import Estimated

LEAST_SECONDS = 0.001  # shorter runs measure only overhead
GUESSED_SPREAD = 1.0  # of a task whose estimate is the mean of its type in earlier runs
UNSEEN_SPREAD = 1.0  # of types without any estimate, around the mean of types
UNSEEN_SPREAD_MAX = 1.5
WITHIN_SPREAD = 0.5  # of tasks within such a type
# How many tasks, or types, an assumption about spreads counts as, beside those that were measured.
ASSUMED_TASKS = 3.0
ASSUMED_TYPES = 2.0
# Types are never known better than so: tasks that come later may be of another size.
LEAST_SHARED_SPREAD = 0.03
ALL_SHARE, TYPE_SHARE = 0.8, 0.6  # of an error that is common: 0.8² + 0.6² = 1
FEW = 4  # James and Stein need so many
ALIKE_TASKS = 6.0  # tasks that all types together count as, for how much a type's tasks differ
CHANCE = 0.25
PROPOSALS = 16  # for each draw, if tasks under way have something to say
REDRAWS = 6
LASTING = 1.2  # the power by which the chance falls that an unknown task runs longer


IsKnown = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TaskTimes:
    """What is known of the run times of tasks: ``centre`` is the median's logarithm.

    Families are types of tasks, apart for tasks with an estimate (even numbers) and without (odd).
    """

    centre: Seconds  # by task
    own: Seconds  # the variance of each task's own error
    family: NDArray[np.int64]  # of each task
    shared: Seconds  # the variance of each family's error, before anything is measured
    overall: tuple[float, float]  # of the errors of all tasks, with an estimate and without


def known_times(known: Estimated, remaining: Remaining) -> TaskTimes | None:
    """What estimates, and the run so far, say of run times; None if they say nothing at all."""
    workflow, measured = known.workflow, remaining.measured_seconds
    seconds, kinds = workflow.runtime_seconds, workflow.types.astype(np.int64)
    is_known = seconds > 0
    if not (is_known.any() or measured.any()):
        return None
    spread = np.where(known.spread == inf, GUESSED_SPREAD, known.spread)
    common = known.common * spread
    family = 2 * kinds + ~is_known
    count = 2 * len(workflow.type_names)
    centre = np.zeros(len(workflow))
    centre[is_known] = np.log(np.maximum(seconds[is_known], LEAST_SECONDS))
    own = spread**2
    shared = np.full(count, LEAST_SHARED_SPREAD**2)
    sizes = np.maximum(np.bincount(family, minlength=count), 1)
    if is_known.any():
        shared += np.bincount(family, (TYPE_SHARE * common) ** 2, count) / sizes
        _draw_in(centre, own, shared, family, is_known)
    overall = float((ALL_SHARE * common[is_known]).mean()) ** 2 if is_known.any() else 0.0
    unseen = _unseen(centre, measured, kinds, is_known)
    centre[~is_known] = unseen[0][kinds[~is_known]]
    own[~is_known] = WITHIN_SPREAD**2
    shared[1::2] = unseen[1]
    return TaskTimes(centre, own, family, shared, (overall, unseen[2]))


def _draw_in(
    centre: Seconds, own: Seconds, shared: Seconds, family: NDArray[np.int64], known: IsKnown
) -> None:
    """Draw estimates towards the mean of their family, as far as their differences are errors.

    Estimates differ because tasks do, and because estimates are wrong. An estimate that is far
    above the others is probably too high (James and Stein): without this, sums of many estimates
    would be too high, at a spread of 0.5 by a quarter, and the longest of several even more. Tasks
    that are alone in their family are drawn towards the mean of all families.
    """
    count = len(shared)
    numbers = np.bincount(family[known], minlength=count)
    means = np.bincount(family[known], centre[known], count) / np.maximum(numbers, 1)
    errors = np.bincount(family[known], own[known], count) / np.maximum(numbers, 1)
    squares = np.bincount(family[known], (centre - means[family])[known] ** 2, count)
    freedom = np.maximum(numbers - 1, 0)
    pooled = squares.sum() / max(freedom.sum(), 1)
    variance = (ALIKE_TASKS * pooled + squares) / (ALIKE_TASKS + freedom)
    kept = np.where(variance > 0, 1.0 - errors / np.where(variance > 0, variance, 1.0), 0.0)
    kept = np.where(numbers > 1, np.maximum(kept, 0.0), 1.0)
    towards = means.copy()
    types = np.flatnonzero(numbers)
    if len(types) >= FEW:
        alone = numbers == 1
        between = float(means[types].var(ddof=1))
        share = (len(types) - 3) / (len(types) - 1)
        kept[alone] = np.maximum(1.0 - share * errors[alone] / max(between, 1e-9), 0.0)
        towards[alone] = means[types].mean()
    drawn = towards[family] + kept[family] * (centre - towards[family])
    centre[known] = drawn[known]
    # That estimates seem to differ by their errors alone may be chance.
    floor = CHANCE * (2.0 / (freedom + ALIKE_TASKS)) ** 0.5
    own[known] *= np.maximum(kept, floor)[family[known]]
    # A forecast adds run times up, and long tasks are rarer than short ones: let the mean of what
    # is drawn be the estimate, not the median.
    centre[known] -= own[known] / 2
    shared += np.where(numbers > 1, (1.0 - kept) * errors / np.maximum(numbers, 1), 0.0)


def _unseen(
    centre: Seconds, measured: Seconds, kinds: NDArray[np.int64], known: IsKnown
) -> tuple[Seconds, Seconds, float]:
    """For tasks without an estimate, by type: a centre, its variance; and that of all centres.

    A type with estimates for other tasks takes their mean. Another type is like any type: what is
    measured of it counts later, like every measurement.
    """
    count = int(kinds.max()) + 1
    per_type = np.bincount(kinds[known], centre[known], count)
    numbers = np.bincount(kinds[known], minlength=count)
    has_run = measured > 0
    logs = np.log(np.maximum(measured[has_run], LEAST_SECONDS))
    runs = np.bincount(kinds[has_run], minlength=count)
    means = np.where(
        numbers > 0,
        per_type / np.maximum(numbers, 1),
        np.bincount(kinds[has_run], logs, count) / np.maximum(runs, 1),
    )
    seen = means[(numbers > 0) | (runs > 0)]
    middle = float(seen.mean())
    off = float(((seen - middle) ** 2).sum())
    variance = (ASSUMED_TYPES * UNSEEN_SPREAD**2 + off) / (ASSUMED_TYPES + len(seen) - 1)
    variance = min(variance, UNSEEN_SPREAD_MAX**2)
    centres = np.where(numbers > 0, means, middle)
    variances = np.where(numbers > 0, WITHIN_SPREAD**2, variance)
    return centres, variances, variance / len(seen)


class DrawnTimes:
    """Futures: for each, how long every open task still runs, or is to run."""

    def __init__(self, times: TaskTimes, remaining: Remaining, random: RandomState) -> None:
        self._random = random
        self._tasks = np.flatnonzero(remaining.is_open)
        self._times = times
        self._families = len(times.shared)
        place = {task: i for i, task in enumerate(self._tasks.tolist())}
        self.running = [place[task] for task in remaining.running if task in place]
        self._so_far = np.array([s for t, s in remaining.running.items() if t in place])
        self._ended = [place[task] for task in remaining.ended if task in place]
        self._learn(remaining)
        self._centre = times.centre[self._tasks]
        self._sigma = np.sqrt(times.own * self._widened[times.family])[self._tasks]
        self._family = times.family[self._tasks]

    def _learn(self, remaining: Remaining) -> None:
        """Sums of what was measured, by family; ``_widened`` says how wrong own spreads are."""
        times, measured = self._times, remaining.measured_seconds
        ran = np.flatnonzero(measured)
        family = times.family[ran]
        off = np.log(np.maximum(measured[ran], LEAST_SECONDS)) - times.centre[ran]
        self._runs = np.bincount(family, minlength=self._families)
        self._off = np.bincount(family, off, self._families) / np.maximum(self._runs, 1)
        tasks = np.maximum(np.bincount(times.family, minlength=self._families), 1)
        expected = np.bincount(times.family, times.own, self._families) / tasks
        squares = np.bincount(family, (off - self._off[family]) ** 2, self._families)
        freedom = np.maximum(self._runs - 1, 0)
        self._own = (ASSUMED_TASKS * expected + squares) / (ASSUMED_TASKS + freedom)
        self._own = np.maximum(self._own, LEAST_SHARED_SPREAD**2)
        self._widened = np.where(expected > 0, self._own / np.where(expected > 0, expected, 1), 0.0)

    @property
    def is_vague(self) -> bool:
        """Whether nothing is known of some type of task but how long other types take."""
        family = self._family
        return bool(((family % 2 == 1) & (self._runs[family] == 0)).any())

    def expected(self) -> Seconds:
        """The median run time of each open task, without what has run of it."""
        errors = self._common(np.zeros(1), np.zeros((1, self._families)))[0]
        seconds: Seconds = np.exp(self._centre + errors[self._family])
        return seconds

    def futures(self, count: int) -> Iterator[Seconds]:
        """``count`` futures: each the seconds left of each open task, in their order."""
        for errors in self._likely(count):
            centre = self._centre + errors[self._family]
            logs = centre + self._sigma * self._random.standard_normal(len(centre))
            seconds = np.exp(logs)
            if self.running:
                place = self.running
                seconds[place] = self._left(centre[place], self._sigma[place])
            seconds[self._ended] = 0.0
            yield seconds

    def _likely(self, count: int) -> Seconds:
        """Common errors by family, for each future.

        That a task still runs says that its errors are not too far below. So more errors are drawn
        than needed, and chosen by how likely it is that all running tasks last so long with them.
        """
        many = count * PROPOSALS if self.running else count
        random = self._random
        errors = self._common(
            random.standard_normal(many), random.standard_normal((many, self._families))
        )
        if not self.running:
            return errors
        self._outlast(errors)
        place = self.running
        centre = self._centre[place] + errors[:, self._family[place]]
        chances = _log_chance_above(self._lateness(centre, self._sigma[place])).sum(axis=1)
        weights = np.exp(chances - chances.max())
        chosen: Seconds = errors[random.choice(many, count, p=weights / weights.sum())]
        return chosen

    def _outlast(self, errors: Seconds) -> None:
        """Make tasks of types of which nothing was known last at least as long as they have run.

        What was assumed of such a type says little once a task of it runs for longer. Then the
        chance that it takes twice as long in all is about a half, however long it has run.
        """
        longest: dict[int, float] = {}
        for place, so_far in zip(self.running, self._so_far.tolist(), strict=True):
            kind = int(self._family[place])
            if kind % 2 and not self._runs[kind] and so_far > LEAST_SECONDS:
                off = float(np.log(so_far) - self._centre[place])
                longest[kind] = max(off, longest.get(kind, off))
        for kind, off in longest.items():
            tail = off + self._random.standard_exponential(len(errors)) / LASTING
            errors[:, kind] = np.where(errors[:, kind] < off, tail, errors[:, kind])

    def _common(self, overall: Seconds, by_family: Seconds) -> Seconds:
        """Errors of families, from standard normal numbers; each row is one draw of all.

        The error of all tasks is drawn first, given what was measured of every family, and then
        that of each family, given that of all.
        """
        shared, own, runs = self._times.shared, self._own, self._runs
        errors = np.empty((len(overall), self._families))
        for known, variance in enumerate(self._times.overall):
            mine = slice(known, None, 2)
            weight = np.where(
                runs[mine] > 0, 1 / (shared[mine] + own[mine] / np.maximum(runs[mine], 1)), 0.0
            )
            precision = 1 / variance + weight.sum() if variance > 0 else inf
            of_all = (weight @ self._off[mine] / precision + overall / precision**0.5)[:, None]
            within = 1 / shared[mine] + runs[mine] / own[mine]
            mean = runs[mine] / own[mine] * (self._off[mine] - of_all) / within
            errors[:, mine] = of_all + mean + by_family[:, mine] / within**0.5
        return errors

    def _lateness(self, centre: Seconds, sigma: Seconds) -> Seconds:
        """By how many sigmas tasks have run longer than they should in all."""
        so_far = np.log(np.maximum(self._so_far, LEAST_SECONDS / 10))
        late: Seconds = (so_far - centre) / np.maximum(sigma, LEAST_SHARED_SPREAD)
        return late

    def _left(self, centre: Seconds, sigma: Seconds) -> Seconds:
        """What is left of running tasks: their run times, drawn among those above what has run."""
        late, sigma = self._lateness(centre, sigma), np.maximum(sigma, LEAST_SHARED_SPREAD)
        drawn = _normal_above(late, self._random)
        left: Seconds = np.maximum(np.exp(centre + sigma * drawn) - self._so_far, 0.0)
        return left


def _log_chance_above(lateness: Seconds) -> Seconds:
    """The logarithm of the chance that a standard normal number is above; good to 0.01 or 5%."""
    tail = np.maximum(lateness, 1.0)
    far = -0.5 * tail**2 - np.log(tail * 2.5066) - np.log1p(1 / tail**2)
    near = -np.logaddexp(0.0, 1.5976 * lateness + 0.07056 * lateness**3)
    chance: Seconds = np.where(lateness > 2.0, far, near)
    return chance


def _normal_above(least: Seconds, random: RandomState) -> Seconds:
    """Standard normal numbers, each above its own least number."""
    drawn = random.standard_normal(len(least))
    for _ in range(REDRAWS):
        below = drawn < least
        if not below.any():
            return drawn
        drawn[below] = random.standard_normal(int(below.sum()))
    below = drawn < least
    # Far out, the tail is nearly that of a Rayleigh distribution.
    far = np.sqrt(np.maximum(least, 0.0) ** 2 - 2 * np.log(1 - random.random_sample(len(least))))
    found: Seconds = np.where(below, np.maximum(far, least), drawn)
    return found
