"""A part of a workflow: what is asked for by name, and everything that it needs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataward.errors import SettingError
from dataward.model.file_edges import with_file_edges
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.reports.known_tasks import close_to
from dataward.runs.preparation import Request, remaining_workflow, runnable


@dataclass(frozen=True, slots=True)
class Selection:
    """Tasks that make what was asked for, and the files that are wanted for themselves."""

    workflow: Workflow
    wanted: frozenset[FileId]


def asked_for(
    workflow: Workflow,
    source: Path,
    targets: Sequence[str],
    until: Sequence[str],
    forced: Sequence[str],
) -> tuple[Workflow, Request]:
    """The part of a workflow that is to be run, as it is run, and what was asked of it.

    ``until`` names where the part that makes the targets ends before it has made them. Raises
    SettingError for names that stand for nothing, and a WorkflowError if it cannot be run.
    """
    tasks, wanted = tasks_named(workflow, forced), frozenset[FileId]()
    for names in (targets, until):
        if names:
            selection = select(with_file_edges(workflow), names)
            workflow, wanted = selection.workflow, selection.wanted
    return runnable(workflow, source), Request(tasks, wanted)


def select(workflow: Workflow, names: Sequence[str]) -> Selection:
    """The part of a workflow that makes these files, or runs these tasks or types of tasks.

    Raises SettingError if there is no such file, task or type.
    """
    tasks: set[int] = set()
    wanted: set[FileId] = set()
    for name in names:
        makers = _makers(workflow, name)
        if makers is not None:
            wanted.add(FileId(name))
        found = makers if makers is not None else _tasks_called(workflow, name)
        tasks.update(found)
        if makers is None:
            wanted.update(
                workflow.file_ids[f] for task in found for f in workflow.outputs.row(task).tolist()
            )
    part = remaining_workflow(workflow, sorted(_with_ancestors(workflow, tasks)), {})
    assert part is not None, "every name stands for a task"
    return Selection(part, frozenset(wanted))


def tasks_named(workflow: Workflow, names: Iterable[str]) -> frozenset[TaskId]:
    """The tasks of these ids or types. Raises SettingError for a name that is neither."""
    return frozenset(
        workflow.task_ids[task] for name in names for task in _tasks_called(workflow, name)
    )


def _makers(workflow: Workflow, name: str) -> list[int] | None:
    """The task that writes a file of this name; None if there is no such file."""
    if name not in workflow.file_ids:
        return None
    makers: list[int] = workflow.producers.row(workflow.file_ids.index(FileId(name))).tolist()
    if not makers:
        raise SettingError(f"{name!r} is an input of the workflow: no task makes it")
    return makers


def _tasks_called(workflow: Workflow, name: str) -> list[int]:
    if name in workflow.index_of:
        return [workflow.index_of[TaskId(name)]]
    if name in workflow.type_names:
        number = workflow.type_names.index(name)
        return [task for task, kind in enumerate(workflow.types.tolist()) if kind == number]
    known = dict.fromkeys([*workflow.task_ids, *workflow.type_names, *workflow.file_ids])
    meant = " or ".join(repr(close) for close in close_to(name, list(known)))
    hint = f"; did you mean {meant}?" if meant else ""
    raise SettingError(f"no file, task or type of task is called {name!r}{hint}")


def _with_ancestors(workflow: Workflow, tasks: Iterable[int]) -> set[int]:
    found = set(tasks)
    todo = list(found)
    while todo:
        fresh = set(workflow.parents.row(todo.pop()).tolist()) - found
        found |= fresh
        todo.extend(fresh)
    return found
