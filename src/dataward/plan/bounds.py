"""What no schedule can beat: lower bounds on a workflow's makespan on a given cluster."""

import math
from dataclasses import dataclass

import numpy as np

from dataward.errors import SettingError
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.critical_path import bottom_levels, top_levels


@dataclass(frozen=True, slots=True)
class Bounds:
    """Each is a lower bound on the makespan; ``best_seconds`` is the largest, ``which`` its name.

    ``which`` is one of "critical path", "work area", "head, area, tail" and "compulsory data";
    equal ones go to the first in this order.
    """

    critical_path_seconds: float
    work_area_seconds: float
    head_area_tail_seconds: float
    compulsory_data_seconds: float
    best_seconds: float
    which: str


def makespan_bounds(
    workflow: Workflow,
    *,
    nodes: int,
    cores: int,
    bandwidth_bytes_per_second: float,
    speed: float = 1.0,
    edge_bandwidth_bytes_per_second: float | None = None,
) -> Bounds:
    """Lower bounds for ``nodes`` equal nodes of ``cores`` cores and one link each.

    Assumed, and nothing more: a task runs once, unbroken, on one node, for its run time over
    ``speed``, holding its cores; it starts after its parents have ended and, if the workflow's
    inputs lie at an edge server (``edge_bandwidth_bytes_per_second`` is given), after every file
    that no task writes and it reads has reached its node over the server's link and the node's.
    Staging between nodes, latency, disks and overheads are taken as free, for a schedule may
    avoid or hide them: a child may run where its parent ran, and inputs already spread over the
    nodes may lie just where they are wanted. On a single node without an edge nothing moves.
    """
    _check(workflow, nodes, cores, bandwidth_bytes_per_second, speed)
    seconds = workflow.runtime_seconds / speed
    head = top_levels(workflow, seconds)
    bottom = bottom_levels(workflow, seconds)
    slots = nodes * cores
    area = seconds * workflow.cores
    path = float(bottom.max())
    work = max(
        _area_without_gaps(workflow, seconds, nodes, cores), _most_on_one_core(seconds, slots)
    )
    around = _head_area_tail(head, area, bottom - seconds, slots)
    data = _compulsory(
        workflow, bottom, nodes, bandwidth_bytes_per_second, edge_bandwidth_bytes_per_second
    )
    found = {
        "critical path": path,
        "work area": work,
        "head, area, tail": around,
        "compulsory data": data,
    }
    which = max(found, key=lambda name: found[name])
    return Bounds(path, work, around, data, found[which], which)


def _check(
    workflow: Workflow, nodes: int, cores: int, bandwidth_bytes_per_second: float, speed: float
) -> None:
    if nodes < 1 or cores < 1:
        raise SettingError(f"{nodes} nodes of {cores} cores can run nothing; give at least 1 of 1")
    if not bandwidth_bytes_per_second > 0:
        raise SettingError(f"a bandwidth of {bandwidth_bytes_per_second} bytes a second is not > 0")
    if not (speed > 0 and math.isfinite(speed)):
        raise SettingError(f"a speed of {speed} is not a positive number")
    widest = int(np.argmax(workflow.cores))
    if workflow.cores[widest] > cores:
        raise SettingError(
            f"task {workflow.task_ids[widest]!r} needs {workflow.cores[widest]} cores, "
            f"but a node has {cores}"
        )


def _area_without_gaps(workflow: Workflow, seconds: Seconds, nodes: int, cores: int) -> float:
    """Core-seconds over cores, counting what a wide task leaves useless.

    With a threshold e up to half a node, a task wider than ``cores - e`` shares its node with none
    as wide as e: count it as a whole node and leave narrower ones than e out. That never counts
    more than a node has (Fekete and Schepers' dual feasible functions); e = 0 is the plain area.
    """
    by_width = np.bincount(workflow.cores, weights=seconds, minlength=cores + 1)
    widths = np.flatnonzero(by_width)
    best = 0.0
    for e in [0, *widths[widths * 2 <= cores].tolist(), (cores + 1) // 2]:
        counted = np.where(widths > cores - e, cores, np.where(widths < e, 0, widths))
        best = max(best, float(by_width[widths] @ counted) / (nodes * cores))
    return best


def _most_on_one_core(seconds: Seconds, slots: int) -> float:
    """Of the (j - 1) * slots + 1 longest tasks, some core gets j: no less than their j shortest."""
    longest_first = np.sort(seconds)[::-1]
    total = np.concatenate([[0.0], np.cumsum(longest_first)])
    last = np.arange(0, len(seconds), slots) + 1
    j = np.arange(1, len(last) + 1)
    return float((total[last] - total[last - j]).max())


def _head_area_tail(head: Seconds, area: Seconds, tail: Seconds, slots: int) -> float:
    """Any set of tasks needs its earliest start, its area, and the shortest way from it to the end.

    Tried for the sets of all tasks starting no earlier than some time, and of all followed by no
    less than some time: O(n log n). They see the slow start of a fan-out and the long tail of a
    fan-in, which the plain area does not.
    """
    return max(_late_sets(head, area, tail, slots), _late_sets(tail, area, head, slots))


def _late_sets(key: Seconds, area: Seconds, other: Seconds, slots: int) -> float:
    order = np.argsort(key, kind="stable")[::-1]
    window = np.cumsum(area[order]) / slots
    return float((key[order] + window + np.minimum.accumulate(other[order])).max())


def _compulsory(
    workflow: Workflow,
    bottom: Seconds,
    nodes: int,
    bandwidth: float,
    edge_bandwidth: float | None,
) -> float:
    """What the inputs at the edge cost: all of them leave it once, and each task's reach its node.

    The file whose first copy is through last still has its readers to follow.
    """
    if edge_bandwidth is None:
        return 0.0
    if not edge_bandwidth > 0:
        raise SettingError(f"an edge bandwidth of {edge_bandwidth} bytes a second is not > 0")
    outside = (workflow.producers.degrees() == 0) & (workflow.consumers.degrees() > 0)
    if not outside.any():
        return 0.0
    sizes = np.where(outside, workflow.size_bytes, 0)
    arriving = np.zeros(len(workflow))
    np.add.at(arriving, workflow.inputs.owners(), sizes[workflow.inputs.targets].astype(np.float64))
    one_node = float(
        (arriving / min(bandwidth, edge_bandwidth) + bottom)[arriving > 0].max(initial=0.0)
    )
    files = np.flatnonzero(outside).astype(np.int32)
    readers, offsets = workflow.consumers.gather(files)
    after = float(np.maximum.reduceat(bottom[readers], offsets[:-1]).min())
    through = float(sizes.sum()) / min(edge_bandwidth, nodes * bandwidth)
    return max(one_node, through + after)
