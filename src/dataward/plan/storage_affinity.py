"""Storage affinity (Santos-Neto et al. 2004): tasks go where most of their input bytes are.

The assignment is made before anything runs, and nothing is known of speeds, links or run times.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from dataward.errors import SettingError
from dataward.model.workflow import Workflow
from dataward.plan.adage import Plan, check_width
from dataward.plan.costs import Located


def storage_affinity_plan(workflow: Workflow, cores: Sequence[int], located: Located) -> Plan:
    """Again and again, the task and the node with the largest affinity of all are joined.

    A task's affinity to a node is how many bytes of its inputs the node has: those that are there
    beforehand (``located``, both by index), and all that tasks assigned to the node read or write.
    A task that waits for parents is assigned after them, so that the files they write count as
    files of the nodes they are planned for: for a DAG "up front" means that too. Nodes run their
    tasks in the order of assignment.

    Equal affinities of several tasks go to the first task by level, those of a task to the node
    with the fewest tasks for each core, then to the lowest index. That is all there is of balance:
    tasks that share files go to one node, however many there are. The worker-centric paper calls
    this the problem of unbalanced task assignments, which replicas have to solve at run time.

    Affinities are kept up to date: when a file comes to a node, those of its readers change. So the
    plan costs O(log tasks) for each reader of each file, for each node that the file comes to.
    """
    check_width(list(cores), workflow)
    assignment = _Assignment(workflow, cores)
    for file in sorted(located):
        for node in located[file]:
            if not (0 <= node < len(cores) and 0 <= file < len(workflow.file_ids)):
                raise SettingError(f"file {file} cannot be on node {node}: one does not exist")
            assignment.put(node, (file,))
    assignment.begin()
    while assignment.assign():
        pass
    order = np.empty(len(workflow))
    order[assignment.order] = np.arange(len(workflow))
    return Plan(order, np.array(assignment.nodes, dtype=np.int32), None)


class _Assignment:
    """Tasks and nodes, joined one by one.

    ``best`` is each task's largest affinity; it only grows. The heap has the tasks whose parents
    are assigned, by best affinity and place; entries with a former best are skipped.
    """

    def __init__(self, workflow: Workflow, cores: Sequence[int]) -> None:
        count = len(workflow)
        self.nodes = [-1] * count
        self.order: list[int] = []
        self._inputs, self._outputs = workflow.inputs.lister(), workflow.outputs.lister()
        self._readers, self._children = workflow.consumers.lister(), workflow.children.lister()
        self._sizes = workflow.size_bytes.tolist()
        self._waiting_for = workflow.parents.degrees().tolist()
        self._place = np.argsort(workflow.layers.order).tolist()
        self._widths, self._cores = workflow.cores.tolist(), cores
        self._held: list[set[int]] = [set() for _ in cores]
        self._affinity: list[dict[int, int]] = [{} for _ in range(count)]
        self._best = [0] * count
        self._loads = _Loads(cores)
        self._heap: list[tuple[int, int, int]] = []

    def begin(self) -> None:
        """Let the tasks without parents be assigned."""
        self._heap = [
            (-self._best[task], self._place[task], task)
            for task, parents in enumerate(self._waiting_for)
            if not parents
        ]
        heapify(self._heap)

    def put(self, node: int, files: Sequence[int]) -> None:
        """Files come to a node, and tasks that read them have more affinity to it."""
        held, cores = self._held[node], self._cores[node]
        grown: dict[int, None] = {}
        for file in files:
            size = self._sizes[file]
            if file in held or not size:
                continue
            held.add(file)
            for task in self._readers(file):
                if self.nodes[task] < 0 and self._widths[task] <= cores:
                    affinity = self._affinity[task]
                    affinity[node] = now = affinity.get(node, 0) + size
                    if now > self._best[task]:
                        self._best[task] = now
                        grown[task] = None
        for task in grown:
            if not self._waiting_for[task]:
                heappush(self._heap, (-self._best[task], self._place[task], task))

    def assign(self) -> bool:
        """Whether there was a task to be assigned; now it is."""
        while self._heap:
            affinity, _, task = heappop(self._heap)
            if self.nodes[task] < 0 and -affinity == self._best[task]:
                self._join(task, self._node_for(task))
                return True
        return False

    def _node_for(self, task: int) -> int:
        best = self._best[task]
        if not best:
            return self._loads.least(self._widths[task])
        equal = [node for node, bytes in self._affinity[task].items() if bytes == best]
        return min(equal, key=lambda node: (self._loads.of(node), node))

    def _join(self, task: int, node: int) -> None:
        self.nodes[task] = node
        self.order.append(task)
        self._affinity[task] = {}
        self._loads.add(node)
        for child in self._children(task):
            self._waiting_for[child] -= 1
            if not self._waiting_for[child]:
                heappush(self._heap, (-self._best[child], self._place[child], child))
        self.put(node, [*self._inputs(task), *self._outputs(task)])


class _Loads:
    """How many tasks each node has for each of its cores, and which node has the fewest.

    Loads only grow, so a heap may have outdated ones: an entry is updated when it is at the top.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = cores
        self._tasks = [0] * len(cores)
        self._heaps: dict[int, list[tuple[float, int]]] = {}  # of nodes that are wide enough

    def of(self, node: int) -> float:
        return self._tasks[node] / self._cores[node]

    def add(self, node: int) -> None:
        self._tasks[node] += 1

    def least(self, width: int) -> int:
        """The node with the least load of those with so many cores; of equals the lowest index."""
        heap = self._heaps.get(width)
        if heap is None:
            wide = [node for node, cores in enumerate(self._cores) if cores >= width]
            heap = self._heaps[width] = [(self.of(node), node) for node in wide]
            heapify(heap)
        while heap[0][0] != self.of(heap[0][1]):
            node = heap[0][1]
            heapreplace(heap, (self.of(node), node))
        return heap[0][1]
