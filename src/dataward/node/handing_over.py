"""Handing over: tasks that wait at this node go to other nodes, and are let go of here."""

from collections.abc import Iterable, Mapping, Sequence

from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import QueueEntry
from dataward.node.placer import Placer
from dataward.node.ready_queue import ReadyQueue
from dataward.node.state import NodeState


def take_out(queue: ReadyQueue, entries: Iterable[QueueEntry]) -> list[QueueEntry]:
    """Those of the entries that were in the queue; now they are not."""
    return [entry for entry in entries if queue.remove(entry.task)]


def half(tasks: int) -> int:
    """How many of so many tasks a node gives away: half, but at least one if there are any."""
    return min(max(tasks // 2, 1), tasks)


async def hand_over(
    state: NodeState,
    placer: Placer,
    by_node: Mapping[NodeId, Sequence[QueueEntry]],
    occasion: Occasion,
) -> None:
    """Queue entries, taken out of this node's queue, at other nodes; then let go of them here.

    In this order, so that a crash on the way leaves every task with a node. A node that has lost
    its lease meanwhile holds none of them any more, unless it was given one anew: that one stays.
    """
    incarnation = state.identity.incarnation
    await placer.send(by_node, occasion)
    if incarnation != state.identity.incarnation:
        return
    for entries in by_node.values():
        for entry in entries:
            state.outbox.let_go(entry.task)
