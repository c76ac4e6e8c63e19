"""Last tasks of a schedule that are alike exchange their places, so that fewer bytes move.

HEFT places tasks one by one. Where many are alike, as those are whose run times nobody knows, the
last one of each round is left with the last node, whatever it reads. Tasks that run equally long
and that no other task waits for can exchange their nodes and times, and all else stays as planned.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dataward.model.platform import Platform
from dataward.model.workflow import Seconds
from dataward.plan.costs import Costs
from dataward.plan.kinds import kinds_of
from dataward.plan.schedule import Schedule

# So many inputs of tasks, and nodes of a group, are looked at in all: about a second.
INPUTS_MAX = 50_000
CELLS_MAX = 50_000  # tasks of a group, times nodes
LEAST_BYTES = 0.5  # what is saved is a sum of roots, which are not exact


def with_fewer_moves(costs: Costs, platform: Platform, schedule: Schedule) -> Schedule:
    """The schedule, with places exchanged between last tasks that are alike.

    The best two are exchanged first, again and again, as long as that saves bytes. Very large
    groups are left as they are, and the work is bounded: a schedule need not be the best of all.
    To let first tasks exchange their places as well brought nothing, once the last ones had.
    """
    budget = INPUTS_MAX
    for group in _groups(costs, platform, schedule):
        if len(group) * len(costs.cores) <= CELLS_MAX and budget > 0:
            exchange = _Exchange(costs, schedule, group)
            budget -= exchange.run(budget)
            schedule = exchange.schedule()
    return schedule


def _groups(costs: Costs, platform: Platform, schedule: Schedule) -> list[list[int]]:
    """Tasks without children that could be exchanged with each other."""
    workflow = costs.workflow
    kinds = kinds_of(platform)
    is_last = (workflow.children.degrees() == 0) & (workflow.inputs.degrees() > 0)
    groups: dict[tuple[float, int, int, int], list[int]] = {}
    for task in np.flatnonzero(is_last).tolist():
        likeness = (
            float(workflow.runtime_seconds[task]),
            int(workflow.cores[task]),
            int(workflow.memory_bytes[task]),
            kinds[int(schedule.nodes[task])],
        )
        groups.setdefault(likeness, []).append(task)
    return [group for group in groups.values() if len(group) > 1]


class _Exchange:
    """One group; ``_readers[file][node]`` counts the tasks there that read a file.

    A file moves to each node where somebody reads it, unless it is there anyway. By that alone no
    exchange would be worth anything that takes one reader of several away. So, at first, a file is
    said to be moved to a node by the root of the number of its readers there times.
    """

    def __init__(self, costs: Costs, schedule: Schedule, group: list[int]) -> None:
        workflow = costs.workflow
        self._schedule = schedule
        self._group = group
        self._inputs = [workflow.inputs.row(task).tolist() for task in group]
        self._nodes: NDArray[np.int32] = schedule.nodes[group]  # a copy
        # Which nodes are used how often stays the same.
        self._used, counts = np.unique(self._nodes, return_counts=True)
        self._firsts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        self._slots = np.array(group)  # whose times each task has
        files = sorted({file for row in self._inputs for file in row})
        self._sizes: dict[int, Seconds] = {}  # 0 where a file is anyway
        self._readers: dict[int, NDArray[np.int64]] = {}
        for file in files:
            self._sizes[file] = _sizes_at_nodes(costs, schedule, file)
            readers = schedule.nodes[workflow.consumers.row(file)]
            self._readers[file] = np.bincount(readers, minlength=len(costs.cores))
        self._readers_in_group: dict[int, list[int]] = {file: [] for file in files}
        for task, row in enumerate(self._inputs):
            for file in row:
                self._readers_in_group[file].append(task)
        self._gains = np.zeros((len(group), len(costs.cores)))
        self._times = np.zeros(0)  # by the number of readers, how often a file is said to be moved

    def run(self, budget: int) -> int:
        """How many inputs and nodes were looked at; at most some more than the budget."""
        readers = np.arange(len(self._schedule.nodes) + 2)
        looked_at = 0
        for self._times in (np.sqrt(readers), np.minimum(readers, 1.0)):
            looked_at += self._work_out(range(len(self._group)))
            while looked_at < budget and (pair := self._best_pair()) is not None:
                looked_at += len(self._used) + self._exchange(*pair)
        return looked_at

    def _work_out(self, tasks: Iterable[int]) -> int:
        """Work out how many bytes it saves to have each of these tasks at each node.

        Returns how many inputs they have.
        """
        looked_at, times = 0, self._times
        for task in tasks:
            looked_at += len(self._inputs[task])
            node, gains = self._nodes[task], np.zeros(self._gains.shape[1])
            for file in self._inputs[task]:
                readers, sizes = self._readers[file], self._sizes[file]
                gains -= sizes * (times[readers + 1] - times[readers])
                gains += sizes[node] * (times[readers[node]] - times[readers[node] - 1])
            gains[node] = -np.inf
            self._gains[task] = gains
        return looked_at

    def _best_pair(self) -> tuple[int, int] | None:
        """The two whose exchange saves most, as if they had no file in common."""
        order = np.argsort(self._nodes, kind="stable")
        best = np.maximum.reduceat(self._gains[np.ix_(order, self._used)], self._firsts, axis=0)
        both = best + best.T
        one, other = divmod(int(both.argmax()), len(self._used))
        if not both[one, other] > LEAST_BYTES:
            return None
        at_nodes = np.split(order, self._firsts[1:])
        return self._gaining(at_nodes[one], other), self._gaining(at_nodes[other], one)

    def _gaining(self, tasks: NDArray[np.int64], place: int) -> int:
        """The one of these tasks that gains most at a node."""
        return int(tasks[self._gains[tasks, self._used[place]].argmax()])

    def _exchange(self, one: int, other: int) -> int:
        """Exchange two tasks if it saves bytes. Returns how many inputs were looked at."""
        files = list(dict.fromkeys((*self._inputs[one], *self._inputs[other])))
        before = self._moved_bytes(files)
        self._swap(one, other)
        if self._moved_bytes(files) >= before - LEAST_BYTES:
            self._swap(one, other)  # what one brings along the other took away
            self._gains[one, self._nodes[other]] = -np.inf
            return len(files)
        return len(files) + self._work_out(
            dict.fromkeys(task for file in files for task in self._readers_in_group[file])
        )

    def _moved_bytes(self, files: Iterable[int]) -> float:
        return sum(float(self._sizes[file] @ self._times[self._readers[file]]) for file in files)

    def _swap(self, one: int, other: int) -> None:
        for task in (one, other):
            self._count(task, -1)
        for places in (self._nodes, self._slots):
            places[one], places[other] = places[other], places[one]
        for task in (one, other):
            self._count(task, 1)

    def _count(self, task: int, change: int) -> None:
        for file in self._inputs[task]:
            self._readers[file][self._nodes[task]] += change

    def schedule(self) -> Schedule:
        """The schedule with the exchanges; transfers that nobody there needs any more are gone."""
        old = self._schedule
        nodes, starts, ends = old.nodes.copy(), old.starts.copy(), old.ends.copy()
        nodes[self._group] = self._nodes
        starts[self._group], ends[self._group] = old.starts[self._slots], old.ends[self._slots]
        transfers = tuple(
            each
            for each in old.transfers
            if each.file not in self._readers or self._readers[each.file][each.node] > 0
        )
        return replace(old, nodes=nodes, starts=starts, ends=ends, transfers=transfers)


def _sizes_at_nodes(costs: Costs, schedule: Schedule, file: int) -> Seconds:
    """The bytes of a file for each node; 0 for those that make it or have it from the start."""
    sizes = np.full(len(costs.cores), float(costs.workflow.size_bytes[file]))
    sizes[schedule.nodes[costs.workflow.producers.row(file)]] = 0.0
    sizes[list(costs.located.get(file, ()))] = 0.0
    return sizes
