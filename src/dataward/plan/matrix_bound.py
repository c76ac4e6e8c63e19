"""The MATRIX paper's analytical bound (its section 3), for any workflow.

Neither the paper's formula nor the readings of it here are bounds in the strict sense; ``bounds``
has those. ``docs/matrix-bound.md`` says what the formulas give and which published figures they
explain.
"""

from dataclasses import dataclass
from enum import Enum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dataward.errors import SettingError
from dataward.model.layers import NARROW
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.edge_bytes import edge_bytes


class Reading(Enum):
    """How long a task waits in its queue; equation (1) does not say what its k counts."""

    PRINTED = "printed"  # k = all tasks / cores; every task waits (k - 1) * l / 2
    LEVEL_AVERAGE = "level average"  # the same, but k and l are those of the task's own level
    LEVEL_LAST = "level last"  # the wait of the level's last task, (k - 1) * l: it ends the level
    LEVEL_FULLEST = "level fullest"  # the same on the fullest node, if tasks go to random nodes


@dataclass(frozen=True, slots=True)
class MatrixSettings:
    """The machine the bound is for. Of these values the paper's section gives only the 2 cores."""

    cores_per_node: int = 2  # Table 3's executor
    bandwidth_bytes_per_second: float = 1.25e9  # 10 Gb/s: the authors' SimMatrix configuration
    latency_seconds: float = 0.0006  # likewise; 0 is the formula as printed
    task_bytes: int = 100  # likewise: one message
    overhead_seconds: float = 0.0  # added to every task's run time; SimMatrix charges 1 ms


@dataclass(frozen=True, slots=True)
class MatrixBound:
    """``efficiency`` is work over available core-seconds; above 1, no machine can reach it."""

    makespan_seconds: float
    tasks_per_second: float
    efficiency: float


def matrix_bound(
    workflow: Workflow,
    cores: int,
    settings: MatrixSettings | None = None,
    reading: Reading = Reading.PRINTED,
) -> MatrixBound:
    """The bound: the largest t_ef of the workflow's tasks.

    ``t_ef(v) = min(case 1, case 2) + t_qwait(v) + t_exec(v)``; in case 1 v runs on a node of its
    own, to which all its parents' data move; in case 2 v moves to one parent's node, and the data
    of the other parents move there. In case 2 the paper prints t_mvtask(v, w), where w is not
    bound; here w is the parent whose node v moves to. Where k is below 1, equation (1) would make
    waits negative; here they are 0. d(v) is taken as the bytes that the child reads of its parent.
    On one node nothing moves.
    """
    settings = _checked(cores, settings)
    own = workflow.runtime_seconds + settings.overhead_seconds
    levels = workflow.layers
    counts = np.diff(levels.starts)
    means = np.add.reduceat(own[levels.order], levels.starts[:-1]) / counts
    squares = np.add.reduceat(own[levels.order] ** 2, levels.starts[:-1]) / counts
    waits = queue_waits(counts, means, squares, cores, settings.cores_per_node, reading)
    ends = finish_times(
        workflow,
        own,
        waits[levels.level_of],
        move_seconds(edge_bytes(workflow), cores, settings),
        float(move_seconds(np.array([settings.task_bytes]), cores, settings)[0]),
    )
    return bound_of(float(ends.max()), len(workflow), float(own.sum()), cores)


def bound_of(makespan: float, tasks: int, work_seconds: float, cores: int) -> MatrixBound:
    if makespan == 0.0:
        return MatrixBound(0.0, float("inf"), 1.0)
    return MatrixBound(makespan, tasks / makespan, work_seconds / (cores * makespan))


def queue_waits(
    counts: NDArray[np.int64],
    means: Seconds,
    squares: Seconds,
    cores: int,
    cores_per_node: int,
    reading: Reading,
) -> Seconds:
    """How long a task of each level waits.

    ``counts``, ``means`` and ``squares`` are, for each level, the number of tasks and the mean and
    mean square of their durations.
    """
    if reading is Reading.PRINTED:
        total = counts.sum()
        wait = max(total / cores - 1, 0.0) * float(counts @ means) / total / 2
        return np.full(len(counts), wait)
    last = np.maximum(counts / cores - 1, 0.0) * means
    if reading is Reading.LEVEL_AVERAGE:
        return last / 2
    if reading is Reading.LEVEL_LAST:
        return last
    # With tasks on random nodes, each node's load is a compound Poisson sum with the deviation
    # sqrt(tasks * mean square). It is treated as normal, which is off only if nodes have few tasks.
    cores_per_node = min(cores_per_node, cores)
    nodes = cores / cores_per_node
    fullest = NormalDist().inv_cdf((nodes - 0.375) / (nodes + 0.25))  # Blom: the largest of all
    spread = np.sqrt(counts / nodes * squares)
    return np.maximum((counts / nodes * means + fullest * spread) / cores_per_node - means, 0.0)


def move_seconds(
    bytes_moved: NDArray[np.int64] | Seconds, cores: int, settings: MatrixSettings
) -> Seconds:
    if cores <= settings.cores_per_node:
        return np.zeros(len(bytes_moved))
    return bytes_moved / settings.bandwidth_bytes_per_second + settings.latency_seconds


def _checked(cores: int, settings: MatrixSettings | None) -> MatrixSettings:
    settings = settings or MatrixSettings()
    if cores < 1 or settings.cores_per_node < 1:
        raise SettingError(f"{cores} cores, {settings.cores_per_node} a node: give at least 1 each")
    if not settings.bandwidth_bytes_per_second > 0:
        raise SettingError("a bandwidth must be above 0 bytes a second")
    return settings


def finish_times(
    workflow: Workflow, own: Seconds, waits: Seconds, edge_move: Seconds, task_move: float
) -> Seconds:
    """t_ef of every task, level by level.

    Case 2 is a minimum over parents u of a maximum over parents w, but needs no p * p steps: moving
    to u saves only the transfer of u's data, so the best u is the parent whose data would arrive
    last. The task is then ready at that parent's end or the second latest arrival, if later.
    """
    ends = waits + own
    parents, layers = workflow.parents, workflow.layers
    for number in range(1, layers.depth):
        level = layers.level(number)
        if level.size <= NARROW:
            for task in level.tolist():
                first, last = parents.starts[task], parents.starts[task + 1]
                before = ends[parents.targets[first:last]].tolist()
                ends[task] += _one_ready(before, edge_move[first:last].tolist(), task_move)
            continue
        before_all, offsets = parents.gather(level)
        shift = np.repeat(parents.starts[level] - offsets[:-1], np.diff(offsets))
        moves = edge_move[np.arange(offsets[-1]) + shift]
        ends[level] += ready_times(ends[before_all], moves, offsets[:-1], task_move)
    return ends


def ready_times(
    before: Seconds, moves: Seconds, starts: NDArray[np.int64], task_move: float
) -> Seconds:
    """min(case 1, case 2) for many tasks.

    ``before`` and ``moves`` are the ends and moves of their parents; ``starts`` is where each
    task's parents begin.
    """
    arrive = before + moves
    latest = np.maximum.reduceat(arrive, starts)
    counts = np.diff(starts, append=len(arrive))
    row = np.repeat(np.arange(len(starts)), counts)
    at = np.flatnonzero(arrive == latest[row])
    at = at[np.diff(row[at], prepend=-1) != 0]  # the first of each task
    arrive[at] = -np.inf
    second = np.maximum.reduceat(arrive, starts)
    ready: Seconds = np.minimum(latest, np.maximum(before[at], second) + task_move)
    return ready


def _one_ready(before: list[float], moves: list[float], task_move: float) -> float:
    latest = second = float("-inf")
    there = 0.0
    for end, move in zip(before, moves, strict=True):
        if end + move > latest:
            latest, second, there = end + move, latest, end
        elif end + move > second:
            second = end + move
    return min(latest, max(there, second) + task_move)
