"""Offers and bids: nodes ask each other when they could start tasks.

A node that is asked knows which inputs it has, how fast others come, and when a core will be free.
A lost message costs one offer. Nodes that have nothing to do say so (`Volunteer`), and are asked
first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import inf

from dataward.model.answers import Standing
from dataward.model.ids import NodeId
from dataward.model.messages import Bid, Offer, OfferedTask
from dataward.model.operations import Look, QueueEntry
from dataward.node.depot import as_committed
from dataward.node.forecast import cores_free_in, expected_seconds, remaining_seconds, starts_in
from dataward.node.mover import NodeParts
from dataward.node.neighbourhood import Neighbours, size_of
from dataward.world import Flag


def described(entries: Sequence[QueueEntry], standings: Sequence[Standing]) -> list[OfferedTask]:
    """Tasks as other nodes must know them to bid."""
    offered = []
    for entry, standing in zip(entries, standings, strict=True):
        inputs = as_committed(standing.inputs, standing.input_copies)
        sizes = tuple((file.id, file.size_bytes) for file in inputs)
        offered.append(
            OfferedTask(
                entry.task, entry.priority, entry.seconds, entry.spread, entry.task_type, sizes
            )
        )
    return offered


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
class Bidding:
    """A node's part in offers: its own, and those of others."""

    parts: NodeParts
    neighbours: Neighbours
    size: int  # of a draw among newcomers, as in `size_of`
    bid_seconds: float  # how long bids are waited for
    _rounds: dict[int, _Round] = field(default_factory=dict)
    _number: int = 0
    _promised: list[tuple[float, float]] = field(default_factory=list)  # (until when, seconds)
    _volunteers: dict[NodeId, None] = field(default_factory=dict)  # said that they are idle

    @property
    def under_way(self) -> int:
        return len(self._rounds)

    # --- offers of this node ---------------------------------------------------------------------

    async def standings(self, entries: Sequence[QueueEntry]) -> list[Standing]:
        """The tasks as the store has them."""
        answers = await self.parts.store.call([Look(entry.task) for entry in entries])
        return [answer for answer in answers if isinstance(answer, Standing)]

    async def bids_for(
        self,
        entries: Sequence[QueueEntry],
        newcomers: Sequence[NodeId] = (),
        others: Collection[NodeId] = (),
    ) -> list[Bid]:
        """The answers of volunteers, a few newcomers, a few others and these, if they come soon."""
        return await self.bids(described(entries, await self.standings(entries)), newcomers, others)

    async def bids(
        self,
        tasks: Sequence[OfferedTask],
        newcomers: Sequence[NodeId] = (),
        others: Collection[NodeId] = (),
        *,
        spare: bool = False,
    ) -> list[Bid]:
        """As `bids_for`; the ``others`` are asked too. A ``spare`` is to run on an idle core."""
        world = self.parts.world
        drawn = self.neighbours.draw()
        new = world.random.sample(newcomers, size_of(self.size, len(newcomers)))
        nodes = [
            n for n in dict.fromkeys((*others, *self._volunteers, *new, *drawn)) if n != world.node
        ]
        self._volunteers.clear()
        if not nodes:
            return []
        self._number += 1
        number = self._number
        round_ = self._rounds[number] = _Round(len(nodes), world.kernel.flag())
        for node in nodes:
            world.network.send(node, Offer(world.node, number, tuple(tasks), spare))
        try:
            await round_.complete.wait(self.bid_seconds)
        finally:
            del self._rounds[number]
        return sorted(round_.bids, key=lambda bid: bid.node)

    def on_bid(self, bid: Bid) -> None:
        round_ = self._rounds.get(bid.number)
        if round_ is not None:
            round_.add(bid)

    def volunteers(self, node: NodeId) -> None:
        """Ask this node first next time: it has said that it is idle."""
        self._volunteers[node] = None

    # --- offers of others ------------------------------------------------------------------------

    def answer(self, offer: Offer) -> None:
        """Say when this node could run each of the tasks; say nothing if it is about to stop.

        When a core will be free is known only as well as run times are. So a task whose run time is
        not certain is wanted only if a core is idle now, and a spare too.
        """
        state, world = self.parts.state, self.parts.world
        if state.is_draining or not state.identity.joined:
            return
        now = world.kernel.now()
        self._promised = [(until, seconds) for until, seconds in self._promised if until > now]
        under_way = list(state.attempts.under_way())
        taken = world.runner.taken_seconds()
        idle = world.cores - len(under_way) - len(state.queue) - len(self._promised) - len(taken)
        if offer.spare:
            idle -= len(state.attempts.spares()) + len(state.spares)
        free = cores_free_in(under_way, world.cores, now, state.times, taken)
        starts_in(sorted(a.entry for a in under_way if a.started_at is None), free, state.times)
        missing = tuple(map(self.missing_bytes, offer.tasks))
        times = [
            (inf, inf)
            if (task.spread or offer.spare) and idle <= 0
            else self._span(task, lacks, free[0], offer.node)
            for task, lacks in zip(offer.tasks, missing, strict=True)
        ]
        places = sum(seconds <= free[0] for seconds in free)
        if offer.spare or any(task.spread for task in offer.tasks):
            places = min(places, max(idle, 0))
        if longest := max((end - start for start, end in times if end < inf), default=0.0):
            # Until the giver has decided, other givers should not count on the same cores.
            self._promised.append((now + 2 * self.bid_seconds, longest))
        bid = Bid(world.node, offer.number, places, tuple(times), missing)
        world.network.send(offer.node, bid)

    def missing_bytes(self, task: OfferedTask) -> int:
        """How much of a task's inputs is not here."""
        return sum(size for file, size in task.inputs if file not in self.parts.depot)

    def _span(
        self, task: OfferedTask, missing_bytes: int, free_in_seconds: float, giver: NodeId
    ) -> tuple[float, float]:
        """In how many seconds this node would start a task, and end it."""
        state, cores = self.parts.state, self.parts.world.cores
        for spare in state.attempts.spares():
            if spare.entry.task == task.task:
                return 0.0, remaining_seconds(spare, self.parts.world.kernel.now(), state.times)
        entry = QueueEntry(
            task.priority, task.task, False, task.seconds,
            spread=task.spread, task_type=task.task_type,
        )  # fmt: skip
        before = sum(seconds for _, seconds in self._promised)
        first = state.queue.most_urgent(1)
        if first and not entry < first[0]:
            before += state.queue.load_seconds
        rate = self.parts.world.network.expected_rate(giver) if missing_bytes else None
        staged = state.learned.staging_seconds(missing_bytes, rate)
        expected = expected_seconds(entry, state.times)
        lost = (state.pace.slowness - 1) * expected  # as good as a later start
        start = max(free_in_seconds + before / cores, staged) + lost
        return start, start + expected
