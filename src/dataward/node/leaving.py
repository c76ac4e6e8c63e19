"""Leaving for good: what a node does before it goes, so that nobody has to find out.

The node begins nothing more, lets what it has begun end, and sends what waits here to other nodes.
Files that only this node has, and that somebody may still need, it has other nodes bring in. Then
it gives up its membership, so that nobody waits for its lease. If it dies on the way, everything is
as after a crash: a task is with this node until it is in another node's queue, and a file counts as
another node's only once the store knows it is there.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dataward.model.answers import Answer, Membership, Standing
from dataward.model.events import NodeLeft, Occasion
from dataward.model.ids import NodeId
from dataward.model.messages import Stock
from dataward.model.operations import (
    Copy,
    DropCopies,
    InputFile,
    Leave,
    Look,
    Operation,
    Probe,
    QueueEntry,
)
from dataward.model.states import FINAL
from dataward.model.workflow import TaskId
from dataward.node.depot import Depot
from dataward.node.handing_over import give_up
from dataward.node.placer import Placer
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World

BATCH = 1000  # operations in one call
LOOK_SECONDS = 0.1  # between two looks at what is still to be done
WAIT_SECONDS = 2.0  # that other nodes have at least to bring files in; doubled for the next ones
DRAWS_MAX = 8  # times that other nodes are asked, with no file having come anywhere: 9 minutes


class _Owned(NamedTuple):
    """Files that are here of one owner: a task, or a file of the workflow's input itself."""

    look: Standing
    files: tuple[InputFile, ...]


@dataclass
class Leaving:
    world: World
    store: StoreClient
    state: NodeState
    placer: Placer
    depot: Depot
    is_speaking: Callable[[], bool]  # whether other components still have something to say

    async def hand_over(self) -> None:
        """Have other nodes take over everything that matters; at the end this node holds no task.

        A node that is alone just lets end what it has begun.
        """
        self.world.nodes.watch(self._be_no_member)
        self._be_no_member()
        self.state.begin_no_more()
        self.state.queue.wanted.set()  # or what is queued in the store would wait for a patrol
        sender = self.world.kernel.spawn(self._send_on(), f"{self.world.node} sends tasks on")
        try:
            await self._until_idle()
            await self._hand_over_files()
            await self._until_idle()  # tasks may have come, from nodes that had not heard
        finally:
            sender.cancel()

    async def go(self) -> None:
        """Give up the membership; the node's components must have stopped, or they would rejoin."""
        identity, node = self.state.identity, self.world.node
        await self.store.call([Leave(node, identity.incarnation)])
        self.world.emit(NodeLeft(self.world.kernel.now(), node, identity.incarnation))

    def _be_no_member(self) -> None:
        """See to it that this node itself sends nothing here, whatever news comes late."""
        others = [node for node in self.world.nodes if node != self.world.node]
        if others:
            self.world.nodes.become(others)

    @property
    def _is_alone(self) -> bool:
        return self.placer.homes.is_alone

    # --- tasks -----------------------------------------------------------------------------------

    async def _until_idle(self) -> None:
        """Return when nothing waits or runs here, and nothing is left to say to the store."""
        while self._is_busy():
            await self.world.kernel.sleep(LOOK_SECONDS)

    async def _send_on(self) -> None:
        """Send on whatever waits here, again and again: more may come."""
        while True:
            if not self._is_alone:
                await self._send_on_waiting()
                await self._send_on_begun()
            await self.world.kernel.sleep(LOOK_SECONDS)

    def _is_busy(self) -> bool:
        """Whether something here is not over, or not said; if alone, tasks that wait do not count.

        What the node no longer holds waits nowhere else here.
        """
        state = self.state
        if not state.identity.joined or not state.is_idle:
            return True  # one that is joining would be a member after it has left
        if state.identity.holdings and not self._is_alone:
            return True
        return self.is_speaking() or any(state.outbox.loose_ends().values())

    def _waiting(self) -> list[QueueEntry]:
        """The tasks that wait here; they have left the queue and the pool."""
        queue, pool, spares = self.state.queue, self.state.pool, self.state.spares
        waiting = []
        while (entry := queue.take()) is not None:
            waiting.append(entry)
        return waiting + [place.take(t) for place in (pool, spares) for t in list(place.tasks())]

    async def _send_on_waiting(self) -> None:
        """Place tasks that wait here anew, and only then let go of them.

        A replica is just let go of: another node has the task as its own.
        """
        entries = self._waiting()
        incarnation = self.state.identity.incarnation
        own = [entry.task for entry in entries if not entry.replica]
        needy = [look for look in await self._look(own) if look.needs_node]
        await self.placer.place_for_good(needy, Occasion.LEFT)
        if incarnation != self.state.identity.incarnation:
            return  # others take them over
        for entry in entries:
            self.state.outbox.let_go(entry.task)
        self.state.outbox.load_changed()

    async def _send_on_begun(self) -> None:
        """Send on the tasks that were begun here but do not run yet; spares just end."""
        attempts = self.state.attempts
        begun = [a.entry for a in attempts.under_way() if a.waits_to_run]
        begun += [spare.entry for spare in attempts.spares()]
        incarnation = self.state.identity.incarnation
        given_up = await give_up(self.state, self.store, begun, staging=True)
        for replica in (False, True):
            standings = [task for entry, task in given_up if entry.replica is replica]
            await self.placer.place_for_good(standings, Occasion.LEFT, replica=replica)
        if incarnation == self.state.identity.incarnation:
            for entry, _ in given_up:
                self.state.outbox.let_go(entry.task)

    async def _look(self, tasks: Iterable[str], *, children: bool = False) -> list[Standing]:
        answers = await self._call([Look(TaskId(task), children) for task in tasks])
        return [answer for answer in answers if isinstance(answer, Standing)]

    async def _call(self, operations: Sequence[Operation]) -> list[Answer]:
        answers: list[Answer] = []
        for start in range(0, len(operations), BATCH):
            answers += await self.store.call(operations[start : start + BATCH])
        return answers

    # --- files -----------------------------------------------------------------------------------

    async def _hand_over_files(self) -> None:
        """Have others bring in what only this node has, and then retract all copies here."""
        waiting = await self._wanted_and_only_here()
        tried: set[tuple[TaskId, NodeId]] = set()
        draws = 0
        while waiting and draws < DRAWS_MAX and not self._is_alone:
            self._have_brought(waiting, tried)
            left = await self._not_brought(waiting, WAIT_SECONDS * 2**draws)
            draws = 0 if len(left) < len(waiting) else draws + 1
            waiting = left
        if not self._is_alone:
            await self._retract()

    async def _wanted_and_only_here(self) -> list[_Owned]:
        """The files that no other node has and that a task, or a user, may still want."""
        files = self.depot.by_owner()
        looks = await self._look(files, children=True)
        owned = [_Owned(look, tuple(files[look.task])) for look in looks]
        return await self._wanted(await self._only_here(owned))

    async def _only_here(self, owned: Iterable[_Owned]) -> list[_Owned]:
        """Those files of which no node that is up has a copy but this one."""
        owned, here = list(owned), self.world.node
        holders = {c.node for one in owned for c in one.look.copies if c.node != here}
        members = sorted(holders.intersection(self.world.nodes))
        answers = await self._call([Probe(node) for node in members])
        up = {answer.node for answer in answers if isinstance(answer, Membership) and answer.up}
        found = []
        for look, files in owned:
            elsewhere = {copy.file for copy in look.copies if copy.node in up}
            if only := tuple(file for file in files if file.id not in elsewhere):
                found.append(_Owned(look, only))
        return found

    async def _wanted(self, owned: Sequence[_Owned]) -> list[_Owned]:
        """Those that may be wanted: a child has not finished, or nobody but a user reads them."""
        children = dict.fromkeys(child for one in owned for child in one.look.children)
        ended = {look.task for look in await self._look(children) if look.state in FINAL}
        return [
            one
            for one in owned
            if not one.look.unknown
            and (not one.look.children or not ended.issuperset(one.look.children))
        ]

    def _have_brought(self, owned: Sequence[_Owned], tried: set[tuple[TaskId, NodeId]]) -> None:
        """Ask other nodes to bring files in: each owner's files one node.

        It is drawn from those that were not tried yet: some disks have no room.
        """
        nodes, random = self.world.nodes, self.world.random
        by_node: dict[NodeId, list[InputFile]] = {}
        for look, files in owned:
            untried = [node for node in nodes if (look.task, node) not in tried]
            node = random.choice(untried or nodes)
            tried.add((look.task, node))
            by_node.setdefault(node, []).extend(files)
        for node, wanted in by_node.items():
            self.world.network.send(node, Stock(tuple(wanted), for_good=True))

    async def _not_brought(self, owned: Sequence[_Owned], seconds: float) -> list[_Owned]:
        """The files of which the store knows no other copy after they had time to come."""
        size_bytes = sum(file.size_bytes for one in owned for file in one.files)
        now, sleep = self.world.kernel.now, self.world.kernel.sleep
        until = now() + seconds + 2 * self.state.learned.staging_seconds(size_bytes)
        pause, left = LOOK_SECONDS, list(owned)
        while left and now() < until:
            await sleep(pause)
            pause = min(2 * pause, WAIT_SECONDS)
            looks = await self._look(one.look.task for one in left)
            again = [_Owned(look, one.files) for look, one in zip(looks, left, strict=True)]
            left = await self._only_here(again)
        return left

    async def _retract(self) -> None:
        """Tell the store that nobody need ask this node for a file any more."""
        here = self.world.node
        await self._call(
            [
                DropCopies(TaskId(owner), tuple(Copy(file.id, here) for file in files))
                for owner, files in self.depot.by_owner().items()
            ]
        )
