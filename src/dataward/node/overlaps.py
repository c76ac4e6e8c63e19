"""How much of each task's inputs each node has: kept up to date, not computed for every question.

An index from files to the tasks that read them says whose numbers change when a file comes to a
node or goes. So a change costs as much as it changes, and a question one pass over arrays.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dataward.model.ids import NodeId
from dataward.model.operations import InputFile
from dataward.model.workflow import FileId, TaskId

Amounts = NDArray[np.int64]
T = TypeVar("T", np.bool_, np.int64)
PLACES_MIN = 64
_NOBODY = array("i")
PAST_MAX = 1024  # places of tasks that have left, before the index is made anew


class Measure(Enum):
    """How much a file counts."""

    FILES = "files"  # every file counts 1
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The tasks by place, oldest first, and what a node has of their inputs.

    A place whose task has left has no task, and is not ``open``.
    """

    tasks: Sequence[TaskId | None]
    open: NDArray[np.bool_]
    needed: Amounts  # what the task reads
    overlap: Amounts  # what the node has of that
    references: Amounts  # how often tasks given to the node have read what it has of that


class _Site:
    """A node: its files, each with the number of tasks given to the node that read the file."""

    def __init__(self, places: int) -> None:
        self.references_of: dict[FileId, int] = {}
        self.clear(places)

    def clear(self, places: int) -> None:
        """Forget what was computed for tasks, of which there may be so many now."""
        self.overlap = np.zeros(places, np.int64)
        self.references = np.zeros(places, np.int64)

    def make_room(self, places: int) -> None:
        self.overlap = _longer(self.overlap, places)
        self.references = _longer(self.references, places)


def _longer(values: NDArray[T], length: int) -> NDArray[T]:
    longer = np.zeros(length, values.dtype)
    longer[: len(values)] = values
    return longer


class Overlaps:
    """A pool's tasks against the files of nodes: the worker-centric paper's reference table.

    Everything a node has is known from what it was given (``give``), from what it says it evicted
    (``evict``), and from places that others tell (``place``).
    """

    def __init__(self, measure: Measure = Measure.FILES, past_max: int = PAST_MAX) -> None:
        self._measure = measure
        self._past_max = past_max
        self._sites: dict[NodeId, _Site] = {}
        self._holders: dict[FileId, list[NodeId]] = {}
        self._clear()

    def _clear(self) -> None:
        self._places: dict[TaskId, int] = {}
        self._tasks: list[TaskId | None] = []
        self._inputs: list[tuple[InputFile, ...]] = []
        self._readers: dict[FileId, array[int]] = {}  # the places of the tasks that read the file
        self._weights: dict[FileId, int] = {}  # how much each file counts, if not 1
        self._open = np.zeros(PLACES_MIN, np.bool_)
        self._needed = np.zeros(PLACES_MIN, np.int64)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, task: TaskId) -> bool:
        return task in self._places

    def has_reader_of(self, file: FileId) -> bool:
        """Whether a task here reads the file; a task that has left may count still."""
        return file in self._readers

    def compare(self, node: NodeId) -> Comparison:
        """The tasks, and how they suit this node. It is valid until something changes."""
        site, count = self._site(node), len(self._tasks)
        return Comparison(
            self._tasks,
            self._open[:count],
            self._needed[:count],
            site.overlap[:count],
            site.references[:count],
        )

    def inputs_of(self, task: TaskId) -> tuple[InputFile, ...]:
        """What a task that is here reads."""
        return self._inputs[self._places[task]]

    def overlap_of(self, inputs: Iterable[InputFile], node: NodeId) -> int:
        """How much a node has of files that maybe no task here reads."""
        held, is_bytes = self._site(node).references_of, self._measure is Measure.BYTES
        return sum(file.size_bytes if is_bytes else 1 for file in inputs if file.id in held)

    # --- tasks -----------------------------------------------------------------------------------

    def add(self, task: TaskId, inputs: Sequence[InputFile]) -> None:
        """A task that is not here yet."""
        place = len(self._tasks)
        files = tuple({file.id: file for file in inputs}.values())
        self._places[task] = place
        self._tasks.append(task)
        self._inputs.append(files)
        self._make_room(place)
        self._open[place] = True
        self._needed[place] = sum(self._read(file, place) for file in files)

    def _read(self, file: InputFile, place: int) -> int:
        """How much a file counts, once the task at this place is listed among its readers."""
        readers = self._readers.get(file.id)
        if readers is None:
            readers = self._readers[file.id] = array("i")
            if self._measure is Measure.BYTES:
                self._weights[file.id] = file.size_bytes
        readers.append(place)
        weight = self._weights.get(file.id, 1)
        for node in self._holders.get(file.id, ()):
            site = self._sites[node]
            site.overlap[place] += weight
            site.references[place] += site.references_of[file.id]
        return weight

    def _make_room(self, place: int) -> None:
        if place < len(self._open):
            return
        places = 2 * len(self._open)
        self._open = _longer(self._open, places)
        self._needed = _longer(self._needed, places)
        for site in self._sites.values():
            site.make_room(places)

    def remove(self, task: TaskId) -> None:
        """A task has left; nothing happens if it is not here."""
        place = self._places.pop(task, None)
        if place is None:
            return
        self._open[place] = False
        self._tasks[place] = None
        self._inputs[place] = ()
        if len(self._tasks) > 2 * len(self._places) + self._past_max:
            self._make_anew()

    def _make_anew(self) -> None:
        """Leave out the places of tasks that have left."""
        present = [(task, self._inputs[place]) for task, place in self._places.items()]
        self._clear()
        for site in self._sites.values():
            site.clear(PLACES_MIN)
        for task, inputs in present:
            self.add(task, inputs)

    # --- files -----------------------------------------------------------------------------------

    def give(self, task: TaskId, node: NodeId) -> None:
        """A task leaves for a node, which then has all of the task's inputs."""
        files = [file.id for file in self._inputs[self._places[task]]]
        site = self._site(node)
        self._put(node, site, files)
        for file in files:
            site.references_of[file] += 1
        self._change(site.references, files, 1)
        self.remove(task)

    def place(self, files: Iterable[FileId], node: NodeId) -> None:
        """A node has these files, as others tell."""
        self._put(node, self._site(node), files)

    def evict(self, node: NodeId, files: Iterable[FileId]) -> None:
        """A node no longer has these files."""
        site = self._site(node)
        gone = [file for file in files if file in site.references_of]
        self._change(site.overlap, gone, self._weights_of(gone), -1)
        self._change(site.references, gone, [-site.references_of.pop(file) for file in gone])
        for file in gone:
            holders = self._holders[file]
            holders.remove(node)
            if not holders:
                del self._holders[file]

    def _put(self, node: NodeId, site: _Site, files: Iterable[FileId]) -> None:
        """A node has files: new ones have been read by none of the tasks that it was given."""
        new = [file for file in files if file not in site.references_of]
        for file in new:
            site.references_of[file] = 0
            self._holders.setdefault(file, []).append(node)
        self._change(site.overlap, new, self._weights_of(new))

    def _weights_of(self, files: Sequence[FileId]) -> Sequence[int] | int:
        """How much each of these files counts, or a number if that is the same for all."""
        if self._measure is Measure.FILES:
            return 1
        return [self._weights.get(file, 1) for file in files]

    def _change(
        self,
        numbers: Amounts,
        files: Sequence[FileId],
        amounts: Sequence[int] | int,
        times: int = 1,
    ) -> None:
        """Add each file's amount, so many times, to the numbers of all tasks that read the file.

        Tasks that have left may be among them: their numbers are not looked at.
        """
        if not files:
            return
        readers = [self._readers.get(file, _NOBODY) for file in files]
        places = array("i")
        for each in readers:
            places.extend(each)
        added: Amounts | int
        if isinstance(amounts, int):
            added = times * amounts
        else:
            added = times * np.repeat(amounts, [len(each) for each in readers])
        np.add.at(numbers, np.frombuffer(places, np.int32), added)

    def _site(self, node: NodeId) -> _Site:
        site = self._sites.get(node)
        if site is None:
            site = self._sites[node] = _Site(len(self._open))
        return site
