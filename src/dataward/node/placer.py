"""Puts tasks into nodes' queues in the store, and tells those nodes to claim them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dataward.model.answers import Membership, Standing
from dataward.model.events import Occasion, TaskPlaced, TaskReopened
from dataward.model.ids import NodeId
from dataward.model.messages import WorkQueued
from dataward.model.operations import Delivered, Enqueue, LetGo, Look, QueueEntry, Reopen
from dataward.model.workflow import TaskId
from dataward.node.homes import Home, Homes
from dataward.node.ready_queue import entry_for
from dataward.node.store_client import StoreClient
from dataward.world import World

ANY_TICKET = -1


@dataclass
class Placer:
    """`Homes` decides where each task goes; ``send`` is for callers that have decided already.

    With ``shuns_dead`` a task that becomes ready does not wait for a patrol in the queue of a node
    that the store knows to be dead.
    """

    world: World
    store: StoreClient
    homes: Homes
    shuns_dead: bool = False

    async def place(
        self,
        tasks: Iterable[Standing],
        occasion: Occasion,
        avoid: Collection[NodeId] = (),
        *,
        replica: bool = False,
    ) -> None:
        """Queue tasks that need a node, each once; as replicas if other nodes have them too."""
        needy = list({task.task: task for task in tasks}.values())
        if not needy:
            return
        homes = await self.homes.find(needy, occasion, avoid)
        dead = await self._queue(list(zip(needy, homes, strict=True)), occasion, replica=replica)
        if dead and self.shuns_dead and occasion is Occasion.READY:
            stranded = [t for t, home in zip(needy, homes, strict=True) if home.node in dead]
            await self._move_on(stranded, dead, avoid, replica=replica)

    async def _queue(
        self, placed: Sequence[tuple[Standing, Home]], occasion: Occasion, *, replica: bool
    ) -> dict[NodeId, int]:
        """Queue each task at its home. Returns as ``send`` does."""
        displaced = occasion is not Occasion.READY
        by_node: dict[NodeId, list[QueueEntry]] = {}
        for task, home in placed:
            entry = entry_for(task, home.shelf, replica=replica, displaced=displaced)
            by_node.setdefault(home.node, []).append(entry)
        return await self.send(by_node, occasion, {task.task: home for task, home in placed})

    async def _move_on(
        self,
        tasks: Sequence[Standing],
        dead: Mapping[NodeId, int],
        avoid: Collection[NodeId],
        *,
        replica: bool,
    ) -> None:
        """Queue tasks elsewhere that were queued at dead nodes, and take them out of those queues.

        As in an adoption, a crash on the way leaves them where the next patrol finds them.
        """
        homes = await self.homes.find(tasks, Occasion.ORPHANED, {*avoid, *dead})
        moved = [(t, h) for t, h in zip(tasks, homes, strict=True) if h.node not in dead]
        if not moved:
            return
        await self._queue(moved, Occasion.ORPHANED, replica=replica)
        stays = tuple((task.task, ANY_TICKET) for task, _ in moved)
        await self.store.call([LetGo(node, dead[node], stays) for node in dead])

    async def place_for_good(
        self,
        tasks: Sequence[Standing],
        occasion: Occasion,
        avoid: Collection[NodeId] = (),
        *,
        replica: bool = False,
    ) -> None:
        """Queue tasks that had become ready again, and empty their outboxes."""
        if tasks:
            await self.place(tasks, occasion, avoid, replica=replica)
            await self.are_placed(tasks)

    async def place_again(self, task: TaskId) -> None:
        """Queue a task that may be in no node's queue."""
        standing = await self.store.ask(Look(task), Standing)
        if standing.needs_node:
            await self.place_for_good([standing], Occasion.READY)

    async def reopen(
        self, generations: Mapping[TaskId, int], avoid: Collection[NodeId] = ()
    ) -> list[Standing]:
        """The standing of each task, after having those run again that are at their generation."""
        reopens = [Reopen(task, generation) for task, generation in generations.items()]
        answers = await self.store.call(reopens)
        reopened = [answer for answer in answers if isinstance(answer, Standing)]
        for answer in reopened:
            if answer.granted:
                now = self.world.kernel.now()
                self.world.emit(TaskReopened(now, answer.task, answer.generation))
        needy = [answer for answer in reopened if answer.needs_node]
        await self.place_for_good(needy, Occasion.REOPENED, avoid)
        return reopened

    async def are_placed(self, tasks: Iterable[Standing]) -> None:
        """Tell the store that these tasks, which had become ready again, are in a queue."""
        await self.store.call([Delivered(t.task, t.generation, t.placement) for t in tasks])

    async def send(
        self,
        by_node: Mapping[NodeId, Sequence[QueueEntry]],
        occasion: Occasion,
        chosen: Mapping[TaskId, Home] | None = None,
    ) -> dict[NodeId, int]:
        """The last incarnations of those of these nodes that are dead; entries are queued there.

        ``chosen`` has the candidates compared for each, if any.
        """
        if not by_node:
            return {}
        enqueues = [Enqueue(node, tuple(by_node[node])) for node in by_node]
        answers = await self.store.call(enqueues)
        now = self.world.kernel.now()
        for node, entries in by_node.items():
            for entry in entries:
                weighed = chosen[entry.task].weighed if chosen else ()
                self.world.emit(TaskPlaced(now, entry.task, node, occasion, weighed))
            self.world.network.send(node, WorkQueued())
        return {
            answer.node: answer.incarnation
            for answer in answers
            if isinstance(answer, Membership)
            and not answer.up
            and answer.incarnation >= 0  # else it has not joined yet
            and answer.node != self.world.node
        }
