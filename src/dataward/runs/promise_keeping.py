"""The promises of one run: made before its first task, and made anew when one is broken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dataward.deadlines.admission import (
    AcceptedDeadline,
    RefusedDeadline,
    WantedPromise,
    best_promise,
    unknown_types,
)
from dataward.deadlines.promising import NodeSchedule
from dataward.model.events import Emit, Event, FinishPromised, NodeJoined, NodeLost
from dataward.model.ids import NodeId
from dataward.model.platform import Platform
from dataward.model.remaining import Remaining, before_the_run
from dataward.model.workflow import TaskId, Workflow
from dataward.plan.adage import Plan
from dataward.plan.end_forecast import SCHEDULE_SPREAD
from dataward.reports.progress import RunProgress
from dataward.runs import end_forecasts
from dataward.runs.deciding import Decision
from dataward.runs.known_times import estimated_from
from dataward.runs.outcomes import Outcome
from dataward.strategies.peercomp import promised_plan

LOOK_SECONDS = 1.0  # between looks, or more if the run is long
LOOK_SHARE = 0.02  # of what is left
NEVER = 1e9  # seconds: when a lost node is free, as far as anybody knows
# A core that keeps promises is given its next task only when the last one is committed.
OVERHEAD_SECONDS = 0.02


def wanted_of_run(
    workflow: Workflow, outcomes: Mapping[TaskId, Outcome], decision: Decision
) -> WantedPromise:
    """What is to be promised of a run: all tasks that may run. Files need not be moved."""
    is_open = np.zeros(len(workflow), dtype=bool)
    is_open[decision.open] = True
    return WantedPromise(
        estimated_from(workflow, outcomes),
        replace(before_the_run(workflow), is_open=is_open),
        overhead_seconds=OVERHEAD_SECONDS,
        lag_seconds=end_forecasts.PAUSE_SECONDS,
        plan_spread=SCHEDULE_SPREAD,
    )


@dataclass
class PromiseKeeping:
    """Makes promises for the open tasks of a run. The owner passes all events of the run to it.

    ``deadline`` is on the run's clock, and so are all promises. ``cores`` are those of the
    platform, with what others have promised on them by now.
    """

    wanted: WantedPromise
    platform: Platform
    deadline: float
    emit: Emit
    cores: Callable[[], Sequence[NodeSchedule]]
    _lost: set[NodeId] = field(default_factory=set)

    def __post_init__(self) -> None:
        workflow = self.wanted.known.workflow
        self._progress = RunProgress(workflow)
        self._is_open: NDArray[np.bool_] = self.wanted.remaining.is_open
        self._due: list[tuple[float, int]] = []  # deadlines of tasks, the latest first
        self._next_look = 0.0
        self._finish = self.deadline
        self.made: AcceptedDeadline | None = None

    def begin(self, now: float) -> AcceptedDeadline | RefusedDeadline:
        """Promise all open tasks by the deadline, or if that cannot be, as early as possible."""
        unknown = unknown_types(self.wanted)
        if unknown:
            self.emit(FinishPromised(now, self.deadline, 0.0, 0.0, 0.0))
            return RefusedDeadline(unknown=unknown)
        best = best_promise(self.wanted, self._cores(), now)
        is_kept = best.finish <= self.deadline
        made = best.by(max(best.finish, self.deadline))
        self._make(made)
        sure = made.sure if is_kept else 0.0
        self.emit(FinishPromised(now, self.deadline, made.finish, sure, made.expected))
        return made if is_kept else best.refusal(now, self.deadline)

    def take_over(self, promise: AcceptedDeadline, now: float) -> None:
        """Keep what was promised before the run, or promise anew if now other tasks are open."""
        opened = set(np.flatnonzero(self._is_open).tolist())
        if set(promise.deadlines()) != opened:
            self.begin(now)
            return
        self._make(promise)
        self.emit(
            FinishPromised(now, self.deadline, promise.finish, promise.sure, promise.expected)
        )

    def plan_for(self, remaining: Workflow) -> Plan:
        """The plan for those tasks of the workflow that remain."""
        assert self.made is not None
        ids, places = self.wanted.known.workflow.task_ids, remaining.index_of
        queues = {
            core: [slot._replace(task=places[ids[slot.task]]) for slot in queue]
            for core, queue in self.made.queues.items()
        }
        return promised_plan(remaining, self.platform, replace(self.made, queues=queues))

    def add(self, event: Event) -> None:
        self._progress.add(event)
        if isinstance(event, NodeLost):
            self._lost.add(event.node)
        elif isinstance(event, NodeJoined):
            self._lost.discard(event.node)

    def look(self, now: float) -> AcceptedDeadline | None:
        """New promises for what remains, if a task has not ended by the time it was promised."""
        if self.made is None or now < self._next_look:
            return None
        self._next_look = now + max(LOOK_SECONDS, LOOK_SHARE * (self._finish - now))
        remaining = self._progress.remaining(now)
        is_open = self._is_open & remaining.is_open
        while self._due and not is_open[self._due[-1][1]]:
            self._due.pop()
        if not self._due or self._due[-1][0] >= now:
            return None
        return self._renew(now, replace(remaining, is_open=is_open))

    def _renew(self, now: float, remaining: Remaining) -> AcceptedDeadline:
        late = self.wanted.known.workflow.task_ids[self._due[-1][1]]
        under_way = self._under_way()
        kept = {t: s for t, s in remaining.running.items() if t in under_way}
        wanted = replace(
            self.wanted, remaining=replace(remaining, running=kept), under_way=under_way
        )
        best = best_promise(wanted, self._cores(), now)
        made = best.by(max(best.finish, self.deadline))
        self._make(made)
        why = f"{late} took longer than was reserved for it"
        self.emit(FinishPromised(now, self.deadline, made.finish, made.sure, made.expected, why))
        return made

    def _make(self, made: AcceptedDeadline) -> None:
        self.made = made
        self._finish = made.finish
        self._due = sorted(((at, task) for task, at in made.deadlines().items()), reverse=True)

    def _cores(self) -> list[NodeSchedule]:
        return [replace(c, free_from=NEVER) if c.node in self._lost else c for c in self.cores()]

    def _under_way(self) -> dict[int, int]:
        """The core of each task that runs, by index; which core of its node does not matter."""
        free: dict[NodeId, list[int]] = {}
        for number, core in enumerate(self._cores()):
            if core.node not in self._lost:
                free.setdefault(core.node, []).append(number)
        found: dict[int, int] = {}
        for attempt in self._progress.running():
            task = self.wanted.known.workflow.index_of[attempt.task]
            if free.get(attempt.node):
                found[task] = free[attempt.node].pop(0)
        return found
