"""A node's line of reservations: whom it asks for a task when it is free."""

from dataward.model.ids import NodeId
from dataward.model.messages import Handed, Reserve
from dataward.node.asking import Asker
from dataward.node.mover import NodeParts

_Place = tuple[NodeId, int]  # a scheduler, and the number of a batch of its tasks


class ReservationLine:
    """Asks the scheduler of the oldest reservation; it has a task, or the next one is asked."""

    def __init__(self, parts: NodeParts, asker: Asker) -> None:
        self._parts = parts
        self._asker = asker
        self._line: dict[_Place, int] = {}  # with the number of tasks reserved for, oldest first
        self._is_reserved = parts.world.kernel.flag()

    def __len__(self) -> int:
        return len(self._line)

    def on_reserve(self, message: Reserve) -> None:
        """Add to the end of the line; a reservation for the same batch keeps its place."""
        self._line[message.node, message.batch] = message.tasks
        self._is_reserved.set()

    def on_handed(self, message: Handed) -> None:
        if not message.tasks:
            self._drop((message.node, message.batch))
        self._asker.on_handed(message)

    def _drop(self, place: _Place) -> None:
        self._line.pop(place, None)
        if not self._line:
            self._is_reserved.clear()

    async def run(self) -> None:
        state = self._parts.state
        while True:
            await self._is_reserved.wait()
            await state.queue.hungry.wait()
            if state.is_draining:
                await self._parts.world.kernel.flag().wait()  # for ever
            if self._line:  # it may have been cancelled meanwhile
                (scheduler, batch), tasks = self._next()
                await self._asker.take(scheduler, batch, tasks)

    def _next(self) -> tuple[_Place, int]:
        """The oldest reservation, which is used up as far as this node can use it."""
        place, reserved = next(iter(self._line.items()))
        tasks = min(self._asker.free, reserved)
        if tasks < reserved:
            self._line[place] -= tasks
        else:
            self._drop(place)
        return place, tasks
