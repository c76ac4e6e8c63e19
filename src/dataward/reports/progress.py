"""Counts, event by event, how far a run has come, and what remains of it."""

import heapq
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataward.model.adjacency import Indices
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    AttemptMeasured,
    Event,
    FinishPromised,
    InputsStaged,
    RunResumed,
    TaskDue,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.layers import NARROW
from dataward.model.remaining import Remaining
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.attempts import Attempt, AttemptBook, Step

RATE_SECONDS = 10.0
SLOWEST_KEPT = 5


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Every task is counted in exactly one field; the properties are sums of fields."""

    waiting: int  # for a parent
    ready: int
    staging: int  # an attempt brings its inputs in, waits for a core, or stores its outputs
    running: int  # on a core
    complete: int  # in this run
    skipped: int
    failed_itself: int
    failed_with_parent: int  # never ran, because a task it depends on failed
    removed: int = 0  # on request, or with a task it depends on

    @property
    def failed(self) -> int:
        return self.failed_itself + self.failed_with_parent

    @property
    def done(self) -> int:
        return self.complete + self.skipped

    @property
    def finished(self) -> int:
        return self.done + self.failed + self.removed

    @property
    def tasks(self) -> int:
        return self.finished + self.waiting + self.ready + self.staging + self.running


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    task: TaskId
    node: NodeId
    since: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that failed by its own error, finally, after ``attempts`` attempts."""

    task: TaskId
    attempt: AttemptId
    node: NodeId
    reason: str
    attempts: int


# A task's standing, one byte per task: an Enum would cost more time than everything else here.
# Whether an idle task is ready depends on its parents.
_IDLE, _UNDER_WAY, _COMPLETE, _SKIPPED, _FAILED_ITSELF, _FAILED_WITH_PARENT, _REMOVED = range(7)
_IS_OPEN = (True, True, False, False, False, False, False)
_IS_DONE = (False, False, True, True, False, False, False)


class RunProgress:
    """Counts a run as its events come; the counts can be read at any time.

    The cost of an event does not depend on the number of tasks, except that a task that finishes
    costs time for each child. Times are those of the events: seconds since the run began. A caller
    that passes its own ``book`` must add each event to the book after adding it here.
    """

    def __init__(self, workflow: Workflow, book: AttemptBook | None = None) -> None:
        self.workflow = workflow
        self._standing = bytearray(len(workflow))
        self._parents_left = array("i", workflow.parents.degrees().tolist())
        self._child_starts: list[int] = workflow.children.starts.tolist()
        self._number = [len(workflow), 0, 0, 0, 0, 0, 0]  # of tasks, by standing
        self._ready = self._parents_left.count(0)
        self._under_way: dict[int, dict[AttemptId, Attempt]] = {}
        self._book = AttemptBook() if book is None else book
        self._book.listen(self._on_step)
        self._keeps_book = book is None
        self._seconds = array("d", bytes(8 * len(workflow)))  # measured in this run, by task
        self._measured: dict[AttemptId, float] = {}  # of attempts under way
        self._slowest: list[tuple[float, int]] = []
        self._finish_times: deque[float] = deque()
        self._began: float | None = None
        self._ends: dict[int, int] = {}  # the generation of each task's end
        self._reopened: dict[int, int] = {}  # the generation after which a task was reopened
        self._done_before: set[int] = set()  # tasks that were done before the run was resumed
        self._errors: dict[int, list[AttemptEnded]] = {}
        self._failures: dict[int, Failure] = {}
        self.moved_bytes = 0  # inputs brought to where they were needed
        self.local_bytes = 0  # inputs that were there already
        self.promised: FinishPromised | None = None  # the latest promise of the run's end
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            AttemptBegan: self._on_began,
            AttemptMeasured: self._on_measured,
            AttemptEnded: self._on_ended,
            InputsStaged: self._on_staged,
            TaskFinished: self._on_finished,
            TaskSkipped: self._on_skipped,
            TaskDue: self._on_due,
            TaskReopened: self._on_reopened,
            RunResumed: self._on_resumed,
            FinishPromised: self._on_promised,
        }

    def add(self, event: Event) -> None:
        if self._began is None:
            self._began = event.at
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
        if self._keeps_book:
            self._book.add(event)

    # --- what can be asked -----------------------------------------------------------------------

    def _on_promised(self, event: FinishPromised) -> None:
        self.promised = event

    def counts(self) -> TaskCounts:
        idle, under_way, complete, skipped, itself, with_parent, removed = self._number
        running = sum(self._is_running(task) for task in self._under_way)
        return TaskCounts(
            waiting=idle - self._ready,
            ready=self._ready,
            staging=under_way - running,
            running=running,
            complete=complete,
            skipped=skipped,
            failed_itself=itself,
            failed_with_parent=with_parent,
            removed=removed,
        )

    def _is_running(self, task: int) -> bool:
        attempts = self._under_way[task].values()
        return self._standing[task] == _UNDER_WAY and any(_is_on_core(one) for one in attempts)

    def tasks_per_second(self, now: float) -> float:
        """How many tasks a second finished in the last 10 s, without skipped ones."""
        self._forget_before(now - RATE_SECONDS)
        began = now if self._began is None else self._began
        window = min(max(now - began, 1.0), RATE_SECONDS)
        return len(self._finish_times) / window

    def running(self) -> list[RunningAttempt]:
        """The attempts whose commands run, the longest-running first."""
        found = [
            RunningAttempt(attempt.task, attempt.node, attempt.running)
            for attempts in self._under_way.values()
            for attempt in attempts.values()
            if attempt.running is not None and _is_on_core(attempt)
        ]
        return sorted(found, key=lambda attempt: (attempt.since, attempt.task))

    def failures(self) -> list[Failure]:
        """The tasks that failed by their own error, in the order they failed."""
        return list(self._failures.values())

    def slowest(self) -> list[tuple[TaskId, float]]:
        """The tasks that ran longest and their wall seconds, the slowest first."""
        ordered = sorted(self._slowest, key=lambda entry: (-entry[0], -entry[1]))
        return [(self.workflow.task_ids[-place], seconds) for seconds, place in ordered]

    def remaining(self, now: float) -> Remaining:
        """What remains of the run, and what it has measured: what a forecast is made from."""
        is_open = np.frombuffer(self._standing, np.uint8) < _COMPLETE
        found = Remaining(now, is_open, np.array(self._seconds), {}, [], {}, [])
        for task, under_way in self._under_way.items():
            if is_open[task]:
                _note_standing(found, task, list(under_way.values()), now)
        return found

    # --- attempts --------------------------------------------------------------------------------

    def _on_began(self, event: AttemptBegan) -> None:
        task = self.workflow.index_of.get(event.task)
        if task in self._done_before:
            self._open_again(task)

    def _on_measured(self, event: AttemptMeasured) -> None:
        self._measured[event.attempt] = event.wall_seconds

    def _on_ended(self, event: AttemptEnded) -> None:
        task = self.workflow.index_of.get(event.task)
        if task is not None and event.outcome is AttemptOutcome.FAILED:
            self._errors.setdefault(task, []).append(event)

    def _on_staged(self, event: InputsStaged) -> None:
        self.local_bytes += event.local_bytes
        self.moved_bytes += event.moved_bytes

    def _on_step(self, attempt: Attempt, step: Step, at: float) -> None:
        if step is not Step.BEGAN and step is not Step.ENDED:
            return  # the other steps are read from the attempts themselves, when asked for
        task = self.workflow.index_of.get(attempt.task)
        if task is None:
            return
        if step is Step.BEGAN:
            self._under_way.setdefault(task, {})[attempt.id] = attempt
        else:
            self._on_attempt_over(task, attempt)
        if _IS_OPEN[self._standing[task]]:
            self._move(task, self._open_standing(task))

    def _on_attempt_over(self, task: int, attempt: Attempt) -> None:
        attempts = self._under_way.get(task, {})
        attempts.pop(attempt.id, None)
        if not attempts:
            self._under_way.pop(task, None)
        wall_seconds = self._measured.pop(attempt.id, None)
        if wall_seconds is not None and attempt.outcome is AttemptOutcome.WON:
            self._seconds[task] = wall_seconds
            heapq.heappush(self._slowest, (wall_seconds, -task))
            if len(self._slowest) > SLOWEST_KEPT:
                heapq.heappop(self._slowest)

    def _open_standing(self, task: int) -> int:
        return _UNDER_WAY if task in self._under_way else _IDLE

    # --- tasks -----------------------------------------------------------------------------------

    def _on_finished(self, event: TaskFinished) -> None:
        task = self.workflow.index_of.get(event.task)
        if task is None or event.generation <= self._reopened.get(task, -1):
            return  # a late event about an end that has been undone since
        self._ends[task] = max(self._ends.get(task, 0), event.generation)
        if event.state is TaskState.COMPLETE:
            self._on_complete(task, event.at)
        elif event.attempt:
            self._on_failed_itself(task, event)
        elif _IS_OPEN[self._standing[task]]:
            is_removed = event.state is TaskState.REMOVED
            self._move(task, _REMOVED if is_removed else _FAILED_WITH_PARENT)

    def _on_complete(self, task: int, at: float) -> None:
        if self._standing[task] != _COMPLETE:
            self._note_finish(at)
        self._errors.pop(task, None)
        self._failures.pop(task, None)
        self._move(task, _COMPLETE)

    def _on_failed_itself(self, task: int, event: TaskFinished) -> None:
        if self._standing[task] != _FAILED_ITSELF:
            self._note_finish(event.at)
        errors = self._errors.pop(task, [])
        if errors or task not in self._failures:
            reason = next((e.reason for e in errors if e.attempt == event.attempt), "")
            self._failures[task] = Failure(
                event.task, event.attempt, event.node, reason, max(len(errors), 1)
            )
        self._move(task, _FAILED_ITSELF)

    def _on_skipped(self, event: TaskSkipped) -> None:
        task = self.workflow.index_of.get(event.task)
        if task is None:
            return
        self._done_before.discard(task)
        if self._standing[task] != _COMPLETE:
            self._failures.pop(task, None)
            self._move(task, _SKIPPED)

    def _on_due(self, event: TaskDue) -> None:
        """The task must run, even if it was done: an input that was made again is different."""
        task = self.workflow.index_of.get(event.task)
        if task is not None:
            self._open_again(task)

    def _open_again(self, task: int) -> None:
        """Make a task unfinished. Its generations start again, as the store has a new record."""
        self._done_before.discard(task)
        self._ends.pop(task, None)
        self._reopened.pop(task, None)
        self._failures.pop(task, None)
        if not _IS_OPEN[self._standing[task]]:
            self._move(task, self._open_standing(task))

    def _on_reopened(self, event: TaskReopened) -> None:
        task = self.workflow.index_of.get(event.task)
        if task is None or self._ends.get(task, 0) > event.generation:
            return  # the task has ended again since
        self._reopened[task] = event.generation
        if _IS_DONE[self._standing[task]]:
            self._move(task, self._open_standing(task))

    def _on_resumed(self, event: RunResumed) -> None:
        """Attempts under way are gone; done tasks are checked, failed and removed ones run."""
        self._book.end_all(event.at, AttemptOutcome.CRASHED)
        self._ends.clear()
        self._reopened.clear()
        self._finish_times.clear()
        self._began = event.at
        standing = np.frombuffer(self._standing, np.uint8)
        in_vain = np.flatnonzero(standing >= _FAILED_ITSELF).tolist()
        self._done_before = set(np.flatnonzero(standing >= _COMPLETE).tolist()).difference(in_vain)
        for task in in_vain:
            self._open_again(task)

    def _note_finish(self, at: float) -> None:
        self._finish_times.append(at)
        self._forget_before(at - RATE_SECONDS)

    def _forget_before(self, at: float) -> None:
        while self._finish_times and self._finish_times[0] < at:
            self._finish_times.popleft()

    def _move(self, task: int, new: int) -> None:
        old = self._standing[task]
        if old == new:
            return
        self._standing[task] = new
        self._number[old] -= 1
        self._number[new] += 1
        if self._parents_left[task] == 0:
            self._ready += (new == _IDLE) - (old == _IDLE)
        if _IS_DONE[old] != _IS_DONE[new]:
            self._tell_children(task, -1 if _IS_DONE[new] else 1)

    def _tell_children(self, task: int, change: int) -> None:
        first, end = self._child_starts[task], self._child_starts[task + 1]
        children = self.workflow.children.targets[first:end]
        if end - first <= NARROW:
            idle = self._change_few(children.tolist(), change)
        else:
            idle = self._change_many(children, change)
        self._ready -= change * idle

    def _change_few(self, children: list[int], change: int) -> int:
        """How many idle children became ready by this change, or are no longer ready."""
        left, standing = self._parents_left, self._standing
        turning, idle = (1 if change < 0 else 0), 0
        for child in children:
            idle += left[child] == turning and standing[child] == _IDLE
            left[child] += change
        return idle

    def _change_many(self, children: Indices, change: int) -> int:
        """The same in numpy, for tasks with up to a hundred thousand children."""
        left = np.frombuffer(self._parents_left, np.int32)
        turned = children[left[children] == (1 if change < 0 else 0)]
        left[children] += change
        standing = np.frombuffer(self._standing, np.uint8)
        return int(np.count_nonzero(standing[turned] == _IDLE))


def _is_on_core(attempt: Attempt) -> bool:
    return attempt.running is not None and attempt.stage_out is None


def _note_standing(remaining: Remaining, task: int, attempts: list[Attempt], now: float) -> None:
    """Say how far the attempt at a task is that has come farthest."""
    since = [a.running for a in attempts if a.running is not None]
    if any(a.stage_out is not None for a in attempts):
        remaining.ended.append(task)
    elif since:
        remaining.running[task] = max(now - min(since), 0.0)
    elif any(a.staged is not None for a in attempts):
        remaining.staged.append(task)
    else:
        remaining.staging[task] = max(now - min(a.began for a in attempts), 0.0)
