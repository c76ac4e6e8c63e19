"""Keeps the node's lease, drops queued tasks that others finished, and patrols for what got stuck.

ADAGE's Listing 5 renews a heartbeat for each task; one lease for the node covers them all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from dataward.model.operations import (
    Commit,
    Findings,
    Look,
    Membership,
    Patrol,
    Renew,
    Standing,
    shard_of,
)
from dataward.model.states import FINAL
from dataward.node.committer import Committer
from dataward.node.decision_maker import DecisionMaker
from dataward.node.herald import Herald, Notice
from dataward.node.identity import Identity
from dataward.node.ready_queue import ReadyQueue
from dataward.node.recount import recount
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.world import World

PATROLS = 4  # nodes that patrol each shard in one round of validations


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
    on_lease_lost: Callable[[], None]
    _ticks: int = 0
    _place: int = -1
    _home_epoch: int = 0
    _epochs: dict[int, int] = field(default_factory=dict)

    async def run(self) -> None:
        self._place = self.world.nodes.index(self.world.node)
        while True:
            await self.world.kernel.sleep(self.settings.validation_seconds)
            await self.validate()

    async def validate(self) -> None:
        """One call renews the lease and, when it is this node's turn, patrols a shard."""
        renewal = Renew(self.world.node, self.identity.incarnation, self.queue.load_seconds)
        patrol = self._patrol_if_due()
        answers = await self.store.call([renewal, patrol] if patrol else [renewal])
        member = answers[0]
        assert isinstance(member, Membership)
        if not member.current:
            self.on_lease_lost()
            return
        if member.epoch > self._home_epoch:
            self._home_epoch = member.epoch
            await self.decision_maker.restate()
        await self._drop_finished()
        if patrol:
            findings = answers[1]
            assert isinstance(findings, Findings)
            await self._look_after(findings)
        if member.queued:
            self.decision_maker.look()

    def _patrol_if_due(self) -> Patrol | None:
        """Nodes take turns, so that each shard is looked after by a few nodes in each round.

        Whose turn it is depends only on the node's place and the round, so it goes round: no shard
        is left alone for long, whichever nodes are down.
        """
        shards, nodes = self.world.store.shard_count, len(self.world.nodes)
        self._ticks += 1
        turn = self._place + self._ticks
        every = max(nodes // (shards * PATROLS), 1)
        if turn % every:
            return None
        return Patrol(
            turn // every % shards,
            self.world.node,
            self.settings.patrol_limit,
            self.settings.stale_outbox_seconds,
            2 * self.settings.lease_seconds,
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
                self.herald.deliver(
                    Notice(found.task, found.generation, found.failed, found.children, found.copies)
                )
        await self.decision_maker.ask_after(findings.suspects)
        self._report_again(findings)
        if findings.recount_due:
            await recount(self.store, self.herald, self.world.store.shard_count, findings)

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
