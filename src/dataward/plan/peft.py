"""PEFT (Arabnejad, Barbosa 2014): like HEFT, but it looks ahead by an optimistic cost table."""

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dataward.model.platform import Platform
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.adage import Plan
from dataward.plan.costs import Costs, Located, costs_of
from dataward.plan.gaps import Gaps
from dataward.plan.heft import rounded_ranks
from dataward.plan.schedule import Schedule

Table = NDArray[np.float64]


def peft_plan(workflow: Workflow, platform: Platform, located: Located) -> Plan:
    """PEFT's plan, as published: of the ready tasks the one with the highest mean optimistic cost.

    It goes to the node with the least sum of end and optimistic cost. The rest is as in
    `heft_plan`, with the same model and the same cost.
    """
    costs = costs_of(workflow, platform, located)
    table = optimistic_costs(costs)
    return placed_with_table(costs, table, mean_costs(costs, table)).as_plan()


def optimistic_costs(costs: Costs) -> Table:
    """For each task and kind of node: the time from the task's end there to the workflow's end.

    It is optimistic since each child is taken to run where that is best for it alone, and no node
    is ever busy. For nodes with too few cores for the task itself the entry means nothing. All
    nodes of a kind have the same entry: moving to another node costs a mean transfer, whichever
    that is, and staying costs none. So a task costs O(children * kinds of node).
    """
    workflow, count = costs.workflow, len(costs.workflow)
    _, first = np.unique(costs.kinds, return_index=True)
    cores = np.array(costs.cores)[first]
    children = workflow.children
    below = costs.mean_edge_seconds[np.argsort(workflow.parents.targets, kind="stable")]
    table = np.zeros((count, len(first)))
    onward = np.empty((count, len(first)))  # from a task's start on a kind of node to the end
    best = np.empty(count)
    for task in workflow.layers.order[::-1].tolist():
        edges = slice(children.starts[task], children.starts[task + 1])
        if edges.start < edges.stop:
            after = children.targets[edges]
            moved = best[after] + below[edges]
            table[task] = np.minimum(onward[after], moved[:, np.newaxis]).max(axis=0)
        wide = cores >= workflow.cores[task]
        onward[task] = np.where(wide, table[task] + costs.seconds_on(task)[first], np.inf)
        best[task] = onward[task].min()
    return table


def mean_costs(costs: Costs, table: Table) -> Seconds:
    """PEFT's rank of each task: its mean optimistic cost over all nodes."""
    means: Seconds = table @ np.bincount(costs.kinds) / len(costs.kinds)
    return means


def placed_with_table(costs: Costs, table: Table, ranks: Seconds) -> Schedule:
    """Ready tasks by rank; equal ranks level by level, equal sums go to the lowest index."""
    workflow, widths = costs.workflow, costs.widths
    gaps = Gaps(costs.cores, widths)
    count = len(workflow)
    nodes, starts, ends = [0] * count, [0.0] * count, [0.0] * count
    queue = _ReadyTasks(workflow, ranks)
    while (task := queue.take()) is not None:
        seconds = costs.seconds_on(task)
        ready = costs.ready(task, nodes, ends)
        node, start = gaps.best(widths[task], ready, seconds, table[task][costs.kinds])
        nodes[task], starts[task], ends[task] = node, start, start + float(seconds[node])
        gaps.take(node, widths[task], start, ends[task])
    return Schedule(np.array(nodes, dtype=np.int32), np.array(starts), np.array(ends))


class _ReadyTasks:
    """The tasks whose parents have been taken, highest rank first."""

    def __init__(self, workflow: Workflow, ranks: Seconds) -> None:
        self._children = workflow.children
        self._waiting = workflow.parents.degrees().tolist()
        self._order = workflow.layers.order.tolist()
        place = np.empty(len(workflow), dtype=np.int64)
        place[workflow.layers.order] = np.arange(len(workflow))
        self._place, self._ranks = place.tolist(), rounded_ranks(ranks).tolist()
        entries = workflow.layers.level(0).tolist()
        self._heap = [(-self._ranks[task], self._place[task]) for task in entries]
        heapify(self._heap)

    def take(self) -> int | None:
        if not self._heap:
            return None
        task: int = self._order[heappop(self._heap)[1]]
        for child in self._children.row(task).tolist():
            self._waiting[child] -= 1
            if not self._waiting[child]:
                heappush(self._heap, (-self._ranks[child], self._place[child]))
        return task
