"""When it is settled which node runs a task: when it is queued there, or when it is taken."""

from dataclasses import dataclass
from enum import Enum

import msgspec

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.operations import QueueEntry, Shelf
from dataward.model.states import TaskState
from dataward.node.handing_over import hand_over
from dataward.node.placer import Placer
from dataward.node.state import NodeState


class Binding(Enum):
    EARLY = "early"  # a task runs at the node in whose queue it is, unless a mover takes it away
    LATE = "late"  # a node that takes a task from its queue asks for the task's home once more


@dataclass
class Binder:
    """With late binding, sends a task that was taken from the queue to a better node.

    At most once: the other node keeps the task, and does not ask again. So no task goes to and fro.
    """

    binding: Binding
    state: NodeState
    placer: Placer

    async def sends_away(self, entry: QueueEntry) -> bool:
        """Whether the task is in another node's queue now, and no longer held here."""
        if self.binding is Binding.EARLY or entry.shelf is not Shelf.SHARED or entry.replica:
            return False
        (home,) = await self.placer.homes.find([_standing(entry)], Occasion.TAKEN)
        if home.node == self.placer.world.node:
            return False
        kept = msgspec.structs.replace(entry, shelf=Shelf.KEPT)
        await hand_over(self.state, self.placer, {home.node: [kept]}, Occasion.TAKEN)
        return True


def _standing(entry: QueueEntry) -> Standing:
    """What the entry says of its task; home rules that need the inputs look them up."""
    return Standing(
        entry.task,
        TaskState.READY,
        entry.generation - 1,
        priority=entry.priority,
        seconds=entry.seconds,
    )
