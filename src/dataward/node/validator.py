"""Drops queued tasks that other nodes have finished, and patrols shards when it is its turn.

ADAGE's Listing 5 also renews the heartbeat: that is left to `lease`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from dataward.model.answers import Standing
from dataward.model.ids import NodeId
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
        nodes, shards = len(self.world.nodes), self.world.store.shard_count
        place = place_of(self.world.node, self.world.nodes)
        for turn in count(place + 1):
            await self.world.kernel.sleep(self.settings.validation_seconds)
            await self._drop_finished()
            for shard in shards_to_patrol(turn, nodes, shards):
                await self.patrol.look_after(shard)

    async def _drop_finished(self) -> None:
        """Drop finished tasks from the queue; only tasks that another node has too can be."""
        shared = self.state.queue.shared()
        for answer in await self.store.call([Look(task) for task in shared]):
            assert isinstance(answer, Standing)
            if answer.state in FINAL and self.state.queue.remove(answer.task):
                self.state.outbox.let_go(answer.task)


def place_of(node: NodeId, nodes: Sequence[NodeId]) -> int:
    """The index of a node among all nodes, which are sorted in most clusters.

    Every node asks this when it starts: going through all nodes took 60 of the 85 s in which
    100,000 simulated nodes start.
    """
    place = bisect_left(nodes, node)
    is_here = place < len(nodes) and nodes[place] == node
    return place if is_here else nodes.index(node)
