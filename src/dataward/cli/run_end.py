"""Prints the end of a run, for people or as JSON."""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console

from dataward.cli.complaints import visible
from dataward.cli.deadline_line import outcome_as_json, show_outcome
from dataward.cli.forecast_line import forecast_as_json
from dataward.cli.output import (
    counted,
    encodable,
    padded,
    shortened,
    stderr_console,
    stdout_console,
)
from dataward.model.quantities import show_bytes, show_seconds
from dataward.model.states import RunState
from dataward.reports.progress import Failure, RunProgress, TaskCounts
from dataward.reports.run_summary import RunSummary
from dataward.runs.recorded_run import RunEnding
from dataward.runs.run_directory import RunRecord
from dataward.runs.stale_outputs import StaleOutputs

FAILURES_SHOWN = 10
TAIL_LINES = 5
TAIL_BYTES = 2048
_LINE_CELLS_MAX = 200

_COLOUR = re.compile("\x1b\\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Everything to report about a run that has ended or was interrupted."""

    ending: RunEnding
    source: str  # the workflow's file, as it was given
    options: Sequence[str] = ()  # other options of the command, to repeat when resuming
    choice: str = ""  # why the run had its strategy, if the simulator was asked
    answer: dict[str, Any] | None = None  # to its deadline, as JSON
    logs: str = ""  # how to see what tasks printed, if it is not in the record

    @property
    def progress(self) -> RunProgress:
        return self.ending.progress

    @property
    def summary(self) -> RunSummary:
        return self.ending.summary

    @property
    def record(self) -> RunRecord:
        return self.ending.record

    @property
    def bound_seconds(self) -> float:
        return self.ending.bound_seconds

    @property
    def state(self) -> RunState:
        return self.ending.state

    @property
    def is_interrupted(self) -> bool:
        return self.state is RunState.INTERRUPTED

    @property
    def resume_command(self) -> str:
        """The command that runs what was not run; "" if that was not somebody's wish."""
        if self.state not in (RunState.INTERRUPTED, RunState.PARTIAL):
            return ""
        words = ["dataward", "run", self.source, "--out", str(self.record.directory), "--resume"]
        words += self.options
        return " ".join(shlex.quote(encodable(Path(word))) for word in words)


def tell_stale(stale: StaleOutputs) -> None:
    """Name the outputs of earlier runs that the workflow no longer makes, on stderr."""
    for files, what in ((stale.removed, "removed"), (stale.changed, "left, since it was edited,")):
        if files:
            names = ", ".join(visible(file) for file in files[:5])
            more = f" and {len(files) - 5:,} more" if len(files) > 5 else ""
            stderr_console().print(
                f"{what} what the workflow no longer makes: {names}{more}", soft_wrap=True
            )


def print_end(end: RunEnd, console: Console | None = None) -> None:
    """Print the summary for people, on stdout."""
    console = console or stdout_console()
    counts = end.progress.counts()
    name = shortened(visible(end.progress.workflow.name))
    _say(console, f"{name}: {end.state.value}", style="bold")
    _print_rows(console, _rows(end, counts))
    _print_slowest(console, end.progress.slowest())
    _print_failures(console, end, counts)
    _print_places(console, end)
    if end.is_interrupted:
        _say(console, f"interrupted; go on with: {visible(end.resume_command)}")
    elif end.resume_command:
        _say(console, f"run what was removed with: {visible(end.resume_command)}")


def end_as_json(end: RunEnd) -> dict[str, Any]:
    """The same for programs, with every task that failed by itself and its last lines of stderr."""
    counts, summary = end.progress.counts(), end.summary
    return {
        "workflow": end.progress.workflow.name,
        "run": encodable(end.record.path),
        "state": end.state.value,
        "makespan_seconds": summary.makespan_seconds,
        "lower_bound_seconds": end.bound_seconds,
        "forecast": forecast_as_json(end.ending.forecast),
        "deadline": outcome_as_json(summary),
        "answer": end.answer,
        "strategy": summary.strategy,
        "choice": end.choice or None,
        "tasks": counts.tasks,
        "complete": counts.complete,
        "skipped": counts.skipped,
        "failed": counts.failed_itself,
        "failed_with_parent": counts.failed_with_parent,
        "removed": counts.removed,
        "unfinished": counts.tasks - counts.finished,
        "utilisation": summary.utilisation,
        "locality": summary.locality,
        "bytes_staged": end.progress.moved_bytes,
        "bytes_local": end.progress.local_bytes,
        "attempts": summary.attempts,
        "failed_attempts": summary.failed_attempts,
        "cores": summary.cores,
        "slowest": [
            {"task": task, "wall_seconds": seconds} for task, seconds in end.progress.slowest()
        ],
        "failures": [_failure_as_json(end.record, failure) for failure in end.progress.failures()],
        "outputs": encodable(end.record.outputs),
        "logs": encodable(end.record.logs),
        "resume": end.resume_command or None,
    }


def _failure_as_json(record: RunRecord, failure: Failure) -> dict[str, Any]:
    return {
        "task": failure.task,
        "attempt": failure.attempt,
        "node": failure.node,
        "attempts": failure.attempts,
        "reason": failure.reason,
        "stderr": _stderr_of(record, failure),
    }


# --- for people ----------------------------------------------------------------------------------


def _rows(end: RunEnd, counts: TaskCounts) -> list[tuple[str, str]]:
    summary = end.summary
    makespan = show_seconds(summary.makespan_seconds)
    if end.bound_seconds and counts.complete == counts.tasks:  # the bound is for all tasks
        over = summary.makespan_seconds / end.bound_seconds
        makespan += f", {over:.2f} x the lower bound of {show_seconds(end.bound_seconds)}"
    rows = [("tasks", _outcomes(counts)), ("makespan", makespan)]
    if deadline := show_outcome(summary):
        rows.append(("deadline", deadline))
    if counts.complete:  # otherwise nothing was useful
        busy = f"{summary.utilisation:.1%} of {counted(summary.cores, 'core')}"
        rows.append(("utilisation", busy))
    local, moved = end.progress.local_bytes, end.progress.moved_bytes
    if local or moved:
        share, whole = local / (local + moved), show_bytes(local + moved)
        rows.append(("input bytes", f"{share:.1%} of {whole} found locally"))
    return rows


def _outcomes(counts: TaskCounts) -> str:
    unfinished = counts.tasks - counts.finished
    pieces = [
        f"{counts.complete:,} complete",
        f"{counts.skipped:,} skipped (as in the run before)" if counts.skipped else "",
        f"{counts.failed_itself:,} failed" if counts.failed else "",
        f"{counts.failed_with_parent:,} therefore not run" if counts.failed_with_parent else "",
        f"{counts.removed:,} removed" if counts.removed else "",
        f"{unfinished:,} unfinished" if unfinished else "",
    ]
    return ", ".join(filter(None, pieces)) + f", of {counts.tasks:,}"


def _print_slowest(console: Console, slowest: Sequence[tuple[str, float]]) -> None:
    if not slowest:
        return
    _say(console, "slowest tasks")
    _print_rows(console, [(shortened(visible(task)), show_seconds(s)) for task, s in slowest])


def _print_failures(console: Console, end: RunEnd, counts: TaskCounts) -> None:
    failures = end.progress.failures()
    if not failures:
        return
    _say(console, f"{counted(len(failures), 'task')} failed", style="bold red")
    for failure in failures[:FAILURES_SHOWN]:
        _print_failure(console, end.record, failure)
    if len(failures) > FAILURES_SHOWN:
        _say(console, f"  and {len(failures) - FAILURES_SHOWN:,} more (--json lists all)")
    if counts.failed_with_parent:
        them = "them" if len(failures) > 1 else "it"
        more = counted(counts.failed_with_parent, "task")
        _say(console, f"and {more} that depended on {them} did not run")


def _print_failure(console: Console, record: RunRecord, failure: Failure) -> None:
    tries = f" ({failure.attempts} attempts)" if failure.attempts > 1 else ""
    reason = visible(failure.reason) or "no reason was recorded"
    _say(console, f"  {shortened(visible(failure.task))}: {reason}{tries}")
    for line in _stderr_of(record, failure):
        _say(console, f"    | {shortened(visible(line), _LINE_CELLS_MAX)}")


def _print_places(console: Console, end: RunEnd) -> None:
    rows = [("logs", visible(end.logs or end.record.logs))]
    if end.record.outputs.is_dir():
        rows.insert(0, ("outputs", visible(end.record.outputs)))
    for name, value in rows:
        _say(console, f"{name:<8} {value}")


def _print_rows(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    width = max(cell_len(name) for name, _ in rows)
    for name, value in rows:
        _say(console, f"  {padded(name, width)}  {value}")


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(line, style=style, soft_wrap=True)


# --- the end of a log ----------------------------------------------------------------------------


def _stderr_of(record: RunRecord, failure: Failure) -> list[str]:
    return last_lines(record.log_file(failure.task, failure.attempt, "err"))


def last_lines(path: Path) -> list[str]:
    """The last few lines of a log of any length, without colour codes; [] if there are none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES, 0))
            tail = file.read(TAIL_BYTES)
    except OSError:
        return []
    content = _COLOUR.sub("", tail.decode("utf-8", "replace")).expandtabs()
    lines = [line.rstrip() for line in content.splitlines()]
    return [line for line in lines if line][-TAIL_LINES:]
