"""A schedule: which node runs each task, from when to when, and which files move when."""

from collections.abc import Iterator, Sequence
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


def one_by_one(
    files: Sequence[int], sizes: Sequence[int], rate: float, whole: PlannedTransfer
) -> Iterator[PlannedTransfer]:
    """The files of one transfer, each by itself, one after another at that rate."""
    start = whole.start
    for file in files[:-1]:
        end = min(start + sizes[file] / rate, whole.end)
        yield whole._replace(file=file, start=start, end=end)
        start = end
    yield whole._replace(file=files[-1], start=start)


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
