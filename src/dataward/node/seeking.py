"""Looks for tasks on behalf of a node that has nothing to run: tells keepers, heeds invitations."""

from collections.abc import Sequence
from typing import NamedTuple

from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Handed, Reserve
from dataward.node.asking import Asker, Tell
from dataward.node.keeper_homes import drawn_keepers
from dataward.node.mover import NodeParts

FIRST = 3  # keepers that are told at first: the node itself, and two others


class SeekingPauses(NamedTuple):
    shortest_seconds: float
    longest_seconds: float


class Seeker:
    """Tells a few keepers at first, soon after twice as many, until all have been told.

    They remember it. After that it tells them again, ever more rarely: some may not have heard.
    """

    def __init__(
        self, parts: NodeParts, tell: Tell, asker: Asker, tasks_max: int, pauses: SeekingPauses
    ) -> None:
        self._parts = parts
        self._tell = tell
        self._asker = asker
        self._tasks_max = tasks_max
        self._pauses = pauses
        self._invitations: list[Reserve] = []
        self._is_invited = parts.world.kernel.flag()

    def __len__(self) -> int:
        return len(self._invitations)

    def on_invited(self, message: Reserve) -> None:
        """Take the invitation up as soon as may be; decline it if the node has work by now."""
        if self._is_seeking:
            self._invitations.append(message)
            self._is_invited.set()
        else:
            self._decline(message)

    @property
    def _is_seeking(self) -> bool:
        state = self._parts.state
        return state.queue.hungry.is_set() and not state.is_draining

    def _decline(self, message: Reserve) -> None:
        self._tell(message.node, Ask(self._parts.world.node, 0, batch=message.batch))

    def on_handed(self, message: Handed) -> None:
        self._asker.on_handed(message)

    async def run(self) -> None:
        queue = self._parts.state.queue
        while True:
            await queue.hungry.wait()
            if self._parts.state.is_draining:
                await self._parts.world.kernel.flag().wait()  # for ever
            await self._seek()
            self._is_invited.clear()
            others, self._invitations = self._invitations, []
            for message in others:
                self._decline(message)

    async def _seek(self) -> None:
        """Return when the node has something to run."""
        queue = self._parts.state.queue
        line: Sequence[NodeId] = ()
        pause, count = self._pauses.shortest_seconds, FIRST
        while queue.hungry.is_set():
            if not line:
                world = self._parts.world
                line = drawn_keepers(world.node, world.nodes, world.random)
            for keeper in line[:count]:
                self._tell(keeper, Ask(self._parts.world.node, self._wanted))
            line, count = line[count:], 2 * count
            if await self._is_fed(pause):
                return
            if not line:
                pause = min(2 * pause, self._pauses.longest_seconds)

    @property
    def _wanted(self) -> int:
        return min(self._asker.free, self._tasks_max)

    async def _is_fed(self, pause_seconds: float) -> bool:
        """Whether somebody who invites this node within that time has given it tasks."""
        if not await self._is_invited.wait(pause_seconds):
            return False
        while self._invitations:
            message = self._invitations.pop(0)
            if await self._asker.take(message.node, message.batch, self._wanted):
                return True
        self._is_invited.clear()
        return False
