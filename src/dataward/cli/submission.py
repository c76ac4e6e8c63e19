"""Submits a workflow for a command, and says what was submitted."""

import os
import re
from pathlib import Path
from typing import Any

from dataward.cli.complaints import visible
from dataward.cli.output import counted, print_warnings, reading_file, stderr_console
from dataward.cli.promise_words import promise_as_json
from dataward.cluster.finding_inputs import cache_directory
from dataward.cluster.submitting import SubmitRequest, SubmittedRun, Submitter
from dataward.cluster.visitor import Visitor
from dataward.errors import SettingError
from dataward.formats.read import read_workflow
from dataward.model.members import RUN_NAME
from dataward.model.quantities import show_bytes


async def submitted(
    visitor: Visitor, file: Path, request: SubmitRequest, *, quiet: bool
) -> SubmittedRun:
    """The submission of a workflow's file, with its progress on a terminal."""
    if request.name and not re.fullmatch(RUN_NAME, request.name):
        raise SettingError(
            f"a run cannot be called {request.name!r}; --name takes small letters, digits and -"
        )
    with reading_file(file):
        workflow = read_workflow(file)
    print_warnings(workflow, str(file))
    console = stderr_console()
    cache = cache_directory(os.environ)
    if quiet or not console.is_terminal:
        return await Submitter(visitor, workflow, file, request, cache).submit()
    with console.status("submitting") as status:

        def on_step(what: str, done: int, total: int) -> None:
            status.update(f"{what}: {done:,} of {total:,}")

        return await Submitter(visitor, workflow, file, request, cache, on_step).submit()


def words_about(submission: SubmittedRun) -> str:
    run = submission.run
    parts = [f"{counted(submission.due, 'task')} to run"]
    if submission.skipped:
        parts.append(f"{submission.skipped:,} known already")
    if submission.uploaded_files:
        files = counted(submission.uploaded_files, "input")
        parts.append(f"{files} uploaded ({show_bytes(submission.uploaded_bytes)})")
    said = f"{submission.answer.sentence}\n" if submission.answer is not None else ""
    return f"{said}{visible(run.name)}: submitted, {', '.join(parts)}"


def submission_as_json(submission: SubmittedRun) -> dict[str, Any]:
    return {
        "run": submission.run.name,
        "workflow": submission.workflow.name,
        "tasks": len(submission.workflow),
        "due": submission.due,
        "skipped": submission.skipped,
        "uploaded_files": submission.uploaded_files,
        "uploaded_bytes": submission.uploaded_bytes,
        "keepers": list(submission.run.keepers),
        "strategy": submission.run.strategy,
        "promise": promise_as_json(submission.run),
        "answer": submission.answer.as_json() if submission.answer is not None else None,
    }
