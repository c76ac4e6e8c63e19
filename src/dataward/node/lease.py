"""Keeps the node a member of the cluster: joins, renews its lease, joins again if that is lost.

ADAGE's Listing 5 renews a heartbeat for each task; here one lease covers all the node's tasks.
"""

from dataclasses import dataclass

from dataward.model.answers import Claimed, Membership
from dataward.model.events import NodeJoined
from dataward.model.operations import Join, LetGo, Renew, Restate
from dataward.model.states import AttemptOutcome
from dataward.node.depot import Depot
from dataward.node.identity import Holding
from dataward.node.settings import NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.node.telling import tell_ended
from dataward.world import World


@dataclass
class Lease:
    world: World
    settings: NodeSettings
    store: StoreClient
    state: NodeState
    depot: Depot
    _epoch: int = 0  # how often the shard that has this node's lease has lost writes

    async def join(self) -> None:
        """Become a member, as the present incarnation or, if the store knows a later one, the next.

        The store knows a later incarnation if this node has forgotten which one it was.
        """
        identity = self.state.identity
        while True:
            join = Join(self.world.node, identity.incarnation, self.settings.lease_seconds)
            member = await self.store.ask(join, Membership)
            if member.current:
                break
            identity.become(member.incarnation + 1)
        identity.join()
        now = self.world.kernel.now()
        self.world.emit(NodeJoined(now, self.world.node, identity.incarnation))
        self.state.queue.wanted.set()

    async def rejoin(self) -> None:
        """Whenever the lease is lost, discard the old incarnation's outputs and join again."""
        while True:
            await self.state.lease_lost.wait()
            self.state.lease_lost.clear()
            for commit in self.state.take_abandoned():
                self.depot.discard_outputs(commit.held)
                why = "the node's lease had expired"
                tell_ended(self.world, commit.task, commit.attempt, AttemptOutcome.LOST, why)
            await self.join()

    async def keep(self) -> None:
        """Renew the lease, and do nothing else here: a call to another shard may wait for long."""
        while True:
            await self.world.kernel.sleep(self.settings.validation_seconds)
            await self._renew()

    async def _renew(self) -> None:
        incarnation = self.state.identity.incarnation
        renew = Renew(self.world.node, incarnation, self.state.outbox.load_told())
        member = await self.store.ask(renew, Membership)
        if not member.current:
            self.state.lose_lease(incarnation)
            return
        if member.epoch > self._epoch:
            self._epoch = member.epoch
            await self._restate()
        if member.queued:
            self.state.queue.wanted.set()

    async def _restate(self) -> None:
        """Tell a shard that lost writes which tasks this node holds.

        Other tasks that the shard believed this node to hold are put into its queue again.
        """
        identity = self.state.identity
        incarnation, holdings = identity.incarnation, identity.holdings
        held = tuple(holding.entry for holding in holdings.values())
        answer = await self.store.ask(Restate(self.world.node, incarnation, held), Claimed)
        if not answer.current:
            self.state.lose_lease(incarnation)
        elif incarnation == identity.incarnation:
            done = []
            for entry, ticket in zip(answer.entries, answer.tickets, strict=True):
                if entry.task in holdings:
                    holdings[entry.task] = Holding(entry, ticket)
                else:  # the node let go of it while the call was under way
                    done.append((entry.task, ticket))
            if done:
                await self.store.call([LetGo(self.world.node, incarnation, tuple(done))])
            self.state.queue.wanted.set()
