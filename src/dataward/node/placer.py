"""Puts tasks into nodes' queues in the store, and tells those nodes to claim them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dataward.model.answers import Standing
from dataward.model.events import Occasion, TaskPlaced, TaskReopened
from dataward.model.ids import NodeId
from dataward.model.messages import WorkQueued
from dataward.model.operations import Delivered, Enqueue, Look, QueueEntry, Reopen
from dataward.model.workflow import TaskId
from dataward.node.homes import Home, Homes
from dataward.node.ready_queue import entry_for
from dataward.node.store_client import StoreClient
from dataward.world import World


@dataclass
class Placer:
    """`Homes` decides where each task goes; ``send`` is for callers that have decided already."""

    world: World
    store: StoreClient
    homes: Homes

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
        displaced = occasion is not Occasion.READY
        by_node: dict[NodeId, list[QueueEntry]] = {}
        for task, home in zip(needy, homes, strict=True):
            entry = entry_for(task, home.shelf, replica=replica, displaced=displaced)
            by_node.setdefault(home.node, []).append(entry)
        chosen = {task.task: home for task, home in zip(needy, homes, strict=True)}
        await self.send(by_node, occasion, chosen)

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
    ) -> None:
        """Queue entries at these nodes; ``chosen`` has the candidates compared for each, if any."""
        if not by_node:
            return
        await self.store.call([Enqueue(node, tuple(by_node[node])) for node in by_node])
        now = self.world.kernel.now()
        for node, entries in by_node.items():
            for entry in entries:
                weighed = chosen[entry.task].weighed if chosen else ()
                self.world.emit(TaskPlaced(now, entry.task, node, occasion, weighed))
            self.world.network.send(node, WorkQueued())
