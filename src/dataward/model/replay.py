"""A trace as it is replayed: every file has one writer at most, and its readers wait for it.

A trace's declared edges stand, whatever its files say. They may say that several tasks write one
file, or that a task reads a file whose writer it does not wait for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dataward.model.adjacency import Adjacency, Indices
from dataward.model.file_edges import file_edges, joined
from dataward.model.workflow import FileId, Workflow

NOBODY = -1
_Flags = NDArray[np.bool_]


def as_replayed(workflow: Workflow) -> Workflow:
    """The same tasks, each reading what the last of the writers that precede it has written.

    A file with several writers becomes several files, one for each. A task waits for the writer
    it reads from, which precedes it already; so nothing is ordered that was not. What no preceding
    task writes is an input of the workflow, which was there before.
    """
    reads = _reads(workflow)
    if reads is None:
        return workflow
    writer = _last_writers(workflow, reads)
    names = _Names(workflow, writer)
    readers, files = workflow.inputs.owners(), workflow.inputs.targets
    inputs = [names.of(file, by) for file, by in zip(files.tolist(), writer.tolist(), strict=True)]
    outputs = [names.of(file, task) for task, file in _entries(workflow.outputs)]
    is_made = writer != NOBODY
    read_from = Adjacency.from_edges(readers[is_made], writer[is_made], len(workflow))
    return replace(
        workflow,
        file_ids=tuple(names.ids),
        size_bytes=workflow.size_bytes[names.originals],
        inputs=Adjacency(workflow.inputs.starts, np.array(inputs, np.int32)),
        outputs=Adjacency(workflow.outputs.starts, np.array(outputs, np.int32)),
        parents=joined(workflow.parents, read_from),
    )


@dataclass(frozen=True, slots=True)
class _Reads:
    """A writer for each entry of the inputs that has one, or several; side by side."""

    entries: Indices
    writers: Indices
    are_declared: _Flags


def _reads(workflow: Workflow) -> _Reads | None:
    """Who may have written what is read; None if that is all as it should be."""
    count = len(workflow)
    entries, writers = file_edges(workflow)
    readers = workflow.inputs.owners()[entries]
    declared = workflow.parents.owners().astype(np.int64) * count + workflow.parents.targets
    are_declared = np.isin(readers.astype(np.int64) * count + writers, declared)
    if are_declared.all() and workflow.producers.degrees().max(initial=0) <= 1:
        return None
    return _Reads(entries, writers, are_declared)


def _last_writers(workflow: Workflow, reads: _Reads) -> Indices:
    """The writer that each entry of the inputs is read from, or NOBODY."""
    readers = workflow.inputs.owners()
    precede = reads.are_declared.copy()
    asked = np.flatnonzero(~precede)
    precede[asked] = _precede(workflow, reads.writers[asked], readers[reads.entries[asked]])
    place = np.empty(len(workflow), dtype=np.int64)
    place[workflow.layers.order] = np.arange(len(workflow))
    found = np.flatnonzero(precede)
    found = found[np.argsort(place[reads.writers[found]], kind="stable")]
    writer = np.full(len(readers), NOBODY, dtype=np.int32)
    writer[reads.entries[found]] = reads.writers[found]  # of several, the last one stays
    return writer


def _precede(workflow: Workflow, writers: Indices, readers: Indices) -> _Flags:
    """Whether each writer precedes its reader.

    Whichever are fewer are searched from, so that a last task that reads everything costs one
    search, as does a first task that everybody reads from.
    """
    level = workflow.layers.level_of
    might = np.flatnonzero(level[writers] < level[readers])
    flags = np.zeros(len(writers), dtype=np.bool_)
    up = len(np.unique(readers[might])) <= len(np.unique(writers[might]))
    here, there = (readers, writers) if up else (writers, readers)
    graph = workflow.parents if up else workflow.children
    might = might[np.argsort(here[might], kind="stable")]
    starts = np.flatnonzero(np.diff(here[might], prepend=-1))
    for pairs in np.split(might, starts[1:]) if might.size else ():
        targets = there[pairs]
        bounds = int(level[targets].min()), int(level[targets].max())
        reached = _reached(graph, level, int(here[pairs[0]]), bounds, up=up)
        flags[pairs] = [target in reached for target in targets.tolist()]
    return flags


def _reached(
    graph: Adjacency, level: Indices, start: int, bounds: tuple[int, int], *, up: bool
) -> set[int]:
    """The tasks reached from ``start`` without leaving the levels of those asked for."""
    lowest, highest = bounds
    found, todo = {start}, [start]
    while todo:
        for task in graph.row(todo.pop()).tolist():
            beyond = level[task] < lowest if up else level[task] > highest
            if task not in found and not beyond:
                found.add(task)
                todo.append(task)
    return found


def _entries(adjacency: Adjacency) -> Iterator[tuple[int, int]]:
    return zip(adjacency.owners().tolist(), adjacency.targets.tolist(), strict=True)


class _Names:
    """The files that one file becomes: one for each writer, and one that nobody writes.

    There is one that nobody writes only if some task reads it, and then it keeps the name. Else the
    first task that writes the file does; the others get new names.
    """

    def __init__(self, workflow: Workflow, writer: Indices) -> None:
        self.ids: list[FileId] = list(workflow.file_ids)
        self.originals: list[int] = list(range(len(self.ids)))
        self._taken = set(workflow.file_ids)
        self._number: dict[tuple[int, int], int] = {}
        self._first: dict[int, int] = {}
        is_outside = workflow.inputs.targets[writer == NOBODY]
        for file in np.unique(is_outside).tolist():
            self._number[file, NOBODY] = self._first[file] = file
        for task, file in _entries(workflow.outputs):
            self._number[file, task] = self._add(file)

    def of(self, file: int, writer: int) -> int:
        return self._number[file, writer]

    def _add(self, file: int) -> int:
        if file not in self._first:
            self._first[file] = file
            return file
        count = 2
        while (id := FileId(f"{self.ids[file]}~{count}")) in self._taken:
            count += 1
        self._taken.add(id)
        self.ids.append(id)
        self.originals.append(file)
        return len(self.ids) - 1
