"""The workflows that the cluster is given, with what an undisturbed execution makes of them."""

import subprocess
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random

from blake3 import blake3

from dataward import write_workflow
from dataward.generate import generate, make_runnable, write_inputs
from dataward.model.workflow import FileId, TaskId, Workflow

SHAPES = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
TASKS = (24, 36)
TASK_SECONDS = (0.0, 0.1)  # on average; drawn for each workflow
FILE_BYTES = 20_000  # on average
TASK_SHARE = 0.4  # of a depot that one task may need: two runs may share it


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workflow in a file beside its inputs; ``expected`` has the digests of its results."""

    workflow: Workflow
    path: Path
    expected: dict[FileId, str]
    digests: dict[FileId, str]  # of all files
    inputs: frozenset[str]  # digests

    @property
    def outputs(self) -> dict[TaskId, list[FileId]]:
        ids, files = self.workflow.task_ids, self.workflow.file_ids
        rows = enumerate(self.workflow.outputs.rows())
        return {ids[task]: [files[file] for file in row] for task, row in rows}

    @property
    def parents(self) -> dict[TaskId, list[TaskId]]:
        ids = self.workflow.task_ids
        rows = enumerate(self.workflow.parents.rows())
        return {ids[task]: [ids[parent] for parent in row] for task, row in rows}


def prepared(random: Random, directory: Path, depot_bytes: float = inf) -> Prepared:
    """A workflow drawn at random that depots of this size can hold, written into this directory."""
    while True:
        shape, seed = random.choice(SHAPES), random.randrange(1 << 30)
        made = generate(shape, random.randint(*TASKS), seed=seed)
        seconds = random.uniform(*TASK_SECONDS)
        workflow = make_runnable(
            made,
            time_scale=seconds / max(float(made.runtime_seconds.mean()), 1e-9),
            data_scale=FILE_BYTES / max(float(made.size_bytes.mean()), 1.0),
        )
        if _needed_bytes(workflow) <= depot_bytes * TASK_SHARE:
            break
    directory.mkdir()
    path = directory / f"{shape}.json"
    write_workflow(workflow, path)
    write_inputs(workflow, directory / f"{shape}.inputs")
    return Prepared(workflow, path, *_plainly_made(workflow, directory / "plain"))


def _needed_bytes(workflow: Workflow) -> float:
    """The most that one task reads and writes."""
    sizes = workflow.size_bytes
    rows = zip(workflow.inputs.rows(), workflow.outputs.rows(), strict=True)
    return max(float(sizes[read].sum() + sizes[written].sum()) for read, written in rows)


def _plainly_made(
    workflow: Workflow, directory: Path
) -> tuple[dict[FileId, str], dict[FileId, str], frozenset[str]]:
    """What a loop over all tasks in one directory makes: results, all files, and inputs."""
    directory.mkdir()
    write_inputs(workflow, directory)
    for task in workflow.layers.order.tolist():
        subprocess.run(workflow.commands[task] or (), cwd=directory, check=True)
    made, read = workflow.producers.degrees(), workflow.consumers.degrees()
    digests = {file: digest_of(directory / file) for file in workflow.file_ids}
    results = {
        file: digests[file] for i, file in enumerate(workflow.file_ids) if made[i] and not read[i]
    }
    inputs = frozenset(digests[f] for i, f in enumerate(workflow.file_ids) if not made[i])
    return results, digests, inputs


def digest_of(path: Path) -> str:
    return blake3(path.read_bytes()).hexdigest()
