"""Pulling: a node with nothing to run asks keepers for tasks.

Keepers are nodes whose pools have the tasks that are ready (see `keeper_homes`). The node that asks
is a `Puller`; the keeper's `Dispenser` decides which of its tasks it is given. Every node is both.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from dataward.errors import SettingError
from dataward.model.ids import NodeId
from dataward.model.messages import Ask, MoverMessage
from dataward.node.choosers import Chooser, FirstCome
from dataward.node.dispensing import Dispenser
from dataward.node.evictions import Evictions
from dataward.node.keeper_homes import first_keepers
from dataward.node.mover import NodeParts


@dataclass(frozen=True, slots=True)
class Pulling:
    """A node that asks is given the most urgent task; subclasses choose otherwise."""

    ask_seconds_min: float = 0.01  # until a node that got nothing asks more keepers, or all again
    ask_seconds_max: float = 5.0

    def __post_init__(self) -> None:
        if not self.ask_seconds_min > 0:
            raise SettingError("a node with ask_seconds_min 0 would never rest; give more than 0")

    def chooser(self, parts: NodeParts) -> Chooser:
        """What decides, at a keeper, which task a node is given."""
        return FirstCome()

    def dispenser(self, parts: NodeParts) -> Dispenser:
        """What gives the tasks of a keeper's pool away."""
        return Dispenser(parts, self.chooser(parts), 2 * self.ask_seconds_max)

    def at(self, parts: NodeParts) -> "PullMover":
        dispenser = self.dispenser(parts)
        evictions = Evictions()
        parts.depot.watch(evictions)
        return PullMover(Puller(parts, self, dispenser, evictions), dispenser)


@dataclass
class PullMover:
    """A node's puller and dispenser."""

    puller: "Puller"
    dispenser: Dispenser

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

    Keepers that have none remember the question. So it asks one keeper, a moment later two more,
    then four, until all have been asked; after that it asks all of them again, ever more rarely,
    since some may have been down or may not have heard.
    """

    parts: NodeParts
    settings: Pulling
    dispenser: Dispenser
    evictions: Evictions

    async def run(self) -> None:
        while True:
            await self.parts.state.queue.hungry.wait()
            told = self.evictions.files()
            asked = await self._ask_until_fed()
            self.evictions.forget(told)  # each of those who may have answered knows of them
            if len(asked) > 1:
                for keeper in asked:  # or they would give more than this node can run
                    self._tell(keeper, Ask(self.parts.world.node, 0))

    async def _ask_until_fed(self) -> Sequence[NodeId]:
        """The keepers that were asked until this node had a task."""
        world, settings = self.parts.world, self.settings
        asked: dict[NodeId, None] = {}
        line: Sequence[NodeId] = ()
        pause, count = settings.ask_seconds_min, 1
        while True:
            if not line:
                line = first_keepers(world.nodes)
            for keeper in line[:count]:
                asked[keeper] = None
                self._ask(keeper)
            if await self.parts.state.queue.grown.wait(pause):
                return list(asked)
            line, count = line[count:], 2 * count
            if not line:
                pause = min(2 * pause, settings.ask_seconds_max)

    def _ask(self, keeper: NodeId) -> None:
        parts = self.parts
        if not parts.state.is_draining:
            free = parts.capacity.attempts_max - len(parts.state.attempts)
            self._tell(keeper, Ask(parts.world.node, max(free, 1), self.evictions.files()))

    def _tell(self, keeper: NodeId, question: Ask) -> None:
        if keeper == self.parts.world.node:
            self.dispenser.on_ask(question)
        else:
            self.parts.world.network.send(keeper, question)
