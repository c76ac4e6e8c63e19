"""What a run came to, real or simulated, and everything one may ask of it.

Modules that draw and explain are loaded when they are asked to: most runs need none of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dataward.model.events import AttemptAdvanced, AttemptBegan, Event, TaskFinished
from dataward.model.ids import NOBODY, AttemptId
from dataward.model.states import RunState
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.plan.end_forecast import EndForecast
from dataward.reports.event_file import EventFileReader
from dataward.reports.progress import Failure, RunProgress
from dataward.reports.run_summary import RunSummary
from dataward.runs.deadline_answer import DeadlineAnswer
from dataward.runs.run_directory import RunDirectory, RunRecord


@dataclass(frozen=True, slots=True)
class TaskLogs:
    """What a task printed."""

    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class RunReport:
    """``events`` yields all that happened, each time from the beginning.

    A simulated run has no ``record`` on disk, and neither outputs nor logs.
    """

    workflow: Workflow
    state: RunState
    summary: RunSummary
    bound_seconds: float  # no schedule could have been faster
    events: Callable[[], Iterator[Event]]
    progress: RunProgress = field(repr=False)
    record: RunRecord | None = None
    forecast: EndForecast | None = None  # of the makespan, before it began; None: too little known
    answer: DeadlineAnswer | None = None  # to the deadline, if the run had one

    @property
    def is_complete(self) -> bool:
        return self.state is RunState.COMPLETE

    @property
    def failures(self) -> Sequence[Failure]:
        """The tasks that failed by themselves, each with its reason."""
        return self.progress.failures()

    @property
    def outputs(self) -> dict[FileId, Path]:
        """Where the workflow's results are, those that exist."""
        if self.record is None:
            return {}
        made = [self.workflow.file_ids[f] for f in self.workflow.outputs.targets.tolist()]
        paths = {file: self.record.outputs / file for file in made}
        return {file: path for file, path in paths.items() if path.exists()}

    def why(self, task: str) -> str:
        """One sentence: why the task ran, was skipped or failed. Raises UnknownTaskError."""
        from dataward.reports.why import why

        return why(self.events(), self.workflow, task)

    def logs(self, task: str) -> TaskLogs:
        """What the task printed in the last run in which it ran. Raises UnknownTaskError."""
        from dataward.reports.known_tasks import find_task

        find_task(self.workflow, task)
        if self.record is not None:
            for record in reversed(with_runs_before(self.record)):
                attempts, winner = attempts_among(
                    iter(EventFileReader(record.events)), TaskId(task)
                )
                if attempts:
                    return _logs(record, TaskId(task), winner or attempts[-1])
        return TaskLogs(b"", b"")

    def draw(self, path: str | Path) -> None:
        """Draw the run into an SVG file: what every node did when."""
        from dataward.reports.gantt_svg import draw_run

        Path(path).write_text(draw_run(list(self.events())), encoding="utf-8")


def with_runs_before(run: RunRecord) -> list[RunRecord]:
    """The runs of the same directory up to this one, oldest first."""
    return [r for r in RunDirectory(run.directory).runs() if r.number <= run.number]


def attempts_among(events: Iterator[Event], task: TaskId) -> tuple[list[AttemptId], AttemptId]:
    """All attempts at the task, those that reached running last; and the one that won, if any."""
    began: dict[AttemptId, None] = {}
    winner = NOBODY
    for event in events:
        if isinstance(event, AttemptBegan) and event.task == task:
            began[event.attempt] = None
        elif isinstance(event, AttemptAdvanced) and event.task == task:
            began.pop(event.attempt, None)  # so that it moves to the end
            began[event.attempt] = None
        elif isinstance(event, TaskFinished) and event.task == task:
            winner = event.attempt
    return list(began), winner if winner in began else NOBODY


def _logs(record: RunRecord, task: TaskId, attempt: AttemptId) -> TaskLogs:
    def content(stream: str) -> bytes:
        path = record.log_file(task, attempt, stream)
        return path.read_bytes() if path.is_file() else b""

    return TaskLogs(content("out"), content("err"))
