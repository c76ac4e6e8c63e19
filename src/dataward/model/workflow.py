"""The workflow: tasks, the files between them, and the edges that order them.

It is held as arrays so that a million tasks fit; ``Task`` is a view made on demand. A workflow is
immutable and already valid: only ``WorkflowBuilder`` makes one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from dataward.model.adjacency import Adjacency, Indices
from dataward.model.launch import Launch
from dataward.model.layers import Layers, layers_of

TaskId = NewType("TaskId", str)
FileId = NewType("FileId", str)
Command = tuple[str, ...]

Seconds = NDArray[np.float64]
Bytes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Task:
    """One step of a workflow: what it runs, reads and writes, and what it needs."""

    id: TaskId
    name: str
    command: Command | None
    inputs: tuple[FileId, ...]
    outputs: tuple[FileId, ...]
    runtime_seconds: float
    cores: int
    memory_bytes: int
    retries: int | None
    launch: Launch | None = None


@dataclass(frozen=True, eq=False)
class Workflow:
    """Tasks and files by index; every array is in the order of ``task_ids`` or of ``file_ids``.

    ``inputs`` and ``outputs`` join tasks to files in the order the author gave; ``parents`` joins
    a task to the tasks it waits for. ``retries`` is -1 where the author did not say. ``launches``
    has the few tasks that need one, by index; ``locations`` the paths of files that are not beside
    the workflow, where relative paths start. ``warnings`` are sentences about what was odd in the
    source. ``is_measured`` tells that run times and memory are what a run has measured, not what
    its author allows. Equality ignores both.
    """

    name: str
    task_ids: tuple[TaskId, ...]
    task_names: tuple[str, ...]
    commands: tuple[Command | None, ...]
    runtime_seconds: Seconds
    cores: Indices
    memory_bytes: Bytes
    retries: Indices
    file_ids: tuple[FileId, ...]
    size_bytes: Bytes
    inputs: Adjacency
    outputs: Adjacency
    parents: Adjacency
    launches: Mapping[int, Launch] = field(default_factory=dict)
    locations: Mapping[FileId, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    is_measured: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.task_ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workflow):
            return NotImplemented
        return (
            self.name == other.name
            and self.task_ids == other.task_ids
            and self.task_names == other.task_names
            and self.commands == other.commands
            and self.launches == other.launches
            and self.locations == other.locations
            and self.file_ids == other.file_ids
            and np.array_equal(self.runtime_seconds, other.runtime_seconds)
            and np.array_equal(self.cores, other.cores)
            and np.array_equal(self.memory_bytes, other.memory_bytes)
            and np.array_equal(self.retries, other.retries)
            and np.array_equal(self.size_bytes, other.size_bytes)
            and self.inputs == other.inputs
            and self.outputs == other.outputs
            and self.parents == other.parents
        )

    __hash__ = None  # type: ignore[assignment]

    def task(self, index: int) -> Task:
        retries = int(self.retries[index])
        return Task(
            id=self.task_ids[index],
            name=self.task_names[index],
            command=self.commands[index],
            inputs=tuple(self.file_ids[f] for f in self.inputs.row(index).tolist()),
            outputs=tuple(self.file_ids[f] for f in self.outputs.row(index).tolist()),
            runtime_seconds=float(self.runtime_seconds[index]),
            cores=int(self.cores[index]),
            memory_bytes=int(self.memory_bytes[index]),
            retries=None if retries < 0 else retries,
            launch=self.launches.get(index),
        )

    @property
    def edge_count(self) -> int:
        return len(self.parents.targets)

    @cached_property
    def index_of(self) -> dict[TaskId, int]:
        return {task: i for i, task in enumerate(self.task_ids)}

    @cached_property
    def index_of_file(self) -> dict[FileId, int]:
        return {file: i for i, file in enumerate(self.file_ids)}

    @cached_property
    def children(self) -> Adjacency:
        return self.parents.transposed(len(self))

    @cached_property
    def layers(self) -> Layers:
        layers = layers_of(self.parents, self.children)
        assert layers is not None, "the builder refuses cycles"
        return layers

    @cached_property
    def producers(self) -> Adjacency:
        """The tasks that write each file: none for a workflow input, else usually one."""
        return self.outputs.transposed(len(self.file_ids))

    @cached_property
    def consumers(self) -> Adjacency:
        """The tasks that read each file."""
        return self.inputs.transposed(len(self.file_ids))

    @cached_property
    def type_names(self) -> tuple[str, ...]:
        """The types of task (see `type_of`), in order of first appearance."""
        return tuple(dict.fromkeys(type_of(name) for name in dict.fromkeys(self.task_names)))

    @cached_property
    def types(self) -> Indices:
        """Every task's type, as an index into ``type_names``."""
        place = {name: i for i, name in enumerate(self.type_names)}
        by_name = {name: place[type_of(name)] for name in dict.fromkeys(self.task_names)}
        return np.fromiter((by_name[name] for name in self.task_names), np.int32, len(self))

    def input_bytes(self) -> Bytes:
        """The total size of each task's inputs."""
        return sums_by_row(self.inputs, self.size_bytes)

    def output_bytes(self) -> Bytes:
        """The total size of each task's outputs."""
        return sums_by_row(self.outputs, self.size_bytes)


def sums_by_row(adjacency: Adjacency, weights: Bytes) -> Bytes:
    """For each row, the sum of the weights of its targets."""
    total = np.zeros(len(adjacency.targets) + 1, dtype=np.int64)
    np.cumsum(weights[adjacency.targets], out=total[1:])
    sums: Bytes = total[adjacency.starts[1:]] - total[adjacency.starts[:-1]]
    return sums


# Traces name a task after its program and number it: individuals_ID0000001, cpuhog-00042,
# "FASTQC (ERR044595)". The program is the type.
_NUMBERING = re.compile(
    r"(?<=.)(?:[ _.-]*\([^()]*\)|[ _.-]+(?:ID|task)?[0-9]+|(?<=[a-z])ID[0-9]+)+$"
)


def type_of(task_name: str) -> str:
    """The type of a task: its name without the numbering."""
    return _NUMBERING.sub("", task_name)
