"""Homes in the pools of keepers: nodes that keep ready tasks, for others to ask for.

One node keeps all of them, or every node keeps some. Where the papers have one scheduler outside
the cluster, a node plays it. If a keeper dies, the patrols find its tasks, and the next one has
them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar
from zlib import crc32

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Shelf
from dataward.model.workflow import TaskId
from dataward.node.homes import Home, View, any_other_node, nearest

KEEPERS = 3  # nodes that may keep a task: the first one, and those who take its place


def first_keepers(nodes: Sequence[NodeId]) -> Sequence[NodeId]:
    """The nodes that may keep ready tasks if all are in one pool, in the order in which they do."""
    return nodes[:KEEPERS]


@dataclass(frozen=True, slots=True)
class KeeperHome:
    """One pool for all tasks: the first node's, or if that is down, the next one's."""

    asks: ClassVar = frozenset({Occasion.ORPHANED, Occasion.REOPENED, Occasion.LEFT})
    needs_inputs: ClassVar = False

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return first_keepers(nodes)

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        return pooled(first_keepers(view.nodes), task, occasion, view)


def pooled(keepers: Sequence[NodeId], task: Standing, occasion: Occasion, view: View) -> Home:
    """The pool of the first of these nodes that is up.

    A task that became ready goes to the first of them even if that is down, as in `AdageHome`. If
    none is up, the task goes to the queue of the node that lacks the fewest input bytes.
    """
    if occasion is Occasion.NO_ROOM:
        return Home(any_other_node(view))
    if occasion is Occasion.READY:
        return Home(keepers[0], shelf=Shelf.POOLED)
    up = [node for node in keepers if node in view.loads_seconds]
    return Home(up[0], shelf=Shelf.POOLED) if up else nearest(task, view)


# --- every node keeps some -----------------------------------------------------------------------

ASKED = 32  # nodes that one node asks at a time; with many nodes, others ask others


def drawn_keepers(here: NodeId, nodes: Sequence[NodeId], random: Random) -> Sequence[NodeId]:
    """The node that asks, and others drawn at random: any of them may have tasks."""
    drawn = random.sample(nodes, min(ASKED, len(nodes)))
    return [here, *(node for node in drawn if node != here)]


@dataclass(frozen=True, slots=True)
class HashedHome:
    """A pool at every node: a task's own name says which, and who takes that node's place."""

    asks: ClassVar = frozenset({Occasion.ORPHANED, Occasion.REOPENED, Occasion.LEFT})
    needs_inputs: ClassVar = False

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return hashed_keepers(task.task, nodes)

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        return pooled(hashed_keepers(task.task, view.nodes), task, occasion, view)


def hashed_keepers(task: TaskId, nodes: Sequence[NodeId]) -> Sequence[NodeId]:
    """The nodes that may keep a task, the first one first; the same in every process."""
    first, count = crc32(task.encode()), min(KEEPERS, len(nodes))
    return [nodes[(first + i) % len(nodes)] for i in range(count)]
