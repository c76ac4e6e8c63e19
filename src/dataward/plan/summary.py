"""Computes the numbers that describe a workflow before it runs."""

from dataclasses import dataclass

import numpy as np

from dataward.model.workflow import Workflow
from dataward.plan.critical_path import CriticalPath, critical_path


@dataclass(frozen=True, slots=True)
class TypeSummary:
    """The numbers of all tasks of one type."""

    name: str
    tasks: int
    runtime_seconds_mean: float
    runtime_seconds_total: float
    read_bytes_mean: float
    written_bytes_mean: float


@dataclass(frozen=True, slots=True)
class Summary:
    """``total_bytes`` counts every file once; read and written bytes count every use."""

    tasks: int
    files: int
    edges: int
    depth: int
    width: int
    total_runtime_seconds: float
    total_bytes: int
    read_bytes: int
    written_bytes: int
    critical_path: CriticalPath
    types: tuple[TypeSummary, ...]


def summarise(workflow: Workflow) -> Summary:
    read, written = workflow.input_bytes(), workflow.output_bytes()
    return Summary(
        tasks=len(workflow),
        files=len(workflow.file_ids),
        edges=workflow.edge_count,
        depth=workflow.layers.depth,
        width=workflow.layers.width,
        total_runtime_seconds=float(workflow.runtime_seconds.sum()),
        total_bytes=int(workflow.size_bytes.sum()),
        read_bytes=int(read.sum()),
        written_bytes=int(written.sum()),
        critical_path=critical_path(workflow),
        types=_types(workflow, read, written),
    )


def _types(workflow: Workflow, read: np.ndarray, written: np.ndarray) -> tuple[TypeSummary, ...]:
    """A summary of each type, by total run time, longest first; ties by first appearance."""
    size = len(workflow.type_names)
    counts = np.bincount(workflow.types, minlength=size)
    seconds, reads, writes = (
        np.bincount(workflow.types, weights=weights, minlength=size)
        for weights in (workflow.runtime_seconds, read, written)
    )
    return tuple(
        TypeSummary(
            name=workflow.type_names[t],
            tasks=int(counts[t]),
            runtime_seconds_mean=float(seconds[t] / counts[t]),
            runtime_seconds_total=float(seconds[t]),
            read_bytes_mean=float(reads[t] / counts[t]),
            written_bytes_mean=float(writes[t] / counts[t]),
        )
        for t in sorted(range(size), key=lambda t: (-seconds[t], t))
    )
