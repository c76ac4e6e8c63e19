"""CPFL, critical path with file location (Acevedo, Hernández, Espinosa, Méndez 2017).

Known here by its abstract and by what others tell of it: a first stage settles where input files
that several tasks share are to be, then the critical path gives each task its priority, and by that
each task goes to a node according to its data. Of several workflows at once it makes one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

from dataward.model.adjacency import Indices
from dataward.model.platform import Platform
from dataward.model.workflow import Workflow, sums_by_row
from dataward.plan.adage import Plan, adage_plan
from dataward.plan.costs import Located, costs_of
from dataward.plan.heft import rank_order, upward_ranks

KEPT_SHARE = 0.01  # of its run time must it take to bring a task's shared inputs in, to keep it
HOLDERS_COMPARED_MAX = 24  # a file at more nodes than this says little about where a task should go


def cpfl_plan(workflow: Workflow, platform: Platform, located: Located) -> Plan:
    """Shared inputs are given places, most urgent first; tasks then go to them, also in that order.

    A task is the more urgent the longer the way from its start to the workflow's end, transfers
    between tasks included (HEFT's upward rank, of which the plan's priority is the distance to the
    longest). In that order each task is put where it ends first, as in ADAGE's plan. Shared inputs
    count as being at their places from the start, and a task that reads some goes to one of the
    nodes that have most of them, unless they are so small that it does not matter. Other tasks go
    anywhere.

    What the authors have and this plan has not: a hierarchy of storage in each node, from memory to
    network disk, of which a file's place is chosen too. Our nodes have one disk.
    """
    ranks = upward_ranks(costs_of(workflow, platform, located))
    order = rank_order(workflow, ranks)
    placed = shared_locations(workflow, platform, order, located)
    there = {
        file: sorted({*located.get(file, ()), *placed.get(file, ())})
        for file in {**located, **placed}
    }
    machines = platform.machines
    plan = adage_plan(
        workflow,
        len(machines),
        bandwidth_bytes_per_second=[m.down_bytes_per_second for m in machines],
        cores=[m.cores for m in machines],
        speed=[m.speed for m in machines],
        located=there,
        queue_transfers=True,
        priority=ranks.max() - ranks,
        kept_to=_with_their_files(workflow, platform, there),
    )
    return replace(plan, ahead=tuple((f, node) for f, nodes in placed.items() for node in nodes))


def shared_inputs(workflow: Workflow) -> NDArray[np.bool_]:
    """Whether each file is read by several tasks and written by none; empty files do not count."""
    is_outside = workflow.producers.degrees() == 0
    shared: NDArray[np.bool_] = (
        is_outside & (workflow.consumers.degrees() > 1) & (workflow.size_bytes > 0)
    )
    return shared


def _with_their_files(
    workflow: Workflow, platform: Platform, there: Located
) -> dict[int, list[int]]:
    """For each task that reads shared inputs, the nodes wide enough that have most of them.

    Left out are tasks that may go anywhere: all their shared inputs are at many nodes, or at nodes
    that are too narrow, or could be brought in in a hundredth of the run time.
    """
    is_shared, sizes = shared_inputs(workflow).tolist(), workflow.size_bytes.tolist()
    shared_bytes = sums_by_row(workflow.inputs, np.where(is_shared, workflow.size_bytes, 0))
    cores = [machine.cores for machine in platform.machines]
    slowest = min(machine.down_bytes_per_second for machine in platform.machines)
    matters = shared_bytes / slowest > KEPT_SHARE * workflow.runtime_seconds
    found: dict[int, list[int]] = {}
    for task in np.flatnonzero(matters).tolist():
        files = workflow.inputs.row(task).tolist()
        held: dict[int, int] = {}
        for file in files:
            holders = there.get(file, ()) if is_shared[file] else ()
            if len(holders) <= HOLDERS_COMPARED_MAX:
                for node in holders:
                    if cores[node] >= workflow.cores[task]:
                        held[node] = held.get(node, 0) + sizes[file]
        if held:
            most = max(held.values())
            found[task] = sorted(node for node, size in held.items() if size == most)
    return found


def shared_locations(
    workflow: Workflow, platform: Platform, order: Indices, located: Located
) -> dict[int, list[int]]:
    """Nodes to which shared inputs are brought, most urgent first, beyond where they are already.

    Shared are files that no task writes and several read. Tasks that read any are dealt out to
    nodes in the given order, each to the node that has most of the shared bytes it reads, as long
    as that node has less work than its share; else to the node with the least. Where a task is
    dealt to, its shared inputs are wanted. So a file gets as many copies as its readers can keep
    nodes busy, and files that are read together come together. A node's share goes by its cores
    and speed, and its disk is not filled beyond what fits. The rule is ours: of the authors' it is
    only said that shared files are placed beforehand. Equal nodes go by the lowest index.

    It costs O(shared inputs of all tasks), times 24 and the logarithm of nodes.
    """
    dealing = _Dealing(workflow, platform, located)
    for task in order.tolist():
        dealing.deal(task)
    return dealing.wanted


class _Dealing:
    """Tasks dealt to nodes so far, and the shared files that are where they are wanted."""

    def __init__(self, workflow: Workflow, platform: Platform, located: Located) -> None:
        machines = platform.machines
        self.wanted: dict[int, list[int]] = {}
        self._sizes: list[int] = workflow.size_bytes.tolist()
        self._is_shared = shared_inputs(workflow)
        self._inputs = workflow.inputs
        self._widths: list[int] = workflow.cores.tolist()
        self._at: dict[int, list[int]] = {file: list(nodes) for file, nodes in located.items()}
        self._cores = [m.cores for m in machines]
        self._strength = [m.cores * m.speed for m in machines]
        self._room_bytes = [m.capacity_bytes for m in machines]
        work = workflow.runtime_seconds * workflow.cores
        if not work.any():
            work = np.ones(len(workflow))  # of tasks without duration, all are alike
        self._work: list[float] = work.tolist()
        reads = sums_by_row(workflow.inputs, self._is_shared.astype(np.int64))
        self._share = float(work[reads > 0].sum()) / sum(self._strength)
        self._load = [0.0] * len(machines)  # work over strength
        self._least = [(0.0, node) for node in range(len(machines))]
        heapify(self._least)

    def deal(self, task: int) -> None:
        files = [file for file in self._inputs.row(task).tolist() if self._is_shared[file]]
        if not files:
            return
        node = self._node_for(files, self._widths[task])
        if node is None:
            return
        self._load[node] += self._work[task] / self._strength[node]
        for file in files:
            at = self._at.setdefault(file, [])
            if node not in at:
                at.append(node)
                self.wanted.setdefault(file, []).append(node)
                self._room_bytes[node] -= self._sizes[file]

    def _node_for(self, files: Sequence[int], width: int) -> int | None:
        """The node with most of these files that may take more work, or the one with the least.

        None if no node has room for what it lacks.
        """
        held: dict[int, int] = {}
        for file in files:
            holders = self._at.get(file, ())
            if len(holders) <= HOLDERS_COMPARED_MAX:
                for node in holders:
                    held[node] = held.get(node, 0) + self._sizes[file]
        total = sum(self._sizes[file] for file in files)
        good = [
            (-size, self._load[node], node)
            for node, size in held.items()
            if self._load[node] < self._share and self._takes(node, width, total - size)
        ]
        if good:
            return min(good)[2]
        return next((node for node in self._by_load() if self._takes(node, width, total)), None)

    def _takes(self, node: int, width: int, size_bytes: int) -> bool:
        return self._cores[node] >= width and self._room_bytes[node] >= size_bytes

    def _by_load(self) -> Iterator[int]:
        """The node with the least work and then, if that will not do, all others by their work."""
        while (first := self._least[0])[0] != self._load[first[1]]:
            heapreplace(self._least, (self._load[first[1]], first[1]))
        yield first[1]
        yield from sorted(range(len(self._load)), key=lambda node: (self._load[node], node))
