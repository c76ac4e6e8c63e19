"""Handing over: tasks that wait at this node go to other nodes, and are let go of here."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from dataward.model.answers import Standing
from dataward.model.events import Occasion, WorkGiven
from dataward.model.ids import NodeId
from dataward.model.operations import QueueEntry, Release, Shelf
from dataward.model.workflow import TaskId
from dataward.node.mover import NodeParts
from dataward.node.placer import Placer
from dataward.node.ready_queue import ReadyQueue
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient


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


async def move(
    parts: NodeParts,
    chosen: Mapping[TaskId, NodeId],
    offered: Sequence[QueueEntry],
    *,
    staging: bool = False,
) -> None:
    """Let other nodes have those of the offered tasks that are chosen for them.

    Some wait in the queue here, some for a core; with ``staging``, some for their inputs.
    """
    state, world = parts.state, parts.world
    moving = [entry for entry in offered if entry.task in chosen]
    queued = take_out(state.queue, moving)
    begun = await give_up(
        state, parts.store, [e for e in moving if e not in queued], staging=staging
    )
    by_node: dict[NodeId, list[QueueEntry]] = {}
    for entry in (*queued, *(entry for entry, _ in begun)):
        by_node.setdefault(chosen[entry.task], []).append(as_moved(entry))
    await hand_over(state, parts.placer, by_node, Occasion.GIVEN)
    await parts.placer.are_placed([standing for _, standing in begun])
    for node, tasks in by_node.items():
        ids = tuple(entry.task for entry in tasks)
        world.emit(WorkGiven(world.kernel.now(), world.node, node, ids, ()))
    state.outbox.load_changed()


def as_moved(entry: QueueEntry) -> QueueEntry:
    """The entry of a task that moves: one whose run time is certain stays where it goes.

    So it never goes to and fro. One whose run time is not certain goes only to idle cores. If
    another task is there first, it may go on.
    """
    return entry if entry.spread else msgspec.structs.replace(entry, shelf=Shelf.KEPT)


async def give_up(
    state: NodeState, store: StoreClient, entries: Sequence[QueueEntry], *, staging: bool = False
) -> list[tuple[QueueEntry, Standing]]:
    """Those of the entries whose attempts here waited for a core and are released now.

    With ``staging``, also those whose attempts waited for their inputs. Each comes with its
    standing in the store. The node still holds these tasks: whoever calls this hands them over, and
    then says that they are placed. A crash before that leaves each task in its shard's outbox. A
    task that needs no node any more, since it has ended elsewhere, is let go of.
    """
    incarnation = state.identity.incarnation
    off = {entry.task: state.attempts.call_off(entry.task, staging=staging) for entry in entries}
    called_off = [entry for entry in entries if off[entry.task] is not None]
    for entry in called_off:
        await state.attempts.over(entry.task)
    releases = [Release(e.task, name) for e in called_off if (name := off[e.task]) is not None]
    answers = await store.call(releases) if releases else []
    if incarnation != state.identity.incarnation:
        return []  # others take them over
    given_up = []
    for entry, answer in zip(called_off, answers, strict=True):
        if isinstance(answer, Standing) and answer.needs_node:
            given_up.append((entry, answer))
        else:
            state.outbox.let_go(entry.task)
    return given_up
