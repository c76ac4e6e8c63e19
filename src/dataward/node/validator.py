"""Keeps the node's lease, drops queued tasks that others finished, and patrols for what got stuck.

ADAGE's Listing 5 renews a heartbeat for each task; one lease for the node covers them all.
"""

from dataclasses import dataclass, field
from itertools import count

from dataward.model.answers import Findings, Membership, Standing, Undelivered
from dataward.model.events import TaskFinished
from dataward.model.operations import Commit, Look, Patrol, Renew, shard_of
from dataward.model.states import FINAL, TaskState
from dataward.node.committer import Committer
from dataward.node.decision_maker import DecisionMaker
from dataward.node.herald import Herald, Notice
from dataward.node.identity import Identity, OnLeaseLost
from dataward.node.ready_queue import ReadyQueue
from dataward.node.recount import recount
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.world import World

PATROLS = 4  # nodes that patrol each shard in one round of validations


def shards_to_patrol(turn: int, nodes: int, shards: int) -> list[int]:
    """Which shards a node looks after at its so many-eth turn.

    Nodes take turns, so that each shard is looked after by a few nodes in each round; of few nodes
    each looks after several shards. It goes round: no shard is left alone for long, whichever
    nodes are down.
    """
    every = max(nodes // (shards * PATROLS), 1)
    if turn % every:
        return []
    first = turn // every
    return [(first + more) % shards for more in range(max(shards // nodes, 1))]


@dataclass
class Validator:
    world: World
    settings: NodeSettings
    identity: Identity
    store: StoreClient
    queue: ReadyQueue
    committer: Committer
    herald: Herald
    decision_maker: DecisionMaker
    on_lease_lost: OnLeaseLost
    _home_epoch: int = 0
    _epochs: dict[int, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Renew the lease; nothing else, for whatever else may have to wait for a lost shard."""
        while True:
            await self.world.kernel.sleep(self.settings.validation_seconds)
            await self._renew()

    async def patrol(self) -> None:
        """Look after the node's own queue and, when it is its turn, after some shards."""
        place = self.world.nodes.index(self.world.node)
        for tick in count(1):
            await self.world.kernel.sleep(self.settings.validation_seconds)
            await self._drop_finished()
            shards = self.world.store.shard_count
            for shard in shards_to_patrol(place + tick, len(self.world.nodes), shards):
                await self._look_after(await self._look_at(shard))

    async def _renew(self) -> None:
        life = self.identity.incarnation
        member = await self.store.ask(
            Renew(self.world.node, life, self.queue.load_seconds), Membership
        )
        if not member.current:
            self.on_lease_lost(life)
            return
        if member.epoch > self._home_epoch:
            self._home_epoch = member.epoch
            await self.decision_maker.restate()
        if member.queued:
            self.decision_maker.look()

    async def _look_at(self, shard: int) -> Findings:
        settings = self.settings
        suspect_seconds = 2 * settings.lease_seconds
        return await self.store.ask(
            Patrol(
                shard,
                self.world.node,
                settings.patrol_limit,
                settings.stale_outbox_seconds,
                suspect_seconds,
            ),
            Findings,
        )

    async def _drop_finished(self) -> None:
        """Only tasks that another node has too can be finished elsewhere."""
        shared = self.queue.shared()
        if not shared:
            return
        for answer in await self.store.call([Look(task) for task in shared]):
            assert isinstance(answer, Standing)
            if answer.state in FINAL and self.queue.remove(answer.task):
                self.committer.let_go(answer.task)

    async def _look_after(self, findings: Findings) -> None:
        """Repair what the patrol found on a shard."""
        for orphans in findings.orphans:
            await self.decision_maker.adopt(orphans)
        for found in findings.undelivered:
            if found.placement:
                await self.herald.place_again(found.task)
            else:
                self._deliver(found)
        await self.decision_maker.ask_after(findings.suspects)
        self._report_again(findings)
        if findings.recount_due:
            await recount(self.store, self.herald, self.world.store.shard_count, findings)

    def _deliver(self, found: Undelivered) -> None:
        """Tell the children, and the event list: whoever finished the task may have died first."""
        if found.winner:
            self.world.emit(
                TaskFinished(
                    self.world.kernel.now(),
                    found.task,
                    found.winner,
                    found.winner.rsplit(".", 2)[0],
                    TaskState.COMPLETE,
                    found.generation,
                )
            )
        self.herald.deliver(
            Notice(found.task, found.generation, found.failed, found.children, found.copies)
        )

    def _report_again(self, findings: Findings) -> None:
        """The shard lost writes it had acknowledged: some may have been this node's commits."""
        if findings.epoch <= self._epochs.get(findings.shard, 0):
            return
        self._epochs[findings.shard] = findings.epoch
        for commit in self.world.disk.journalled():
            if self._lives_on(commit, findings.shard):
                self.committer.recommit(commit)

    def _lives_on(self, commit: Commit, shard: int) -> bool:
        return shard_of(commit, self.world.store.shard_count) == shard
