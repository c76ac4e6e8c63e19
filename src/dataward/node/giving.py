"""Work giving: the most loaded node of a neighbourhood gives to the least loaded.

ADAGE's Listing 4. Two departures, both for fewer messages and the same gifts: loads are read from
the store in one batched call, and a node with nothing to give waits until it has something.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

import msgspec

from dataward.errors import SettingError
from dataward.model.answers import Standing
from dataward.model.events import Occasion, WorkGiven
from dataward.model.ids import NodeId
from dataward.model.messages import MoverMessage
from dataward.model.operations import QueueEntry, Replicate, Shelf
from dataward.node.handing_over import half, hand_over, take_out
from dataward.node.homes import receiver
from dataward.node.mover import NodeParts
from dataward.node.neighbourhood import Neighbourhood, Neighbours
from dataward.node.placer import Placer
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World


@dataclass(frozen=True, slots=True)
class Giving:
    """Work giving; defaults are ADAGE's, from its section III-D or its public simulator."""

    replication: bool = True  # off: a task that is given away does not stay here too
    pause_seconds_min: float = 0.001  # "e.g., 1 millisecond"
    pause_seconds_max: float = 128.0  # about where the authors' code stops doubling
    neighbourhood: Neighbourhood = Neighbourhood.DYNAMIC
    neighbours: int = 0  # 0: the square root of the number of nodes

    def __post_init__(self) -> None:
        if not self.pause_seconds_min > 0:
            raise SettingError("a node with pause_seconds_min 0 would never rest; give more than 0")

    def at(self, parts: NodeParts) -> "LoadBalancer":
        world = parts.world
        neighbours = Neighbours(
            world.node,
            world.nodes,
            world.random,
            parts.store,
            self.neighbourhood,
            self.neighbours,
        )
        return LoadBalancer(world, self, parts.store, parts.state, parts.placer, neighbours)


def next_pause(pause_seconds: float, *, gave: bool, settings: Giving) -> float:
    """The shortest pause after a gift, else twice the last pause, up to a maximum."""
    if gave:
        return settings.pause_seconds_min
    return min(pause_seconds * 2, settings.pause_seconds_max)


@dataclass
class LoadBalancer:
    world: World
    settings: Giving
    store: StoreClient
    state: NodeState
    placer: Placer
    neighbours: Neighbours

    def __post_init__(self) -> None:
        self._news = self.world.kernel.flag()  # set when nodes have come or gone
        self.world.nodes.watch(self._news.set)

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        return [self.run()]

    def on_message(self, message: MoverMessage) -> None:
        """Givers say nothing to each other."""

    def loose_ends(self) -> dict[str, int]:
        return {}

    async def run(self) -> None:
        pause = self.settings.pause_seconds_min
        while True:
            if not self.state.queue.givable:
                await self.state.queue.offered.wait()
                pause = self.settings.pause_seconds_min
            self._news.clear()
            gave = await self._give()
            pause = next_pause(pause, gave=gave, settings=self.settings)
            if await self._news.wait(pause):
                pause = self.settings.pause_seconds_min

    async def _give(self) -> bool:
        loads = await self.neighbours.loads()
        target = receiver(self.state.queue.load_seconds, loads)
        if target is None:
            return False
        given = await self._send(target)
        if given:
            tasks = tuple(entry.task for entry in given)
            now = self.world.kernel.now()
            self.world.emit(WorkGiven(now, self.world.node, target, tasks, (*loads.items(),)))
        return bool(given)

    async def _send(self, target: NodeId) -> list[QueueEntry]:
        """The tasks queued at the target: the least urgent half of those to give, but at least one.

        With replication, only those of them that may have one more backup.
        """
        queue, replica = self.state.queue, self.settings.replication
        gift = queue.least_urgent(half(queue.givable))
        gift = await self._backed_up(gift, target) if replica else take_out(queue, gift)
        if not gift:
            return []
        entries = [
            msgspec.structs.replace(entry, replica=replica, shelf=Shelf.KEPT) for entry in gift
        ]
        if replica:
            await self.placer.send({target: entries}, Occasion.GIVEN)
        else:
            await hand_over(self.state, self.placer, {target: entries}, Occasion.GIVEN)
        return gift

    async def _backed_up(self, gift: list[QueueEntry], target: NodeId) -> list[QueueEntry]:
        """The tasks that may have a backup at the target. They stay here too: the first wins."""
        asks = [Replicate(entry.task, self.world.node, target) for entry in gift]
        granted = []
        for entry, answer in zip(gift, await self.store.call(asks), strict=True):
            assert isinstance(answer, Standing)
            if answer.granted:
                granted.append(entry)
                self.state.queue.share(entry.task)
            if not answer.more_backups:
                self.state.queue.keep(entry.task)
        return granted
