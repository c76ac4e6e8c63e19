"""What HEFT and PEFT know: how long tasks run on each node, and when their data can be there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dataward.errors import SettingError
from dataward.model.adjacency import Indices
from dataward.model.platform import Platform
from dataward.model.workflow import Bytes, Seconds, Workflow, sums_by_row
from dataward.plan.adage import check_width
from dataward.plan.edge_bytes import edge_bytes
from dataward.plan.rates import Rates

Located = Mapping[int, Sequence[int]]
"""Which nodes have which files at the start, all by index."""


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """The papers' model: a task's time on each node, bytes along edges, rates between nodes.

    As published, an edge is a transfer of its own: the bytes that a parent writes and a child reads
    go from the parent's node to the child's, even if the child's node has had the same file for
    another task, and transfers do not slow each other down. On one node nothing moves.

    The papers have no files from outside. A task's inputs that no task writes are taken as edges
    from nodes that have them at the start (of several, the one with the fastest uplink), and from
    the origin if no node has them. Such an edge comes from no task, so it counts where a task's
    start is estimated, and not in the ranks, which look from a task to the end.

    ``kinds`` numbers the kinds of node: tasks run equally long on all nodes of a kind.
    ``seconds_on(task)`` is the run time on each node. It means nothing for nodes with fewer
    ``cores`` than the task needs.
    """

    workflow: Workflow
    cores: tuple[int, ...]
    kinds: Indices
    seconds_on: Callable[[int], Seconds]
    mean_seconds: Seconds  # of each task, over the nodes that are wide enough
    edge_bytes: Bytes  # for each of ``workflow.parents.targets``
    mean_edge_seconds: Seconds
    origin_bytes: Bytes  # of each task's inputs that only the origin has
    rates: Rates
    located: Located  # only files that no task writes

    @property
    def widths(self) -> list[int]:
        widths: list[int] = self.workflow.cores.tolist()
        return widths

    def ready(self, task: int, nodes: Sequence[int], ends: Sequence[float]) -> Seconds:
        """When the task's data can be on each node, given the nodes and ends of its parents."""
        ready = self._inputs_ready(task)
        latest = 0.0  # of the parents that pass no bytes
        parents = self.workflow.parents
        first, last = parents.starts[task], parents.starts[task + 1]
        for parent, size in zip(
            parents.targets[first:last].tolist(), self.edge_bytes[first:last].tolist(), strict=True
        ):
            end, node = ends[parent], nodes[parent]
            if not size:
                latest = max(latest, end)
                continue
            here = max(float(ready[node]), end)
            np.maximum(ready, end + size / self.rates.from_node(node), out=ready)
            ready[node] = here
        return np.maximum(ready, latest, out=ready)

    def _inputs_ready(self, task: int) -> Seconds:
        """When the task's inputs that no task writes can be on each node."""
        size = int(self.origin_bytes[task])
        ready = size / self.rates.from_origin if size else np.zeros(len(self.cores))
        if self.located:
            for source, lacking in self._lacking_bytes(task).items():
                np.maximum(ready, lacking / self.rates.from_node(source), out=ready)
        return ready

    def _lacking_bytes(self, task: int) -> dict[int, Seconds]:
        """By node that sends: the bytes that each node lacks of the inputs it would send."""
        workflow, up = self.workflow, self.rates.up
        lacking: dict[int, Seconds] = {}
        for file in workflow.inputs.row(task).tolist():
            holders = self.located.get(file)
            if holders:
                source = min(holders, key=lambda node: (-up[node], node))
                bytes_ = lacking.setdefault(source, np.zeros(len(self.cores)))
                size = int(workflow.size_bytes[file])
                bytes_ += size
                bytes_[list(holders)] -= size
        return lacking


def costs_of(workflow: Workflow, platform: Platform, located: Located) -> Costs:
    """The costs of a workflow on a platform. Raises SettingError if a task is too wide for it."""
    machines = platform.machines
    cores = tuple(machine.cores for machine in machines)
    check_width(list(cores), workflow)
    _check_located(workflow, located, len(machines))
    speeds = np.array([machine.speed for machine in machines])
    rates = Rates(platform)
    number: dict[tuple[float, int], int] = {}
    for machine in machines:
        number.setdefault((machine.speed, machine.cores), len(number))
    passed = edge_bytes(workflow)
    outside = workflow.producers.degrees() == 0
    located = {file: holders for file, holders in located.items() if outside[file] and holders}
    outside[list(located)] = False
    runtimes = workflow.runtime_seconds.tolist()
    return Costs(
        workflow=workflow,
        cores=cores,
        kinds=np.array([number[machine.speed, machine.cores] for machine in machines], np.int32),
        seconds_on=lambda task: runtimes[task] / speeds,
        mean_seconds=workflow.runtime_seconds * _mean_slowness(workflow, speeds, np.array(cores)),
        edge_bytes=passed,
        mean_edge_seconds=passed / rates.mean(),
        origin_bytes=sums_by_row(workflow.inputs, np.where(outside, workflow.size_bytes, 0)),
        rates=rates,
        located=located,
    )


def _mean_slowness(workflow: Workflow, speeds: Seconds, cores: Indices) -> Seconds:
    """For each task, the mean of 1 / speed over the nodes that are wide enough."""
    means = np.zeros(int(workflow.cores.max()) + 1)
    for width in np.unique(workflow.cores).tolist():
        means[width] = (1.0 / speeds[cores >= width]).mean()
    found: Seconds = means[workflow.cores]
    return found


def _check_located(workflow: Workflow, located: Located, nodes: int) -> None:
    for file, holders in located.items():
        for node in holders:
            if not (0 <= node < nodes and 0 <= file < len(workflow.file_ids)):
                raise SettingError(f"file {file} cannot be on node {node}: one does not exist")
