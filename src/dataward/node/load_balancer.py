"""Work giving: the most loaded node of a neighbourhood gives to the least loaded.

ADAGE's Listing 4. Two departures, both for fewer messages and the same gifts: loads are read from
the store in one batched call, and a node with nothing to give waits until it has something.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt

import msgspec

from dataward.model.answers import Membership, Standing
from dataward.model.events import Occasion, WorkGiven
from dataward.model.ids import NodeId
from dataward.model.operations import Probe, QueueEntry, Replicate
from dataward.node.homes import receiver
from dataward.node.placer import Placer
from dataward.node.settings import Neighbourhood, NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World


def next_pause(pause_seconds: float, *, gave: bool, settings: NodeSettings) -> float:
    """The shortest pause after a gift, else twice the last pause, up to a maximum."""
    if gave:
        return settings.pause_seconds_min
    return min(pause_seconds * 2, settings.pause_seconds_max)


@dataclass
class LoadBalancer:
    world: World
    settings: NodeSettings
    store: StoreClient
    state: NodeState
    placer: Placer
    _neighbours: list[NodeId] = field(default_factory=list)

    async def run(self) -> None:
        pause = self.settings.pause_seconds_min
        while True:
            if not self.state.queue.givable:
                await self.state.queue.offered.wait()
                pause = self.settings.pause_seconds_min
            gave = await self._give()
            pause = next_pause(pause, gave=gave, settings=self.settings)
            await self.world.kernel.sleep(pause)

    async def _give(self) -> bool:
        loads = await self._neighbour_loads()
        target = receiver(self.state.queue.load_seconds, loads)
        if target is None:
            return False
        given = await self._send(target)
        if given:
            tasks = tuple(entry.task for entry in given)
            now = self.world.kernel.now()
            self.world.emit(WorkGiven(now, self.world.node, target, tasks, (*loads.items(),)))
        return bool(given)

    async def _neighbour_loads(self) -> dict[NodeId, float]:
        probes = [Probe(node) for node in self._neighbourhood()]
        answers = await self.store.call(probes) if probes else []
        return {
            answer.node: answer.load_seconds
            for answer in answers
            if isinstance(answer, Membership) and answer.up
        }

    def _neighbourhood(self) -> Sequence[NodeId]:
        dynamic = self.settings.neighbourhood is Neighbourhood.DYNAMIC
        if dynamic or not self._neighbours:
            nodes = self.world.nodes
            size = min(self.settings.neighbours or max(isqrt(len(nodes)), 1), len(nodes))
            drawn = self.world.random.sample(nodes, size)
            self._neighbours = [node for node in drawn if node != self.world.node]
        return self._neighbours

    async def _send(self, target: NodeId) -> list[QueueEntry]:
        """The tasks queued at the target: the least urgent half of those to give, but at least one.

        With replication, only those of them that may have one more backup.
        """
        gift = self.state.queue.least_urgent(max(self.state.queue.givable // 2, 1))
        replica = self.settings.replication
        if replica:
            gift = await self._backed_up(gift, target)
        else:
            gift = [entry for entry in gift if self.state.queue.remove(entry.task)]
        if not gift:
            return []
        entries = [msgspec.structs.replace(entry, replica=replica, given=True) for entry in gift]
        await self.placer.send({target: entries}, Occasion.GIVEN)
        if not replica:
            for entry in gift:
                self.state.outbox.let_go(entry.task)
        self.state.outbox.load_changed()
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
