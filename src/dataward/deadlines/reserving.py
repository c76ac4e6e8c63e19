"""What to reserve for each task if a workflow is promised piece by piece, as by a tree of nodes.

There no plan of the whole is at hand, by which `admission.py` chooses a quantile of run times. So
each task is reserved for what it takes in nine futures of ten. How sure the whole is, is found
afterwards, from where its tasks were promised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataward.deadlines.admission import SURE, SURE_MAX, WantedPromise, futures_of, path_seconds_of
from dataward.deadlines.core_plan import CorePlan, OpenWork, PlannedSlot
from dataward.deadlines.frames import Outline, outline_of
from dataward.deadlines.local_schedule import TimeHole
from dataward.deadlines.promising import NodeSchedule
from dataward.model.workflow import Seconds


class TaskPlace(NamedTuple):
    """The slots that have promised a task, by number; by when it ends, and how long it has them."""

    slots: tuple[int, ...]
    deadline: float
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class ReservedTimes:
    """Seconds at speed 1 to reserve for each task, and futures: rows of run times."""

    wanted: WantedPromise
    work: OpenWork
    seconds: Sequence[float]
    futures: NDArray[np.float64]
    is_exact: bool

    def outline(self) -> Outline:
        """The workflow as it is asked for."""
        return outline_of(
            replace(self.wanted.known.workflow, runtime_seconds=np.array(self.seconds))
        )

    def path_seconds(self, nodes: Sequence[NodeSchedule]) -> float:
        """The length of the critical path on the fastest node, in the middle of the futures."""
        return path_seconds_of(self.work, nodes, np.median(self.futures, axis=0).tolist())

    def ends(self, placed: Sequence[TaskPlace], now: float) -> Seconds:
        """When the workflow ends in each future if its tasks were promised there."""
        whole = TimeHole(now, inf)
        slots = [
            PlannedSlot(one.slots, one.deadline - one.seconds, one.seconds, whole) for one in placed
        ]
        speeds = [
            max(reserved / one.seconds, 1e-9) if one.seconds else 1.0
            for reserved, one in zip(self.seconds, placed, strict=True)
        ]
        rank = {task: number for number, task in enumerate(self.work.order)}
        order = sorted(range(len(slots)), key=lambda task: (slots[task].end, rank[task]))
        plan = CorePlan(self.work, slots, [0.0] * len(slots), speeds, order, now)
        return plan.ends_if(self.futures)

    def sure(self, ends: Seconds, deadline: float) -> float:
        """The share of futures that end by the deadline; of estimates, never quite all."""
        share = float((ends <= deadline).mean())
        return share if self.is_exact else min(share, SURE_MAX)


def reserved_times(wanted: WantedPromise) -> ReservedTimes:
    """What to reserve for a workflow that has not begun; something is known of every type of task.

    If run times are known exactly, just these.
    """
    work = wanted.work()
    futures, is_exact = futures_of(wanted, work)
    seconds = np.quantile(futures, SURE, axis=0, method="higher").tolist()
    return ReservedTimes(wanted, work, seconds, futures, is_exact)
