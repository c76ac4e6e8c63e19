"""Fills the ready queue: first with the node's own tasks, then finds homes for orphans.

ADAGE's Listing 2 scans every task for both; here the store keeps a queue for each node and an
index by lease expiry, so that each phase is one call whatever the number of tasks.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from dataward.model.answers import Claimed, Membership, Orphans, Standing, Suspect
from dataward.model.events import TaskPlaced, TaskTakenOver
from dataward.model.messages import Confirm
from dataward.model.operations import (
    Claim,
    LetGo,
    NodeId,
    Probe,
    QueueEntry,
    Restate,
    Seize,
    TakeOver,
)
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.node.herald import Herald
from dataward.node.identity import Identity, OnLeaseLost
from dataward.node.placement import best_node, candidates_for
from dataward.node.ready_queue import ReadyQueue, entry_for
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.world import World

STRANGERS = 4  # nodes considered for an orphan beyond those that hold some of its inputs


@dataclass
class DecisionMaker:
    world: World
    settings: NodeSettings
    identity: Identity
    store: StoreClient
    queue: ReadyQueue
    herald: Herald
    is_under_way: Callable[[TaskId], bool]
    on_lease_lost: OnLeaseLost
    draining: bool = False  # what runs may end, but nothing more is begun
    _requests: int = 0

    def __post_init__(self) -> None:
        self._wake = self.world.kernel.flag()

    def look(self) -> None:
        """Ask for own tasks soon: a hint came, or an executor found nothing to do."""
        self._wake.set()

    async def next_task(self) -> QueueEntry:
        """The most urgent task of the ready queue, as soon as there is one."""
        while True:
            if self.draining:
                await self.world.kernel.flag().wait()  # for ever
            entry = self.queue.take()
            if entry is not None:
                return entry
            self.look()
            await self.queue.grown.wait()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await self._claim_own():
                pass

    async def _claim_own(self) -> bool:
        """Phase one. True if more may be left."""
        self._requests += 1
        life = self.identity.incarnation
        claimed = await self.store.ask(
            Claim(
                self.world.node,
                life,
                self._requests,
                self.settings.claim_max,
                self.queue.load_seconds,
            ),
            Claimed,
        )
        if not claimed.current:
            self.on_lease_lost(life)
        if life != self.identity.incarnation:
            return False
        for entry, ticket in zip(claimed.entries, claimed.tickets, strict=True):
            self.identity.holdings[entry.task] = (entry, ticket)
            if not self.is_under_way(entry.task):
                self.queue.put(entry)
        return claimed.left > 0

    async def restate(self) -> None:
        """Tell a store that lost writes what this node holds; it queues the rest for us again."""
        life = self.identity.incarnation
        held = tuple(entry for entry, _ in self.identity.holdings.values())
        answer = await self.store.ask(Restate(self.world.node, life, held), Claimed)
        if not answer.current:
            self.on_lease_lost(life)
        elif life == self.identity.incarnation:
            done = []
            for entry, ticket in zip(answer.entries, answer.tickets, strict=True):
                if entry.task in self.identity.holdings:
                    self.identity.holdings[entry.task] = (entry, ticket)
                else:  # let go of while the question was asked, perhaps more than once
                    done.append((entry.task, ticket))
            await self.store.call([LetGo(self.world.node, life, tuple(done))] if done else [])
            self.look()

    # --- phase two -------------------------------------------------------------------------------

    async def adopt(self, orphans: Orphans) -> None:
        """Find homes for the tasks of a node whose lease has expired.

        Fence first, queue elsewhere second, forget last: a crash on the way leaves the tasks where
        the next patrol finds them.
        """
        dead, incarnation = orphans.node, orphans.incarnation
        tasks = tuple(entry.task for entry in orphans.entries)
        await self._take_over([TakeOver(task, dead, incarnation) for task in dict.fromkeys(tasks)])
        stays = tuple(zip(tasks, orphans.tickets, strict=True))
        await self.store.call([LetGo(dead, incarnation, stays)])

    async def ask_after(self, suspects: Sequence[Suspect]) -> None:
        """Take over the attempts of nodes that are gone; ask the others about theirs."""
        lives = list(dict.fromkeys((s.node, s.incarnation) for s in suspects))
        answers = await self.store.call([Seize(node, life) for node, life in lives])
        alive = {
            life
            for life, answer in zip(lives, answers, strict=True)
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
        answers = await self.store.call(fences)
        homeless = []
        for fence, answer in zip(fences, answers, strict=True):
            assert isinstance(answer, Standing)
            now = self.world.kernel.now()
            self.world.emit(TaskTakenOver(now, fence.task, fence.node, fence.incarnation))
            if answer.state is TaskState.READY and not answer.live_attempts:
                homeless.append(answer)
        await self.find_homes(homeless)

    async def find_homes(
        self, orphans: list[Standing], avoid: Collection[NodeId] = frozenset()
    ) -> None:
        """The preferred node if it is up, else the one that lacks the fewest input bytes.

        Nodes to ``avoid`` are passed over, as if they were down.
        """
        if not orphans:
            return
        loads = await self._loads_of_nodes_up(orphans)
        loads = {n: load for n, load in loads.items() if n not in avoid or n == self.world.node}
        by_node: dict[NodeId, list[QueueEntry]] = {}
        for orphan in orphans:
            if orphan.preferred in loads:
                home = orphan.preferred
            else:
                candidates = candidates_for(orphan.inputs, orphan.input_copies, loads)
                home = best_node(candidates)
                weighed = tuple((c.node, float(c.missing_bytes)) for c in candidates)
                now = self.world.kernel.now()
                self.world.emit(TaskPlaced(now, orphan.task, home, "least to move", weighed))
            loads[home] += orphan.seconds
            by_node.setdefault(home, []).append(entry_for(orphan))
        await self.herald.enqueue(by_node, "orphan")
        await self.herald.placed(orphans)

    async def _loads_of_nodes_up(self, orphans: list[Standing]) -> dict[NodeId, float]:
        """Those worth asking: preferred nodes, holders of inputs, a few strangers, and this one."""
        asked: dict[NodeId, None] = {}
        known = set(self.world.nodes)
        for orphan in orphans:
            asked[orphan.preferred] = None
            asked.update((copy.node, None) for copy in orphan.input_copies)
        for _ in range(min(STRANGERS, len(self.world.nodes))):
            asked[self.world.random.choice(self.world.nodes)] = None
        probes = [Probe(node) for node in asked if node in known and node != self.world.node]
        answers = await self.store.call(probes)
        loads = {self.world.node: self.queue.load_seconds}
        for answer in answers:
            assert isinstance(answer, Membership)
            if answer.up:
                loads[answer.node] = answer.load_seconds
        return loads
