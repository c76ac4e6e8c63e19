"""What an earlier run of a workflow left behind, drawn from a seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from dataward.model.operations import Earlier, OutputFile
from dataward.model.replay import as_replayed
from dataward.model.seeds import seeded
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.sim.digests import digest_of

RERUNS = 1 / 3  # the share of seeds in which the workflow has run before
OTHER = "other"  # a digest that no simulated task writes


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The outcomes of tasks, and the digests of files that every machine still has.

    Outcomes of ``stale`` tasks do not hold: they had read something else.
    """

    outcomes: Mapping[TaskId, Earlier] = field(default_factory=dict)
    left: Mapping[FileId, str] = field(default_factory=dict)
    stale: frozenset[TaskId] = frozenset()


def drawn_earlier_run(workflow: Workflow, seed: int) -> EarlierRun:
    """The earlier run of this seed: of most seeds none, else of some tasks, of which some changed.

    Simulated tasks write the same in every run, so only what is said here makes an outcome stale.
    """
    random = seeded(seed, "earlier run")
    if random.random() >= RERUNS:
        return EarlierRun()
    replayed = as_replayed(workflow)
    changed, gone = random.choice((0.0, 0.1, 0.5)), random.choice((0.0, 0.5, 1.0))
    outcomes: dict[TaskId, Earlier] = {}
    left: dict[FileId, str] = {}
    stale: set[TaskId] = set()
    for index, task in enumerate(replayed.task_ids):
        if random.random() < 0.1:
            continue  # it is new
        inputs = _inputs(replayed, index)
        if inputs and random.random() < changed:
            spoilt = random.choice(list(inputs))
            inputs[spoilt] = OTHER
            stale.add(task)
        files = {file.id: file for file in _outputs(replayed, index)}
        outcomes[task] = Earlier(
            tuple(inputs.items()), tuple(files.values()), _wanted(random, tuple(files))
        )
        left.update((id, file.digest) for id, file in files.items() if random.random() >= gone)
    return EarlierRun(outcomes, left, frozenset(stale))


def _inputs(workflow: Workflow, task: int) -> dict[FileId, str]:
    files: dict[FileId, str] = {}
    for file in workflow.inputs.row(task).tolist():
        writers = workflow.producers.row(file).tolist()
        id = workflow.file_ids[file]
        files[id] = digest_of(workflow.task_ids[writers[0]], id) if writers else ""
    return files


def _outputs(workflow: Workflow, task: int) -> list[OutputFile]:
    id, names, sizes = workflow.task_ids[task], workflow.file_ids, workflow.size_bytes
    return [
        OutputFile(names[file], int(sizes[file]), digest_of(id, names[file]))
        for file in workflow.outputs.row(task).tolist()
    ]


def _wanted(random: Random, files: tuple[FileId, ...]) -> tuple[FileId, ...]:
    return files if random.random() < 0.2 else ()
