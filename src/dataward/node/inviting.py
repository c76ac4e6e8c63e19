"""Inviting: a node with nothing to run tells keepers, and a keeper that has tasks invites it.

For pools at many nodes. A node that has told many keepers may be wanted by several at once; it
takes up one invitation and declines the others, so that no task waits for a node that is busy by
the time the task comes. The node that tells is a `Seeker`; the keeper's part is the `Inviter`.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Handed, MoverMessage, Reserve
from dataward.node.asking import Asker
from dataward.node.choosers import FirstCome
from dataward.node.inviter import Inviter
from dataward.node.mover import NodeParts
from dataward.node.seeking import Seeker, SeekingPauses
from dataward.node.settings import check_above_zero


@dataclass(frozen=True, slots=True)
class Inviting:
    """Settings of seekers and inviters."""

    tasks_max: int = 1  # that a node takes at a time
    ask_seconds: float = 0.5  # until a keeper or a node that does not answer is given up
    seek_seconds_min: float = 0.01  # until a node that is not invited tells more keepers, or others
    seek_seconds_max: float = 20.0

    def __post_init__(self) -> None:
        check_above_zero(self, "tasks_max", "ask_seconds", "seek_seconds_min")

    def at(self, parts: NodeParts) -> "InviteMover":
        return InviteMover(parts, self)


class InviteMover:
    """A node's seeker and inviter."""

    def __init__(self, parts: NodeParts, settings: Inviting) -> None:
        self._here = parts.world.node
        self._send = parts.world.network.send
        patience_seconds = 2 * settings.seek_seconds_max
        self._inviter = Inviter(
            parts, self._tell, FirstCome(), patience_seconds, settings.ask_seconds
        )
        self._seeker = Seeker(
            parts,
            self._tell,
            Asker(parts, self._tell, settings.ask_seconds),
            settings.tasks_max,
            SeekingPauses(settings.seek_seconds_min, settings.seek_seconds_max),
        )

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        return [self._seeker.run(), self._inviter.invite(), self._inviter.answer()]

    def on_message(self, message: MoverMessage) -> None:
        if isinstance(message, Ask):
            self._inviter.on_ask(message)
        elif isinstance(message, Reserve):
            self._seeker.on_invited(message)
        elif isinstance(message, Handed):
            self._seeker.on_handed(message)

    def _tell(self, node: NodeId, message: MoverMessage) -> None:
        if node == self._here:
            self.on_message(message)
        else:
            self._send(node, message)

    def loose_ends(self) -> dict[str, int]:
        return {"invitations": len(self._seeker)}
