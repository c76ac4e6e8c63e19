"""Gives tasks of a node's pool to the nodes that asked for some, which a chooser picks."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from dataward.model.events import Occasion, TaskPlaced
from dataward.model.ids import NodeId
from dataward.model.messages import Ask
from dataward.model.operations import QueueEntry, Shelf
from dataward.node.choosers import Chooser
from dataward.node.handing_over import hand_over
from dataward.node.keeper_homes import first_keepers
from dataward.node.mover import NodeParts
from dataward.node.pool import Changes

Given = dict[NodeId, list[QueueEntry]]


class Question(NamedTuple):
    """A node wants so many tasks; ``since`` is when it first asked, and ``until`` ends patience."""

    tasks: int
    since: float
    until: float


@dataclass
class Dispenser:
    """Remembers who asked, so that a task is given as soon as there is one: first come, first
    served.

    When nodes come or go, others may become keepers. Nobody asks a node that is no keeper, so such
    a node sends the tasks of its pool to the first keeper.
    """

    parts: NodeParts
    chooser: Chooser
    patience_seconds: float  # how long a question is remembered
    _asked: dict[NodeId, Question] = field(default_factory=dict)

    def on_ask(self, question: Ask) -> None:
        """Remember the question; a later one of the same node replaces it, in the same place."""
        self.chooser.on_evicted(question.node, question.evicted)
        known = self._asked.get(question.node)
        if not question.tasks:
            self._asked.pop(question.node, None)
            return
        now = self.parts.world.kernel.now()
        since = now if known is None or known.until < now else known.since
        self._asked[question.node] = Question(question.tasks, since, now + self.patience_seconds)
        self.parts.state.pool.due.set()

    def __post_init__(self) -> None:
        self.parts.world.nodes.watch(self.parts.state.pool.due.set)

    async def run(self) -> None:
        """Look whenever a task has come, a node has asked, or nodes have come or gone."""
        world, due = self.parts.world, self.parts.state.pool.due
        while True:
            await due.wait()
            due.clear()
            keepers = first_keepers(world.nodes)
            if world.node not in keepers:
                await self._send_on(keepers[0])
            elif self._asked:
                await self.dispense()

    async def _send_on(self, keeper: NodeId) -> None:
        state = self.parts.state
        entries = [state.pool.take(task) for task in list(state.pool.tasks())]
        if entries:
            await hand_over(state, self.parts.placer, {keeper: entries}, Occasion.LEFT)
            await self.catch_up()

    async def dispense(self) -> None:
        """Give the tasks of the pool to the nodes that have asked, as far as the chooser does."""
        await self.catch_up()
        await hand_out(self.parts, self._matched())

    async def catch_up(self) -> None:
        """Let the chooser know what is in the pool."""
        while changes := self.parts.state.pool.changes():
            await self.note(changes)

    async def note(self, changes: Changes) -> None:
        await self.chooser.update(changes)

    def _matched(self) -> Given:
        """The tasks to be given to each node; they have left the pool."""
        pool, now = self.parts.state.pool, self.parts.world.kernel.now()
        given: Given = {}
        for node, question in list(self._asked.items()):
            if not pool:
                break
            if question.until < now:
                del self._asked[node]
            elif entries := self._taken(node, question.tasks):
                given[node] = entries
                del self._asked[node]
        pool.changes()  # what was just taken, the chooser knows
        return given

    def _taken(self, node: NodeId, tasks: int) -> list[QueueEntry]:
        """Up to so many tasks for a node, taken out of the pool."""
        pool = self.parts.state.pool
        entries: list[QueueEntry] = []
        while pool and len(entries) < tasks:
            task = self.chooser.choose(node)
            if task is None:
                break
            entries.append(pool.take(task))
        return entries


async def hand_out(parts: NodeParts, given: Given) -> None:
    """Queue tasks of this node's pool at the nodes, and only then let go of them here.

    The node's own tasks are not queued in the store: there, this node holds them all along.
    """
    here = parts.world.node
    kept = {
        node: [msgspec.structs.replace(entry, shelf=Shelf.KEPT) for entry in entries]
        for node, entries in given.items()
    }
    for entry in kept.pop(here, ()):
        parts.state.queue.put(entry)
        now = parts.world.kernel.now()
        parts.world.emit(TaskPlaced(now, entry.task, here, Occasion.ASKED_FOR))
        parts.state.outbox.load_changed()
    await hand_over(parts.state, parts.placer, kept, Occasion.ASKED_FOR)
