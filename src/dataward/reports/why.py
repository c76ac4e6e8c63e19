"""Says in one sentence, from a run's events, what became of a task and why."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dataward.model.events import (
    AttemptMeasured,
    Event,
    FinishPromised,
    RunEnded,
    RunResumed,
    TaskDue,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.ids import AttemptId
from dataward.model.quantities import show_seconds
from dataward.model.states import IN_VAIN, AttemptOutcome, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.attempts import Attempt, AttemptBook, Step
from dataward.reports.known_tasks import find_task

# Cancelled is among them because a second interrupt of a run cancels its attempts.
_BROKEN_OFF = frozenset(
    {AttemptOutcome.UNDER_WAY, AttemptOutcome.CUT_OFF, AttemptOutcome.CANCELLED}
)
_NEVER_RAN = "it had not run before"
_UNCHANGED = "its command, inputs and settings are as in the run before"


def why(
    events: Iterable[Event],
    workflow: Workflow,
    task: str,
    *,
    is_under_way: bool = False,
    now: float = 0.0,
) -> str:
    """One sentence about a task.

    ``is_under_way`` says that a process still runs this run; ``now`` is the run's time (the last
    event's, if later). Raises an UnknownTaskError that suggests similar names.
    """
    index = find_task(workflow, task)
    stories = _Stories(workflow, index)
    stories.latest = now
    for event in events:
        stories.add(event)
    answer = _Answer(workflow, stories, is_under_way)
    promise = answer.promise() if is_under_way and not stories[TaskId(task)].is_done else ""
    return f"{task} {answer.about(index)}{promise}"


@dataclass(slots=True)
class _Story:
    """What has happened to one task so far."""

    due: str = ""
    is_skipped: bool = False
    reopened: int = 0
    was_recalled: bool = False  # it was skipped, but then something of it was needed
    reopened_after: int = -1
    end: TaskFinished | None = None
    was_done_before: bool = False  # before the run was resumed
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return self.is_skipped or (self.end is not None and self.end.state is TaskState.COMPLETE)

    @property
    def ended_in_vain(self) -> bool:
        return self.end is not None and self.end.state in IN_VAIN

    @property
    def is_removed(self) -> bool:
        return self.end is not None and self.end.state is TaskState.REMOVED

    def open_again(self) -> None:
        """Make the task unfinished. Its generations start again, as the store has a new record."""
        self.end, self.is_skipped = None, False
        self.was_done_before = False
        self.reopened_after = -1

    @property
    def under_way(self) -> Attempt | None:
        """The attempt that is furthest among those that have not ended."""
        going = [
            attempt for attempt in self.attempts if attempt.outcome is AttemptOutcome.UNDER_WAY
        ]
        return next((a for a in going if a.running is not None), going[0] if going else None)

    def failed_attempts(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.outcome is AttemptOutcome.FAILED]


class _Stories:
    """The stories of a task and of all tasks it depends on; other tasks are ignored."""

    def __init__(self, workflow: Workflow, index: int) -> None:
        self._of: dict[TaskId, _Story] = {
            workflow.task_ids[i]: _Story() for i in _with_ancestors(workflow, index)
        }
        self.latest = 0.0
        self.promised: FinishPromised | None = None
        self.wall_seconds: dict[AttemptId, float] = {}
        self._book = AttemptBook(self._on_step)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            TaskDue: self._on_due,
            TaskSkipped: self._on_skipped,
            TaskFinished: self._on_finished,
            TaskReopened: self._on_reopened,
            AttemptMeasured: self._on_measured,
            RunResumed: self._on_resumed,
            FinishPromised: self._on_promised,
        }

    def __getitem__(self, task: TaskId) -> _Story:
        return self._of[task]

    def add(self, event: Event) -> None:
        if not isinstance(event, RunEnded):  # RunEnded has the store's time, not the nodes'
            self.latest = max(self.latest, event.at)
        self._book.add(event)
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _on_promised(self, event: FinishPromised) -> None:
        self.promised = event

    def _on_step(self, attempt: Attempt, step: Step, at: float) -> None:
        story = self._of.get(attempt.task)
        if story is not None and step is Step.BEGAN:
            if story.was_done_before:
                story.open_again()
            story.attempts.append(attempt)

    def _on_due(self, event: TaskDue) -> None:
        story = self._of.get(event.task)
        if story is not None:
            story.open_again()
            story.due = event.why

    def _on_skipped(self, event: TaskSkipped) -> None:
        story = self._of.get(event.task)
        if story is not None:
            story.is_skipped, story.was_done_before = True, False

    def _on_finished(self, event: TaskFinished) -> None:
        story = self._of.get(event.task)
        if story is None or event.generation <= story.reopened_after:
            return
        if story.end is None or not (story.end.attempt and not event.attempt):
            story.end = event

    def _on_reopened(self, event: TaskReopened) -> None:
        story = self._of.get(event.task)
        if story is None or event.generation <= story.reopened_after:
            return
        if story.end is None or story.end.generation <= event.generation:
            story.reopened += 1
            story.was_recalled = story.was_recalled or story.is_skipped
            story.reopened_after = event.generation
            story.is_skipped, story.end = False, None

    def _on_measured(self, event: AttemptMeasured) -> None:
        if event.task in self._of:
            self.wall_seconds[event.attempt] = event.wall_seconds

    def _on_resumed(self, event: RunResumed) -> None:
        self._book.end_all(event.at, AttemptOutcome.CUT_OFF)
        for story in self._of.values():
            story.reopened_after = -1
            story.was_done_before = story.is_done
            if story.ended_in_vain:
                story.open_again()


@dataclass(frozen=True, slots=True)
class _Answer:
    """Puts stories into words; every answer continues a sentence that starts with the task."""

    workflow: Workflow
    stories: _Stories
    is_under_way: bool

    def promise(self) -> str:
        """A clause about the end of a run that goes on, if that was promised."""
        promised = self.stories.promised
        if promised is None or not promised.sure:
            return ""
        left = promised.finish - self.stories.latest
        if left < 0:
            return f"; the run was promised to end {show_seconds(-left)} ago"
        return f"; the run is promised to end in {show_seconds(left)}, {promised.sure:.0%} sure"

    def about(self, index: int) -> str:
        story = self._story(index)
        if story.end is not None and story.end.state is TaskState.COMPLETE:
            return self._ran(story)
        if story.is_skipped:
            return f"was skipped: {_UNCHANGED}"
        if story.is_removed:
            return self._removed(index, story)
        if story.end is not None and story.end.attempt:
            return self._failed(story)
        root = self._root_failure(index)
        if root is not None:
            name, failed = self.workflow.task_ids[root], self._failed(self._story(root))
            return f"did not run because {name}, which it depends on, {failed}"
        return self._is_unfinished(index, story)

    def _story(self, index: int) -> _Story:
        return self.stories[self.workflow.task_ids[index]]

    # --- it is over ------------------------------------------------------------------------------

    def _ran(self, story: _Story) -> str:
        assert story.end is not None
        winner = next((a for a in story.attempts if a.id == story.end.attempt), None)
        failed = story.failed_attempts()
        times = _times(len(failed) + sum(a.outcome is AttemptOutcome.WON for a in story.attempts))
        place = (", at last on " if failed else " on ") + story.end.node
        sentence = f"ran {times}{place}{self._seconds(story.end.attempt, winner)}"
        if failed:
            sentence += f", after {_attempts(len(failed))} that failed ({_reason(failed[-1])})"
        return f"{sentence}, because {self._cause(story)}"

    def _cause(self, story: _Story) -> str:
        if story.was_recalled:
            return "an output it had written was gone and needed"
        if story.reopened:
            return "every copy of an output it had written was lost"
        return story.due or _NEVER_RAN

    def _seconds(self, attempt: AttemptId, winner: Attempt | None) -> str:
        seconds = self.stories.wall_seconds.get(attempt)
        if seconds is None and winner is not None:
            seconds = winner.running_seconds
        return "" if seconds is None else f", {show_seconds(seconds)}"

    def _failed(self, story: _Story) -> str:
        assert story.end is not None
        failed = story.failed_attempts()
        last = next((a for a in failed if a.id == story.end.attempt), None)
        return f"failed: {_reason(last)} ({_attempts(max(len(failed), 1))})"

    def _removed(self, index: int, story: _Story) -> str:
        root = self._removed_first(index)
        if root != index:
            return f"was removed with {self.workflow.task_ids[root]}, which it depends on"
        for attempt in story.attempts:
            if attempt.outcome in _BROKEN_OFF and attempt.running is not None:
                return f"was removed while it ran on {attempt.node}"
        failed = len(story.failed_attempts())
        again = f" again, after {_attempts(failed)} that failed" if failed else ""
        return f"was removed before it ran{again}"

    def _removed_first(self, index: int) -> int:
        """The task with which this one was removed: going up, of several the lowest index."""
        while True:
            parents = self.workflow.parents.row(index).tolist()
            removed = [parent for parent in parents if self._story(parent).is_removed]
            if not removed:
                return index
            index = min(removed)

    def _root_failure(self, index: int) -> int | None:
        """The nearest ancestor that failed by itself; of equally near ones, the lowest index."""
        level, seen = [index], {index}
        while level:
            above = [p for i in level for p in self.workflow.parents.row(i).tolist()]
            level = sorted(set(above) - seen)
            seen.update(level)
            for task in level:
                end = self._story(task).end
                if end is not None and end.state is TaskState.FAILED and end.attempt:
                    return task
            level = [task for task in level if not self._story(task).is_done]
        return None

    # --- it is not -------------------------------------------------------------------------------

    def _is_unfinished(self, index: int, story: _Story) -> str:
        if not self.is_under_way:
            return self._was_broken_off(index, story)
        attempt = story.under_way
        if attempt is not None:
            return f"is {self._doing(attempt)}, because {self._cause(story)}"
        waits = self._waits_for(index)
        if waits:
            return f"waits for {waits}"
        failed = story.failed_attempts()
        if failed:
            again = f"{_attempts(len(failed))} failed: {_reason(failed[-1])}"
            return f"is to run again ({again}) and waits for a free core"
        return f"is ready and waits for a free core; it must run because {self._cause(story)}"

    def _was_broken_off(self, index: int, story: _Story) -> str:
        going = [a for a in story.attempts if a.outcome in _BROKEN_OFF]
        if any(attempt.running is not None for attempt in going):
            return "was running when the run was broken off"
        if going:
            return "was about to run when the run was broken off"
        waits = self._waits_for(index)
        if waits:
            return f"had not run when the run was broken off: it waited for {waits}"
        return "was ready, but had not run when the run was broken off"

    def _waits_for(self, index: int) -> str:
        """The unfinished parent that is furthest, what it does, and how many more there are."""
        parents: list[int] = self.workflow.parents.row(index).tolist()
        left = [parent for parent in parents if not self._story(parent).is_done]
        if not left:
            return ""
        first = min(left, key=lambda parent: (self._distance(parent), parent))
        name, more = self.workflow.task_ids[first], len(left) - 1
        doing = self._doing_of(first)
        return name + (f" ({doing})" if doing else "") + (f" and {more:,} more" if more else "")

    def _distance(self, index: int) -> int:
        attempt = self._story(index).under_way
        if attempt is not None:
            return 0 if attempt.running is not None else 1
        return 3 if self._has_unfinished_parents(index) else 2

    def _doing_of(self, parent: int) -> str:
        attempt = self._story(parent).under_way
        if not self.is_under_way:
            return ""
        if attempt is not None:
            return self._doing(attempt)
        return "which waits itself" if self._has_unfinished_parents(parent) else "ready to run"

    def _has_unfinished_parents(self, index: int) -> bool:
        above = self.workflow.parents.row(index).tolist()
        return any(not self._story(task).is_done for task in above)

    def _doing(self, attempt: Attempt) -> str:
        if attempt.running is not None:
            seconds = show_seconds(max(self.stories.latest - attempt.running, 0.0))
            return f"running on {attempt.node} for {seconds}"
        if attempt.staged is not None:
            return f"waiting for a free core on {attempt.node}"
        return f"having its inputs brought to {attempt.node}"


def _with_ancestors(workflow: Workflow, index: int) -> list[int]:
    found, todo = {index}, [index]
    while todo:
        above = set(workflow.parents.row(todo.pop()).tolist()) - found
        found |= above
        todo.extend(above)
    return sorted(found)


def _times(count: int) -> str:
    return {0: "once", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


def _reason(attempt: Attempt | None) -> str:
    return (attempt.reason if attempt else "") or "no reason was recorded"
