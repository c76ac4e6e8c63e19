"""Probing: a node that has tasks to give reserves places at random nodes, who ask when it is time.

Sparrow's batch sampling and late binding. Every node is a scheduler of the tasks in its pool (see
`scheduler_homes`) and has a line of other schedulers' reservations. Which task a reservation is
for, nobody knows before the node that has it is free.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Handed, MoverMessage, Reserve
from dataward.node.asking import Asker
from dataward.node.batches import BatchScheduler
from dataward.node.mover import NodeParts
from dataward.node.reservations import ReservationLine
from dataward.node.settings import check_above_zero


@dataclass(frozen=True, slots=True)
class Probing:
    """Settings of schedulers and of the lines at nodes."""

    probe_ratio: float = 2.0  # reservations for each task: 2 in Sparrow's experiments
    ask_seconds: float = 0.5  # until a scheduler that does not answer is taken to be dead
    probe_seconds_min: float = 0.5  # until a batch that nobody asks for is reserved for again
    probe_seconds_max: float = 10.0  # the pause doubles up to this

    def __post_init__(self) -> None:
        check_above_zero(self, "probe_ratio", "ask_seconds", "probe_seconds_min")

    def at(self, parts: NodeParts) -> "ProbeMover":
        return ProbeMover(parts, self)


class ProbeMover:
    """A node's scheduler, and its line of other schedulers' reservations."""

    def __init__(self, parts: NodeParts, settings: Probing) -> None:
        self._here = parts.world.node
        self._send = parts.world.network.send
        pauses = (settings.probe_seconds_min, settings.probe_seconds_max)
        self._scheduler = BatchScheduler(parts, self._tell, settings.probe_ratio, pauses)
        self._line = ReservationLine(parts, Asker(parts, self._tell, settings.ask_seconds))

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        return [self._scheduler.reserve(), self._scheduler.answer(), self._line.run()]

    def on_message(self, message: MoverMessage) -> None:
        if isinstance(message, Ask):
            self._scheduler.on_ask(message)
        elif isinstance(message, Reserve):
            self._line.on_reserve(message)
        elif isinstance(message, Handed):
            self._line.on_handed(message)

    def _tell(self, node: NodeId, message: MoverMessage) -> None:
        if node == self._here:
            self.on_message(message)
        else:
            self._send(node, message)

    def loose_ends(self) -> dict[str, int]:
        return {"batches": len(self._scheduler), "reservations": len(self._line)}
