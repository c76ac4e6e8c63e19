"""Runs under SAGA's own Python: problems as JSON on stdin, SAGA's schedules as JSON on stdout.

A problem has the tasks' seconds, edges as [parent, child, bytes], the nodes' speeds and the rates
between them. SAGA walks over frozensets of nodes, so an answer says in which order it met them.
"""

import json
import sys

from saga import Network, TaskGraph
from saga.schedulers.heft import HeftScheduler, heft_rank_sort
from saga.schedulers.peft import OCT_table, PEFTScheduler, peft_rank_sort


def judge(problem):
    count = len(problem["speeds"])
    network = Network.create(
        [(f"n{i}", speed) for i, speed in enumerate(problem["speeds"])],
        [(f"n{i}", f"n{j}", problem["rates"][i][j]) for i in range(count) for j in range(i)],
    )
    graph = TaskGraph.create(
        [(f"t{i}", seconds) for i, seconds in enumerate(problem["seconds"])],
        [(f"t{p}", f"t{c}", float(size)) for p, c, size in problem["edges"]],
    )
    table = OCT_table(graph, network)
    return {
        "nodes": [number(node.name) for node in network.nodes],
        "heft": told(HeftScheduler(), heft_rank_sort(network, graph), network, graph),
        "peft": told(PEFTScheduler(), peft_rank_sort(graph, table)[1], network, graph),
    }


def told(scheduler, order, network, graph):
    schedule = scheduler.schedule(network, graph)
    placed = [
        [number(task.name), number(node), task.start, task.end]
        for node, tasks in schedule.items()
        for task in tasks
        if is_real(task.name)
    ]
    return {
        "order": [number(name) for name in order if is_real(name)],
        "placed": sorted(placed),
        "makespan": schedule.makespan,
    }


def is_real(name):
    return not name.startswith("__super")  # SAGA adds one task before all others and one after


def number(name):
    return int(name[1:])


json.dump([judge(problem) for problem in json.load(sys.stdin)], sys.stdout)
