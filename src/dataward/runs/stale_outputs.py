"""Outputs that the workflow made once and no longer makes."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataward.errors import OutputError
from dataward.live.durability import replace_content, sync_files, sync_path
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
        try:
            replace_content(directory.stale, msgspec.json.encode(found))
        except OSError as error:
            raise OutputError(str(directory.stale), error.strerror or str(error)) from error


def clear_stale_outputs(
    directory: RunDirectory, workflow: Workflow, digests: InputDigests
) -> StaleOutputs:
    """Remove what was noted, except what somebody has changed or the workflow makes again.

    The note goes last, when a power cut can no longer bring back what was removed.
    """
    noted = _load(directory.stale)
    if not noted:
        return StaleOutputs()
    made = {workflow.file_ids[file] for file in workflow.outputs.targets.tolist()}
    removed, changed, changes = list[FileId](), list[FileId](), dict[str, None]()
    for file, digest in noted.items():
        path = directory.outputs / file
        if file in made:
            continue
        if lies_at(file, path):
            if _digest(file, path, digests) != digest:
                changed.append(file)
                continue
            _remove(path, directory.drafts)
            removed.append(file)
        _remove_empty(path.parent, directory.outputs)
        changes |= dict.fromkeys(map(str, path.relative_to(directory.path).parents))
    sync_files([str(directory.path / place) for place in changes])
    directory.stale.unlink()
    return StaleOutputs(tuple(removed), tuple(changed))


def _load(path: Path) -> Mapping[FileId, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[FileId, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def _remove(path: Path, drafts: Path) -> None:
    """Remove a file, or a directory as a whole: half of one would pass for one that was edited."""
    if not path.is_dir():
        path.unlink()
        return
    drafts.mkdir(parents=True, exist_ok=True)
    path.rename(drafts / "stale")
    sync_path(str(path.parent))
    remove_tree(drafts / "stale")


def _digest(file: FileId, path: Path, digests: InputDigests) -> str:
    try:
        return digests.digest_as(file, path)
    except InputFileError:
        return ""


def _remove_empty(directory: Path, outputs: Path) -> None:
    """Remove the directory, and those it is in, up to the first that holds something else."""
    with suppress(OSError):
        while directory != outputs:
            with suppress(FileNotFoundError):
                directory.rmdir()
            directory = directory.parent
