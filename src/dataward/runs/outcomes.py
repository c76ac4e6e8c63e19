"""The outcomes of tasks, so that a later run repeats only the tasks it must and can say why.

Only content counts. A file may have been deleted once no task needed it, but its digest is
remembered: so a task that read the file is still known to be unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from blake3 import blake3

from dataward.errors import FormatError, OutputError
from dataward.model.function_calls import compared
from dataward.model.ids import NOBODY, AttemptId
from dataward.model.launch import Launch
from dataward.model.operations import InputFile, OutputFile
from dataward.model.workflow import FileId, TaskId
from dataward.stores.embedded import CommittedTask
from dataward.stores.journal import Journal

VERSION = 2  # grows when an outcome, or the way recipes are compared, changes its meaning
_KIND = "outcomes"
_TASKS_PER_FRAME = 10_000
_RUN_ALL_AGAIN = "remove it, and every task runs again"

_PART_CHARACTERS = 32  # 16 bytes of digest: enough that no two parts are equal by accident
_PARTS = ("command has", "list of outputs has", "settings have", "streams or variables have")
_NO_SETTINGS = ""  # nothing sets any, but without this part every known recipe would be another


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """A task's last outcome: its recipe, and what it read and wrote, by content.

    ``run`` and ``attempt`` tell when it really ran, for ``seconds``. If it failed, only ``failure``
    says more.
    """

    recipe: str
    inputs: tuple[tuple[FileId, str], ...]
    outputs: tuple[OutputFile, ...]
    run: int = 0
    attempt: AttemptId = NOBODY
    seconds: float = 0.0
    failure: str = ""


def recipe_of(
    command: Sequence[str], outputs: Iterable[FileId], launch: Launch | None = None
) -> str:
    """A digest of how a task is run; neither its order of outputs nor its id matters.

    It is one digest for each of `_PARTS`, so that two recipes tell which part is different. The
    last part is missing if the task has no launch.
    """
    parts: list[object] = [list(compared(command)), sorted(outputs), _NO_SETTINGS]
    if launch is not None:
        parts.append(launch)
    return "".join(
        blake3(msgspec.msgpack.encode(part)).hexdigest(_PART_CHARACTERS // 2) for part in parts
    )


class Made(NamedTuple):
    """When a task really ran: in which run, as which attempt, and for how long."""

    run: int
    attempt: AttemptId
    seconds: float


def part_that_differs(one: str, other: str) -> str:
    """Which part of two different recipes differs, as "command has"."""
    for place, part in enumerate(_PARTS):
        here = slice(place * _PART_CHARACTERS, (place + 1) * _PART_CHARACTERS)
        if one[here] != other[here]:
            return part
    raise AssertionError("the recipes are the same")


def outcomes_of(
    committed: Iterable[CommittedTask],
    earlier: Mapping[TaskId, Outcome],
    runs: Mapping[TaskId, "Made"],
) -> dict[TaskId, Outcome]:
    """The outcomes of these committed tasks; ``runs`` tells when those ran that did.

    If a task's specification has the digest of an input, that digest counts. Otherwise the file is
    looked up among the outputs of its producer: in ``committed`` or, if the producer is not there,
    in ``earlier``. A task is left out if the digest of a file it reads or writes cannot be found.
    A task that was recalled did not run, and keeps its earlier outcome. That ``runs`` does not tell
    of a task says nothing: the last events before a crash are lost, commits are not.
    """
    tasks = list(committed)
    written = {task: digests_in(outcome.outputs) for task, outcome in earlier.items()}
    written.update((task.spec.id, digests_in(task.outputs)) for task in tasks)

    def digest_of(file: InputFile) -> str:
        return file.digest or written.get(file.producer, {}).get(file.id, "")

    found = {}
    for spec, outputs, was_recalled in tasks:
        declared = [file.id for file in spec.outputs]
        inputs = tuple((file.id, digest_of(file)) for file in spec.inputs)
        known = digests_in(outputs)
        made, before = runs.get(spec.id), earlier.get(spec.id)
        if was_recalled and before is not None:
            found[spec.id] = before
        elif all(digest for _, digest in inputs) and all(known.get(file) for file in declared):
            recipe = recipe_of(spec.command, declared, spec.launch)
            found[spec.id] = Outcome(recipe, inputs, outputs, *(made or ()))
    return found


def digests_in(files: Iterable[OutputFile]) -> dict[FileId, str]:
    return {file.id: file.digest for file in files}


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
