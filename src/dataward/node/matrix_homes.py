"""MATRIX's Algorithm 1: whether a ready task is shared, or goes where most of its data is.

MATRIX has the waiting tasks at nodes, each at one that the client chose; that node decides about a
task when the task becomes ready. Here the store has them, and whichever node hears that a task is
ready decides in that node's stead: the outcome is the same.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import ClassVar, NamedTuple

from dataward.errors import SettingError
from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Shelf
from dataward.node.depot import as_committed
from dataward.node.homes import Home, View, any_other_node, nearest


class Submission(Enum):
    """Where the client has the tasks wait."""

    BEST = "best"  # spread over all nodes: each at the node that its plan prefers
    WORST = "worst"  # all at one node


class DataObject(NamedTuple):
    """What one parent produced of a task's inputs, or an input of the workflow, and where it is."""

    size_bytes: int
    node: NodeId


@dataclass(frozen=True, slots=True)
class MatrixHome:
    """Shared at the node where the task waits, or kept by the node that has its largest input.

    An input is large if moving it would take longer than ``threshold`` times the task's run time.
    An infinite threshold shares every task (MATRIX's MLB); 0 shares only tasks without data (MDL).
    As in `AdageHome`, a task that became ready goes to its node even if that is down.
    """

    threshold: float = 0.5  # "we set the threshold t to 0.5"
    bandwidth_bytes_per_second: float = 125e6  # "net_band": here that of the default platform
    submission: Submission = Submission.BEST

    asks: ClassVar = frozenset({Occasion.ORPHANED, Occasion.REOPENED, Occasion.LEFT})
    needs_inputs: ClassVar = True

    def __post_init__(self) -> None:
        if not self.bandwidth_bytes_per_second > 0:
            raise SettingError("bandwidth_bytes_per_second must be above 0")

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return (self._waits_at(task, nodes), *(copy.node for copy in task.input_copies))

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        if occasion is Occasion.NO_ROOM:
            return Home(any_other_node(view), shelf=Shelf.KEPT)  # or it might come back
        home = self._by_algorithm_1(task, view)
        if occasion is Occasion.READY or home.node in view.loads_seconds:
            return home
        return nearest(task, view)

    def _by_algorithm_1(self, task: Standing, view: View) -> Home:
        waits_at = self._waits_at(task, view.nodes)
        learned = view.learned
        keeper = node_to_keep(
            data_objects(task, view.nodes, waits_at),
            seconds=task.seconds if task.spread < inf else learned.mean_seconds or task.seconds,
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second,
            threshold=self.threshold if learned.threshold is None else learned.threshold,
        )
        return Home(waits_at) if keeper is None else Home(keeper, shelf=Shelf.KEPT)

    def _waits_at(self, task: Standing, nodes: Sequence[NodeId]) -> NodeId:
        return nodes[0] if self.submission is Submission.WORST else task.preferred


def node_to_keep(
    objects: Sequence[DataObject],
    *,
    seconds: float,
    bandwidth_bytes_per_second: float,
    threshold: float,
) -> NodeId | None:
    """The node into whose LReadyQ a task goes, or None if it goes into the SReadyQ where it waits.

    Algorithm 1. Its lines 14 to 18 keep the task here or push it to another node, which keeps it:
    in either case the node with the largest object keeps it. Of equal objects the first counts.
    """

    def is_small(size_bytes: int) -> bool:
        moving_seconds = size_bytes / bandwidth_bytes_per_second
        return threshold == inf or moving_seconds <= threshold * seconds

    if is_small(sum(one.size_bytes for one in objects)):
        return None
    largest = max(objects, key=lambda one: one.size_bytes)
    return None if is_small(largest.size_bytes) else largest.node


def data_objects(task: Standing, nodes: Collection[NodeId], waits_at: NodeId) -> list[DataObject]:
    """The task's data in the order of its inputs, as far as a node has it.

    An object with several places is where most of it is: of equal places, where the task waits,
    else the first place known. What is only outside the cluster has to be moved whichever node runs
    the task, so it is left out.
    """
    known = {copy.node for copy in task.input_copies if copy.node in nodes}
    places: dict[str, dict[NodeId, None]] = {}
    for copy in task.input_copies:
        if copy.node in known:
            places.setdefault(copy.file, {})[copy.node] = None
    sizes: dict[str, dict[NodeId, int]] = {}
    for file in as_committed(task.inputs, task.input_copies):
        at = sizes.setdefault(file.producer or file.id, {})
        for node in places.get(file.id, ()):
            at[node] = at.get(node, 0) + file.size_bytes
    return [_largest(at, waits_at) for at in sizes.values() if at]


def _largest(size_bytes: dict[NodeId, int], waits_at: NodeId) -> DataObject:
    node = max(size_bytes, key=lambda node: (size_bytes[node], node == waits_at))
    return DataObject(size_bytes[node], node)
