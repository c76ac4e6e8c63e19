"""Who this node is at present, and the names of its attempts."""

from dataclasses import dataclass, field

from dataward.model.operations import AttemptId, NodeId
from dataward.model.workflow import TaskId


@dataclass
class Identity:
    """A node that lost its lease goes on as another incarnation: the old one's acts are void."""

    node: NodeId
    incarnation: int
    tickets: dict[TaskId, int] = field(default_factory=dict)  # of the tasks the node holds
    _attempts: int = 0

    def next_attempt(self) -> AttemptId:
        self._attempts += 1
        return f"{self.node}.{self.incarnation}.{self._attempts}"

    def be_reborn(self) -> None:
        self.incarnation += 1
        self.tickets.clear()
