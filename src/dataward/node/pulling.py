"""Pulling: a node with nothing to run asks a keeper for tasks.

Keepers are nodes whose pools have the tasks that are ready (see `keeper_homes`). The node that asks
is a `Puller`; the keeper's `Dispenser` decides which of its tasks it is given. Every node is both.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field

import msgspec

from dataward.errors import SettingError
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.messages import Ask, MoverMessage
from dataward.model.operations import QueueEntry, Shelf
from dataward.node.choosers import Chooser, FirstCome
from dataward.node.keeper_homes import keepers
from dataward.node.mover import NodeParts


@dataclass(frozen=True, slots=True)
class Pulling:
    """``chooser`` says which task a node is given."""

    chooser: Callable[[], Chooser] = FirstCome
    ask_seconds_min: float = 0.05  # until a node that got nothing asks again; doubles each time
    ask_seconds_max: float = 5.0

    def __post_init__(self) -> None:
        if not self.ask_seconds_min > 0:
            raise SettingError("a node with ask_seconds_min 0 would never rest; give more than 0")

    def at(self, parts: NodeParts) -> "PullMover":
        dispenser = Dispenser(parts, self.chooser(), patience_seconds=2 * self.ask_seconds_max)
        return PullMover(Puller(parts, self, dispenser), dispenser)


@dataclass
class PullMover:
    """A node's puller and dispenser."""

    puller: "Puller"
    dispenser: "Dispenser"

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        return [self.puller.run(), self.dispenser.run()]

    def on_message(self, message: MoverMessage) -> None:
        if isinstance(message, Ask):
            self.dispenser.on_ask(message)

    def loose_ends(self) -> dict[str, int]:
        return {}


@dataclass
class Puller:
    """Asks for as many tasks as the node could begin at once.

    A keeper that has none remembers the question for a while. One that gives nothing may be dead,
    or have lost its pool to another keeper, so the next one is asked.
    """

    parts: NodeParts
    settings: Pulling
    dispenser: "Dispenser"
    _keeper: int = 0

    async def run(self) -> None:
        queue, pause = self.parts.state.queue, self.settings.ask_seconds_min
        while True:
            await queue.hungry.wait()
            self._ask()
            if await queue.grown.wait(pause):
                pause = self.settings.ask_seconds_min
            else:
                pause = min(2 * pause, self.settings.ask_seconds_max)
                self._keeper += 1

    def _ask(self) -> None:
        parts = self.parts
        world = parts.world
        asked = keepers(world.nodes)
        keeper = asked[self._keeper % len(asked)]
        free = parts.capacity.attempts_max - len(parts.state.attempts)
        question = Ask(world.node, max(free, 1))
        if keeper == world.node:
            self.dispenser.on_ask(question)
        else:
            world.network.send(keeper, question)


@dataclass
class Dispenser:
    """Gives tasks of this node's pool to the nodes that asked, first come, first served."""

    parts: NodeParts
    chooser: Chooser
    patience_seconds: float  # how long a question is remembered
    _asked: dict[NodeId, tuple[int, float]] = field(default_factory=dict)  # tasks, until when

    def __post_init__(self) -> None:
        self._is_asked = self.parts.world.kernel.flag()

    def on_ask(self, question: Ask) -> None:
        """Remember the question; a later one of the same node replaces it."""
        until = self.parts.world.kernel.now() + self.patience_seconds
        self._asked[question.node] = (question.tasks, until)
        self._is_asked.set()

    async def run(self) -> None:
        pool = self.parts.state.pool
        while True:
            await self._is_asked.wait()
            await pool.grown.wait()
            await self._give(self._matched())
            if not self._asked:
                self._is_asked.clear()

    def _matched(self) -> dict[NodeId, list[QueueEntry]]:
        """The tasks to be given to each node; they have left the pool."""
        pool, now = self.parts.state.pool, self.parts.world.kernel.now()
        self.chooser.update(pool.changes())
        given: dict[NodeId, list[QueueEntry]] = {}
        while pool and self._asked:
            node, (tasks, until) = next(iter(self._asked.items()))
            del self._asked[node]
            if until < now:
                continue
            while pool and len(given.setdefault(node, [])) < tasks:
                entry = pool.take(self.chooser.choose(node))
                given[node].append(msgspec.structs.replace(entry, shelf=Shelf.KEPT))
        pool.changes()  # what was just taken, the chooser knows
        return given

    async def _give(self, given: dict[NodeId, list[QueueEntry]]) -> None:
        """Queue the tasks at the nodes, and only then let go of them here."""
        await self.parts.placer.send(given, Occasion.ASKED_FOR)
        for entries in given.values():
            for entry in entries:
                self.parts.state.outbox.let_go(entry.task)
