"""The node's present incarnation, the tasks it holds in the store, the names of its attempts."""

from dataclasses import dataclass, field
from typing import NamedTuple

from dataward.model.ids import AttemptId, NodeId, attempt_id
from dataward.model.operations import QueueEntry
from dataward.model.workflow import FileId, TaskId


class Holding(NamedTuple):
    """A task that this node holds, and the ticket of its stay here.

    ``ahead`` are outputs that other nodes are to bring in, once the task is committed.
    """

    entry: QueueEntry
    ticket: int
    ahead: tuple[tuple[FileId, NodeId], ...] = ()


@dataclass
class Identity:
    """A node that lost its lease goes on as the next incarnation; the store refuses the old one."""

    node: NodeId
    incarnation: int
    joined: bool = False  # whether the store knows this incarnation
    holdings: dict[TaskId, Holding] = field(default_factory=dict)
    _attempts: int = 0

    @property
    def attempts(self) -> int:
        """How many attempts this node has begun so far."""
        return self._attempts

    def next_attempt(self) -> AttemptId:
        self._attempts += 1
        return attempt_id(self.node, self.incarnation, self._attempts)

    def send_ahead(self, task: TaskId, files: tuple[tuple[FileId, NodeId], ...]) -> None:
        """Remember to tell nodes of these outputs of a task, if this node still holds the task."""
        holding = self.holdings.get(task)
        if holding is not None:
            self.holdings[task] = holding._replace(ahead=files)

    def join(self) -> None:
        """Note that the store knows this incarnation."""
        self.joined = True

    def become(self, incarnation: int) -> None:
        """Go on as an incarnation that the store does not know yet, and that holds nothing."""
        assert incarnation > self.incarnation, "an incarnation never comes back"
        self.incarnation = incarnation
        self.joined = False
        self.holdings.clear()
