"""Who this node is at present, and the names of its attempts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from dataward.model.operations import AttemptId, NodeId, QueueEntry
from dataward.model.workflow import TaskId

OnLeaseLost = Callable[[int], None]
"""Called with the incarnation that has lost its lease; an earlier one's loss is old news."""


@dataclass
class Identity:
    """A node that lost its lease goes on as another incarnation: the old one's acts are void."""

    node: NodeId
    incarnation: int
    joined: bool = False  # whether the store knows this incarnation
    holdings: dict[TaskId, tuple[QueueEntry, int]] = field(default_factory=dict)
    """What the node holds in the store, each with the ticket of its stay."""
    _attempts: int = 0

    def next_attempt(self) -> AttemptId:
        self._attempts += 1
        return f"{self.node}.{self.incarnation}.{self._attempts}"

    def be_reborn(self) -> None:
        self.incarnation += 1
        self.joined = False
        self.holdings.clear()
