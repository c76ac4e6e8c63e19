"""The longest chains before and after each task: levels, latest starts, the critical path.

The number of nodes and cores plays no part here; ``bounds`` and ``adage`` add it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dataward.errors import SettingError
from dataward.model.adjacency import Adjacency, Indices, Offsets
from dataward.model.layers import NARROW, Layers
from dataward.model.workflow import Seconds, Workflow

# A level with fewer tasks and edges than this is cheaper in a plain loop than in numpy: some 0.2 µs
# per edge against a fixed cost of some 30 µs per level.
_FEW = 4 * NARROW


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """The longest chain of tasks, first to last, and how long it takes."""

    tasks: Indices
    seconds: float


def bottom_levels(
    workflow: Workflow, seconds: Seconds | None = None, edge_seconds: Seconds | None = None
) -> Seconds:
    """The time from each task's start to the end of the longest chain below it.

    ``seconds`` replaces the tasks' run times (and may include their staging); ``edge_seconds`` is
    the time between a parent's end and its child's start, one for each of ``parents.targets``.
    """
    own = _own_seconds(workflow, seconds)
    below = _edges_from_above(workflow, edge_seconds)
    levels: Seconds = own + _longest_beyond(workflow.layers, workflow.children, own, below, up=True)
    return levels


def top_levels(
    workflow: Workflow, seconds: Seconds | None = None, edge_seconds: Seconds | None = None
) -> Seconds:
    """Each task's earliest start: the longest chain above it. Parameters as ``bottom_levels``."""
    own = _own_seconds(workflow, seconds)
    above = _checked_edges(workflow, edge_seconds)
    return _longest_beyond(workflow.layers, workflow.parents, own, above, up=False)


def latest_starts(
    workflow: Workflow, seconds: Seconds | None = None, edge_seconds: Seconds | None = None
) -> Seconds:
    """When each task must start for the workflow to take no longer than its critical path.

    A parent's latest start is never after its child's, not even by rounding.
    """
    bottom = bottom_levels(workflow, seconds, edge_seconds)
    latest: Seconds = bottom.max() - bottom
    return latest


def critical_path(
    workflow: Workflow, seconds: Seconds | None = None, edge_seconds: Seconds | None = None
) -> CriticalPath:
    """The longest chain, from a task without parents to one without children.

    Where several tasks would continue the chain equally well, the lowest index is taken.
    """
    bottom = bottom_levels(workflow, seconds, edge_seconds)
    below = _edges_from_above(workflow, edge_seconds)
    entries = workflow.layers.level(0)
    task = int(entries[np.argmax(bottom[entries])])
    length = float(bottom[task])
    path = [task]
    starts, children = workflow.children.starts.tolist(), workflow.children.targets
    ends = bottom[children] if below is None else bottom[children] + below
    while (first := starts[task]) < (end := starts[task + 1]):
        at = first
        if end - first > 1:
            at += int(np.argmax(ends[first:end]))  # the first maximum: rows are sorted by index
        task = int(children[at])
        path.append(task)
    return CriticalPath(np.array(path, dtype=np.int32), length)


def _own_seconds(workflow: Workflow, seconds: Seconds | None) -> Seconds:
    if seconds is None:
        return workflow.runtime_seconds
    if len(seconds) != len(workflow):
        raise SettingError(f"{len(seconds)} durations were given for {len(workflow)} tasks")
    return np.asarray(seconds, dtype=np.float64)


def _checked_edges(workflow: Workflow, edge_seconds: Seconds | None) -> Seconds | None:
    if edge_seconds is not None and len(edge_seconds) != workflow.edge_count:
        raise SettingError(
            f"{len(edge_seconds)} durations were given for {workflow.edge_count} edges"
        )
    return edge_seconds


def _edges_from_above(workflow: Workflow, edge_seconds: Seconds | None) -> Seconds | None:
    """``edge_seconds`` reordered from ``parents.targets`` to ``children.targets``."""
    if _checked_edges(workflow, edge_seconds) is None or edge_seconds is None:
        return None
    turned: Seconds = edge_seconds[np.argsort(workflow.parents.targets, kind="stable")]
    return turned


def _longest_beyond(
    layers: Layers, joined: Adjacency, own: Seconds, edge: Seconds | None, *, up: bool
) -> Seconds:
    """The longest chain strictly beyond each task, following ``joined``.

    Goes level by level, so that numpy handles all tasks of a level at once. Neighbouring narrow
    levels are joined and walked in a plain loop: otherwise a chain of a million tasks would need a
    million rounds of numpy.
    """
    reach = np.zeros(len(own))  # the longest chain beyond the task
    whole = own.astype(np.float64)  # the same with the task itself
    rank = np.empty(len(own), dtype=np.int32)
    rank[layers.order] = np.arange(len(own), dtype=np.int32)
    for first, end, narrow in _stretches(layers, joined, up=up):
        tasks = layers.order[layers.starts[first] : layers.starts[end]]
        if up:
            tasks = tasks[::-1]
        targets, offsets = joined.gather(tasks)
        if not targets.size:
            continue
        cost = None if edge is None else edge[_flat(joined, tasks, offsets)]
        if narrow:
            place = (rank[targets] - rank[tasks[0]]) * (-1 if up else 1)
            reach[tasks] = _walk(whole[tasks], whole[targets], place, offsets, cost)
        else:
            ends = whole[targets] if cost is None else whole[targets] + cost
            some = offsets[1:] > offsets[:-1]
            reach[tasks[some]] = np.maximum.reduceat(ends, offsets[:-1][some])
        whole[tasks] = own[tasks] + reach[tasks]
    return reach


def _stretches(layers: Layers, joined: Adjacency, *, up: bool) -> list[tuple[int, int, bool]]:
    """Levels as (first, end, narrow), in the order to visit them; narrow neighbours are joined."""
    edges = np.zeros(layers.order.size + 1, dtype=np.int64)
    np.cumsum(joined.degrees()[layers.order], out=edges[1:])
    work = np.diff(edges[layers.starts]) + np.diff(layers.starts)
    narrow = work <= _FEW
    cuts = np.flatnonzero(~(narrow[1:] & narrow[:-1])) + 1
    bounds = [0, *cuts.tolist(), layers.depth]
    found = [(a, b, bool(narrow[a])) for a, b in pairwise(bounds)]
    return found[::-1] if up else found


def _flat(joined: Adjacency, rows: Indices, offsets: Offsets) -> NDArray[np.int64]:
    """The positions in ``joined.targets`` of the targets that ``joined.gather(rows)`` returns."""
    shift = np.repeat(joined.starts[rows] - offsets[:-1], np.diff(offsets))
    flat: NDArray[np.int64] = np.arange(offsets[-1]) + shift
    return flat


def _walk(
    own: Seconds, outside: Seconds, place: Indices, offsets: Offsets, cost: Seconds | None
) -> list[float]:
    """The longest chain beyond each task of a narrow stretch, in order.

    ``place`` is the position of an edge's target within the stretch. It is negative if the target
    lies outside; then ``outside`` has the target's value.
    """
    settled: list[float] = []
    reach: list[float] = []
    known, places, bounds = outside.tolist(), place.tolist(), offsets.tolist()
    extra = [0.0] * len(known) if cost is None else cost.tolist()
    for i, mine in enumerate(own.tolist()):
        longest = 0.0
        for e in range(bounds[i], bounds[i + 1]):
            at = places[e]
            ends = (known[e] if at < 0 else settled[at]) + extra[e]
            if ends > longest:
                longest = ends
        reach.append(longest)
        settled.append(mine + longest)
    return reach
