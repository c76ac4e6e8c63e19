"""HEFT that knows links, for many tasks and nodes: only nodes that may be the best are compared."""

from itertools import chain
from math import inf
from typing import NamedTuple

import numpy as np

from dataward.model.platform import Platform
from dataward.model.workflow import Seconds, Workflow, sums_by_row
from dataward.plan.costs import Costs, Located, costs_of
from dataward.plan.families import families_in_turn
from dataward.plan.first_free import FirstFree
from dataward.plan.firsts import FirstsByGroup
from dataward.plan.free_cores import FreeCores
from dataward.plan.gaps import Gap, first_start, keep_longest
from dataward.plan.heft import upward_ranks
from dataward.plan.kinds import kinds_of
from dataward.plan.link_slots import GAPS_MAX, first_meeting, take
from dataward.plan.peft import Table
from dataward.plan.places import FEW, Places, SharedPlace
from dataward.plan.rates import Rates, origin_lanes
from dataward.plan.schedule import PlannedTransfer, Schedule, one_by_one

CANDIDATES = 4  # nodes for which a task's transfers are worked out
HOLDERS = 4  # nodes with most of a task's bytes that are compared
SOURCES = 4  # nodes that a file is tried from, if many have it


def quick_links_schedule(workflow: Workflow, platform: Platform, located: Located) -> Schedule:
    """Nearly the schedule of `heft_links_schedule`, at a cost that hardly grows with the nodes.

    Tasks, links, lanes and disks are as there. But a task is compared only on nodes that may be the
    best for it, which are some ten on equal nodes, however many there are:

    - the `HOLDERS` nodes with the most of its bytes; of a file with more than `FEW` copies, the
      largest such file, the holders of each kind (see `kinds_of`) that are free first;
    - of each kind, the nodes whose cores are free first, with and without gaps between tasks;
    - of each kind, the nodes whose downlinks are free first;
    - the node that was the last to be sent something by the lane that is free first, for tasks
      that could keep all lanes busy.

    They are ordered by an estimate, and transfers are worked out for `CANDIDATES` of them. Equal
    ends go to fewer bytes moved, then to a node that only goes on with its lane, then to the lowest
    index. A task costs O(inputs + kinds of node), times the logarithm of tasks and nodes.

    Lanes are not real: all nodes that fetch from the origin share its link evenly. Ten lanes that
    send to ten nodes, one file after another, are as planned. If every file went to another node,
    a hundred nodes would have a tenth of a lane each, and all files would come at the end.

    `python -m bench.planning` measures it: 100,000 tasks of Montage on 1,000 nodes take some 10 s.
    Over five applications of 1,000 tasks on 4 to 256 nodes, equal ones, two sites and four kinds,
    makespans are 0.02% longer than by comparing all nodes, in the worst of 180 plans 0.8%.
    """
    costs = costs_of(workflow, platform, located)
    return placed_quickly(costs, platform, upward_ranks(costs))


def placed_quickly(
    costs: Costs,
    platform: Platform,
    ranks: Seconds,
    *,
    onward: Table | None = None,
    only: int | None = None,
    with_transfers: bool = True,
) -> Schedule:
    """`quick_links_schedule` by known ranks; without its transfers it takes less memory.

    With a table of `onward_seconds`, a task goes where the sum of its end and what is left after
    it is least, and not where it ends first. With ``only``, all tasks run on that node.
    """
    planner = QuickPlanner(costs, platform, onward=onward, only=only, with_transfers=with_transfers)
    for task in families_in_turn(costs.workflow, ranks, costs.cores).tolist():
        planner.place(task)
    return planner.schedule()


class _Parcel(NamedTuple):
    """Inputs of a task that are in the same places."""

    sent_from: float  # when the best source could begin to send them
    files: list[int]
    size_bytes: int
    place: SharedPlace
    at: dict[int, float]  # of the place
    sources: list[tuple[float, int]]  # when they could be sent completely, and by whom; best first


class _Move(NamedTuple):
    """A parcel on its way to a node."""

    parcel: _Parcel
    source: int
    start: float
    end: float


_Estimate = tuple[float, int, int, int]
"""The first four fields of a choice"""


class _Choice(NamedTuple):
    """What placing a task on a node would mean; the first four compare."""

    cost: float  # the end, and what is left after it if the plan looks ahead
    moved_bytes: int
    changes: int  # lanes that would send to this node, and have sent to another one before
    node: int
    start: float
    end: float
    moves: list[_Move]
    down: list[Gap]  # what would be left of the gaps of the node's downlink
    up: dict[int, list[Gap]]  # and of the uplinks of those that send


class QuickPlanner:
    """Everything planned so far: tasks on cores, files on links, and where files are."""

    def __init__(
        self,
        costs: Costs,
        platform: Platform,
        *,
        onward: Table | None = None,
        only: int | None = None,
        with_transfers: bool,
    ) -> None:
        self._only = only
        workflow, machines = costs.workflow, platform.machines
        count, lanes = len(machines), origin_lanes(platform)
        self._count = count
        self._speeds = [machine.speed for machine in machines]
        self._disk = [1 / machine.disk_bytes_per_second for machine in machines]
        self._downs = [machine.down_bytes_per_second for machine in machines]
        self._read_bytes: list[int] = sums_by_row(workflow.inputs, workflow.size_bytes).tolist()
        self._written_bytes: list[int] = sums_by_row(workflow.outputs, workflow.size_bytes).tolist()
        self._sizes: list[int] = workflow.size_bytes.tolist()
        self._widths = costs.widths
        self._runtimes: list[float] = workflow.runtime_seconds.tolist()
        self._inputs, self._outputs = workflow.inputs.lister(), workflow.outputs.lister()
        self._parents = workflow.parents.lister()
        self._kinds = kinds_of(platform)
        nothing = [0.0] * (max(self._kinds) + 1)
        # What is left after each task, by kind of node.
        self._onward: list[list[float]] = (
            [nothing] * len(workflow) if onward is None else onward.tolist()
        )
        # Of each kind, the speed of the first node.
        self._kind_speeds = dict(zip(reversed(self._kinds), reversed(self._speeds), strict=True))
        self._cores = FreeCores(costs.cores, self._kinds, _shortest(workflow, max(self._speeds)))
        self._up: list[list[Gap]] = [[(0.0, inf)] for _ in range(count + lanes)]
        self._down: list[list[Gap]] = [[(0.0, inf)] for _ in range(count)]
        self._sent_to = [-1] * lanes  # the last node that each lane was planned to send to
        # If every core runs tasks with so many bytes for each second they run, lanes are busy.
        self._bytes_per_run = platform.origin_bytes_per_second / sum(costs.cores)
        self._lanes = FirstFree()
        for lane in range(count, count + lanes):
            self._lanes.add(lane, (0.0, inf))
        down = self._down
        self._first_down = FirstsByGroup(lambda node: down[node][-1][0], self._kinds, range(count))
        self._rates, self._rates_max = _rate_lists(costs.rates, count, lanes)
        sites = costs.rates.site_numbers(lanes)
        self._sites: list[int] = [0] * (count + lanes) if sites is None else sites.tolist()
        self._places = Places(workflow, costs.located)
        self._nodes = [0] * len(workflow)
        self._starts, self._ends = [0.0] * len(workflow), [0.0] * len(workflow)
        self._written = [0.0] * len(workflow)  # when the outputs of each task are on the disk
        self._transfers: list[PlannedTransfer] | None = [] if with_transfers else None
        self.compared = 0  # so many nodes, over all tasks

    def schedule(self) -> Schedule:
        return Schedule(
            np.array(self._nodes, dtype=np.int32),
            np.array(self._starts),
            np.array(self._ends),
            tuple(self._transfers or ()),
        )

    def place(self, task: int) -> None:
        written = self._written
        ready = max([written[parent] for parent in self._parents(task)], default=0.0)
        choice = self._best(task, ready, self._parcels(task))
        _, _, _, node, start, end, moves, _, _ = choice
        if moves:
            self._move(choice)
        self._cores.take(node, self._widths[task], start, end)
        self._nodes[task], self._starts[task], self._ends[task] = node, start, end
        written[task] = end + self._written_bytes[task] * self._disk[node]
        self._places.add_made(self._outputs(task), node, written[task])

    def _move(self, choice: _Choice) -> None:
        node = choice.node
        keep_longest(choice.down, GAPS_MAX + 1)
        self._down[node] = choice.down
        for source, gaps in choice.up.items():
            keep_longest(gaps, GAPS_MAX + 1)
            if source >= self._count:
                self._update_lane(source, gaps)
                self._sent_to[source - self._count] = node
            self._up[source] = gaps
        for parcel, source, start, end in choice.moves:
            self._add_copy(self._places.part(parcel.place, parcel.files), node, end)
            if self._transfers is not None:
                whole = PlannedTransfer(-1, source, node, start, end)
                rate = self._rates[source][node]
                self._transfers += one_by_one(parcel.files, self._sizes, rate, whole)

    def _update_lane(self, lane: int, gaps: list[Gap]) -> None:
        old = self._up[lane]
        for gap in set(old).difference(gaps):
            self._lanes.remove(lane, gap)
        for gap in set(gaps).difference(old):
            self._lanes.add(lane, gap)

    def _add_copy(self, place: SharedPlace, node: int, since: float) -> None:
        place.at[node] = since
        if place.senders is not None:
            place.senders.add(node)
        for width, firsts in place.free.items():
            if self._cores.is_wide(node, width):
                firsts.add(node)

    # --- where inputs come from ------------------------------------------------------------------

    def _parcels(self, task: int) -> list[_Parcel]:
        """The task's inputs, in the order in which they can be had."""
        parcels = []
        sizes = self._sizes
        inputs = [file for file in self._inputs(task) if sizes[file]]
        for place, files in self._places.together(inputs).items():
            size = sum([sizes[file] for file in files])
            sources = self._sources(place, size)
            sent, source = sources[0]
            begin = sent - size / self._rates_max[source]
            parcels.append(_Parcel(begin, files, size, place, place.at, sources))
        if len(parcels) > 1:
            parcels.sort(key=lambda parcel: (parcel.sent_from, parcel.files))
        return parcels

    def _sources(self, place: SharedPlace, size: int) -> list[tuple[float, int]]:
        at, up, most = place.at, self._up, self._rates_max
        sources = []
        for source in at if len(at) <= FEW else self._senders(place):
            seconds = size / most[source]
            sources.append((first_start(up[source], at[source], seconds) + seconds, source))
        if place.outside:
            seconds = size / most[self._count]
            for lane in dict.fromkeys(self._lanes.first(0.0, seconds)):
                sources.append((first_start(up[lane], 0.0, seconds) + seconds, lane))
        sources.sort()
        return sources

    def _senders(self, place: SharedPlace) -> list[int]:
        """Of the many nodes that have these files, those whose uplinks are free first."""
        if place.senders is None:
            at, up = place.at, self._up
            place.senders = FirstsByGroup(
                lambda node: max(up[node][-1][0], at[node]), self._sites, at
            )
        return place.senders.first(SOURCES)

    # --- nodes that may be the best --------------------------------------------------------------

    def _candidates(self, task: int, ready: float, parcels: list[_Parcel]) -> list[_Estimate]:
        """What placing the task on each node might mean; best first."""
        held: dict[int, int] = {}
        many = []  # parcels that many nodes have
        for parcel in parcels:
            if len(parcel.at) > FEW:
                many.append(parcel)
            else:
                for node in parcel.at:
                    held[node] = held.get(node, 0) + parcel.size_bytes
        lanes = self._crowded_lanes(task, parcels)
        compared = self._to_compare(task, ready, held, many, bool(parcels), lanes)
        self.compared += len(compared)
        total = sum([parcel.size_bytes for parcel in parcels])
        found = []
        onward, kinds = self._onward[task], self._kinds
        for node in compared:
            lacking = total - held.get(node, 0)
            for parcel in many:
                if node in parcel.at:
                    lacking -= parcel.size_bytes
            arrived = self._arrival(node, ready, parcels, lacking) if lacking else ready
            cost = self._end_on(node, task, arrived) + onward[kinds[node]]
            changes = sum([self._sent_to[lane] != node for lane in lanes]) if lacking else 0
            found.append((cost, lacking, changes, node))
        found.sort()
        return found

    def _to_compare(
        self,
        task: int,
        ready: float,
        held: dict[int, int],
        many: list[_Parcel],
        reads: bool,
        lanes: list[int],
    ) -> list[int]:
        if self._only is not None:
            return [self._only]
        width, runtime, cores = self._widths[task], self._runtimes[task], self._cores
        nodes = list(held)
        if len(held) > HOLDERS:
            nodes = sorted(held, key=lambda node: (-held[node], node))[:HOLDERS]
        if many:
            nodes += self._free_holders(
                max(many, key=lambda parcel: parcel.size_bytes).place, width
            )
        for kind, speed in self._kind_speeds.items():
            nodes += cores.first(width, kind, ready, runtime / speed)
        if reads:
            nodes += self._first_down.first(2)
        nodes += [node for lane in lanes if (node := self._sent_to[lane]) >= 0]
        return [node for node in dict.fromkeys(nodes) if cores.is_wide(node, width)]

    def _crowded_lanes(self, task: int, parcels: list[_Parcel]) -> list[int]:
        """The lanes that would send the task's files, if such tasks can keep all lanes busy.

        They can if more of them fetch at once, where every core runs one, than there are lanes.
        """
        crowded: list[int] = []
        few = self._runtimes[task] * self._bytes_per_run
        for parcel in parcels:
            lane = parcel.sources[0][1] - self._count
            if lane >= 0 and parcel.size_bytes > few and lane not in crowded:
                crowded.append(lane)
        return crowded

    def _free_holders(self, place: SharedPlace, width: int) -> list[int]:
        """Of the many nodes that have these files, those whose cores are free first."""
        if width not in place.free:
            cores = self._cores
            place.free[width] = FirstsByGroup(
                lambda node: cores.free_for_good(node, width),
                self._kinds,
                [node for node in place.at if cores.is_wide(node, width)],
            )
        return place.free[width].first(2)

    def _arrival(self, node: int, ready: float, parcels: list[_Parcel], lacking: int) -> float:
        """An estimate of when all inputs are on the node.

        The downlink carries all that is lacking, and each parcel when the downlink and the best
        source are free, of many parcels only the first and the last.
        """
        arrival = max(ready, parcels[0].sent_from + lacking / self._downs[node])
        down, rates = self._down[node], self._rates
        for parcel in parcels if len(parcels) <= FEW else (parcels[0], parcels[-1]):
            if node not in parcel.at:
                seconds = parcel.size_bytes / rates[parcel.sources[0][1]][node]
                arrived = first_start(down, parcel.sent_from, seconds) + seconds
                if arrived > arrival:
                    arrival = arrived
        return arrival

    def _end_on(self, node: int, task: int, arrived: float) -> float:
        seconds = self._runtimes[task] / self._speeds[node]
        ready = arrived + self._read_bytes[task] * self._disk[node]
        return self._cores.start_on(node, self._widths[task], ready, seconds) + seconds

    # --- choices ---------------------------------------------------------------------------------

    def _best(self, task: int, ready: float, parcels: list[_Parcel]) -> _Choice:
        best: _Choice | None = None
        for estimate in self._candidates(task, ready, parcels)[:CANDIDATES]:
            if best is None:
                best = self._work_out(task, estimate, ready, parcels, inf)
            elif estimate > best[:4]:
                break
            else:
                choice = self._work_out(task, estimate, ready, parcels, best.cost)
                if choice is not None and choice[:4] < best[:4]:
                    best = choice
        assert best is not None, "some node is wide enough"
        return best

    def _work_out(
        self, task: int, estimate: _Estimate, ready: float, parcels: list[_Parcel], limit: float
    ) -> _Choice | None:
        """The task on the estimate's node, its files one after another, links as planned.

        None if it would cost more than ``limit``.
        """
        _, _, changes, node = estimate
        down = self._down[node]
        up: dict[int, list[Gap]] = {}
        moves: list[_Move] = []
        moved_bytes = 0
        seconds = self._runtimes[task] / self._speeds[node]
        read = self._read_bytes[task] * self._disk[node]
        onward = self._onward[task][self._kinds[node]]
        for parcel in parcels:
            since = parcel.at.get(node)
            if since is None:
                move = self._first_arrival(parcel, node, down, up)
                _, source, start, since = move
                if not moves:
                    down = down.copy()
                if source not in up:
                    up[source] = self._up[source].copy()
                take(down, start, since)
                take(up[source], start, since)
                moves.append(move)
                moved_bytes += parcel.size_bytes
            if since > ready:
                ready = since
                if ready + read + seconds + onward > limit:
                    return None
        start = self._cores.start_on(node, self._widths[task], ready + read, seconds)
        end = start + seconds
        return _Choice(end + onward, moved_bytes, changes, node, start, end, moves, down, up)

    def _first_arrival(
        self, parcel: _Parcel, node: int, down: list[Gap], up: dict[int, list[Gap]]
    ) -> _Move:
        """The move from the source that delivers first."""
        best = _Move(parcel, -1, inf, inf)
        for sent, source in parcel.sources:
            if sent >= best.end:
                break  # even if the node's downlink were free
            seconds = parcel.size_bytes / self._rates[source][node]
            gaps = up.get(source) or self._up[source]
            start = first_meeting(gaps, down, parcel.at.get(source, 0.0), seconds)
            if start + seconds < best.end:
                best = _Move(parcel, source, start, start + seconds)
        return best


def _shortest(workflow: Workflow, speed: float) -> dict[int, float]:
    """By width, the time that the shortest task takes at that speed."""
    return {
        width: float(workflow.runtime_seconds[workflow.cores == width].min()) / speed
        for width in np.unique(workflow.cores).tolist()
    }


def _rate_lists(rates: Rates, nodes: int, lanes: int) -> tuple[list[list[float]], list[float]]:
    """The rates from each node and lane to each node, and the highest; equal rows are one list."""
    rows: dict[int, tuple[list[float], float]] = {}
    found = []
    for row in chain(map(rates.from_node, range(nodes)), [rates.from_origin] * lanes):
        if id(row) not in rows:  # Rates keeps its rows, so that an id stays that of its row.
            rows[id(row)] = row.tolist(), float(row.max())
        found.append(rows[id(row)])
    return [row for row, _ in found], [most for _, most in found]
