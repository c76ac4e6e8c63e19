"""Asks one node at a time for tasks that it has announced, and waits for what it gives."""

from collections.abc import Callable

from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Handed, MoverMessage
from dataward.node.mover import NodeParts

Tell = Callable[[NodeId, MoverMessage], None]
"""Sends a message to a node; one to this node itself is heeded at once."""


class Asker:
    """A giver that does not answer within ``ask_seconds`` is taken to be dead."""

    def __init__(self, parts: NodeParts, tell: Tell, ask_seconds: float) -> None:
        self._parts = parts
        self._tell = tell
        self._ask_seconds = ask_seconds
        self._asked: tuple[NodeId, int] | None = None
        self._answered = parts.world.kernel.flag()
        self._handed = 0

    @property
    def free(self) -> int:
        """How many tasks this node could begin now; at least 1, for it would not ask otherwise."""
        return max(self._parts.capacity.attempts_max - len(self._parts.state.attempts), 1)

    async def take(self, giver: NodeId, batch: int, tasks: int) -> bool:
        """Whether the giver says that it has given tasks; then return when they are here."""
        queue = self._parts.state.queue
        before = queue.stays
        self._asked = giver, batch
        self._answered.clear()
        self._tell(giver, Ask(self._parts.world.node, tasks, batch=batch))
        answered = await self._answered.wait(self._ask_seconds)
        self._asked = None
        if not answered or not self._handed:
            return False
        if queue.stays == before:
            await queue.grown.wait(self._ask_seconds)
        return True

    def on_handed(self, message: Handed) -> None:
        if message.tasks:
            self._parts.state.queue.wanted.set()  # the hint from the placer may be lost
        if self._asked == (message.node, message.batch):
            self._handed = message.tasks
            self._answered.set()
