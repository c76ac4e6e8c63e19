"""Looks after a shard: takes over the tasks of dead nodes, and repairs other stuck work.

No node is in charge of that. Every node's validator wakes each ``validation_seconds``, and has this
node look after the shards whose turn it is: `shards_to_patrol`, a few nodes for each shard in a
round. A patrol asks the shard what got stuck, and the shard's rules (`stores/patrol_rules.py`)
declare nodes dead whose leases ran out. For a few seconds the store gives what one patrol found to
no other patrol; if the node dies meanwhile, the next patrol finds it.

So a dead node's tasks are taken over by whichever node next patrols the shard that keeps the dead
node's lease. It does not keep them: it has every task refuse what the dead incarnation may still
ask (`TakeOver`), then queues the tasks where `Homes` says, which may be itself. So no task ends
twice. A node that is cut off and lives may go on running a task until it hears that it is dead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataward.model.answers import Findings, Membership, Orphans, Standing, Suspect, Undelivered
from dataward.model.events import Occasion, TaskTakenOver
from dataward.model.ids import NodeId
from dataward.model.messages import Confirm
from dataward.model.operations import Leave, LetGo, Patrol, Probe, Seize, TakeOver, shard_of
from dataward.model.states import TaskState
from dataward.node.herald import Herald, Notice
from dataward.node.outbox import Outbox
from dataward.node.placer import Placer
from dataward.node.recount import recount
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.node.telling import tell_finished
from dataward.world import World

PATROLS = 4  # nodes that patrol each shard in one round
AGAIN_SECONDS = 6.0  # until a shard gives a dead node's tasks to a patrol once more, and a bit


def shards_to_patrol(turn: int, nodes: int, shards: int) -> list[int]:
    """The shards that a node looks after at its turn number ``turn``.

    Nodes take turns, so that a few nodes look after each shard in each round; if there are fewer
    nodes than shards, each looks after several. The shards of a node change from turn to turn: no
    shard is left alone for long, whichever nodes are down.
    """
    every = max(nodes // (shards * PATROLS), 1)
    if turn % every:
        return []
    first = turn // every
    return [(first + more) % shards for more in range(max(shards // nodes, 1))]


@dataclass
class ShardPatrol:
    world: World
    settings: NodeSettings
    store: StoreClient
    outbox: Outbox
    placer: Placer
    herald: Herald
    _epochs: dict[int, int] = field(default_factory=dict)  # the last known epoch of each shard
    is_under_way: bool = False

    async def look_after(self, shard: int) -> None:
        """Find stuck work on a shard, and repair it."""
        settings = self.settings
        question = Patrol(
            shard,
            self.world.node,
            settings.patrol_limit,
            settings.stale_outbox_seconds,
            suspect_seconds=2 * settings.lease_seconds,
        )
        self.is_under_way = True
        await self._repair(await self.store.ask(question, Findings))
        self.is_under_way = False

    async def _repair(self, findings: Findings) -> None:
        if findings.orphans and await self.placer.homes.has_any_up():
            for orphans in findings.orphans:
                await self._adopt(orphans)
        for found in findings.undelivered:
            if found.placement:
                await self.placer.place_again(found.task)
            else:
                self._deliver(found)
        if findings.suspects:
            await self._ask_after(findings.suspects)
        self._report_again(findings)
        if findings.recount_due:
            await recount(self.store, self.placer, self.world.store.shard_count, findings)

    # --- dead nodes ------------------------------------------------------------------------------

    async def _adopt(self, orphans: Orphans) -> None:
        """Find homes for the tasks of a node whose lease has expired: queued there, or held by it.

        First fence the dead node, then queue the tasks elsewhere, then let go of them in its name:
        a crash on the way leaves the tasks where the next patrol finds them.

        Nobody does that who leaves while all others are down: the tasks would go from one dead
        node to another, at each patrol. They wait for whoever comes first.
        """
        dead, incarnation = orphans.node, orphans.incarnation
        tasks = tuple(entry.task for entry in orphans.entries)
        await self._take_over([TakeOver(task, dead, incarnation) for task in dict.fromkeys(tasks)])
        stays = tuple(zip(tasks, orphans.tickets, strict=True))
        await self.store.call([LetGo(dead, incarnation, stays)])

    async def give_up(self, node: NodeId, before: int) -> None:
        """Take over the tasks of a node that is known to have ended, before its lease expires.

        Only incarnations ``before`` this one: the node may have begun again since. If the store
        answers late, this node itself was perhaps cut off, and only therefore took the other for
        gone: that may have joined again by now. Then its lease tells, as ever.
        """
        began = self.world.kernel.now()
        member = await self.store.ask(Probe(node), Membership)
        is_old = self.world.kernel.now() - began > self.settings.validation_seconds
        if is_old or member.incarnation >= before:
            return
        if (
            member.incarnation >= 0
        ):  # else it never joined, and tasks were queued there all the same
            await self.store.call([Leave(node, member.incarnation)])
        shard = shard_of(Probe(node), self.world.store.shard_count)
        await self.look_after(shard)
        # Whoever has not heard of it yet may still queue tasks there.
        await self.world.kernel.sleep(AGAIN_SECONDS)
        await self.look_after(shard)

    async def _ask_after(self, suspects: Sequence[Suspect]) -> None:
        """Take over the attempts of dead nodes; ask nodes that are up about their attempts."""
        asked = list(dict.fromkeys((s.node, s.incarnation) for s in suspects))
        answers = await self.store.call([Seize(node, incarnation) for node, incarnation in asked])
        alive = {
            one
            for one, answer in zip(asked, answers, strict=True)
            if isinstance(answer, Membership) and answer.current
        }
        fences = []
        for suspect in suspects:
            if (suspect.node, suspect.incarnation) in alive:
                self.world.network.send(suspect.node, Confirm(suspect.task, suspect.attempt))
            else:
                fences.append(TakeOver(suspect.task, suspect.node, suspect.incarnation))
        await self._take_over(fences)

    async def _take_over(self, fences: list[TakeOver]) -> None:
        """Void the dead nodes' attempts, and queue the tasks that have no other attempt under way.

        The strategy's home rule says where: with ADAGE's at the preferred node if that is up, else
        at the node that lacks the fewest input bytes.
        """
        answers = await self.store.call(fences)
        homeless = []
        for fence, answer in zip(fences, answers, strict=True):
            assert isinstance(answer, Standing)
            now = self.world.kernel.now()
            self.world.emit(TaskTakenOver(now, fence.task, fence.node, fence.incarnation))
            if answer.needs_node:
                homeless.append(answer)
        await self.placer.place_for_good(homeless, Occasion.ORPHANED)

    # --- what was not said, or is forgotten ------------------------------------------------------

    def _deliver(self, found: Undelivered) -> None:
        """Tell the children, and the event list: the node that finished the task may have died."""
        if found.winner:
            tell_finished(
                self.world, found.task, found.winner, TaskState.COMPLETE, found.generation
            )
        self.herald.deliver(
            Notice(found.task, found.generation, found.state, found.children, found.copies)
        )

    def _report_again(self, findings: Findings) -> None:
        """Commit again from the journal if the shard has lost acknowledged writes."""
        if findings.epoch <= self._epochs.get(findings.shard, 0):
            return
        self._epochs[findings.shard] = findings.epoch
        shards = self.world.store.shard_count
        for commit in self.world.disk.journalled():
            if shard_of(commit, shards) == findings.shard:
                self.outbox.recommit(commit)
