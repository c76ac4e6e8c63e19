"""Decides which tasks of a workflow an earlier run has done already, and why the others must run.

Content is compared, not times; whether a file must be read for that is decided by its size and
times (`runs/input_digests.py`, `runs/left_files.py`). Known of each task that ran before is its
`Outcome`: its recipe (a digest of how it is run: its command, list of outputs, streams and
variables) and the digests of all files it read and wrote. Outcomes are saved when a run ends; for a
run that was killed, they are made from the commits in its store. A task that failed is due.

What is decided here, before anything runs, is what can be known by then. The rest is decided as the
run goes, by the node that is about to begin a task whose inputs have been made (`node/recall.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.runs.outcomes import Outcome, digests_in, part_that_differs, recipe_of

NEW = "it had not run before"
FORCED = "it was asked to"


class Presence(Enum):
    """What became of a file that an earlier run made."""

    THERE = "there"
    GONE = "gone"
    CHANGED = "changed"  # there is something else in its place

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Decision:
    """Every task by its index, in exactly one of the three, each in ascending order.

    Tasks in ``skip`` need not run. Tasks in ``due`` must, each with the reason as a clause. Tasks
    in ``perhaps`` ran before and need not run unless something that is made in this run turns out
    different, or is needed and gone.
    """

    skip: dict[int, Outcome]
    due: dict[int, str]
    perhaps: dict[int, Outcome]

    @property
    def open(self) -> list[int]:
        """The tasks that may run, in ascending order."""
        return sorted((*self.due, *self.perhaps))


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """What is known before a run: contents of inputs, outcomes of tasks, and what is left of them.

    ``presence(file, digest)`` is asked at most once about a file: a file is there if its content is
    in a depot, or in ``outputs/`` under its name. ``wanted(file)`` says whether a file that some
    task writes must exist in the end. Tasks in ``forced`` run in any case.
    """

    input_digests: Mapping[FileId, str]
    outcomes: Mapping[TaskId, Outcome]
    presence: Callable[[FileId, str], Presence]
    wanted: Callable[[FileId], bool]
    forced: frozenset[TaskId] = frozenset()


def decide(workflow: Workflow, known: KnownBefore) -> Decision:
    """Which tasks must run so that all wanted files are there in the end, and which may have to.

    A task must run if it or an input of the workflow that it reads has changed, or if a wanted
    output of it is gone. Whoever reads what is made in this run may have to run: that shows when it
    is made. So may whoever wrote a file that is gone and that one of these reads: it runs when the
    file turns out to be needed. A dependency without a file does not count here.

    The workflow is one that can be run. Of several reasons the first is given, in the order of a
    task's files as its author wrote them down.
    """
    if not known.outcomes:
        return Decision(skip={}, due=dict.fromkeys(range(len(workflow)), NEW), perhaps={})
    due = _changes(workflow, known)
    files = _Files(workflow, known)
    for task, outcome in files.outcomes.items():
        if task not in due and (loss := files.loss(outcome)):
            due[task] = loss
    opened = _Opened(workflow, files)
    opened.add(due)
    for task in workflow.layers.order.tolist():
        # What is made in this run is compared then; this is what was made in an earlier one.
        if task not in opened and (change := files.change_inside(task)):
            due[task] = change
            opened.add([task])
    skip = {task: o for task, o in files.outcomes.items() if task not in opened}
    perhaps = {task: o for task, o in files.outcomes.items() if task in opened and task not in due}
    return Decision(skip, dict(sorted(due.items())), perhaps)


# --- what has changed ----------------------------------------------------------------------------


def _changes(workflow: Workflow, known: KnownBefore) -> dict[int, str]:
    """The tasks of which it is known beforehand that they have changed, and what has."""
    names = workflow.file_ids
    made = workflow.producers.degrees() > 0
    reads = [[names[file] for file in row] for row in workflow.inputs.rows()]
    writes = [[names[file] for file in row] for row in workflow.outputs.rows()]
    outside = {names[file] for file in np.flatnonzero(~made).tolist()}
    found: dict[int, str] = {}
    for task, id in enumerate(workflow.task_ids):
        launch = workflow.launches.get(task)
        recipe = recipe_of(workflow.commands[task] or (), writes[task], launch)
        if id in known.forced:
            found[task] = FORCED
        elif (change := _change(known.outcomes.get(id), recipe, reads[task], writes[task])) or (
            change := _change_outside(known, known.outcomes[id], reads[task], outside)
        ):
            found[task] = change
    return found


def _change(
    outcome: Outcome | None, recipe: str, reads: Sequence[FileId], writes: Sequence[FileId]
) -> str:
    """What has changed about a task itself, "" if nothing has."""
    if outcome is None:
        return NEW
    if outcome.failure:
        return "it failed in the run before"
    if outcome.recipe != recipe:
        return f"its {part_that_differs(outcome.recipe, recipe)} changed"
    before = dict(outcome.inputs)
    for file in reads:
        if file not in before:
            return f"it did not read {file!r} before"
    dropped = before.keys() - set(reads)
    if dropped:
        return f"it no longer reads {min(dropped)!r}"
    written = digests_in(outcome.outputs)
    unknown = [file for file in writes if not written.get(file)]
    return f"the content of its output {unknown[0]!r} is not known" if unknown else ""


def _change_outside(
    known: KnownBefore, outcome: Outcome, reads: Sequence[FileId], outside: set[FileId]
) -> str:
    """Which input of the workflow that a task reads has changed, "" if none has."""
    before = dict(outcome.inputs)
    for file in reads:
        if file in outside:
            digest = known.input_digests.get(file, "")
            if not digest:
                return f"the content of its input {file!r} is not known"
            if digest != before[file]:
                return f"its input {file!r} has changed"
    return ""


# --- what that means for others ------------------------------------------------------------------


@dataclass
class _Files:
    """What earlier runs have made of the workflow's files. Each file is looked for once at most."""

    workflow: Workflow
    known: KnownBefore
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    _digests: dict[FileId, str] = field(default_factory=dict)
    _presence: dict[FileId, Presence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task, id in enumerate(self.workflow.task_ids):
            outcome = self.known.outcomes.get(id)
            if outcome is not None and not outcome.failure:
                self.outcomes[task] = outcome
                self._digests.update(digests_in(outcome.outputs))

    def is_there(self, file: int) -> bool:
        return self.presence(self.workflow.file_ids[file]) is Presence.THERE

    def change_inside(self, task: int) -> str:
        """Which file that another task wrote is not what this task had read; "" if all are."""
        before = dict(self.outcomes[task].inputs)
        for file in self.workflow.inputs.row(task).tolist():
            id = self.workflow.file_ids[file]
            if id in self._digests and self._digests[id] != before[id]:
                return f"its input {id!r} has changed"
        return ""

    def presence(self, file: FileId) -> Presence:
        if file not in self._presence:
            digest = self._digests.get(file)
            found = self.known.presence(file, digest) if digest else Presence.GONE
            self._presence[file] = found
        return self._presence[file]

    def loss(self, outcome: Outcome) -> str:
        """Which wanted output of a task is not there any more, "" if all are."""
        for file in outcome.outputs:
            if self.known.wanted(file.id) and self.presence(file.id) is not Presence.THERE:
                is_gone = self.presence(file.id) is Presence.GONE
                what = "is gone" if is_gone else "was changed since"
                return f"its output {file.id!r} {what}"
        return ""


class _Opened:
    """Tasks that may run: those added, whoever reads what these write or wrote what they lack."""

    def __init__(self, workflow: Workflow, files: _Files) -> None:
        self._workflow = workflow
        self._files = files
        self._tasks: set[int] = set()

    def __contains__(self, task: int) -> bool:
        return task in self._tasks

    def add(self, tasks: Iterable[int]) -> None:
        todo = [task for task in tasks if task not in self._tasks]
        while todo:
            self._tasks.update(todo)
            near = {other for task in todo for other in self._near(task)}
            todo = [task for task in near if task not in self._tasks]

    def _near(self, task: int) -> Iterator[int]:
        workflow = self._workflow
        for file in workflow.outputs.row(task).tolist():
            yield from workflow.consumers.row(file).tolist()
        for file in workflow.inputs.row(task).tolist():
            for maker in workflow.producers.row(file).tolist():
                if maker not in self._tasks and not self._files.is_there(file):
                    yield maker
