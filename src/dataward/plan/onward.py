"""What is at least left of a workflow once a task has run on a node: a plan may look ahead to it.

PEFT's optimistic costs (`peft.optimistic_costs`), with the links and disks of each kind of node.
"""

import numpy as np

from dataward.model.platform import Platform
from dataward.plan.costs import Costs
from dataward.plan.peft import Table


def onward_seconds(costs: Costs, platform: Platform, kinds: list[int]) -> Table:
    """For each task and kind of node: the time from the task's end there to the workflow's end.

    It is optimistic: each child runs where that is best for it alone, nothing is ever busy, and
    what a child reads is on every node of the kind that wrote it. Elsewhere it has gone up one
    link and down another. Sites are left out. A task costs O(children * kinds of node).
    """
    workflow, count = costs.workflow, len(costs.workflow)
    machines = [platform.machines[kinds.index(kind)] for kind in range(max(kinds) + 1)]
    cores = np.array([machine.cores for machine in machines])
    speeds = np.array([machine.speed for machine in machines])
    up = np.array([machine.up_bytes_per_second for machine in machines])
    down = np.array([machine.down_bytes_per_second for machine in machines])
    disk = np.array([machine.disk_bytes_per_second for machine in machines])
    read, written = workflow.input_bytes().tolist(), workflow.output_bytes().tolist()
    children = workflow.children
    sizes = costs.edge_bytes[np.argsort(workflow.parents.targets, kind="stable")]
    table = np.zeros((count, len(machines)))
    started = np.empty((count, len(machines)))  # from when a task's inputs are there to the end
    best = np.empty(count)
    for task in workflow.layers.order[::-1].tolist():
        edges = slice(children.starts[task], children.starts[task + 1])
        if edges.start < edges.stop:
            after, passed = children.targets[edges], sizes[edges, np.newaxis]
            there = (started[after] + passed / down).min(axis=1)[:, np.newaxis]
            moved = np.maximum(best[after][:, np.newaxis] + passed / up, there)
            table[task] = np.minimum(started[after], moved).max(axis=0)
        table[task] += written[task] / disk
        seconds = float(workflow.runtime_seconds[task]) / speeds + read[task] / disk
        started[task] = np.where(cores >= workflow.cores[task], table[task] + seconds, np.inf)
        best[task] = started[task].min()
    return table
