"""Tells children that their parents have finished, and sends those that became ready home.

Telling may be repeated by anyone at any time: a notice is remembered, not counted.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dataward.model.answers import Standing
from dataward.model.events import TaskFinished, TaskPlaced
from dataward.model.messages import WorkQueued
from dataward.model.operations import (
    Copy,
    Delivered,
    Enqueue,
    Look,
    NodeId,
    Notify,
    Operation,
    QueueEntry,
)
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.node.ready_queue import entry_for
from dataward.node.store_client import StoreClient
from dataward.world import World


class Notice(NamedTuple):
    """A task finished: its children are to be told."""

    task: TaskId
    generation: int
    failed: bool
    children: tuple[TaskId, ...]
    copies: tuple[Copy, ...]


Home = Callable[[Standing], NodeId]


def preferred_home(task: Standing) -> NodeId:
    """ADAGE: a task that became ready goes to the node its plan prefers."""
    return task.preferred


@dataclass
class Herald:
    world: World
    store: StoreClient
    home: Home = preferred_home
    later: Callable[[Operation], None] = lambda operation: None  # what may wait for company
    _notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._work = self.world.kernel.flag()

    def deliver(self, notice: Notice) -> None:
        self._notices.append(notice)
        self._work.set()

    async def run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._notices:
                notices, self._notices = self._notices, []
                await self._tell(notices)

    async def _tell(self, notices: list[Notice]) -> None:
        """Notify, queue what became ready, and only then empty the outboxes."""
        operations = [
            Notify(child, notice.task, notice.generation, notice.failed, notice.copies)
            for notice in notices
            for child in notice.children
        ]
        answers = [a for a in await self.store.call(operations) if isinstance(a, Standing)]
        await self.send_home(
            answer
            for answer in answers
            if answer.state is TaskState.READY and not answer.live_attempts
        )
        for answer in answers:
            if answer.state is TaskState.FAILED and answer.granted:
                self.cascade(answer)
        # A child the store does not know was forgotten; once submitted again it must be told.
        unknown = {answer.task for answer in answers if answer.unknown}
        for notice in notices:
            if unknown.isdisjoint(notice.children):
                self.later(Delivered(notice.task, notice.generation))

    def cascade(self, child: Standing) -> None:
        """A task failed with its parent: say so, and tell its own children."""
        now = self.world.kernel.now()
        failed = TaskState.FAILED
        self.world.emit(
            TaskFinished(now, child.task, "", self.world.node, failed, child.generation)
        )
        self.deliver(Notice(child.task, child.generation, True, child.children, ()))

    async def place_again(self, task: TaskId) -> None:
        """Queue a task that may be in nobody's queue."""
        standing = await self.store.ask(Look(task), Standing)
        if standing.state is TaskState.READY and not standing.live_attempts:
            await self.send_home([standing])
            await self.placed([standing])

    async def placed(self, tasks: Iterable[Standing]) -> None:
        """Tell the store that these tasks, which had become ready again, are in a queue."""
        await self.store.call([Delivered(t.task, t.generation, t.placement) for t in tasks])

    async def send_home(self, ready: Iterable[Standing]) -> None:
        by_node: dict[NodeId, dict[TaskId, QueueEntry]] = {}
        for task in ready:
            by_node.setdefault(self.home(task), {})[task.task] = entry_for(task)
        await self.enqueue({node: [*entries.values()] for node, entries in by_node.items()}, "home")

    async def enqueue(self, by_node: dict[NodeId, list[QueueEntry]], why: str) -> None:
        """Put tasks in nodes' queues in the store, and tell the nodes."""
        if not by_node:
            return
        await self.store.call([Enqueue(node, tuple(by_node[node])) for node in by_node])
        now = self.world.kernel.now()
        for node, entries in by_node.items():
            for entry in entries:
                self.world.emit(TaskPlaced(now, entry.task, node, why))
            self.world.network.send(node, WorkQueued())
