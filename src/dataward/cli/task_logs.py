"""Finds the attempts at a task, and prints what one of them printed."""

import shutil
import sys
from pathlib import Path

from dataward.api.report import attempts_among
from dataward.cli.complaints import visible
from dataward.cli.output import busy, stderr_console
from dataward.cli.recorded import events_of, looking_into
from dataward.model.ids import AttemptId
from dataward.model.workflow import TaskId
from dataward.runs.run_directory import RunRecord

_STREAMS = {"out": "stdout", "err": "stderr"}


def attempts_at(record: RunRecord, task: TaskId) -> tuple[list[AttemptId], AttemptId]:
    """All attempts at the task, those that reached running last; and the one that won, if any."""
    with busy(f"reading {record.events}"):
        return attempts_among(events_of(record), task)


def any_log(record: RunRecord, task: TaskId, attempt: AttemptId) -> bool:
    """Whether anything that the attempt printed is in the record."""
    return any(_has_something(record.log_file(task, attempt, stream)) for stream in _STREAMS)


def print_streams(record: RunRecord, task: TaskId, attempt: AttemptId, streams: list[str]) -> None:
    files = {stream: record.log_file(task, attempt, stream) for stream in streams}
    filled = {stream: path for stream, path in files.items() if _has_something(path)}
    if not filled:
        where = " and ".join(_STREAMS[stream] for stream in streams)
        say(f"{visible(task)} printed nothing on {where} (attempt {visible(attempt)})")
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


def say(sentence: str) -> None:
    stderr_console().print(sentence, soft_wrap=True)
