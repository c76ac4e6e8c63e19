"""Fills the ready queue with the tasks that are queued for this node in the store.

ADAGE's Listing 2 scans every task; here the store keeps a queue for each node, so that one call is
enough whatever the number of tasks. The listing's second phase, finding homes for orphans, is left
to `patrol`.
"""

from dataclasses import dataclass

from dataward.model.answers import Claimed
from dataward.model.operations import Claim
from dataward.node.identity import Holding
from dataward.node.settings import NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World


@dataclass
class DecisionMaker:
    world: World
    settings: NodeSettings
    store: StoreClient
    state: NodeState
    _requests: int = 0

    async def run(self) -> None:
        """Claim whenever the ready queue wants more: a hint came, or the executor ran out."""
        wanted = self.state.queue.wanted
        while True:
            await wanted.wait()
            wanted.clear()
            while await self._claim():
                pass

    async def _claim(self) -> bool:
        """Whether more tasks may be left in the store, after taking the most urgent ones."""
        state, identity = self.state, self.state.identity
        self._requests += 1
        incarnation = identity.incarnation
        claimed = await self.store.ask(
            Claim(
                self.world.node,
                incarnation,
                self._requests,
                self.settings.claim_max,
                state.outbox.load_told(),
            ),
            Claimed,
        )
        if not claimed.current:
            state.lose_lease(incarnation)
        if incarnation != identity.incarnation:
            return False
        for entry, ticket in zip(claimed.entries, claimed.tickets, strict=True):
            identity.holdings[entry.task] = Holding(entry, ticket)
            if entry.task not in state.attempts:
                state.put(entry)
        state.outbox.load_changed()
        return claimed.left > 0
