"""Tells children that their parents have finished, and has children placed that became ready.

Any node may repeat a notice at any time: the store remembers notices, and does not count them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NOBODY
from dataward.model.messages import Stop
from dataward.model.operations import Copy, Delivered, notice_of_end
from dataward.model.states import IN_VAIN, TaskState
from dataward.model.workflow import TaskId
from dataward.node.outbox import Outbox
from dataward.node.placer import Placer
from dataward.node.store_client import StoreClient
from dataward.node.telling import tell_finished
from dataward.world import World


class Notice(NamedTuple):
    """A finished task, whose children are to be told."""

    task: TaskId
    generation: int
    end: TaskState
    children: tuple[TaskId, ...]
    copies: tuple[Copy, ...]


@dataclass
class Herald:
    world: World
    store: StoreClient
    outbox: Outbox
    placer: Placer
    _notices: list[Notice] = field(default_factory=list)
    _under_way: int = 0  # notices that are being delivered

    def __post_init__(self) -> None:
        self._work = self.world.kernel.flag()

    def deliver(self, notice: Notice) -> None:
        """Tell a task's children soon."""
        self._notices.append(notice)
        self._work.set()

    def loose_ends(self) -> dict[str, int]:
        return {"notices to deliver": len(self._notices) + self._under_way}

    def cascade(self, child: Standing) -> None:
        """Report a task that failed or was removed with its parent; tell its own children soon.

        Nodes that may have the removed task are told to drop it; others learn it from `Begin`.
        """
        tell_finished(self.world, child.task, NOBODY, child.state, child.generation)
        for holder in child.holders:
            self.world.network.send(holder, Stop(child.task, child.generation))
        self.deliver(Notice(child.task, child.generation, child.state, child.children, ()))

    async def run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._notices:
                notices, self._notices = self._notices, []
                self._under_way = len(notices)
                await self._tell(notices)
                self._under_way = 0

    async def _tell(self, notices: list[Notice]) -> None:
        """Notify the children, queue those that became ready, and only then empty the outboxes."""
        operations = [
            notice_of_end(child, notice.task, notice.generation, notice.end, notice.copies)
            for notice in notices
            for child in notice.children
        ]
        answers = [a for a in await self.store.call(operations) if isinstance(a, Standing)]
        await self.placer.place([a for a in answers if a.needs_node], Occasion.READY)
        for answer in answers:
            if answer.state in IN_VAIN and answer.granted:
                self.cascade(answer)
        # The store has forgotten a child it does not know. The child must be told once it has been
        # submitted again, so the outbox stays full.
        unknown = {answer.task for answer in answers if answer.unknown}
        for notice in notices:
            if unknown.isdisjoint(notice.children):
                self.outbox.later(Delivered(notice.task, notice.generation))
