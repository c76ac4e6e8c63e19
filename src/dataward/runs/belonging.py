"""Whether a run directory holds runs of another workflow."""

import os
from pathlib import Path

from dataward.errors import SettingError
from dataward.formats import read_workflow
from dataward.model.workflow import Workflow
from dataward.runs.run_directory import NoRunError, RunDirectory


def check_belonging(directory: RunDirectory, workflow: Workflow, source: Path) -> None:
    """Raise SettingError if the last run here was of another workflow.

    That is one from another file, with another name or without a task in common. A file that was
    edited or moved is still the same workflow's.
    """
    try:
        record = directory.latest()
    except NoRunError:
        return
    facts = record.facts()
    if (facts.place or os.path.abspath(facts.source)) == os.path.abspath(source):
        return
    if facts.workflow == workflow.name:
        known = workflow.index_of
        if any(task in known for task in read_workflow(record.workflow).task_ids):
            return
    raise SettingError(
        f"{directory.path} holds runs of another workflow ({facts.workflow!r}, from "
        f"{facts.source}); name another directory with --out, or use this one all the same with "
        "--replace"
    )
