"""Computes how many bytes pass along each edge of a workflow."""

import numpy as np

from dataward.model.workflow import Bytes, Workflow


def edge_bytes(workflow: Workflow) -> Bytes:
    """For each edge in ``parents.targets``, the bytes that the parent writes and the child reads.

    An edge without files has 0; files between tasks without an edge are not counted.
    """
    count = len(workflow)
    parents = workflow.parents
    total = np.zeros(workflow.edge_count, dtype=np.int64)
    if not total.size:
        return total
    writers, offsets = workflow.producers.gather(workflow.inputs.targets)
    times = np.diff(offsets)
    readers = np.repeat(workflow.inputs.owners(), times).astype(np.int64)
    sizes = np.repeat(workflow.size_bytes[workflow.inputs.targets], times)
    edges = parents.owners().astype(np.int64) * count + parents.targets  # sorted, as rows are
    passed = readers * count + writers
    at = np.minimum(np.searchsorted(edges, passed), edges.size - 1)
    known = edges[at] == passed
    np.add.at(total, at[known], sizes[known])
    return total
