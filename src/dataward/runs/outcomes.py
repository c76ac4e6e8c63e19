"""The outcomes of tasks, so that a later run repeats only the tasks it must and can say why.

Only content counts. A file may have been deleted once no task needed it, but its digest is
remembered: so a task that read the file is still known to be unchanged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from blake3 import blake3

from dataward.errors import FormatError, OutputError
from dataward.model.operations import InputFile, OutputFile, TaskSpec
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.stores.journal import Journal

VERSION = 1  # grows when an outcome, or the way recipes are compared, changes its meaning
_KIND = "outcomes"
_TASKS_PER_FRAME = 10_000
_RUN_ALL_AGAIN = "remove it, and every task runs again"

_PART_CHARACTERS = 32  # 16 bytes of digest: enough that no two parts are equal by accident
_PARTS = ("command has", "list of outputs has", "settings have")


NEW = "it had not run before"


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """A task's last outcome: its recipe, and what it read and wrote, by content."""

    recipe: str
    inputs: tuple[tuple[FileId, str], ...]
    outputs: tuple[OutputFile, ...]


def recipe_of(command: Sequence[str], outputs: Iterable[FileId], settings: str = "") -> str:
    """A digest of how a task is run; neither its order of outputs nor its id matters.

    It is one digest for each of `_PARTS`, so that two recipes tell which part is different.
    """
    parts = (list(command), sorted(outputs), settings)
    return "".join(
        blake3(msgspec.msgpack.encode(part)).hexdigest(_PART_CHARACTERS // 2) for part in parts
    )


CommittedTask = tuple[TaskSpec, tuple[OutputFile, ...]]
"""A complete task, and the files it wrote."""


def outcomes_of(
    committed: Iterable[CommittedTask],
    input_digests: Mapping[FileId, str],
    earlier: Mapping[TaskId, Outcome] | None = None,
    settings: str = "",
) -> dict[TaskId, Outcome]:
    """The outcomes of these committed tasks.

    If a task's specification has the digest of an input, that digest counts. Otherwise an input of
    the workflow is looked up in ``input_digests``, which are those of when the tasks ran, and any
    other file among the outputs of its producer: in ``committed`` or, if the producer is not there,
    in ``earlier``. A task is left out if the digest of a file it reads or writes cannot be found.
    """
    tasks = list(committed)
    written = {task: _digests(outcome.outputs) for task, outcome in (earlier or {}).items()}
    written.update((spec.id, _digests(outputs)) for spec, outputs in tasks)

    def digest_of(file: InputFile) -> str:
        known = written.get(file.producer, {}) if file.producer else input_digests
        return file.digest or known.get(file.id, "")

    found = {}
    for spec, outputs in tasks:
        declared = [file.id for file in spec.outputs]
        inputs = tuple((file.id, digest_of(file)) for file in spec.inputs)
        known = _digests(outputs)
        if all(digest for _, digest in inputs) and all(known.get(file) for file in declared):
            recipe = recipe_of(spec.command, declared, settings)
            found[spec.id] = Outcome(recipe, inputs, outputs)
    return found


def _digests(files: Iterable[OutputFile]) -> dict[FileId, str]:
    return {file.id: file.digest for file in files}


# --- what must run -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """Every task by its index, either in ``skip`` or in ``due``, each in ascending order.

    ``skip`` has the task's earlier outcome; ``due`` has the reason why it must run, as a clause.
    """

    skip: dict[int, Outcome]
    due: dict[int, str]


def decide(
    workflow: Workflow,
    input_digests: Mapping[FileId, str],
    outcomes: Mapping[TaskId, Outcome],
    is_there: Callable[[FileId, str], bool],
    wanted: Callable[[FileId], bool],
    settings: str = "",
) -> Decision:
    """Which tasks must run so that all wanted files are there in the end, and why each must.

    A task that has changed must run, and so must all tasks that read its outputs, since their
    content is not known yet. A task that has not changed must run only if one of its outputs is
    gone, and that output is wanted or read by a task that must run. It is expected to write the
    same again, so its other readers need not run; if it writes something else, deciding again once
    it has committed tells which tasks must follow. A dependency without a file does not count here.

    The workflow is one that can be run. ``is_there(file, digest)`` is asked at most once about a
    file; ``wanted(file)`` says whether a file that some task writes must exist in the end. Of
    several reasons the first is given, in the order of a task's files as its author wrote them
    down; of several readers, the first in topological order.
    """
    if not outcomes:
        return Decision(skip={}, due=dict.fromkeys(range(len(workflow)), NEW))
    files = _files_by_task(workflow)
    changes, known = _changes(workflow, files, input_digests, outcomes, settings)
    whys = _with_makers_of_lost_files(workflow, files, changes, known, is_there, wanted)
    return Decision(
        skip={task: outcomes[workflow.task_ids[task]] for task, why in enumerate(whys) if not why},
        due={task: why for task, why in enumerate(whys) if why},
    )


_Files = tuple[list[list[FileId]], list[list[FileId]]]
"""The files that each task reads, and the files that each task writes."""


def _files_by_task(workflow: Workflow) -> _Files:
    names = workflow.file_ids
    reads = [[names[file] for file in row] for row in workflow.inputs.rows()]
    writes = [[names[file] for file in row] for row in workflow.outputs.rows()]
    return reads, writes


def _changes(
    workflow: Workflow,
    files: _Files,
    input_digests: Mapping[FileId, str],
    outcomes: Mapping[TaskId, Outcome],
    settings: str,
) -> tuple[list[str], dict[FileId, str]]:
    """What has changed about each task, "" if nothing; and the digests of the files.

    A file that is yet to be made has no digest; an input without a known digest has "".
    """
    reads, writes = files
    outside = np.flatnonzero(workflow.producers.degrees() == 0).tolist()
    # Not all of `input_digests`: one of those files may by now be written by a task.
    known = {file: input_digests.get(file, "") for file in (workflow.file_ids[f] for f in outside)}
    changes = [""] * len(workflow)
    for task in workflow.layers.order.tolist():
        outcome = outcomes.get(workflow.task_ids[task])
        recipe = recipe_of(workflow.commands[task] or (), writes[task], settings)
        changes[task] = _change(outcome, recipe, reads[task], writes[task], known)
        if outcome is not None and not changes[task]:
            written = _digests(outcome.outputs)
            known.update((file, written[file]) for file in writes[task])
    return changes, known


def _change(
    outcome: Outcome | None,
    recipe: str,
    reads: Sequence[FileId],
    writes: Sequence[FileId],
    known: Mapping[FileId, str],
) -> str:
    if outcome is None:
        return NEW
    if outcome.recipe != recipe:
        return _different_part(outcome.recipe, recipe)
    before = dict(outcome.inputs)
    for file in reads:
        if file not in known:
            return f"its input {file!r} is made again"
        if file not in before:
            return f"it did not read {file!r} before"
        if not known[file]:
            return f"the content of its input {file!r} is not known"
        if known[file] != before[file]:
            return f"its input {file!r} has changed"
    dropped = before.keys() - set(reads)
    if dropped:
        return f"it no longer reads {min(dropped)!r}"
    written = _digests(outcome.outputs)
    unknown = [file for file in writes if not written.get(file)]
    return f"the content of its output {unknown[0]!r} is not known" if unknown else ""


def _different_part(before: str, now: str) -> str:
    for place, part in enumerate(_PARTS):
        here = slice(place * _PART_CHARACTERS, (place + 1) * _PART_CHARACTERS)
        if before[here] != now[here]:
            return f"its {part} changed"
    raise AssertionError("the recipes are the same")


def _with_makers_of_lost_files(
    workflow: Workflow,
    files: _Files,
    changes: Sequence[str],
    known: Mapping[FileId, str],
    is_there: Callable[[FileId, str], bool],
    wanted: Callable[[FileId], bool],
) -> list[str]:
    """Why each task must run, "" if it need not.

    Tasks are visited from last to first, since readers decide whether a lost file is needed.
    """
    reads, writes = files
    whys = [""] * len(workflow)
    reader: dict[FileId, TaskId] = {}
    for task in reversed(workflow.layers.order.tolist()):
        whys[task] = changes[task] or _loss(writes[task], reader, known, is_there, wanted)
        if whys[task]:
            reader.update(dict.fromkeys(reads[task], workflow.task_ids[task]))
    return whys


def _loss(
    writes: Sequence[FileId],
    reader: Mapping[FileId, TaskId],
    known: Mapping[FileId, str],
    is_there: Callable[[FileId, str], bool],
    wanted: Callable[[FileId], bool],
) -> str:
    for file in writes:
        is_wanted = wanted(file)
        if (is_wanted or file in reader) and not is_there(file, known[file]):
            use = "" if is_wanted else f", and {reader[file]!r}, which must run, reads it"
            return f"its output {file!r} is gone{use}"
    return ""


# --- between runs --------------------------------------------------------------------------------


def save_outcomes(path: Path, outcomes: Mapping[TaskId, Outcome]) -> None:
    """Replace the file's content by these outcomes, durably. Raises OutputError.

    After a crash the file has either its old content or the new.
    """
    try:
        Journal.create(path, _frames(outcomes)).close()
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error


def load_outcomes(path: Path) -> dict[TaskId, Outcome]:
    """The outcomes saved in this file; none if there is no file. Raises FormatError."""
    try:
        frames = _read_frames(path)
    except FileNotFoundError:
        return {}
    except FormatError as error:
        problem, place = error.problem, error.place
        raise FormatError(str(path), problem, place=place, remedy=_RUN_ALL_AGAIN) from error
    except OSError as error:
        raise FormatError(str(path), f"cannot be read ({error.strerror})") from error
    try:
        return _outcomes_in(frames, path)
    except msgspec.MsgspecError as error:
        problem = f"holds no outcomes of tasks ({error})"
        raise FormatError(str(path), problem, remedy=_RUN_ALL_AGAIN) from error


def _frames(outcomes: Mapping[TaskId, Outcome]) -> Iterator[bytes]:
    """The head, the outcomes, and the head again.

    A journal takes a damaged last frame for one that a crash left unfinished, and cuts it off. This
    file is written whole, so a missing second head tells that a frame was damaged and cut off.
    """
    head = msgspec.msgpack.encode((_KIND, VERSION))
    items = iter(outcomes.items())
    yield head
    while part := dict(islice(items, _TASKS_PER_FRAME)):
        yield msgspec.msgpack.encode(part)
    yield head


def _read_frames(path: Path) -> list[bytes]:
    journal = Journal(path)
    try:
        return list(journal.frames())
    finally:
        journal.close()


def _outcomes_in(frames: Sequence[bytes], path: Path) -> dict[TaskId, Outcome]:
    if len(frames) < 2 or frames[0] != frames[-1]:
        raise FormatError(str(path), "is damaged: its end is missing", remedy=_RUN_ALL_AGAIN)
    kind, version = msgspec.msgpack.decode(frames[0], type=tuple[str, int])
    if (kind, version) != (_KIND, VERSION):
        raise FormatError(
            str(path),
            f"holds {kind} of version {version}; this dataward reads {_KIND} of version {VERSION}",
            remedy=f"use the dataward that wrote it, or {_RUN_ALL_AGAIN}",
        )
    decode = msgspec.msgpack.Decoder(dict[TaskId, Outcome]).decode
    return {task: outcome for frame in frames[1:-1] for task, outcome in decode(frame).items()}
