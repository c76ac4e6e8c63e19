"""How late each task of a schedule may start, so that the schedule still ends when it should."""

import numpy as np

from dataward.model.workflow import Seconds
from dataward.plan.costs import Costs
from dataward.plan.schedule import Schedule


def latest_starts(costs: Costs, schedule: Schedule) -> Seconds:
    """The latest start of each task that delays nobody beyond the end of the schedule.

    A task must end before those start that read its files, and before those that are planned on its
    cores after it. Between the ends of a task and the starts of its children their files have to
    move: as much time as that takes on links that nothing else uses, but no more than is planned.
    """
    workflow, nodes = costs.workflow, schedule.nodes.tolist()
    starts, ends = schedule.starts.tolist(), schedule.ends.tolist()
    order = _order(costs, schedule)
    after = _next_on_cores(costs, schedule, order)
    parents, targets = workflow.parents, workflow.parents.targets.tolist()
    firsts, sizes = parents.starts.tolist(), costs.edge_bytes.tolist()
    latest_ends = [schedule.makespan_seconds] * len(workflow)
    latest = [0.0] * len(workflow)
    for task in reversed(order):
        for successor in after[task]:
            latest_ends[task] = min(latest_ends[task], latest[successor])
        latest[task] = latest_ends[task] - (ends[task] - starts[task])
        for edge in range(firsts[task], firsts[task + 1]):
            parent, seconds = targets[edge], 0.0
            if nodes[parent] != nodes[task] and sizes[edge]:
                rate = float(costs.rates.from_node(nodes[parent])[nodes[task]])
                seconds = min(sizes[edge] / rate, starts[task] - ends[parent])
            latest_ends[parent] = min(latest_ends[parent], latest[task] - seconds)
    return np.array(latest)


def _order(costs: Costs, schedule: Schedule) -> list[int]:
    """The tasks by start; those that take no time before others, and parents before children."""
    place = np.empty(len(schedule.nodes), dtype=np.int64)
    place[costs.workflow.layers.order] = np.arange(len(place))
    order: list[int] = np.lexsort((place, schedule.ends, schedule.starts)).tolist()
    return order


def _next_on_cores(costs: Costs, schedule: Schedule, order: list[int]) -> list[list[int]]:
    """For each task, those that are planned next on one of its cores."""
    after: list[list[int]] = [[] for _ in schedule.nodes]
    on_node: dict[int, list[int]] = {}
    for task in order:
        on_node.setdefault(int(schedule.nodes[task]), []).append(task)
    starts, ends, widths = schedule.starts.tolist(), schedule.ends.tolist(), costs.widths
    for node, tasks in on_node.items():
        free = [(0.0, -1)] * costs.cores[node]  # by when the core is free, and after which task
        for task in tasks:
            free.sort()
            usable = sum(end <= starts[task] + 1e-9 for end, _ in free)
            taken = free[max(usable - widths[task], 0) : max(usable, widths[task])]
            for core in taken:
                free.remove(core)
                if core[1] >= 0:
                    after[core[1]].append(task)
            free += [(ends[task], task)] * widths[task]
    return after
