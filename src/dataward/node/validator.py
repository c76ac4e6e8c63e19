"""Drops queued tasks that other nodes have finished, and patrols shards when it is its turn.

ADAGE's Listing 5 also renews the heartbeat: that is left to `lease`.
"""

from dataclasses import dataclass
from itertools import count

from dataward.model.answers import Standing
from dataward.model.operations import Look
from dataward.model.states import FINAL
from dataward.node.patrol import ShardPatrol, shards_to_patrol
from dataward.node.settings import NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World


@dataclass
class Validator:
    world: World
    settings: NodeSettings
    store: StoreClient
    state: NodeState
    patrol: ShardPatrol

    async def run(self) -> None:
        """Check the node's own queue and, when it is its turn, patrol some shards."""
        here, nodes, shards = self.world.node, self.world.nodes, self.world.store.shard_count
        for past in count(1):
            await self.world.kernel.sleep(self.settings.validation_seconds)
            await self._drop_finished()
            place = nodes.index(here) if here in nodes else len(nodes)  # it may not have heard yet
            for shard in shards_to_patrol(place + past, len(nodes), shards):
                await self.patrol.look_after(shard)

    async def _drop_finished(self) -> None:
        """Drop finished tasks from the queue; only tasks that another node has too can be."""
        shared = self.state.queue.shared()
        for answer in await self.store.call([Look(task) for task in shared]):
            assert isinstance(answer, Standing)
            if answer.state in FINAL and self.state.queue.remove(answer.task):
                self.state.outbox.let_go(answer.task)
