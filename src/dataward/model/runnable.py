"""A workflow as it is run, if it can be run at all and not just planned or drawn."""

from collections.abc import Callable, Sequence

import numpy as np

from dataward.errors import (
    BadNameError,
    MissingInputError,
    NoCommandError,
)
from dataward.model.directories import is_directory, without_slash
from dataward.model.file_edges import with_file_edges
from dataward.model.names import stays_inside
from dataward.model.workflow import FileId, Workflow


def as_run(
    workflow: Workflow, provided: Callable[[FileId], bool], looked_in: Sequence[str] = ()
) -> Workflow:
    """The workflow in the order in which it is run, where its files count besides its edges.

    ``provided`` tells whether a file that no task writes exists outside the workflow; the places
    that it knows of are ``looked_in``. Raises a WorkflowError if this workflow cannot run.
    """
    ordered = with_file_edges(workflow)
    for file in workflow.file_ids:
        if not stays_inside(file):
            raise BadNameError("file", file, "is not a plain relative path, so it cannot be used")
    _check_no_file_is_a_directory(workflow)
    for index, command in enumerate(workflow.commands):
        if not command:
            raise NoCommandError(workflow.task_ids[index])
    missing: dict[str, str] = {
        workflow.file_ids[file]: workflow.task_ids[int(workflow.consumers.row(file)[0])]
        for file in np.flatnonzero(workflow.producers.degrees() == 0).tolist()
        if workflow.consumers.row(file).size and not provided(workflow.file_ids[file])
    }
    if missing:
        raise MissingInputError(missing, looked_in)
    return ordered


def _check_no_file_is_a_directory(workflow: Workflow) -> None:
    """Refuse a workflow with both ``a`` and ``a/b``, even if both are outputs, or ``a`` is ``a/``.

    What is in a directory that is one content cannot be another content too.
    """
    names = {without_slash(file): file for file in workflow.file_ids}
    for file in workflow.file_ids:
        place = without_slash(file)
        if names[place] != file:
            raise BadNameError("file", file, f"cannot be there beside {names[place]!r}")
        while place := place.rpartition("/")[0]:
            if place in names:
                what = "one content" if is_directory(names[place]) else "a file"
                problem = f"would be in a directory called {place!r}, which is {what}"
                raise BadNameError("file", file, problem)
