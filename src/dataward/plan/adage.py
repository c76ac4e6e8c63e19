"""Plans, before a run, which node each task prefers and how urgent the task is.

Here are ADAGE's critical-path plan and two simple plans to compare it with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappush, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dataward.errors import SettingError
from dataward.model.adjacency import Indices
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.critical_path import latest_starts

# If a file has at most this many copies, all nodes that hold it are candidates; if more, only the
# holder that is free first.
_COPIES_FEW = 24


class PlannedPromise(NamedTuple):
    """A core of a node is reserved for a task, which ends by a deadline; tasks and nodes by index.

    A task that needs several cores has a promise from each.
    """

    task: int
    node: int
    core: int  # of the node
    deadline: float
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """For each task, its urgency (lower is more urgent) and the index of the node it prefers.

    ``estimated_makespan_seconds`` is None if the plan was made without estimating times. ``ahead``
    are files that nodes should bring in before a task needs them, as (file, node), both by index,
    each node's most urgent first: inputs of the workflow at once, others when they are committed.
    ``promises`` is what cores are to keep free for tasks, by some strategies.
    """

    priority: Seconds
    preferred: Indices
    estimated_makespan_seconds: float | None
    ahead: tuple[tuple[int, int], ...] = ()
    promises: tuple[PlannedPromise, ...] = ()


def adage_plan(
    workflow: Workflow,
    nodes: int,
    *,
    bandwidth_bytes_per_second: ArrayLike,
    cores: ArrayLike = 1,
    speed: ArrayLike = 1.0,
    located: Mapping[int, Sequence[int]] | None = None,
    respect_parents: bool = True,
    queue_transfers: bool = False,
    priority: Seconds | None = None,
    kept_to: Mapping[int, Sequence[int]] | None = None,
) -> Plan:
    """ADAGE's plan: tasks in order of their latest starts, each on the node where it ends first.

    If a ``priority`` is given, the tasks are taken in that order instead: no child's may be lower
    than its parent's. Tasks that are ``kept_to`` some nodes, each wide enough, go to one of these.

    A node can start a task when it has enough free cores and has brought in, over its own link, the
    inputs that it is not yet planned to hold. Bandwidth, cores and speed are one number for all
    nodes or one each. ``located`` says which nodes hold which files (both by index) beforehand;
    other files that no task writes are outside, equally far from every node. Staging begins when
    the last parent has ended. The authors let it begin at once, as if parents took no time; with
    ``respect_parents=False`` so does this plan. They compare starts, and their nodes are all alike;
    we compare ends, which gives the same for equal nodes and is right where speeds differ.

    With ``queue_transfers`` a node's link brings in the inputs of one task after another. Without,
    transfers do not wait for each other: four tasks with 40 GB each then seem to end as early on
    one node of four cores as on four nodes. The real load of a link is known only at run time.

    Equal ends go to the node with the fewest bytes to bring in, then the one free first, then the
    lowest index.

    Not every node is compared. Among nodes of equal bandwidth, cores and speed that hold none of
    the inputs, staging takes equally long, so the one that is free first is the best; it is kept at
    the top of a heap. Nodes that hold an input are all compared if the file has at most 24 copies;
    if it has more, only the holder that is free first. So the choice is the best of all nodes
    unless a task reads two or more files with more than 24 copies, and a task costs
    O(inputs + kinds of node), times log(nodes), not O(nodes). With ``queue_transfers`` the node of
    each kind whose link is free first is compared too; a node that is first in neither way, but
    good in both, may then be missed.
    """
    columns = _per_node(nodes, bandwidth_bytes_per_second, cores, speed)
    check_width(columns[1], workflow)
    cluster = _Cluster(*columns, queue_transfers=queue_transfers)
    if priority is None:
        priority = latest_starts(workflow)
    rank = np.empty(len(workflow), dtype=np.int64)
    rank[workflow.layers.order] = np.arange(len(workflow))
    order = np.lexsort((rank, priority))
    copies = _Copies(workflow, nodes, cluster, located or {})
    preferred, makespan = _assign(
        workflow, order.tolist(), cluster, copies, respect_parents, kept_to or {}
    )
    return Plan(priority, np.array(preferred, dtype=np.int32), makespan)


def lone_node_plan(workflow: Workflow, cores: int) -> Plan:
    """ADAGE's plan for a single node, which decides only the order."""
    check_width([cores], workflow)
    return Plan(latest_starts(workflow), np.zeros(len(workflow), dtype=np.int32), None)


def random_plan(workflow: Workflow, nodes: int, seed: int, cores: Sequence[int] = ()) -> Plan:
    """A random node for each task, as ADAGE's comparison pre-assigns for MATRIX and Albatross.

    Priority is by level. If the nodes' ``cores`` are given, every task has a node that is wide
    enough.
    """
    _check_nodes(nodes)
    generator = np.random.Generator(np.random.PCG64(seed))
    preferred = generator.integers(0, nodes, len(workflow), dtype=np.int32)
    if cores:
        check_width(list(cores), workflow)
        for width in np.unique(workflow.cores).tolist():
            wide = np.flatnonzero(np.asarray(cores) >= width)
            narrow = np.flatnonzero((workflow.cores == width) & ~np.isin(preferred, wide))
            preferred[narrow] = wide[generator.integers(0, len(wide), len(narrow))]
    return Plan(_level_order(workflow), preferred, None)


def level_order_plan(workflow: Workflow, nodes: int) -> Plan:
    """First come, first served: tasks level by level, on the nodes in turn."""
    _check_nodes(nodes)
    priority = _level_order(workflow)
    return Plan(priority, (priority.astype(np.int64) % nodes).astype(np.int32), None)


def _level_order(workflow: Workflow) -> Seconds:
    place = np.empty(len(workflow))
    place[workflow.layers.order] = np.arange(len(workflow))
    return place


def _check_nodes(nodes: int) -> None:
    if nodes < 1:
        raise SettingError(f"{nodes} nodes can run nothing; give at least 1")


def check_width(cores: list[int], workflow: Workflow) -> None:
    """Raise SettingError if a task needs more cores than any node has."""
    widest = int(workflow.cores.max())
    if max(cores) < widest:
        raise SettingError(f"a task needs {widest} cores, but no node has more than {max(cores)}")


def _per_node(
    nodes: int, bandwidth: ArrayLike, cores: ArrayLike, speed: ArrayLike
) -> tuple[list[float], list[int], list[float]]:
    _check_nodes(nodes)
    columns = []
    for what, given in (("bandwidth", bandwidth), ("cores", cores), ("speed", speed)):
        values = np.asarray(given)
        if values.ndim > 1 or (values.ndim == 1 and len(values) != nodes):
            raise SettingError(f"{what} was given for {values.size} nodes, but there are {nodes}")
        if not (values > 0).all():
            raise SettingError(f"every node's {what} must be above 0")
        columns.append(np.broadcast_to(values, nodes).tolist())
    return columns[0], [int(c) for c in columns[1]], columns[2]


class _Cluster:
    """When each node's cores become free, and which node of each kind is free first.

    Times only grow, so a heap may hold outdated times: an entry is updated when it reaches the top.
    """

    def __init__(
        self,
        bandwidth: list[float],
        cores: list[int],
        speed: list[float],
        *,
        queue_transfers: bool,
    ) -> None:
        self.bandwidth = bandwidth
        self.speed = speed
        self.cores = cores
        kinds = sorted(set(zip(bandwidth, cores, speed, strict=True)))
        number = {kind: i for i, kind in enumerate(kinds)}
        self.kind_of = [number[kind] for kind in zip(bandwidth, cores, speed, strict=True)]
        self.kind_count = len(kinds)
        self._free = [[0.0] * count for count in cores]  # each sorted
        self._first: dict[int, list[list[tuple[float, int]]]] = {}
        self._link_free: list[float] | None = [0.0] * len(cores) if queue_transfers else None
        self._links: list[list[tuple[float, int]]] = [[] for _ in kinds]
        for node, kind in enumerate(self.kind_of):
            self._links[kind].append((0.0, node))

    def staged_seconds(self, node: int, ready: float, size_bytes: int) -> float:
        """When ``size_bytes`` bytes, requested at ``ready``, have arrived at the node."""
        if self._link_free is not None and size_bytes:
            ready = max(ready, self._link_free[node])
        return ready + size_bytes / self.bandwidth[node]

    def stage(self, node: int, ready: float, size_bytes: int) -> None:
        if self._link_free is not None and size_bytes:
            self._link_free[node] = self.staged_seconds(node, ready, size_bytes)

    def first_links(self) -> list[int]:
        """The node of each kind whose link is free first; none if transfers do not queue."""
        if self._link_free is None:
            return []
        first = []
        for heap in self._links:
            while heap[0][0] != self._link_free[heap[0][1]]:
                node = heap[0][1]
                heapreplace(heap, (self._link_free[node], node))
            first.append(heap[0][1])
        return first

    def free_seconds(self, node: int, width: int) -> float:
        """When the node has ``width`` cores free."""
        return self._free[node][width - 1]

    def occupy(self, node: int, width: int, until: float) -> None:
        free = self._free[node]
        if len(free) == 1:
            free[0] = until
        else:
            free[:width] = [until] * width
            free.sort()

    def heaps(self, members: Sequence[int], width: int) -> list[list[tuple[float, int]]]:
        """One heap for each kind, of the members with enough cores, by the time they are free."""
        heaps: list[list[tuple[float, int]]] = [[] for _ in range(self.kind_count)]
        for node in members:
            if self.cores[node] >= width:
                heaps[self.kind_of[node]].append((self._free[node][width - 1], node))
        for heap in heaps:
            heapify(heap)
        return heaps

    def first_free(self, width: int) -> list[int]:
        """The node of each kind that is the first to have ``width`` cores free."""
        heaps = self._first.get(width)
        if heaps is None:
            heaps = self._first[width] = [h for h in self.heaps(range(len(self.cores)), width) if h]
        return [self.top(heap, width) for heap in heaps]

    def top(self, heap: list[tuple[float, int]], width: int) -> int:
        free, at = self._free, width - 1
        while True:
            known, node = heap[0]
            now = free[node][at]
            if now == known:
                return node
            heapreplace(heap, (now, node))


class _Copies:
    """Which nodes are planned to hold which files."""

    def __init__(
        self,
        workflow: Workflow,
        nodes: int,
        cluster: _Cluster,
        located: Mapping[int, Sequence[int]],
    ) -> None:
        self._nodes = nodes
        self._cluster = cluster
        self._few: list[list[int] | None] = [None] * len(workflow.file_ids)
        self._many: dict[int, set[int]] = {}
        self._heaps: dict[int, dict[int, list[list[tuple[float, int]]]]] = {}  # file, width, kind
        for file in sorted(located):
            for node in located[file]:
                if not (0 <= node < nodes and 0 <= file < len(workflow.file_ids)):
                    raise SettingError(f"file {file} cannot be on node {node}: one does not exist")
                self.add(file, node)

    def add(self, file: int, node: int) -> None:
        few = self._few[file]
        if few is None:
            self._few[file] = [node]
        elif len(few) <= _COPIES_FEW:
            if node not in few:
                few.append(node)
                if len(few) > _COPIES_FEW:
                    self._many[file] = set(few)
                    self._heaps[file] = {}
        elif node not in self._many[file]:
            self._many[file].add(node)
            self._add_to_heaps(file, node)

    def _add_to_heaps(self, file: int, node: int) -> None:
        kind = self._cluster.kind_of[node]
        for width, heaps in self._heaps[file].items():
            if self._cluster.cores[node] >= width:
                heappush(heaps[kind], (self._cluster.free_seconds(node, width), node))

    def held_bytes(
        self, inputs: Sequence[tuple[int, int]], width: int, among: Sequence[int]
    ) -> tuple[int, dict[int, int]]:
        """The input bytes that some node lacks, and how many of them each candidate node holds.

        Candidates are the nodes in ``among`` or, if there are none, those that may be the best.
        """
        total = 0
        cluster = self._cluster
        held: dict[int, int] = dict.fromkeys(
            among or [*cluster.first_free(width), *cluster.first_links()], 0
        )
        wide: list[tuple[set[int], int]] = []
        for file, size in inputs:
            few = self._few[file]
            if few is None:
                total += size
            elif len(few) <= _COPIES_FEW:
                if len(few) < self._nodes:
                    total += size
                    for node in few:
                        held[node] = held.get(node, 0) + size
            elif len(self._many[file]) < self._nodes:
                total += size
                wide.append((self._many[file], size))
                for node in self._first_holders(file, width):
                    held.setdefault(node, 0)
        for holders, size in wide:
            for node in held:
                if node in holders:
                    held[node] += size
        return total, {node: held[node] for node in among} if among else held

    def _first_holders(self, file: int, width: int) -> list[int]:
        heaps = self._heaps[file].get(width)
        if heaps is None:
            members = sorted(self._many[file])
            heaps = self._heaps[file][width] = self._cluster.heaps(members, width)
        return [self._cluster.top(heap, width) for heap in heaps if heap]


def _assign(
    workflow: Workflow,
    order: Sequence[int],
    cluster: _Cluster,
    copies: _Copies,
    respect_parents: bool,
    kept_to: Mapping[int, Sequence[int]],
) -> tuple[list[int], float]:
    count = len(workflow)
    preferred = [0] * count
    ends = [0.0] * count
    inputs, outputs = workflow.inputs.lister(), workflow.outputs.lister()
    parents = workflow.parents.lister()
    sizes = workflow.size_bytes.tolist()
    runtimes, widths = workflow.runtime_seconds.tolist(), workflow.cores.tolist()
    for task in order:
        ready = max([ends[p] for p in parents(task)], default=0.0) if respect_parents else 0.0
        width = widths[task]
        needed = [(file, sizes[file]) for file in inputs(task) if sizes[file]]
        total, held = copies.held_bytes(needed, width, kept_to.get(task, ()))
        weighed = _weighed(cluster, held, total, ready, width, runtimes[task])
        end, missing, _, node = min(weighed)
        cluster.occupy(node, width, end)
        cluster.stage(node, ready, missing)
        preferred[task] = node
        ends[task] = end
        for file, _ in needed:
            copies.add(file, node)
        for file in outputs(task):
            copies.add(file, node)
    return preferred, max(ends)


def _weighed(
    cluster: _Cluster, held: dict[int, int], total: int, ready: float, width: int, runtime: float
) -> list[tuple[float, int, float, int]]:
    """Each candidate as (end, bytes to bring in, time free, node)."""
    speed, cores = cluster.speed, cluster.cores
    weighed = []
    for node, here in held.items():
        if cores[node] >= width:
            free = cluster.free_seconds(node, width)
            start = max(cluster.staged_seconds(node, ready, total - here), free)
            weighed.append((start + runtime / speed[node], total - here, free, node))
    return weighed
