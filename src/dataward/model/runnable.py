"""Checks whether a workflow can be run, not just planned or drawn."""

from collections.abc import Callable

import numpy as np

from dataward.errors import (
    BadNameError,
    BadValueError,
    MissingInputError,
    SelfFeedingError,
    TwoProducersError,
)
from dataward.model.names import stays_inside
from dataward.model.workflow import FileId, Workflow


def check_runnable(workflow: Workflow, provided: Callable[[FileId], bool]) -> None:
    """Raise a WorkflowError if this workflow cannot run.

    ``provided`` tells whether a file that no task writes exists outside the workflow.
    """
    for file in workflow.file_ids:
        if not stays_inside(file):
            raise BadNameError("file", file, "is not a plain relative path, so it cannot be used")
    _check_no_file_is_a_directory(workflow)
    for index, command in enumerate(workflow.commands):
        if not command:
            task = workflow.task_ids[index]
            raise BadValueError(f"task {task!r}", "command", command, "so there is nothing to run")
    _check_order_follows_files(workflow)
    for number in np.flatnonzero(workflow.producers.degrees() == 0).tolist():
        readers = workflow.consumers.row(number)
        if readers.size and not provided(workflow.file_ids[number]):
            raise MissingInputError(workflow.file_ids[number], workflow.task_ids[int(readers[0])])


def _check_no_file_is_a_directory(workflow: Workflow) -> None:
    """Refuse a workflow with both files ``a`` and ``a/b``, even if both are outputs."""
    names = set(workflow.file_ids)
    for file in workflow.file_ids:
        place = file.rpartition("/")[0]
        while place:
            if place in names:
                problem = f"would be in a directory called {place!r}, which is a file"
                raise BadNameError("file", file, problem)
            place = place.rpartition("/")[0]


def _check_order_follows_files(workflow: Workflow) -> None:
    for file in np.flatnonzero(workflow.producers.degrees() > 1).tolist():
        writers = [workflow.task_ids[t] for t in workflow.producers.row(file).tolist()]
        raise TwoProducersError(workflow.file_ids[file], writers)
    for task, files in enumerate(workflow.inputs.rows()):
        written = set(workflow.outputs.row(task).tolist())
        for file in files:
            if file in written:
                raise SelfFeedingError(workflow.task_ids[task], workflow.file_ids[file])
