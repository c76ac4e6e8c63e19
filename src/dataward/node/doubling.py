"""Doubling: a task that runs late is run at another node too, if it should end there first.

The first run to end wins, and the other is stopped, as always. If a spare should end first (see
`spares`), that run gives way to others no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from dataward.model.answers import Standing
from dataward.model.events import Occasion, WorkGiven
from dataward.model.ids import NodeId
from dataward.model.messages import Bid, KeepSpare
from dataward.model.operations import QueueEntry, Replicate, Shelf
from dataward.model.workflow import TaskId
from dataward.node.attempts import UnderWay
from dataward.node.bidding import Bidding
from dataward.node.forecast import late_after_seconds, remaining_seconds
from dataward.node.mover import NodeParts
from dataward.world import Flag

LEAST_SECONDS = 0.5  # a task that has run for less is not late
SOON_SECONDS = 10.0  # a node that is slow may be so no more when a later run would begin


def first_to_end(bids: Sequence[Bid]) -> tuple[float, NodeId] | None:
    """In how many seconds the only task of an offer would end at the best node, and that node."""
    return min(((bid.times[0][1], bid.node) for bid in bids), default=None)


@dataclass
class Doubler:
    parts: NodeParts
    bidding: Bidding
    company: Flag  # set while there is another node
    spare_at: Callable[[TaskId], NodeId | None]  # where a task was last begun as a spare
    _helped: set[TaskId] = field(default_factory=set)  # late, and offered to others already
    _doubled: set[TaskId] = field(default_factory=set)  # of these, those that run elsewhere too

    async def run(self) -> None:
        """Whenever an attempt is late, have the task run elsewhere too if that should end first."""
        attempts, kernel = self.parts.state.attempts, self.parts.world.kernel
        while True:
            await self.company.wait()
            await attempts.started_one.wait(self._late_in_seconds())
            attempts.started_one.clear()
            for entry in self._late():
                self._helped.add(entry.task)
                await self._offer(entry)
            here = {attempt.entry.task for attempt in attempts.under_way()}
            self._helped &= here
            self._doubled &= here
            await kernel.sleep(0)

    def offer_again(self) -> None:
        """Offer late tasks once more that nobody would end sooner: a node has become idle."""
        if self._helped - self._doubled:
            self.look_again()

    def look_again(self) -> None:
        """Look now for tasks that are late, those that were offered in vain included."""
        self._helped &= self._doubled
        self.parts.state.attempts.started_one.set()

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
        """A short task is left alone for a while: to ask, and to move its inputs, takes longer.

        On a node that is slow now, all that runs is late.
        """
        state = self.parts.state
        late = 0.0 if state.pace.is_slow else late_after_seconds(entry, state.times)
        return max(late, LEAST_SECONDS)

    async def _offer(self, entry: QueueEntry) -> None:
        parts = self.parts
        spare_at = self.spare_at(entry.task)
        bids = await self.bidding.bids_for([entry], others=[spare_at] if spare_at else ())
        if parts.state.pace.is_slow:
            bids = [bid for bid in bids if bid.times[0][0] <= SOON_SECONDS]
        best = first_to_end(bids)
        attempt = next(
            (a for a in parts.state.attempts.under_way() if a.entry.task == entry.task), None
        )
        if best is None or attempt is None or attempt.started_at is None or attempt.has_run:
            return
        if best[0] <= self._left_seconds(attempt):
            await self._replicate(entry, best[1])

    def _left_seconds(self, attempt: UnderWay) -> float:
        """In how many seconds a run should end here; a late one, in as long as it has run.

        A node that is slow now is taken to stay so.
        """
        state, now = self.parts.state, self.parts.world.kernel.now()
        remaining = remaining_seconds(attempt, now, state.times)
        if state.pace.is_slow:
            return state.pace.slowness * remaining
        return max(now - (now if attempt.started_at is None else attempt.started_at), remaining)

    async def _replicate(self, entry: QueueEntry, node: NodeId) -> None:
        """Have the task run at another node too, if it may."""
        parts, world = self.parts, self.parts.world
        if node == self.spare_at(entry.task):
            self._doubled.add(entry.task)
            world.network.send(node, KeepSpare(entry.task))
            return
        answer = await parts.store.ask(Replicate(entry.task, world.node, node), Standing)
        if answer.granted:
            self._doubled.add(entry.task)
            backup = msgspec.structs.replace(entry, replica=True, shelf=Shelf.KEPT)
            await parts.placer.send({node: [backup]}, Occasion.GIVEN)
            world.emit(WorkGiven(world.kernel.now(), world.node, node, (entry.task,), ()))
