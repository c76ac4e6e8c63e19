"""Spare offers: tasks that run for long are run on idle cores of other nodes too, as spares.

Nodes that say that they are idle are offered such tasks. A spare ends when the node that runs it
wants the core (see `spares`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dataward.model.answers import Standing
from dataward.model.events import Occasion, WorkGiven
from dataward.model.ids import NodeId
from dataward.model.messages import Bid
from dataward.model.operations import QueueEntry, Replicate, Shelf
from dataward.model.workflow import TaskId
from dataward.node.attempts import UnderWay
from dataward.node.bidding import Bidding, described
from dataward.node.forecast import expected_seconds, remaining_seconds
from dataward.node.mover import NodeParts

STAGING_SHARE = 0.1  # of its run time: files that take longer to come would burden the links
PAUSE_SECONDS = 1.0  # between two rounds of offers, however many nodes say that they are idle


def quickest(offered: Sequence[TaskId], bids: Sequence[Bid]) -> dict[TaskId, NodeId]:
    """Which tasks are run where as spares: the first of them where it would end first, and so on.

    No node is given more than it has places, and none a task whose inputs would take long to come.
    Equal ends go to the lowest id.
    """
    places = {bid.node: bid.places for bid in bids}
    given: dict[TaskId, NodeId] = {}
    for number, task in enumerate(offered):
        able = []
        for bid in bids:
            start, end = bid.times[number]
            if places[bid.node] > 0 and start <= STAGING_SHARE * (end - start):
                able.append((end, bid.node))
        if able:
            given[task] = min(able)[1]
            places[given[task]] -= 1
    return given


@dataclass
class SpareOffers:
    parts: NodeParts
    bidding: Bidding
    least_seconds: float  # what still takes less is soon run again

    def __post_init__(self) -> None:
        self._nodes: dict[TaskId, NodeId] = {}  # where tasks were last begun as spares
        self._idle: dict[NodeId, None] = {}  # said so since the last round
        self._came = self.parts.world.kernel.flag()

    def idle(self, node: NodeId) -> None:
        """Offer it what runs here: the node has said that it has an idle core."""
        self._idle[node] = None
        self._came.set()

    def node_of(self, task: TaskId) -> NodeId | None:
        """The node at which a task that runs here was last begun as a spare, if it was."""
        return self._nodes.get(task)

    async def run(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            idle, self._idle = self._idle, {}
            attempts = self.parts.state.attempts
            self._nodes = {task: at for task, at in self._nodes.items() if task in attempts}
            if idle:
                await self._offer(idle)
            await self.parts.world.kernel.sleep(PAUSE_SECONDS)

    async def _offer(self, idle: Collection[NodeId]) -> None:
        """Offer the tasks that run here and nowhere else, the most urgent first."""
        rate = self.parts.world.network.expected_rate(next(iter(idle)))
        entries = sorted(attempt.entry for attempt in self._long_ones(rate))
        if not entries:
            return
        standings = await self.bidding.standings(entries)
        alone = {standing.task: standing for standing in standings if standing.live_attempts == 1}
        self._keep(alone)
        offered = [entry for entry in entries if entry.task in alone]
        if not offered:
            return
        tasks = described(offered, [alone[entry.task] for entry in offered])
        bids = await self.bidding.bids(tasks, others=idle, spare=True)
        chosen = quickest([entry.task for entry in offered], bids)
        await self._have_run([entry for entry in offered if entry.task in chosen], chosen)

    def _long_ones(self, rate: float | None) -> list[UnderWay]:
        """The attempts that run, will for a while, and write little, where links have such a rate.

        A spare may end first, and then the outputs are not where the plan wants them. Spares are
        among these too: their other runs may be over.
        """
        state, now = self.parts.state, self.parts.world.kernel.now()
        return [
            attempt
            for attempt in (*state.attempts.under_way(), *state.attempts.spares())
            if attempt.runs
            and remaining_seconds(attempt, now, state.times) > self.least_seconds
            and state.learned.staging_seconds(attempt.output_bytes, rate)
            <= STAGING_SHARE * expected_seconds(attempt.entry, state.times)
        ]

    def _keep(self, alone: Collection[TaskId]) -> None:
        """Spares that are the only runs of their tasks give way no more."""
        for task in alone:
            self.parts.state.attempts.keep(task)

    async def _have_run(
        self, entries: Sequence[QueueEntry], chosen: Mapping[TaskId, NodeId]
    ) -> None:
        parts, world = self.parts, self.parts.world
        asks = [Replicate(e.task, world.node, chosen[e.task], spare=True) for e in entries]
        by_node: dict[NodeId, list[QueueEntry]] = {}
        for entry, answer in zip(entries, await parts.store.call(asks), strict=True):
            if isinstance(answer, Standing) and answer.granted:
                spare = msgspec.structs.replace(entry, replica=True, shelf=Shelf.SPARE)
                by_node.setdefault(chosen[entry.task], []).append(spare)
                self._nodes[entry.task] = chosen[entry.task]
        await parts.placer.send(by_node, Occasion.GIVEN)
        for node, spares in by_node.items():
            ids = tuple(entry.task for entry in spares)
            world.emit(WorkGiven(world.kernel.now(), world.node, node, ids, ()))
