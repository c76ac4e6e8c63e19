"""What a run's events tell of its tasks: which really ran, for how long, and which failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dataward.model.events import (
    AttemptEnded,
    AttemptMeasured,
    Event,
    TaskFinished,
)
from dataward.model.ids import NOBODY, AttemptId
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId
from dataward.reports.event_file import EventFileReader
from dataward.runs.outcomes import Made, Outcome
from dataward.runs.run_directory import RunRecord


@dataclass
class RunHistory:
    """Pass it every event of the run of this number."""

    run: int
    made: dict[TaskId, Made] = field(default_factory=dict)
    failed: dict[TaskId, Outcome] = field(default_factory=dict)
    _seconds: dict[AttemptId, float] = field(default_factory=dict)
    _reasons: dict[AttemptId, str] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        if isinstance(event, AttemptMeasured):
            self._seconds[event.attempt] = event.wall_seconds
        elif isinstance(event, AttemptEnded):
            self._on_ended(event)
        elif isinstance(event, TaskFinished):
            self._on_finished(event)

    def _on_ended(self, event: AttemptEnded) -> None:
        if event.outcome is AttemptOutcome.FAILED:
            self._reasons[event.attempt] = event.reason
        if event.outcome is not AttemptOutcome.WON:
            self._seconds.pop(event.attempt, None)

    def _on_finished(self, event: TaskFinished) -> None:
        seconds = self._seconds.pop(event.attempt, 0.0)
        if event.state is TaskState.COMPLETE:
            self.failed.pop(event.task, None)
            self.made[event.task] = Made(self.run, event.attempt, seconds)
        elif event.attempt != NOBODY:
            reason = self._reasons.pop(event.attempt, "") or "no reason was recorded"
            self.failed[event.task] = Outcome("", (), (), self.run, event.attempt, 0.0, reason)

    def seconds_of(self, task: TaskId, earlier: Mapping[TaskId, Outcome]) -> float:
        """How long the task ran: in this run, or else in an earlier one."""
        if task in self.made:
            return self.made[task].seconds
        return earlier[task].seconds if task in earlier else 0.0


def history_of(record: RunRecord) -> RunHistory:
    """The history of a run that is over, from its recorded events."""
    history = RunHistory(record.number)
    for event in EventFileReader(record.events):
        history.add(event)
    return history
