"""The MATRIX bound for the paper's four benchmark workloads, up to 128K cores and 128M tasks.

The workloads are never built: each task's random numbers can be drawn directly, and trees are
walked in pieces, so memory stays in the tens of megabytes.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dataward.errors import SettingError
from dataward.model.workflow import Seconds
from dataward.plan.matrix_bound import (
    MatrixBound,
    MatrixSettings,
    Reading,
    bound_of,
    move_seconds,
    queue_waits,
    ready_times,
)

PIECE = 1 << 17  # how many tasks' children are walked at once
CORES_PUBLISHED = 128 * 1024


class BenchmarkShape(Enum):
    BAG = "bag"
    PIPELINE = "pipeline"
    FAN_OUT = "fan-out"
    FAN_IN = "fan-in"


# The paper's section 4.2.3, at 128K cores and 128M tasks.
TASKS_PER_SECOND_PUBLISHED = {
    BenchmarkShape.BAG: 2.33e6,
    BenchmarkShape.PIPELINE: 1.85e6,
    BenchmarkShape.FAN_OUT: 1.16e6,
    BenchmarkShape.FAN_IN: 852.15e3,
}


@dataclass(frozen=True, slots=True)
class Workload:
    """The paper's Table 3: run times and outputs are uniform from 0 to their ``max``."""

    tasks_per_core: int = 1000
    degree: int = 10  # of the fan-in and fan-out, and the length of a pipe
    runtime_seconds_max: float = 0.1
    output_bytes_max: int = 10_000_000
    seed: int = 0

    def runtimes(self, first: int, count: int) -> Seconds:
        """The run times of ``count`` tasks from ``first`` on. Each depends only on its task."""
        return _uniform(self.seed, 0, first, count) * self.runtime_seconds_max

    def outputs(self, first: int, count: int) -> Seconds:
        """The outputs of ``count`` tasks from ``first`` on, in whole bytes."""
        return np.floor(_uniform(self.seed, 1, first, count) * self.output_bytes_max)


def benchmark_bound(
    shape: BenchmarkShape,
    cores: int,
    reading: Reading = Reading.PRINTED,
    settings: MatrixSettings | None = None,
    workload: Workload | None = None,
) -> MatrixBound:
    """The bound of one workload of ``tasks_per_core`` tasks for every core.

    It equals ``matrix_bound`` of the same workload built as a workflow, except that l and the work
    done are expected values. Fan-out and fan-in are complete trees, filled level by level, in which
    task i feeds (or is fed by) tasks ``degree * i + 1`` to ``degree * (i + 1)``, as in the authors'
    generator; the last pipe may be shorter.
    """
    settings, workload = settings or MatrixSettings(), workload or Workload()
    if cores < 1 or workload.tasks_per_core < 1 or workload.degree < 2:
        raise SettingError("give at least 1 core, 1 task a core, and a degree of 2")
    run = _Run(cores, workload.tasks_per_core * cores, settings, workload, reading)
    walk = {
        BenchmarkShape.BAG: run.bag,
        BenchmarkShape.PIPELINE: run.pipeline,
        BenchmarkShape.FAN_OUT: run.fan_out,
        BenchmarkShape.FAN_IN: run.fan_in,
    }[shape]
    return bound_of(walk(), run.tasks, run.tasks * run.mean_seconds, cores)


def fan_widths(tasks: int, degree: int) -> NDArray[np.int64]:
    """How many tasks each depth of a tree has, starting with the root."""
    widths, left, width = [], tasks, 1
    while left > 0:
        widths.append(min(width, left))
        left -= width
        width *= degree
    return np.array(widths, dtype=np.int64)


def fan_in_counts(tasks: int, degree: int) -> NDArray[np.int64]:
    """How many tasks of a fan-in are on each level; tasks without parents are on level 0."""
    deepest = len(fan_widths(tasks, degree)) - 1
    counts = np.zeros(deepest + 1, dtype=np.int64)
    first, width, leftmost = 0, 1, _leftmost(deepest, degree)
    for depth in range(deepest + 1):
        # Task i of this depth has a descendant on the deepest level if its leftmost one exists.
        reach = degree ** (deepest - depth)
        width = min(width, tasks - first)
        full = min(width, -((leftmost - tasks) // reach))
        counts[deepest - depth] += full
        if width > full:
            counts[deepest - depth - 1] += width - full
        first, width = first * degree + 1, width * degree
    return counts


def _leftmost(depth: int, degree: int) -> int:
    return sum(degree**above for above in range(depth))


@dataclass(frozen=True, slots=True)
class _Run:
    cores: int
    tasks: int
    settings: MatrixSettings
    workload: Workload
    reading: Reading

    @property
    def mean_seconds(self) -> float:
        return self.workload.runtime_seconds_max / 2 + self.settings.overhead_seconds

    @property
    def task_move(self) -> float:
        task = np.array([self.settings.task_bytes])
        return float(move_seconds(task, self.cores, self.settings)[0])

    def waits(self, counts: NDArray[np.int64]) -> list[float]:
        means = np.full(len(counts), self.mean_seconds)
        squares = means**2 + self.workload.runtime_seconds_max**2 / 12
        per_node = self.settings.cores_per_node
        waits = queue_waits(counts, means, squares, self.cores, per_node, self.reading)
        return [float(wait) for wait in waits]

    def own(self, first: int, count: int) -> Seconds:
        return self.workload.runtimes(first, count) + self.settings.overhead_seconds

    def moves(self, first: int, count: int) -> Seconds:
        return move_seconds(self.workload.outputs(first, count), self.cores, self.settings)

    def bag(self) -> float:
        (wait,) = self.waits(np.array([self.tasks]))
        pieces = range(0, self.tasks, PIECE)
        return wait + max(
            float(self.own(first, min(PIECE, self.tasks - first)).max()) for first in pieces
        )

    def pipeline(self) -> float:
        """The makespan. A task moves to its parent's node, or the data move if sooner."""
        size = self.workload.degree
        places = np.arange(min(size, self.tasks))
        wait = np.array(self.waits((self.tasks - places + size - 1) // size))
        longest = 0.0
        for first in range(0, self.tasks, PIECE * size):
            count = min(PIECE * size, self.tasks - first)
            own = self.own(first, count)
            step = np.minimum(self.moves(first, count), self.task_move)
            place = np.arange(count) % size
            spent = own + wait[place]
            spent[1:] += np.where(place[1:] > 0, step[:-1], 0.0)
            longest = max(longest, float(np.add.reduceat(spent, np.arange(0, count, size)).max()))
        return longest

    def fan_out(self) -> float:
        waits = self.waits(fan_widths(self.tasks, self.workload.degree))
        return self._spread(0, self.own(0, 1) + waits[0], waits, 1)

    def _spread(self, first: int, ends: Seconds, waits: list[float], depth: int) -> float:
        """The latest end among ``len(ends)`` tasks from ``first`` on and all their descendants.

        ``ends`` are those tasks' own ends.
        """
        if len(ends) > PIECE:
            return max(
                self._spread(first + at, ends[at : at + PIECE], waits, depth)
                for at in range(0, len(ends), PIECE)
            )
        degree = self.workload.degree
        child = first * degree + 1
        count = min(len(ends) * degree, self.tasks - child)
        if count <= 0:
            return float(ends.max())
        step = np.minimum(self.moves(first, len(ends)), self.task_move)
        below = np.repeat(ends + step, degree)[:count] + self.own(child, count) + waits[depth]
        # A task ends before its children, but the last tasks may have no children.
        return max(float(ends.max()), self._spread(child, below, waits, depth + 1))

    def fan_in(self) -> float:
        return float(
            self._gather(0, 1, self.waits(fan_in_counts(self.tasks, self.workload.degree)))[0]
        )

    def _gather(self, first: int, count: int, waits: list[float]) -> Seconds:
        """The ends of ``count`` tasks of one depth, from ``first`` on."""
        if count > PIECE:
            pieces = range(first, first + count, PIECE)
            return np.concatenate(
                [self._gather(at, min(PIECE, first + count - at), waits) for at in pieces]
            )
        degree = self.workload.degree
        ends = self.own(first, count)
        child = first * degree + 1
        feeding = min(count * degree, self.tasks - child)
        fed = max(-(-feeding // degree), 0)
        ends[fed:] += waits[0]
        if fed:
            before = self._gather(child, feeding, waits)
            starts = np.arange(0, feeding, degree)
            ready = ready_times(before, self.moves(child, feeding), starts, self.task_move)
            ends[:fed] += ready + self._waits_by_height(first, fed, waits)
        return ends

    def _waits_by_height(self, first: int, count: int, waits: list[float]) -> Seconds:
        """Each task's wait. Its level is the length of its leftmost chain, which is its longest."""
        tasks = np.arange(first, first + count)
        height = np.zeros(count, dtype=np.int64)
        while True:
            tasks = tasks * self.workload.degree + 1
            deeper = tasks < self.tasks
            if not deeper.any():
                return np.array(waits)[height]
            height += deeper


def _uniform(seed: int, stream: int, first: int, count: int) -> Seconds:
    # One 64-bit draw makes one number, so PCG64 can be advanced to any task's number directly.
    bits = np.random.PCG64(np.random.SeedSequence([seed, stream]))
    return np.random.Generator(bits.advance(first)).random(count)
