"""Reads WfFormat before 1.5: one flat list of tasks that refer to one another by name.

The list was called ``jobs`` until 1.2; the names of sizes and run times have units since 1.4.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from dataward.errors import FormatError, WorkflowError
from dataward.formats.json_pieces import Pieces
from dataward.formats.wfformat_parts import (
    DeclaredTwice,
    WfCommand,
    cores_of,
    declare_children,
    sharing,
    whole_bytes,
    words_of,
)
from dataward.model.builder import WorkflowBuilder


class _File(Struct, gc=False, rename="camel"):
    name: str
    link: Literal["input", "output", "inout"]
    size: int | float | None = None
    size_in_bytes: int | float | None = None


class _Named(Struct, gc=False):
    name: str
    id: str = ""


class _Family(Struct, gc=False):
    parents: list[str] = []
    children: list[str] = []


class _Task(Struct, gc=False, rename="camel"):
    name: str
    files: list[_File] = []
    runtime: float | None = None
    runtime_in_seconds: float | None = None
    cores: int | float = 1
    memory: int | float | None = None
    memory_in_bytes: int | float | None = None
    command: WfCommand | None = None
    arguments: list[str] | None = None
    category: str | None = None


_named = msgspec.json.Decoder(_Named)
_family = msgspec.json.Decoder(_Family)
_task = msgspec.json.Decoder(_Task)


def read_flat(pieces: Pieces, builder: WorkflowBuilder, tasks: Raw, place: str) -> None:
    """Add the tasks of a flat document."""
    raws = pieces.elements(tasks, place)
    ids = _Ids(pieces, raws, place)
    share = sharing()
    twice = DeclaredTwice()
    for index, raw in enumerate(raws):
        here = f"{place}[{index}]"
        task = pieces.piece(_task, raw, here)
        id = ids.of_task[index]
        parents, children = ids.family(index)
        command = task.command
        if command is None and task.arguments is not None:
            command = WfCommand(task.category, task.arguments)
        try:
            for file in task.files:
                builder.file(file.name, _size(file))
            builder.task(
                id,
                name=task.name,
                command=words_of(command, task.name, share),
                inputs=[file.name for file in task.files if file.link != "output"],
                outputs=[file.name for file in task.files if file.link != "input"],
                after=parents,
                runtime_seconds=_first(task.runtime_in_seconds, task.runtime),
                cores=cores_of(task.cores),
                memory_bytes=_memory_bytes(task),
            )
        except WorkflowError as error:
            raise FormatError(pieces.source, str(error), place=here) from error
        twice.note(id, parents, children)
    if not twice.agree:
        families = ((id, ids.family(i)[1]) for i, id in enumerate(ids.of_task))
        declare_children(builder, pieces.source, place, families)


class _Ids:
    """Every task's id, and the id that each name in ``parents`` and ``children`` stands for.

    The id is made as WfCommons' own migration to 1.5 makes it: the name, with the old id added if
    the name does not contain the old id. So a trace has the same ids in all its versions.
    """

    def __init__(self, pieces: Pieces, raws: Sequence[Raw], place: str) -> None:
        self.pieces = pieces
        self.raws = raws
        self.place = place
        self.of_task: list[str] = []
        self._meant: dict[str, str | None] = {}  # None: several tasks have that name
        old_ids: list[tuple[str, str]] = []
        for index, raw in enumerate(raws):
            task = pieces.piece(_named, raw, f"{place}[{index}]")
            id = task.name if task.id in task.name else f"{task.name}_{task.id}"
            self.of_task.append(id)
            self._meant[task.name] = None if task.name in self._meant else id
            if task.id:
                old_ids.append((task.id, id))
        for old, id in old_ids:
            self._meant.setdefault(old, id)

    def family(self, index: int) -> tuple[list[str], list[str]]:
        """The ids of a task's parents and children."""
        family = self.pieces.piece(_family, self.raws[index], f"{self.place}[{index}]")
        parents = [self._resolved(name, index, "parents") for name in family.parents]
        return parents, [self._resolved(name, index, "children") for name in family.children]

    def _resolved(self, name: str, index: int, key: str) -> str:
        id = self._meant.get(name, name)
        if id is None:
            raise FormatError(
                self.pieces.source,
                f"refers to {name!r}, but several tasks have that name",
                place=f"{self.place}[{index}].{key}",
            )
        return id


def _size(file: _File) -> int:
    size = _first(file.size_in_bytes, file.size, -1)
    return -1 if size == -1 else whole_bytes(size)


def _memory_bytes(task: _Task) -> int:
    if task.memory_in_bytes is not None:
        return whole_bytes(task.memory_in_bytes)
    return whole_bytes((task.memory or 0) * 1000)  # in KB before 1.4


def _first(*values: float | None) -> float:
    return next((value for value in values if value is not None), 0)
