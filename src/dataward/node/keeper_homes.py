"""Homes in the pools of keepers: a few nodes that keep all ready tasks, for others to ask for.

The papers have one scheduler outside the cluster. Here a node plays it; if it dies, the patrols
find its tasks, and the next keeper has them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Shelf
from dataward.node.homes import Home, View, any_other_node, nearest

KEEPERS = 3  # nodes that may be keepers: the first one, and those who take its place


def keepers(nodes: Sequence[NodeId]) -> Sequence[NodeId]:
    """The nodes that may keep ready tasks, in the order in which they do."""
    return nodes[:KEEPERS]


@dataclass(frozen=True, slots=True)
class KeeperHome:
    """The first keeper's pool; if that node is down, the next one's.

    A task that became ready goes to the first keeper even if that is down, as in `AdageHome`. If no
    keeper is up, the task goes to the queue of the node that lacks the fewest input bytes.
    """

    asks: ClassVar = frozenset({Occasion.ORPHANED, Occasion.REOPENED})
    needs_inputs: ClassVar = False

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return keepers(nodes)

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        if occasion is Occasion.NO_ROOM:
            return Home(any_other_node(view))
        possible = keepers(view.nodes)
        if occasion is Occasion.READY:
            return Home(possible[0], shelf=Shelf.POOLED)
        up = [node for node in possible if node in view.loads_seconds]
        return Home(up[0], shelf=Shelf.POOLED) if up else nearest(task, view)
