"""How long what remains of a workflow takes if free cores take the most urgent task first.

No node has a name here: all cores are one pool, and so are all links and all disks. That is less
than a plan knows, but one schedule of a thousand tasks takes some milliseconds, so that many
futures can be tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dataward.model.adjacency import Adjacency
from dataward.model.platform import Platform
from dataward.model.remaining import Remaining
from dataward.model.workflow import Seconds, Workflow, sums_by_row
from dataward.plan.critical_path import bottom_levels


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes per second of one node, and of all nodes together."""

    one: float
    all: float


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways that files take. A run on one machine, where files are linked, needs none."""

    link: Rate
    origin: Rate
    disk: Rate


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run has: nodes, cores of all of them, ways for files; and what a task costs besides.

    ``overhead_seconds`` is how much longer a task with files holds its core than it runs,
    ``pause_seconds`` the time from the end of a task until its children can be staged in.
    """

    nodes: int
    cores: int
    speed: float = 1.0
    overhead_seconds: float = 0.0
    pause_seconds: float = 0.0
    ways: Ways | None = None


def resources_of(platform: Platform) -> Resources:
    """A platform's resources; its nodes are taken to be equally good."""
    machines, nodes = platform.machines, len(platform.machines)
    link = sum(machine.down_bytes_per_second for machine in machines)
    disk = sum(machine.disk_bytes_per_second for machine in machines)
    origin = min(platform.origin_bytes_per_second, link)
    cores = platform.cores
    return Resources(
        nodes,
        cores,
        speed=sum(machine.cores * machine.speed for machine in machines) / cores,
        # Outcome to the store, notice to the child's shard, and the child's claim.
        pause_seconds=6 * (platform.latency_seconds + platform.store.latency_seconds),
        ways=Ways(
            Rate(link / nodes, link), Rate(min(origin, link / nodes), origin),
            Rate(disk / nodes, disk),
        ),
    )  # fmt: skip


Lane = tuple[list[float], list[float]]
"""Each task's seconds on a way that all share: with it for the task alone, and of all together.

A task that brings in a gigabyte needs eight seconds of its own link, but of all sixteen links
together only half a second.
"""


class ListSchedule:
    """Schedules what remains of a workflow, as often as there are futures.

    The order is that of the longest chain below each task by the ``expected`` run times; equal ones
    go by index. A task too wide for the free cores waits, and so do those after it; one wider than
    all cores takes all. Tasks go by their place among those that are open.
    """

    def __init__(
        self, workflow: Workflow, remaining: Remaining, expected: Seconds, resources: Resources
    ) -> None:
        is_open = remaining.is_open
        tasks = np.flatnonzero(is_open)
        self.place = np.cumsum(is_open) - 1
        parents, owners = workflow.parents.targets, workflow.parents.owners()
        kept = is_open[parents] & is_open[owners]
        above, below = self.place[parents[kept]], self.place[owners[kept]]
        joined = Adjacency.from_pairs(above.astype(np.int32), below.astype(np.int32), len(tasks))
        self._children = list(joined.rows())
        self._parents = np.bincount(joined.targets, minlength=len(tasks)).tolist()
        self._cores, self._pause = resources.cores, resources.pause_seconds
        self._width = np.minimum(workflow.cores[tasks], resources.cores).tolist()
        bottom = bottom_levels(workflow, np.where(is_open, expected, 0.0))[tasks]
        order = np.lexsort((tasks, -bottom))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        self._rank: list[int] = rank.tolist()
        self._ranked: list[int] = order.tolist()
        self._running = [int(self.place[task]) for task in remaining.running]
        self._running += [int(self.place[task]) for task in remaining.ended]
        self._lanes: list[Lane] = []
        if resources.ways is not None:
            self._lanes = _lanes(workflow, remaining, rank, resources)

    def end_seconds(self, seconds: Sequence[float], slowness: float = 1.0) -> float:
        """When the last task ends, if tasks take so long, or still so long if they run already.

        Files take ``slowness`` times as long as they should.
        """
        rank, ranked, width, children = self._rank, self._ranked, self._width, self._children
        left, lanes, pause = self._parents.copy(), self._lanes, self._pause
        busy_until = [0.0] * len(lanes)
        count, now = len(rank), 0.0
        free = self._cores - sum(width[task] for task in self._running)
        # The end of a task is (when, task); that a task is staged in is (when, count + task).
        events: list[tuple[float, int]] = [(seconds[task], task) for task in self._running]
        heapify(events)
        ready: list[int] = []

        def stage(task: int) -> None:
            at = now + pause
            for lane, (alone, shared) in enumerate(lanes):
                begin = max(busy_until[lane], now)
                busy_until[lane] = begin + shared[task] * slowness
                at = max(at, now + pause + alone[task] * slowness, busy_until[lane])
            heappush(events, (at, count + task))

        runs_already = set(self._running)
        for task in ranked:
            if not left[task] and task not in runs_already:
                stage(task)
        while True:
            # Tasks that become ready at the same time are compared before one starts.
            is_settled = not events or events[0][0] > now
            while is_settled and ready and free >= width[ranked[ready[0]]]:
                task = ranked[heappop(ready)]
                free -= width[task]
                heappush(events, (now + seconds[task], task))
            if not events:
                return now
            now, task = heappop(events)
            if task >= count:
                heappush(ready, rank[task - count])
                continue
            free += width[task]
            for child in children[task]:
                left[child] -= 1
                if not left[child]:
                    stage(child)


def _lanes(
    workflow: Workflow, remaining: Remaining, rank: NDArray[np.int64], resources: Resources
) -> list[Lane]:
    """How long the files of each open task are under way, on links, from the origin, on disks."""
    assert resources.ways is not None
    ways, is_open = resources.ways, remaining.is_open
    pays = _who_fetches(workflow, remaining, rank, resources.nodes)
    made = workflow.producers.degrees() > 0
    inputs = workflow.inputs.targets
    # What a task reads from another task is at one of the nodes already: perhaps at its own.
    near = np.where(made[inputs], 1.0 - 1.0 / resources.nodes, 1.0)
    fetched = pays * near * workflow.size_bytes[inputs]
    owners, count = workflow.inputs.owners(), len(workflow)
    moved = np.bincount(owners, fetched, count)
    from_origin = np.bincount(owners, np.where(made[inputs], 0.0, fetched), count)
    on_disk = sums_by_row(workflow.inputs, workflow.size_bytes) + workflow.output_bytes()
    lanes = []
    for size_bytes, rate in (
        (moved, ways.link), (from_origin, ways.origin), (on_disk.astype(np.float64), ways.disk),
    ):  # fmt: skip
        alone, shared = size_bytes / rate.one, size_bytes / rate.all
        _take_off(alone, shared, remaining)
        if alone.any():
            lanes.append((alone[is_open].tolist(), shared[is_open].tolist()))
    return lanes


def _who_fetches(
    workflow: Workflow, remaining: Remaining, rank: NDArray[np.int64], nodes: int
) -> NDArray[np.bool_]:
    """For each entry of ``inputs.targets``, whether its task fetches the file.

    Each node fetches a file once, for the first task that reads it there; readers are taken to be
    spread over all nodes.
    """
    files, owners = workflow.inputs.targets, workflow.inputs.owners()
    had = ~remaining.is_open
    had[[*remaining.running, *remaining.ended, *remaining.staged]] = True
    turn = np.full(len(workflow), -1, dtype=np.int64)  # tasks that have their files come first
    turn[remaining.is_open] = rank
    turn[had] = -1
    order = np.lexsort((turn[owners], files))
    first = np.concatenate([[0], np.cumsum(np.bincount(files, minlength=len(workflow.file_ids)))])
    number = np.empty(len(files), dtype=np.int64)  # of the reader, among the readers of the file
    number[order] = np.arange(len(files)) - first[files[order]]
    pays: NDArray[np.bool_] = (number < nodes) & ~had[owners]
    return pays


def _take_off(alone: Seconds, shared: Seconds, remaining: Remaining) -> None:
    """Take off what tasks that are being staged in have brought in already."""
    alone[[*remaining.staged, *remaining.running, *remaining.ended]] = 0.0
    shared[[*remaining.staged, *remaining.running, *remaining.ended]] = 0.0
    tasks = list(remaining.staging)
    whole = float(shared[tasks].sum())
    if not whole:
        return
    so_far = np.array(list(remaining.staging.values()))
    alone[tasks] = np.maximum(alone[tasks] - so_far, 0.0)
    shared[tasks] *= max(whole - float(so_far.mean()), 0.0) / whole
