"""Prepares a run of a workflow: finds its input files, and which of its tasks must run."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dataward.live.depot_disk import Place
from dataward.live.packed_tree import tree_fingerprint
from dataward.model.builder import WorkflowBuilder
from dataward.model.directories import is_directory
from dataward.model.ids import NodeId
from dataward.model.operations import Earlier
from dataward.model.runnable import as_run
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.runs.deciding import Decision, KnownBefore, decide
from dataward.runs.input_digests import InputDigests
from dataward.runs.left_files import LeftFiles
from dataward.runs.outcomes import Outcome
from dataward.runs.run_directory import RunDirectory
from dataward.runs.stale_outputs import StaleOutputs, clear_stale_outputs, note_stale_outputs

LOST_SHOWN = 3  # directories named by the workflow where files are missing


def stem_of(source: Path) -> str:
    """The name of a workflow's file without the suffixes that tell its format."""
    name = source.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] if name.rpartition(".")[0] else name


class InputFiles:
    """Finds the files that no task writes: where the workflow says, or beside it.

    Beside it is also ``NAME.inputs``, which is looked into first.
    """

    def __init__(self, source: Path, locations: Mapping[FileId, str]) -> None:
        beside = source.parent
        own = source.with_name(stem_of(source) + ".inputs")
        self._places = [place for place in (own, beside) if place.is_dir()]
        self._named = {file: beside / path for file, path in locations.items()}

    def find(self, file: FileId) -> Path | None:
        named = self._named.get(file)
        if named is not None and named.exists():
            return named
        for place in self._places:
            path = place / file
            if path.exists():
                return path
        return None

    def is_provided(self, file: FileId) -> bool:
        return self.find(file) is not None

    @property
    def places(self) -> list[str]:
        lost = dict.fromkeys(path.parent for path in self._named.values() if not path.exists())
        return [str(place) for place in (*self._places, *list(lost)[:LOST_SHOWN])]


def runnable(workflow: Workflow, source: Path) -> Workflow:
    """The workflow as it is run, from the file ``source``. Raises a WorkflowError if it cannot."""
    inputs = InputFiles(source, workflow.locations)
    return as_run(workflow, inputs.is_provided, inputs.places)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a pass over a workflow starts from."""

    decision: Decision
    remaining: Workflow | None  # the tasks that may run, or None if none may
    digests: Mapping[FileId, str]  # of the files in ``outside``
    outside: Mapping[FileId, Place]  # where the files are that ``remaining`` starts from
    held: Mapping[NodeId, Mapping[FileId, Place]]  # the files that each node has
    recalled: Mapping[FileId, Place]  # where outputs of tasks are that perhaps need not run
    earlier: Mapping[TaskId, Earlier]  # what those tasks did


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked of a run: tasks that run in any case, and files that are wanted.

    If any files are named, only a part of the workflow is run, and the rest is left as it is.
    """

    forced: frozenset[TaskId] = frozenset()
    wanted: frozenset[FileId] = frozenset()


WHOLE = Request()


class Preparer:
    """Finds and digests files, and decides which tasks are due. Digests are remembered."""

    def __init__(
        self,
        workflow: Workflow,
        source: Path,
        directory: RunDirectory,
        *,
        keep_all: bool = False,
        request: Request = WHOLE,
    ) -> None:
        self._workflow = workflow
        self._directory = RunDirectory(directory.path.absolute())
        self._inputs = InputFiles(source, workflow.locations)
        self._forced = request.forced
        self._is_part = bool(request.wanted)
        self._seen = InputDigests(directory.path / "digests")
        read = workflow.consumers.degrees()
        made = workflow.producers.degrees()
        self._is_final = {
            file: bool(made[i]) and (keep_all or not read[i] or file in request.wanted)
            for i, file in enumerate(workflow.file_ids)
        }
        self._needed = [file for i, file in enumerate(workflow.file_ids) if read[i] and not made[i]]

    def is_wanted(self, file: FileId) -> bool:
        """Whether the file is one of the results that the workflow is run for."""
        return self._is_final.get(file, False)

    def look_at_inputs(self) -> Iterator[int]:
        """How many inputs are done: each step digests one, and ``inputs`` has what was found."""
        self.inputs: dict[FileId, Place] = {}
        for done, file in enumerate(self._needed):
            path = self._inputs.find(file)
            assert path is not None, "runnable has found it"
            absolute = path.absolute()
            size_bytes = absolute.stat().st_size
            if is_directory(file):
                size_bytes, _ = tree_fingerprint(str(absolute))
            self.inputs[file] = Place(
                str(absolute), size_bytes, self._seen.digest_as(file, absolute), True
            )
            yield done

    @property
    def input_count(self) -> int:
        return len(self._needed)

    def foresee(self, outcomes: Mapping[TaskId, Outcome]) -> Decision:
        """Decide as `prepare` does, and leave everything on the disk as it is."""
        left = LeftFiles(self._directory, self._seen, may_remove=False)
        return self._decide(outcomes, left, self._forced)

    def _decide(
        self, outcomes: Mapping[TaskId, Outcome], left: LeftFiles, forced: frozenset[TaskId]
    ) -> Decision:
        digests = {file: place.digest for file, place in self.inputs.items()}
        known = KnownBefore(digests, outcomes, left.presence, self.is_wanted, forced)
        return decide(self._workflow, known)

    def prepare(
        self,
        outcomes: Mapping[TaskId, Outcome],
        nodes: Sequence[NodeId],
        complete: Collection[TaskId] = (),
    ) -> Preparation:
        """Decide which tasks may run, and find the files that they may start from.

        Tasks that are ``complete`` have run in this run: they are not forced to run once more.

        A file that an earlier run made is there if a depot has one named by its digest, or
        ``outputs/`` has it, with that content. Content is read again unless the file's size and
        times are those it had when its content was last known.
        """
        self._seen.save()  # of the inputs: whatever stops the run, they need not be read again
        left = LeftFiles(self._directory, self._seen)
        decision = self._decide(outcomes, left, self._forced.difference(complete))
        outside = {**self.inputs, **self._read_from_earlier(decision, left)}
        remaining = remaining_workflow(self._workflow, decision.open, outside)
        recalled = {
            file.id: place
            for outcome in decision.perhaps.values()
            for file in outcome.outputs
            if (place := left.find(file.id, file.digest)) is not None
        }
        self._seen.save()
        return Preparation(
            decision,
            remaining,
            {file: place.digest for file, place in outside.items()},
            outside,
            {node: _at(node, outside, self._directory) for node in nodes},
            recalled,
            {
                self._workflow.task_ids[task]: self._earlier(outcome)
                for task, outcome in decision.perhaps.items()
            },
        )

    def _read_from_earlier(self, decision: Decision, left: "LeftFiles") -> dict[FileId, Place]:
        """Where the files of skipped tasks are that are results, or that open tasks read."""
        read = files_read_by(decision.open, self._workflow)
        found: dict[FileId, Place] = {}
        for outcome in decision.skip.values():
            for file in outcome.outputs:
                if file.id in read or self.is_wanted(file.id):
                    place = left.find(file.id, file.digest)
                    if place is not None:
                        found[file.id] = place
        return found

    def _earlier(self, outcome: Outcome) -> Earlier:
        wanted = tuple(file.id for file in outcome.outputs if self.is_wanted(file.id))
        return Earlier(outcome.inputs, outcome.outputs, wanted)

    def note_stale_outputs(self, outcomes: Iterable[Outcome]) -> None:
        """Remember outputs of earlier runs that the workflow no longer makes."""
        if not self._is_part:
            note_stale_outputs(self._directory, outcomes, self._workflow)

    def clear_stale_outputs(self) -> StaleOutputs:
        """Remove outputs of earlier runs that the workflow no longer makes."""
        if self._is_part:
            return StaleOutputs()
        return clear_stale_outputs(self._directory, self._workflow, self._seen)

    def remember(self, places: Iterable[Place]) -> None:
        """Spare the next run the reading of files whose content is known."""
        for place in places:
            self._seen.remember(place)
        self._seen.save()


def _at(
    node: NodeId, outside: Mapping[FileId, Place], directory: RunDirectory
) -> dict[FileId, Place]:
    """The files that a node has; those that are in no depot, on this machine, are at every node."""
    depot = str(directory.depot / node)
    return {
        file: place
        for file, place in outside.items()
        if place.outside or os.path.dirname(place.path) == depot
    }


def files_read_by(tasks: Iterable[int], workflow: Workflow) -> set[FileId]:
    """The files that these tasks read."""
    names, inputs = workflow.file_ids, workflow.inputs
    return {names[file] for task in tasks for file in inputs.row(task).tolist()}


def located_files(
    workflow: Workflow, holders: Sequence[Mapping[FileId, Place]]
) -> dict[int, Sequence[int]]:
    """For each file that the workflow starts from and that nodes have: those nodes, by number."""
    made = workflow.producers.degrees()
    found = {
        index: [node for node, files in enumerate(holders) if file in files]
        for index, file in enumerate(workflow.file_ids)
        if not made[index]
    }
    return {file: nodes for file, nodes in found.items() if nodes}


def remaining_workflow(
    workflow: Workflow, due: Sequence[int], known: Mapping[FileId, Place]
) -> Workflow | None:
    """These tasks as a workflow of their own; outputs of other tasks are its inputs."""
    if not due:
        return None
    sizes = workflow.size_bytes.tolist()
    if len(due) == len(workflow):
        for number, file in enumerate(workflow.file_ids):
            place = known.get(file)
            sizes[number] = place.size_bytes if place else sizes[number]
        return replace(workflow, size_bytes=np.array(sizes, workflow.size_bytes.dtype))
    builder = WorkflowBuilder(workflow.name)
    is_due = np.zeros(len(workflow), dtype=bool)
    is_due[due] = True
    files, ids = workflow.file_ids, workflow.task_ids
    for index in due:
        task = workflow.task(index)
        for number in (*workflow.inputs.row(index).tolist(), *workflow.outputs.row(index).tolist()):
            place = known.get(files[number])
            size_bytes = place.size_bytes if place else sizes[number]
            builder.file(files[number], size_bytes, path=workflow.locations.get(files[number], ""))
        builder.task(
            task.id,
            name=task.name,
            command=task.command,
            inputs=task.inputs,
            outputs=task.outputs,
            after=[ids[p] for p in workflow.parents.row(index).tolist() if is_due[p]],
            runtime_seconds=task.runtime_seconds,
            cores=task.cores,
            memory_bytes=task.memory_bytes,
            retries=task.retries,
            launch=task.launch,
        )
    return builder.build()
