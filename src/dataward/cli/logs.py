"""``dataward logs``: prints what a task printed."""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from dataward.cli.output import busy, stderr_console, visible
from dataward.cli.recorded import (
    events_of,
    looking_into,
    recorded_run,
    with_runs_before,
    workflow_of,
)
from dataward.errors import SettingError
from dataward.model.events import AttemptAdvanced, AttemptBegan, Event, TaskFinished
from dataward.model.ids import NOBODY, AttemptId
from dataward.model.workflow import TaskId
from dataward.reports.known_tasks import find_task
from dataward.runs.run_directory import RunRecord

_STREAMS = {"out": "stdout", "err": "stderr"}


def logs_command(
    run: Annotated[str, typer.Argument(help="A run, as montage.run or montage.run/2.")],
    task: Annotated[str, typer.Argument(help="The task's id.")],
    stderr: Annotated[
        bool | None, typer.Option("--stderr/--stdout", help="Print only one; default: both.")
    ] = None,
    attempt: Annotated[
        str, typer.Option(help="An attempt, as n0.1.7; default: the one that won, or the last.")
    ] = "",
) -> None:
    """Print what a task wrote to stdout and stderr, unchanged.

    Of a task that was skipped, that is what it wrote in the run that made its outputs.

    Examples:

    - `dataward logs montage.run mAdd_1`
    - `dataward logs montage.run/2 mAdd_1 --stderr`
    """
    record = recorded_run(run)
    name = TaskId(task)
    find_task(workflow_of(record), task)
    attempts, winner = _attempts(record, name)
    for earlier in reversed(with_runs_before(record)[:-1]) if not attempts else ():
        attempts, winner = _attempts(earlier, name)
        if attempts:
            _say(f"{visible(task)} did not run in {visible(record.path)}; {visible(earlier.path)}:")
            record = earlier
            break
    if attempt and attempt not in attempts:
        known = ", ".join(attempts) or "none"
        raise SettingError(
            f"task {task!r} has no attempt {attempt!r} in this run; there are {known}"
        )
    if not attempts:
        _say(f"{visible(task)} did not run in {visible(record.path)}, so it printed nothing")
        return
    chosen = AttemptId(attempt) if attempt else winner or attempts[-1]
    wanted = ["out", "err"] if stderr is None else ["err" if stderr else "out"]
    _print(record, name, chosen, wanted)


def _attempts(record: RunRecord, task: TaskId) -> tuple[list[AttemptId], AttemptId]:
    """All attempts at the task, those that reached running last; and the one that won, if any."""
    with busy(f"reading {record.events}"):
        return _attempts_in(events_of(record), task)


def _attempts_in(events: Iterable[Event], task: TaskId) -> tuple[list[AttemptId], AttemptId]:
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


def _print(record: RunRecord, task: TaskId, attempt: AttemptId, streams: list[str]) -> None:
    files = {stream: record.log_file(task, attempt, stream) for stream in streams}
    filled = {stream: path for stream, path in files.items() if _has_something(path)}
    if not filled:
        where = " and ".join(_STREAMS[stream] for stream in streams)
        _say(f"{visible(task)} printed nothing on {where} (attempt {visible(attempt)})")
    for stream, path in filled.items():
        if len(filled) > 1:
            print(f"==> {visible(task)} {visible(attempt)} {_STREAMS[stream]} <==", flush=True)
        with looking_into(str(path)):
            file = path.open("rb")
        with file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _has_something(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _say(sentence: str) -> None:
    stderr_console().print(sentence, soft_wrap=True)
