"""Lower bounds on a workflow's makespan on a given cluster: no schedule can be shorter."""

import math
from dataclasses import dataclass

import numpy as np

from dataward.errors import SettingError
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.critical_path import bottom_levels, top_levels


@dataclass(frozen=True, slots=True)
class Bounds:
    """Each is a lower bound on the makespan; ``best_seconds`` is the largest, ``which`` its name.

    ``which`` is one of "critical path", "work area", "head, area, tail" and "compulsory data"; of
    equal bounds, the first in this order.
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

    They assume only this. A task runs once, uninterrupted, on one node, for its run time divided by
    ``speed``, and holds its cores meanwhile. A task starts after its parents have ended. If the
    workflow's inputs are at an edge server (``edge_bandwidth_bytes_per_second`` is given), a task
    also waits until those it reads have reached its node over the server's link and the node's.
    Staging between nodes, latency, disks and overheads count as free, because a schedule may avoid
    or hide them: a child may run where its parent ran, and inputs that are spread over the nodes
    may be just where they are needed. On a single node without an edge nothing moves.
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
    """Core-seconds divided by cores, counting also cores that no task can use beside a wide task.

    Take a threshold e of at most half a node. A task wider than ``cores - e`` cannot share its node
    with a task of width e or more, so it counts as a whole node, and tasks narrower than e do not
    count. That never counts more cores than a node has (Fekete and Schepers' dual feasible
    functions); e = 0 gives the plain area.
    """
    by_width = np.bincount(workflow.cores, weights=seconds, minlength=cores + 1)
    widths = np.flatnonzero(by_width)
    best = 0.0
    for e in [0, *widths[widths * 2 <= cores].tolist(), (cores + 1) // 2]:
        counted = np.where(widths > cores - e, cores, np.where(widths < e, 0, widths))
        best = max(best, float(by_width[widths] @ counted) / (nodes * cores))
    return best


def _most_on_one_core(seconds: Seconds, slots: int) -> float:
    """Of the (j - 1) * slots + 1 longest tasks, some core runs at least j.

    That core takes at least as long as the j shortest of them; the best j counts.
    """
    longest_first = np.sort(seconds)[::-1]
    total = np.concatenate([[0.0], np.cumsum(longest_first)])
    last = np.arange(0, len(seconds), slots) + 1
    j = np.arange(1, len(last) + 1)
    return float((total[last] - total[last - j]).max())


def _head_area_tail(head: Seconds, area: Seconds, tail: Seconds, slots: int) -> float:
    """For a set of tasks: its earliest start, plus its area, plus the shortest way to the end.

    Two families of sets are tried, in O(n log n): all tasks that start no earlier than some time,
    and all tasks after which at least some time remains. Unlike the plain area, this bound counts
    the slow start of a fan-out and the long tail of a fan-in.
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
    """The time that the inputs at the edge need, and the tasks after them.

    Every input passes the edge's link at least once, and each task's inputs reach its node. After
    the file that arrives last, its readers and their descendants still have to run.
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
