"""Albatross's late binding, as the ADAGE paper describes it: to the data, unless that is loaded."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Shelf
from dataward.node.depot import as_committed
from dataward.node.homes import Home, View, any_other_node, nearest


@dataclass(frozen=True, slots=True)
class AlbatrossHome:
    """The node with most of the task's data, unless that is overloaded; else the current node.

    The current node has the task: first the one that got it from the distributed queue, which the
    plan says; later the one that took it from its local queue. "When a task becomes ready, the load
    balancer pulls it from the DMQ and tries to send it to the best node according to data locality;
    if the remote node is overloaded or data are local, the task is assigned to the local queue of
    the current node; when the task is pulled from a local queue, the load balancer tries again to
    send it to the best node and, if the assignment is not possible, the task is executed on the
    current node." The node that is sent a task keeps it. When a node is overloaded is not said.
    """

    overload_seconds: float = 10.0  # ours: the work that waits there takes longer than this

    asks: ClassVar = frozenset(
        {Occasion.READY, Occasion.TAKEN, Occasion.ORPHANED, Occasion.REOPENED, Occasion.LEFT}
    )
    needs_inputs: ClassVar = True

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        best = node_with_most_data(task, nodes, task.preferred)
        return [node for node in (task.preferred, best) if node]

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        if occasion is Occasion.NO_ROOM:
            return Home(any_other_node(view), shelf=Shelf.KEPT)  # or it might come back
        current = view.here if occasion is Occasion.TAKEN else task.preferred
        best = node_with_most_data(task, view.nodes, current)
        if best is not None and best != current and self._has_room(best, view):
            return Home(best, shelf=Shelf.KEPT)
        # As in `AdageHome`, a task that became ready goes to its node even if that is down.
        if occasion in (Occasion.READY, Occasion.TAKEN) or current in view.loads_seconds:
            return Home(current)
        return nearest(task, view)

    def _has_room(self, node: NodeId, view: View) -> bool:
        """Whether a node is up and not overloaded."""
        return view.loads_seconds.get(node, float("inf")) <= self.overload_seconds


def node_with_most_data(
    task: Standing, nodes: Collection[NodeId], current: NodeId
) -> NodeId | None:
    """The node with most bytes of the task's inputs, or None if no node has any.

    Of equal nodes the current one is taken, else the first that is known.
    """
    sizes = {file.id: file.size_bytes for file in as_committed(task.inputs, task.input_copies)}
    known = {copy.node for copy in task.input_copies if copy.node in nodes}
    held: dict[NodeId, int] = {}
    for file, node in dict.fromkeys((copy.file, copy.node) for copy in task.input_copies):
        if node in known:
            held[node] = held.get(node, 0) + sizes.get(file, 0)
    best = max(held, key=lambda node: (held[node], node == current), default=None)
    return best if best is not None and held[best] else None
