"""Offers tasks that would have to wait, and tasks that run late, to nodes that would be sooner.

A node that is asked says when it could start a task: it knows which inputs it has, how fast others
come, and when a core will be free. So work only moves where it starts sooner, staging counted, and
a task is run a second time only where that should end first. A lost message costs one offer. Nodes
that have nothing to do say so (`Volunteer`), and are asked first.

A node that came after this one had started was in no plan, and would have nothing to do for as long
as all goes as planned. So tasks that would have to wait are offered to newcomers even then.
"""

from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import msgspec

from dataward.errors import SettingError
from dataward.model.answers import Standing
from dataward.model.events import Occasion, WorkGiven
from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Bid, MoverMessage, Offer, OfferedTask
from dataward.model.operations import Look, QueueEntry, Replicate, Shelf
from dataward.model.workflow import TaskId
from dataward.node.depot import as_committed
from dataward.node.forecast import (
    cores_free_in,
    expected_seconds,
    late_after_seconds,
    overrun_seconds,
    remaining_seconds,
    starts_in,
)
from dataward.node.handing_over import give_up, hand_over, take_out
from dataward.node.mover import NodeParts
from dataward.node.neighbourhood import Neighbourhood, Neighbours, size_of
from dataward.node.volunteering import Volunteer
from dataward.world import Flag

LATE_SHARE = 0.1  # of its estimated run time: for less, no task is moved
LATE_SECONDS = 5.0
NEWCOMER_TASKS_MAX = 64  # in one offer, while there are newcomers: they have nothing
LEAST_GAIN_SECONDS = 0.5  # for less, no task moves: that is what asking and moving may take


@dataclass(frozen=True, slots=True)
class Offering:
    """Offers to the square root of all nodes, drawn anew each time."""

    tasks_max: int = 8  # in one offer
    pause_seconds_min: float = 1.0  # after an offer
    pause_seconds_max: float = 64.0  # if nobody would be sooner, again and again
    bid_seconds: float = 0.2  # how long bids are waited for
    run_share: float = 0.5  # a task moves if it starts sooner by this share of its run time
    neighbours: int = 0  # 0: the square root of the number of nodes
    volunteers: bool = True  # a node with an idle core says so

    def __post_init__(self) -> None:
        if not self.pause_seconds_min > 0:
            raise SettingError("a node with pause_seconds_min 0 would never rest; give more than 0")

    def at(self, parts: NodeParts) -> "OfferMover":
        world = parts.world
        neighbours = Neighbours(
            world.node, world.nodes, world.random, parts.store, Neighbourhood.DYNAMIC,
            self.neighbours,
        )  # fmt: skip
        return OfferMover(parts, self, neighbours)


NOBODY_RESERVED: Mapping[TaskId, Collection[NodeId]] = {}

# --- decisions -----------------------------------------------------------------------------------


def winners(
    waits: Mapping[TaskId, float],
    bids: Sequence[Bid],
    offered: Sequence[QueueEntry],
    run_share: float,
    reserved: Mapping[TaskId, Collection[NodeId]] = NOBODY_RESERVED,
) -> dict[TaskId, NodeId]:
    """Which of the offered tasks go where: each to the node that would start it first.

    ``waits`` is how long each would wait here. A task that is not loose was planned with care: it
    stays unless it would start elsewhere sooner by ``run_share`` of its run time there.
    Tasks choose in this order; no node is given more tasks than it has places. Equal starts go to
    the lowest id. A task in ``reserved`` goes to one of the nodes there, or stays.
    """
    places = {bid.node: bid.places for bid in bids}
    given: dict[TaskId, NodeId] = {}
    for number, entry in enumerate(offered):
        wanted = reserved.get(entry.task)
        open_bids = [
            bid for bid in bids
            if places[bid.node] > 0 and (wanted is None or bid.node in wanted)
        ]  # fmt: skip
        if not open_bids:
            continue
        best = min(open_bids, key=lambda bid: (bid.times[number][0], bid.node))
        start, end = best.times[number]
        if start == inf:
            continue
        margin = LEAST_GAIN_SECONDS + (0.0 if is_loose(entry) else run_share * (end - start))
        if start + margin < waits[entry.task]:
            given[entry.task] = best.node
            places[best.node] -= 1
    return given


def is_loose(entry: QueueEntry) -> bool:
    """Whether the plan says little of where a task should be.

    A plan by estimates that are not certain is worth less than an idle core. A task that was
    displaced is not where it was planned, or not when.
    """
    return entry.spread > 0 or entry.displaced


def may_move(entry: QueueEntry, behind_seconds: float) -> bool:
    """Whether a task may leave a node that is so far behind what was estimated of its tasks.

    As long as all goes as estimated, the plan is followed: to move a long task because of a short
    delay would upset the plans of two nodes.
    """
    return is_loose(entry) or behind_seconds > LATE_SECONDS + LATE_SHARE * entry.seconds


def as_moved(entry: QueueEntry) -> QueueEntry:
    """The entry of a task that moves: one whose run time is certain stays where it goes.

    So it never goes to and fro. One whose run time is not certain goes only to idle cores. If
    another task is there first, it may go on.
    """
    return entry if entry.spread else msgspec.structs.replace(entry, shelf=Shelf.KEPT)


def first_to_end(bids: Sequence[Bid]) -> tuple[float, NodeId] | None:
    """In how many seconds the only task of an offer would end at the best node, and that node."""
    return min(((bid.times[0][1], bid.node) for bid in bids), default=None)


# --- the node's part -----------------------------------------------------------------------------


@dataclass
class _Round:
    """An offer under way."""

    asked: int
    complete: Flag
    bids: list[Bid] = field(default_factory=list)

    def add(self, bid: Bid) -> None:
        self.bids.append(bid)
        if len(self.bids) >= self.asked:
            self.complete.set()


@dataclass
class OfferMover:
    parts: NodeParts
    settings: Offering
    neighbours: Neighbours
    _rounds: dict[int, _Round] = field(default_factory=dict)
    _number: int = 0
    _promised: list[tuple[float, float]] = field(default_factory=list)  # (until when, seconds)
    _helped: set[TaskId] = field(default_factory=set)  # late, and offered to others already
    _doubled: set[TaskId] = field(default_factory=set)  # of these, those that run elsewhere too
    _volunteers: dict[NodeId, None] = field(default_factory=dict)  # said that they are idle

    def __post_init__(self) -> None:
        world = self.parts.world
        self._company = world.kernel.flag()  # set while there is another node
        self._news = world.kernel.flag()  # set when nodes have come or gone, or are idle
        world.nodes.watch(self._news.set)
        world.nodes.watch(self._see_company)
        self._see_company()

    def _see_company(self) -> None:
        if len(self.parts.world.nodes) > 1:
            self._company.set()
        else:
            self._company.clear()

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        settings = self.settings
        volunteer = Volunteer(
            self.parts, self.neighbours, self._company,
            settings.bid_seconds, settings.pause_seconds_max,
        )  # fmt: skip
        loops = [self._relieve(), self._back_up()]
        return [*loops, volunteer.run()] if settings.volunteers else loops

    def on_message(self, message: MoverMessage) -> None:
        if isinstance(message, Offer):
            self._bid(message)
        elif isinstance(message, Bid):
            round_ = self._rounds.get(message.number)
            if round_ is not None:
                round_.add(message)
        elif isinstance(message, Ask):
            self._volunteers[message.node] = None
            self._news.set()
            if self._helped - self._doubled:
                self._helped &= self._doubled
                self.parts.state.attempts.started_one.set()

    def loose_ends(self) -> dict[str, int]:
        return {"offers under way": len(self._rounds)}

    # --- tasks that wait -------------------------------------------------------------------------

    async def _relieve(self) -> None:
        """Offer tasks that wait, again and again while there are any."""
        kernel, queue = self.parts.world.kernel, self.parts.state.queue
        pause = self.settings.pause_seconds_min
        while True:
            await self._company.wait()
            if not queue.givable and not self._unstarted():
                await queue.offered.wait()
                pause = self.settings.pause_seconds_min
                await kernel.sleep(0)  # the executor takes what it can begin
                continue
            self._news.clear()
            stays = queue.stays
            gave = await self._offer_waiting()
            if gave or queue.stays != stays:
                pause = self.settings.pause_seconds_min
            else:
                pause = min(2 * pause, self.settings.pause_seconds_max)
            if await self._news.wait(pause):
                pause = self.settings.pause_seconds_min

    def _unstarted(self) -> bool:
        """Whether a task that was begun has not got its core yet."""
        return any(a.started_at is None for a in self.parts.state.attempts.under_way())

    async def _offer_waiting(self) -> bool:
        """Whether some of the tasks that wait were given to other nodes.

        Those whose inputs are here, but no core is free, are offered first; then the most urgent
        of the queue, for a short one may wait behind long ones; and the least urgent, which wait
        for all others.
        """
        state, newcomers = self.parts.state, self.parts.world.nodes.newcomers
        settings = self.settings
        half = (NEWCOMER_TASKS_MAX if newcomers else settings.tasks_max) // 2
        staged = [a.entry for a in state.attempts.under_way() if a.waits_for_core]
        first = state.queue.most_urgent(half)
        last = [entry for entry in state.queue.least_urgent(half) if entry not in first]
        waits = self._waits(staged, first, last)
        behind = self._behind_seconds()
        offered = [
            entry for entry in (*staged, *first, *last)
            if waits[entry.task] > LEAST_GAIN_SECONDS
            and entry.shelf is Shelf.SHARED
            and (newcomers or may_move(entry, behind))
        ]  # fmt: skip
        if not offered:
            return False
        bids = await self._bids(await self._described(offered), newcomers)
        reserved = {entry.task: newcomers for entry in offered if not may_move(entry, behind)}
        chosen = winners(waits, bids, offered, self.settings.run_share, reserved)
        await self._move(chosen, offered)
        return bool(chosen)

    def _waits(
        self,
        staged: Sequence[QueueEntry],
        first: Sequence[QueueEntry],
        last: Sequence[QueueEntry],
    ) -> dict[TaskId, float]:
        """How long each of these tasks would wait here, the most urgent first."""
        state, world = self.parts.state, self.parts.world
        under_way, now = list(state.attempts.under_way()), world.kernel.now()
        taken = world.runner.taken_seconds()
        free = cores_free_in(under_way, world.cores, now, state.times, taken)
        waiting = sorted(a.entry for a in under_way if a.started_at is None)
        waits = starts_in([*waiting, *first], free, state.times)
        between = state.queue.load_seconds
        between -= sum(expected_seconds(entry, state.times) for entry in (*first, *last))
        after = max(between, 0.0) / world.cores
        free = [seconds + after for seconds in free]
        waits.update(starts_in(last[::-1], free, state.times))
        return waits

    def _behind_seconds(self) -> float:
        """How far this node is behind what was estimated of the tasks that it has run and runs."""
        state, now = self.parts.state, self.parts.world.kernel.now()
        under_way = state.attempts.under_way()
        overdue = sum(overrun_seconds(attempt, now, state.times) for attempt in under_way)
        return (state.overrun_seconds + overdue) / self.parts.world.cores

    async def _move(self, chosen: Mapping[TaskId, NodeId], offered: Sequence[QueueEntry]) -> None:
        """Let other nodes have these tasks; some wait in the queue here, some for a core."""
        parts, world = self.parts, self.parts.world
        moving = [entry for entry in offered if entry.task in chosen]
        queued = take_out(parts.state.queue, moving)
        begun = await give_up(parts.state, parts.store, [e for e in moving if e not in queued])
        by_node: dict[NodeId, list[QueueEntry]] = {}
        for entry in (*queued, *(entry for entry, _ in begun)):
            by_node.setdefault(chosen[entry.task], []).append(as_moved(entry))
        await hand_over(parts.state, parts.placer, by_node, Occasion.GIVEN)
        await parts.placer.are_placed([standing for _, standing in begun])
        for node, tasks in by_node.items():
            ids = tuple(entry.task for entry in tasks)
            world.emit(WorkGiven(world.kernel.now(), world.node, node, ids, ()))
        parts.state.outbox.load_changed()

    # --- tasks that run late ---------------------------------------------------------------------

    async def _back_up(self) -> None:
        """Whenever an attempt is late, have the task run elsewhere too if that should end first."""
        attempts, kernel = self.parts.state.attempts, self.parts.world.kernel
        while True:
            await self._company.wait()
            await attempts.started_one.wait(self._late_in_seconds())
            attempts.started_one.clear()
            for entry in self._late():
                self._helped.add(entry.task)
                await self._offer_late(entry)
            if self._helped:  # of which those are that run elsewhere too
                here = {attempt.entry.task for attempt in attempts.under_way()}
                self._helped &= here
                self._doubled &= here
            await kernel.sleep(0)

    def _late_in_seconds(self) -> float | None:
        first = min((late_at for late_at, _ in self._unhelped()), default=None)
        return None if first is None else max(first - self.parts.world.kernel.now(), 0.0) + 1e-3

    def _late(self) -> list[QueueEntry]:
        now = self.parts.world.kernel.now()
        return [entry for late_at, entry in self._unhelped() if now >= late_at]

    def _unhelped(self) -> list[tuple[float, QueueEntry]]:
        """When each task that runs will be late, but for those that were offered already."""
        return [
            (attempt.started_at + self._late_after_seconds(attempt.entry), attempt.entry)
            for attempt in self.parts.state.attempts.under_way()
            if attempt.started_at is not None
            and not attempt.has_run
            and attempt.entry.task not in self._helped
        ]

    def _late_after_seconds(self, entry: QueueEntry) -> float:
        """A short task is left alone for a while: to ask, and to move its inputs, takes longer."""
        return max(late_after_seconds(entry, self.parts.state.times), LEAST_GAIN_SECONDS)

    async def _offer_late(self, entry: QueueEntry) -> None:
        parts = self.parts
        best = first_to_end(await self._bids(await self._described([entry])))
        attempt = next(
            (a for a in parts.state.attempts.under_way() if a.entry.task == entry.task), None
        )
        if best is None or attempt is None or attempt.started_at is None or attempt.has_run:
            return
        elapsed = parts.world.kernel.now() - attempt.started_at
        if best[0] > max(
            elapsed, remaining_seconds(attempt, parts.world.kernel.now(), parts.state.times)
        ):
            return
        await self._replicate(entry, best[1])

    async def _replicate(self, entry: QueueEntry, node: NodeId) -> None:
        """Have the task run at another node too, if it may: the first to end wins."""
        parts, world = self.parts, self.parts.world
        answer = await parts.store.ask(Replicate(entry.task, world.node, node), Standing)
        if answer.granted:
            self._doubled.add(entry.task)
            backup = msgspec.structs.replace(entry, replica=True, shelf=Shelf.KEPT)
            await parts.placer.send({node: [backup]}, Occasion.GIVEN)
            world.emit(WorkGiven(world.kernel.now(), world.node, node, (entry.task,), ()))

    # --- offers and bids -------------------------------------------------------------------------

    async def _described(self, entries: Sequence[QueueEntry]) -> list[OfferedTask]:
        """The tasks as other nodes must know them."""
        looks = await self.parts.store.call([Look(entry.task) for entry in entries])
        offered = []
        for entry, look in zip(entries, looks, strict=True):
            assert isinstance(look, Standing)
            inputs = as_committed(look.inputs, look.input_copies)
            sizes = tuple((file.id, file.size_bytes) for file in inputs)
            offered.append(
                OfferedTask(
                    entry.task, entry.priority, entry.seconds, entry.spread, entry.task_type, sizes
                )
            )
        return offered

    async def _bids(
        self, offered: Sequence[OfferedTask], newcomers: Sequence[NodeId] = ()
    ) -> list[Bid]:
        """The answers of volunteers, a few newcomers and a few others, if they come in time."""
        nodes = self.neighbours.draw()
        if newcomers:
            count = size_of(self.settings.neighbours, len(newcomers))
            drawn = self.parts.world.random.sample(newcomers, count)
            nodes = list(dict.fromkeys((*drawn, *nodes)))
        if self._volunteers:
            nodes = list(dict.fromkeys((*self._volunteers, *nodes)))
            self._volunteers.clear()
        if not nodes or not offered:
            return []
        self._number += 1
        number, world = self._number, self.parts.world
        round_ = self._rounds[number] = _Round(len(nodes), world.kernel.flag())
        for node in nodes:
            world.network.send(node, Offer(world.node, number, tuple(offered)))
        try:
            await round_.complete.wait(self.settings.bid_seconds)
        finally:
            del self._rounds[number]
        return sorted(round_.bids, key=lambda bid: bid.node)

    def _bid(self, offer: Offer) -> None:
        """Say when this node could run each of the tasks; say nothing if it is about to stop.

        When a core will be free is known only as well as run times are. So a task whose run time is
        not certain is wanted only if a core is idle now.
        """
        state, world = self.parts.state, self.parts.world
        if state.is_draining or not state.identity.joined:
            return
        now = world.kernel.now()
        self._promised = [(until, seconds) for until, seconds in self._promised if until > now]
        under_way = list(state.attempts.under_way())
        taken = world.runner.taken_seconds()
        idle = world.cores - len(under_way) - len(state.queue) - len(self._promised) - len(taken)
        free = cores_free_in(under_way, world.cores, now, state.times, taken)
        starts_in(sorted(a.entry for a in under_way if a.started_at is None), free, state.times)
        times = [
            (inf, inf) if task.spread and idle <= 0 else self._span(task, free[0], offer.node)
            for task in offer.tasks
        ]
        places = sum(seconds <= free[0] for seconds in free)
        if any(task.spread for task in offer.tasks):
            places = min(places, max(idle, 0))
        if longest := max((end - start for start, end in times if end < inf), default=0.0):
            # Until the giver has decided, other givers should not count on the same cores.
            self._promised.append((now + 2 * self.settings.bid_seconds, longest))
        world.network.send(offer.node, Bid(world.node, offer.number, places, tuple(times)))

    def _span(
        self, task: OfferedTask, free_in_seconds: float, giver: NodeId
    ) -> tuple[float, float]:
        """In how many seconds this node would start a task, and end it."""
        state, cores = self.parts.state, self.parts.world.cores
        entry = QueueEntry(
            task.priority, task.task, False, task.seconds,
            spread=task.spread, task_type=task.task_type,
        )  # fmt: skip
        before = sum(seconds for _, seconds in self._promised)
        first = state.queue.most_urgent(1)
        if first and not entry < first[0]:
            before += state.queue.load_seconds
        missing = sum(size for file, size in task.inputs if file not in self.parts.depot)
        rate = self.parts.world.network.expected_rate(giver) if missing else None
        staged = state.learned.staging_seconds(missing, rate)
        start = max(free_in_seconds + before / cores, staged)
        return start, start + expected_seconds(entry, state.times)
