"""Gives tasks of a node's pool to the nodes that asked for some, which a chooser picks."""

from dataclasses import dataclass, field

import msgspec

from dataward.model.events import Occasion, TaskPlaced
from dataward.model.ids import NodeId
from dataward.model.messages import Ask
from dataward.model.operations import QueueEntry, Shelf
from dataward.node.choosers import Chooser
from dataward.node.handing_over import hand_over
from dataward.node.mover import NodeParts

Given = dict[NodeId, list[QueueEntry]]


@dataclass
class Dispenser:
    """Remembers who asked, so that a task is given as soon as there is one: first come, first
    served.
    """

    parts: NodeParts
    chooser: Chooser
    patience_seconds: float  # how long a question is remembered
    _asked: dict[NodeId, tuple[int, float]] = field(default_factory=dict)  # tasks, until when

    def __post_init__(self) -> None:
        self._is_asked = self.parts.world.kernel.flag()

    def on_ask(self, question: Ask) -> None:
        """Remember the question; a later one of the same node replaces it, in the same place."""
        self.chooser.on_evicted(question.node, question.evicted)
        if not question.tasks:
            self._asked.pop(question.node, None)
            return
        until = self.parts.world.kernel.now() + self.patience_seconds
        self._asked[question.node] = (question.tasks, until)
        self._is_asked.set()

    async def run(self) -> None:
        pool = self.parts.state.pool
        while True:
            await self._is_asked.wait()
            await pool.grown.wait()
            while changes := pool.changes():
                await self.chooser.update(changes)
            await hand_out(self.parts, self._matched())
            if not self._asked:
                self._is_asked.clear()

    def _matched(self) -> Given:
        """The tasks to be given to each node; they have left the pool."""
        pool, now = self.parts.state.pool, self.parts.world.kernel.now()
        given: Given = {}
        while pool and self._asked:
            node, (tasks, until) = next(iter(self._asked.items()))
            del self._asked[node]
            if until < now:
                continue
            while pool and len(given.setdefault(node, [])) < tasks:
                given[node].append(pool.take(self.chooser.choose(node)))
        pool.changes()  # what was just taken, the chooser knows
        return given


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
