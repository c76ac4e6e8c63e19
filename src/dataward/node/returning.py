"""Returning: a task that lost its node goes back to its inputs when these are there again.

A task whose node died is placed elsewhere, and its inputs are fetched once more, which may take
long. Meanwhile the node may have come back, with all that it has on its disk.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dataward.model.ids import ORIGIN, NodeId
from dataward.model.messages import Bid, OfferedTask
from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId
from dataward.node.bidding import Bidding, described
from dataward.node.handing_over import move
from dataward.node.mover import NodeParts

LEAST_SECONDS = 5.0  # for inputs that come sooner, no task moves


@dataclass(frozen=True, slots=True)
class Missing:
    """What a task that was begun here still lacks: so many bytes, which take so long to come."""

    size_bytes: int
    seconds: float


def nearer(
    tasks: Sequence[OfferedTask], bids: Sequence[Bid], missing: Mapping[TaskId, Missing]
) -> dict[TaskId, NodeId]:
    """Which of the tasks go where: to a node that lacks at most half of what is missing here.

    It must also start the task in at most half of the time that the inputs need in all: how much of
    them is on its way already is not known. Of several, the first to start is chosen.
    """
    places = {bid.node: bid.places for bid in bids}
    given: dict[TaskId, NodeId] = {}
    for number, task in enumerate(tasks):
        here = missing[task.task]
        able = [
            (bid.times[number][0], bid.node) for bid in bids
            if places[bid.node] > 0
            and 2 * bid.missing_bytes[number] <= here.size_bytes
            and 2 * bid.times[number][0] <= here.seconds
        ]  # fmt: skip
        if able:
            given[task.task] = min(able)[1]
            places[given[task.task]] -= 1
    return given


@dataclass
class Returner:
    parts: NodeParts
    bidding: Bidding

    async def offer(self) -> None:
        """Offer displaced tasks that wait for inputs: to the nodes they were planned for, too."""
        entries = self._staging()
        if not entries:
            return
        standings = await self.bidding.standings(entries)
        tasks, missing = described(entries, standings), {}
        for task in tasks:
            missing[task.task] = self._missing(task)
        tasks = [task for task in tasks if missing[task.task].seconds > LEAST_SECONDS]
        if tasks:
            planned = [standing.preferred for standing in standings]
            bids = await self.bidding.bids(tasks, others=planned)
            await move(self.parts, nearer(tasks, bids, missing), entries, staging=True)

    def _staging(self) -> list[QueueEntry]:
        return [
            attempt.entry
            for attempt in self.parts.state.attempts.under_way()
            if attempt.entry.displaced and attempt.waits_to_run and not attempt.is_staged
        ]

    def _missing(self, task: OfferedTask) -> Missing:
        size_bytes = self.bidding.missing_bytes(task)
        rate = self.parts.world.network.expected_rate(ORIGIN)
        return Missing(size_bytes, self.parts.state.learned.staging_seconds(size_bytes, rate))
