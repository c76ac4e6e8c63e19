"""A schedule: which node runs each task, from when to when, and which files move when."""

from dataclasses import dataclass
from typing import NamedTuple

from dataward.model.adjacency import Indices
from dataward.model.workflow import Seconds
from dataward.plan.adage import Plan


class PlannedTransfer(NamedTuple):
    """A file on its way to a node.

    ``source`` is the index of a node. From the number of nodes on, it is a lane of the origin's
    link (see `heft_links`).
    """

    file: int
    source: int
    node: int
    start: float
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """By task index: its node, its start and its end. ``transfers`` in the order of planning."""

    nodes: Indices
    starts: Seconds
    ends: Seconds
    transfers: tuple[PlannedTransfer, ...] = ()

    @property
    def makespan_seconds(self) -> float:
        return float(self.ends.max())

    def as_plan(self) -> Plan:
        """Each task prefers its node, and nodes take their tasks in the order of planned starts."""
        return Plan(self.starts, self.nodes, self.makespan_seconds)
