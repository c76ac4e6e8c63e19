"""Prepares a run of a workflow: finds its input files, and which of its tasks must run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dataward.live.depot_disk import Place, depot_contents
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.operations import OutputFile
from dataward.model.runnable import as_run
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.runs.input_digests import InputDigests
from dataward.runs.outcomes import Decision, Outcome, decide
from dataward.runs.run_directory import RunDirectory


def stem_of(source: Path) -> str:
    """The name of a workflow's file without the suffixes that tell its format."""
    name = source.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] if name.rpartition(".")[0] else name


class InputFiles:
    """Finds the files that no task writes: in ``NAME.inputs``, or beside the workflow."""

    def __init__(self, source: Path) -> None:
        beside = source.parent
        own = source.with_name(stem_of(source) + ".inputs")
        self._places = [place for place in (own, beside) if place.is_dir()]

    def find(self, file: FileId) -> Path | None:
        for place in self._places:
            path = place / file
            if path.exists():
                return path
        return None

    def is_provided(self, file: FileId) -> bool:
        return self.find(file) is not None

    @property
    def places(self) -> list[str]:
        return [str(place) for place in self._places]


def runnable(workflow: Workflow, source: Path) -> Workflow:
    """The workflow as it is run, from the file ``source``. Raises a WorkflowError if it cannot."""
    inputs = InputFiles(source)
    return as_run(workflow, inputs.is_provided, inputs.places)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a pass over a workflow starts from."""

    decision: Decision
    remaining: Workflow | None  # the tasks that are due, or None if none is
    digests: Mapping[FileId, str]  # of the files in ``outside``
    outside: Mapping[FileId, Place]  # where the files are that ``remaining`` may start from
    held: Mapping[NodeId, Mapping[FileId, Place]]  # the files that each node has


class Preparer:
    """Finds and digests files, and decides which tasks are due. Digests are remembered."""

    def __init__(
        self, workflow: Workflow, source: Path, directory: RunDirectory, keep_all: bool
    ) -> None:
        self._workflow = workflow
        self._directory = RunDirectory(directory.path.absolute())
        self._inputs = InputFiles(source)
        self._seen = InputDigests(directory.path / "digests")
        read = workflow.consumers.degrees()
        made = workflow.producers.degrees()
        self._is_final = {
            file: bool(made[i]) and (keep_all or not read[i])
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
            digest = self._seen.digest_of(absolute)
            self.inputs[file] = Place(str(absolute), absolute.stat().st_size, digest, True)
            yield done
        self._seen.save()

    @property
    def input_count(self) -> int:
        return len(self._needed)

    def prepare(self, outcomes: Mapping[TaskId, Outcome], nodes: Sequence[NodeId]) -> Preparation:
        """Decide which tasks are due, and find the files that they may start from.

        A file of a skipped task is there if a depot has a file named by its digest, or ``outputs/``
        has it with that content.
        """
        depots = self._depots(nodes)
        digests = {file: place.digest for file, place in self.inputs.items()}

        def is_there(file: FileId, digest: str) -> bool:
            in_depot = any(digest in contents for contents in depots.values())
            return in_depot or self._is_published(file, digest)

        decision = decide(self._workflow, digests, outcomes, is_there, self.is_wanted)
        outside, held = dict(self.inputs), {node: dict[FileId, Place]() for node in nodes}
        for file in _known_files(decision.skip.values()):
            place = self._place(file, depots)
            if place is not None:
                outside[file.id] = place
                node = self._holder(file.digest, depots, nodes)
                if node is not None:
                    held[node][file.id] = depots[node][file.digest]
        for node in nodes:  # what is on this machine is at every node
            held[node].update(self.inputs)
        remaining = remaining_workflow(self._workflow, list(decision.due), outside)
        known = {file: place.digest for file, place in outside.items()}
        self._seen.save()
        return Preparation(decision, remaining, known, outside, held)

    def _depots(self, nodes: Sequence[NodeId]) -> dict[NodeId, dict[str, Place]]:
        """The files in the depots by digest, also in depots of an earlier run's nodes."""
        root = self._directory.depot
        names = sorted(
            {*nodes, *(NodeId(p.name) for p in root.iterdir())} if root.is_dir() else nodes
        )
        return {name: depot_contents(root / name) for name in names}

    def _is_published(self, file: FileId, digest: str) -> bool:
        path = self._directory.outputs / file
        return path.is_file() and self._seen.digest_of(path) == digest

    def _place(
        self, file: OutputFile, depots: Mapping[NodeId, Mapping[str, Place]]
    ) -> Place | None:
        for contents in depots.values():
            if file.digest in contents:
                return contents[file.digest]
        if self._is_published(file.id, file.digest):
            path = (self._directory.outputs / file.id).absolute()
            return Place(str(path), file.size_bytes, file.digest, True)
        return None

    def _holder(
        self, digest: str, depots: Mapping[NodeId, Mapping[str, Place]], nodes: Sequence[NodeId]
    ) -> NodeId | None:
        return next((node for node in nodes if digest in depots[node]), None)


def _known_files(outcomes: Iterable[Outcome]) -> Iterator[OutputFile]:
    return (file for outcome in outcomes for file in outcome.outputs)


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
    """The due tasks as a workflow of their own; outputs of other tasks are its inputs."""
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
            builder.file(files[number], place.size_bytes if place else sizes[number])
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
        )
    return builder.build()
