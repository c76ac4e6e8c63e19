"""The edges that files imply: from each task that writes a file to each task that reads it."""

from dataclasses import replace

import numpy as np

from dataward.errors import BadValueError, CycleError, SelfFeedingError, TwoProducersError
from dataward.model.adjacency import Adjacency, Indices
from dataward.model.layers import find_cycle, layers_of
from dataward.model.workflow import Workflow

EDGES_MAX = 500_000_000


def file_edges(workflow: Workflow) -> tuple[Indices, Indices]:
    """(place in ``inputs.targets``, writer) for every file that is read and that somebody writes.

    A task that reads its own output is its own writer.
    """
    inputs, producers = workflow.inputs, workflow.producers
    # Edges are counted before they are made: a workflow of a few kilobytes can imply billions.
    count = int(producers.degrees()[inputs.targets].sum())
    if count > EDGES_MAX:
        raise BadValueError("the workflow", "edges implied by files", count, f"above {EDGES_MAX}")
    writers, offsets = producers.gather(inputs.targets)
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets)), writers


def implied_parents(workflow: Workflow) -> Adjacency:
    """For each task, the other tasks that write what it reads."""
    places, writers = file_edges(workflow)
    readers = workflow.inputs.owners()[places]
    others = readers != writers
    return Adjacency.from_edges(readers[others], writers[others], len(workflow))


def joined(some: Adjacency, others: Adjacency) -> Adjacency:
    """The edges of both, each once."""
    return Adjacency.from_edges(
        np.concatenate([some.owners(), others.owners()]),
        np.concatenate([some.targets, others.targets]),
        len(some),
    )


def with_file_edges(workflow: Workflow) -> Workflow:
    """The workflow as it is run: a task also waits for whoever writes what it reads.

    Raises TwoProducersError, SelfFeedingError or CycleError if there is no such order.
    """
    _check_writers(workflow)
    parents = joined(workflow.parents, implied_parents(workflow))
    if parents == workflow.parents:
        return workflow
    ordered = replace(workflow, parents=parents)
    check_order(ordered)
    return ordered


def check_order(workflow: Workflow) -> None:
    """Raise a CycleError that names the tasks, if some wait for one another."""
    if layers_of(workflow.parents, workflow.children) is None:
        cycle = find_cycle(workflow.parents, workflow.children)
        raise CycleError([workflow.task_ids[task] for task in cycle])


def _check_writers(workflow: Workflow) -> None:
    for file in np.flatnonzero(workflow.producers.degrees() > 1).tolist():
        writers = [workflow.task_ids[task] for task in workflow.producers.row(file).tolist()]
        raise TwoProducersError(workflow.file_ids[file], writers)
    for task, file in self_feeding(workflow):
        raise SelfFeedingError(workflow.task_ids[task], workflow.file_ids[file])


def self_feeding(workflow: Workflow) -> list[tuple[int, int]]:
    """The tasks that read a file they write, each with such a file."""
    places, writers = file_edges(workflow)
    own = places[workflow.inputs.owners()[places] == writers]
    readers, files = workflow.inputs.owners()[own], workflow.inputs.targets[own]
    return list(zip(readers.tolist(), files.tolist(), strict=True))
