"""Work stealing: a node with nothing to run takes half of the tasks of a loaded neighbour.

MATRIX's section 2.2.1. The node that looks for tasks is a `Thief`, the node that gives them a
`Victim`; every node is both. Only tasks that a mover may take are stolen, MATRIX's SReadyQ, and
the thief may lose them to the next one. A lost message costs the thief one poll, nothing else.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from dataward.errors import SettingError
from dataward.model.events import Occasion, WorkGiven
from dataward.model.ids import NodeId
from dataward.model.messages import MoverMessage, Steal, Stolen
from dataward.node.handing_over import half, hand_over, take_out
from dataward.node.mover import NodeParts
from dataward.node.neighbourhood import Neighbourhood, Neighbours
from dataward.world import Flag


@dataclass(frozen=True, slots=True)
class Stealing:
    """Work stealing; defaults are MATRIX's, from its sections 2.2.1 and 4.2."""

    poll_seconds_min: float = 0.001  # "e.g. 1 ms"
    poll_seconds_max: float = 50.0  # "the polling interval upper bound to 50 sec"
    answer_seconds: float = 1.0  # ours: how long a thief waits for a victim, and for its tasks
    neighbourhood: Neighbourhood = Neighbourhood.DYNAMIC
    neighbours: int = 0  # 0: the square root of the number of nodes

    def __post_init__(self) -> None:
        if not self.poll_seconds_min > 0:
            raise SettingError("a node with poll_seconds_min 0 would never rest; give more than 0")

    def at(self, parts: NodeParts) -> "StealMover":
        """The mover of a node whose thief never goes on after it has stopped."""
        never = parts.world.kernel.flag()
        return StealMover(self.thief(parts, lambda: None, never), Victim(parts))

    def thief(self, parts: NodeParts, on_failed: Callable[[], None], restart: Flag) -> "Thief":
        world = parts.world
        neighbours = Neighbours(
            world.node,
            world.nodes,
            world.random,
            parts.store,
            self.neighbourhood,
            self.neighbours,
        )
        return Thief(parts, self, neighbours, on_failed, restart)


def next_poll(poll_seconds: float, settings: Stealing) -> float | None:
    """Twice the last polling interval, or None if that hits the upper bound: steal no more."""
    doubled = 2 * poll_seconds
    return doubled if doubled < settings.poll_seconds_max else None


def most_loaded(neighbours: Mapping[NodeId, float]) -> NodeId | None:
    """The neighbour with the most load, if any has some. Of equals the lowest id is taken."""
    loaded = {node: load for node, load in neighbours.items() if load > 0}
    return min(loaded, key=lambda node: (-loaded[node], node), default=None)


@dataclass
class StealMover:
    """A node's thief and victim; ``others`` are loops of movers that build on stealing."""

    thief: "Thief"
    victim: "Victim"
    others: Sequence[Callable[[], Coroutine[None, None, None]]] = ()

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        return [self.thief.run(), self.victim.run(), *(loop() for loop in self.others)]

    def on_message(self, message: MoverMessage) -> None:
        if isinstance(message, Steal):
            self.victim.on_steal(message)
        elif isinstance(message, Stolen):
            self.thief.on_stolen(message)

    def loose_ends(self) -> dict[str, int]:
        return {"thieves without an answer": len(self.victim)}


@dataclass
class Thief:
    """Steals while the node has nothing to run.

    After a failure the thief waits for the polling interval and doubles it; a success sets it back.
    When the interval hits its upper bound the thief stops until ``restart`` is set. ``on_failed``
    is called after every failure. A node whose thief has stopped still runs what others send it.
    """

    parts: NodeParts
    settings: Stealing
    neighbours: Neighbours
    on_failed: Callable[[], None]
    restart: Flag
    _number: int = 0  # of the last message
    _stolen: int = 0  # how many tasks the answer to it said

    def __post_init__(self) -> None:
        self._answered = self.parts.world.kernel.flag()

    async def run(self) -> None:
        queue, kernel = self.parts.state.queue, self.parts.world.kernel
        poll: float | None = self.settings.poll_seconds_min
        while True:
            if poll is None:
                await self.restart.wait()
                poll = self.settings.poll_seconds_min
            await queue.hungry.wait()
            if await self._steal():
                poll = self.settings.poll_seconds_min
                await queue.grown.wait(self.settings.answer_seconds)
            else:
                self.on_failed()
                await kernel.sleep(poll)
                poll = next_poll(poll, self.settings)

    async def _steal(self) -> bool:
        """Whether the most loaded neighbour has queued tasks for this node."""
        victim = most_loaded(await self.neighbours.told_loads())
        if victim is None:
            return False
        self._number += 1
        self._stolen = 0
        self._answered.clear()
        self.parts.world.network.send(victim, Steal(self.parts.world.node, self._number))
        await self._answered.wait(self.settings.answer_seconds)
        return self._stolen > 0

    def on_stolen(self, message: Stolen) -> None:
        if message.number == self._number:  # else it is the answer to an earlier message
            self._stolen = message.tasks
            self._answered.set()


@dataclass
class Victim:
    """Hands half of the tasks that others may run to each thief, the least urgent ones."""

    parts: NodeParts
    _asked: dict[NodeId, Steal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._is_asked = self.parts.world.kernel.flag()

    def __len__(self) -> int:
        return len(self._asked)

    def on_steal(self, message: Steal) -> None:
        """Answer soon; a later message of the same thief replaces this one."""
        self._asked[message.thief] = message
        self._is_asked.set()

    async def run(self) -> None:
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            while self._asked:
                thief = next(iter(self._asked))
                await self._give(self._asked.pop(thief))

    async def _give(self, steal: Steal) -> None:
        parts, queue = self.parts, self.parts.state.queue
        world, thief = parts.world, steal.thief
        loot = take_out(queue, queue.least_urgent(half(queue.givable)))
        if loot:
            await hand_over(parts.state, parts.placer, {thief: loot}, Occasion.STOLEN)
            tasks = tuple(entry.task for entry in loot)
            world.emit(WorkGiven(world.kernel.now(), world.node, thief, tasks, ()))
        world.network.send(thief, Stolen(steal.number, len(loot)))
