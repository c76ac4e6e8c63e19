"""Run directories as `dataward run` leaves them, made by hand."""

from collections.abc import Iterable
from pathlib import Path

from builders import a_diamond
from dataward.formats import write_workflow
from dataward.model.events import Event, RunEnded
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.event_file import EventFileWriter
from dataward.runs.run_directory import RunDirectory, RunFacts, RunRecord
from reports.lives import error, failed, failed_with_parent, ran, run_started


def a_recorded_run(
    events: Iterable[Event],
    directory: str | Path = "diamond.run",
    *,
    workflow: Workflow | None = None,
    began: float = 1_700_000_000.0,
    state: str = "complete",
    **facts: int | float,
) -> RunRecord:
    place = RunDirectory(Path(directory))
    place.make()
    workflow = workflow or a_diamond()
    known = RunFacts(
        workflow.name, "diamond.json", began, state=state, tasks=len(workflow), **facts
    )  # type: ignore[arg-type]
    record = place.new_record()
    record.write_facts(known)
    write_workflow(workflow, record.workflow)
    with EventFileWriter(record.events) as file:
        for event in events:
            file.add(event)
    return record


def a_good_run() -> list[Event]:
    tasks = [("split", 1.0), ("left", 3.0), ("right", 6.0), ("join", 10.0)]
    lives = [event for n, (task, at) in enumerate(tasks) for event in ran(task, at, n + 1.0)]
    return [run_started(), *lives, RunEnded(10.0, 4, 0, 0, 0)]


def a_bad_run() -> list[Event]:
    """left fails at its second attempt, and takes join with it."""
    return [
        run_started(),
        *ran("split", 1.0),
        *error("left", 2.0, "exit code 1", count=1),
        *error("left", 3.0, "exit code 3", count=2),
        failed("left", 3.0, count=2),
        *ran("right", 4.0),
        failed_with_parent("join", 4.0),
        RunEnded(4.0, 2, 2, 0, 0),
    ]


def write_log(record: RunRecord, task: str, attempt: str, stream: str, content: bytes) -> Path:
    path = record.log_file(TaskId(task), attempt, stream)
    path.write_bytes(content)
    return path
