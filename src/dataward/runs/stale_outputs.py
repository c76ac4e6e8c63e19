"""Outputs that the workflow made once and no longer makes."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataward.live.trees import remove_tree
from dataward.model.workflow import FileId, Workflow
from dataward.runs.input_digests import InputDigests, InputFileError, lies_at
from dataward.runs.outcomes import Outcome
from dataward.runs.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class StaleOutputs:
    """``removed`` were as a task had written them; ``changed`` stay, for somebody changed them."""

    removed: tuple[FileId, ...] = ()
    changed: tuple[FileId, ...] = ()


def note_stale_outputs(
    directory: RunDirectory, outcomes: Iterable[Outcome], workflow: Workflow
) -> None:
    """Remember what earlier runs published and no task writes any more, until a run is complete.

    Outcomes are forgotten when a task runs again, but a file that it wrote then is still there.
    """
    made = {workflow.file_ids[file] for file in workflow.outputs.targets.tolist()}
    noted = _load(directory.stale)
    found = dict(noted)
    for outcome in outcomes:
        for file in outcome.outputs:
            if file.id not in made and lies_at(file.id, directory.outputs / file.id):
                found[file.id] = file.digest
    if found != noted:
        directory.stale.write_bytes(msgspec.json.encode(found))


def clear_stale_outputs(
    directory: RunDirectory, workflow: Workflow, digests: InputDigests
) -> StaleOutputs:
    """Remove what was noted, except what somebody has changed or the workflow makes again."""
    noted = _load(directory.stale)
    if not noted:
        return StaleOutputs()
    made = {workflow.file_ids[file] for file in workflow.outputs.targets.tolist()}
    removed, changed = [], []
    for file, digest in noted.items():
        path = directory.outputs / file
        if file in made or not lies_at(file, path):
            continue
        if _digest(file, path, digests) == digest:
            _remove(path)
            removed.append(file)
            _remove_empty(path.parent, directory.outputs)
        else:
            changed.append(file)
    directory.stale.unlink()
    return StaleOutputs(tuple(removed), tuple(changed))


def _load(path: Path) -> Mapping[FileId, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[FileId, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def _remove(path: Path) -> None:
    if path.is_dir():
        remove_tree(path)
    else:
        path.unlink()


def _digest(file: FileId, path: Path, digests: InputDigests) -> str:
    try:
        return digests.digest_as(file, path)
    except InputFileError:
        return ""


def _remove_empty(directory: Path, outputs: Path) -> None:
    with suppress(OSError):
        while directory != outputs:
            directory.rmdir()
            directory = directory.parent
