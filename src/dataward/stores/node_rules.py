"""A shard's rules about nodes: their leases, their queues, and the tasks they hold.

How a node is found dead, and its tasks with it, is left to ``patrol_rules``.
"""

from collections.abc import Sequence
from heapq import heappush
from math import inf

from dataward.model.answers import Answer, Claimed, Membership
from dataward.model.ids import NodeId
from dataward.model.operations import (
    Claim,
    Enqueue,
    Join,
    Leave,
    LetGo,
    Probe,
    Renew,
    ReportLoad,
    Restate,
)
from dataward.stores.node_record import NodeRecord, Stay


class NodeRules:
    """The nodes of a shard, each with its queue in the store."""

    def __init__(self) -> None:
        self.epoch = 0
        self.nodes: dict[NodeId, NodeRecord] = {}
        self._tickets = 0
        # A heap of nodes by the time at which a lease or a patrol's hold ends. A renewal does not
        # move the node's entry; a patrol that comes upon the entry does. So the heap stays about as
        # long as the cluster is large.
        self._leases: list[tuple[float, NodeId]] = []
        self._lease_listed: dict[NodeId, float] = {}

    def _node(self, id: NodeId) -> NodeRecord:
        record = self.nodes.get(id)
        if record is None:
            record = self.nodes[id] = NodeRecord(id)
        return record

    def _next_ticket(self) -> int:
        """A ticket that was never given out before, not even one that the shard forgot giving."""
        self._tickets += 1
        return (self.epoch << 40) + self._tickets

    def _list_lease(self, node: NodeRecord) -> None:
        due = max(node.lease_until, node.patrolled_until)
        if due < self._lease_listed.get(node.id, inf):
            self._lease_listed[node.id] = due
            heappush(self._leases, (due, node.id))

    def _join(self, op: Join, now: float) -> Answer:
        node = self._node(op.node)
        if op.incarnation >= node.incarnation:
            node.rejoin(op.incarnation, op.lease_seconds, now)
            self._list_lease(node)
        return node.membership(now, self.epoch, op.incarnation)

    def _renew(self, op: Renew, now: float) -> Answer:
        node = self._node(op.node)
        if node.is_current(op.incarnation):
            node.lease_until = now + node.lease_seconds
            node.load_seconds = op.load_seconds
            self._list_lease(node)
        return node.membership(now, self.epoch, op.incarnation)

    def _leave(self, op: Leave, now: float) -> Answer:
        node = self._node(op.node)
        if node.is_current(op.incarnation):
            node.seized = True
            node.lease_until = -inf
            self._list_lease(node)
        return node.membership(now, self.epoch, op.incarnation)

    def _enqueue(self, op: Enqueue, now: float) -> Answer:
        node = self._node(op.node)
        for entry in op.entries:
            node.enqueue(entry, self._next_ticket())
        self._list_lease(node)
        return node.membership(now, self.epoch)

    def _claim(self, op: Claim, now: float) -> Answer:
        node = self._node(op.node)
        if not node.is_current(op.incarnation):
            return Claimed(op.node, False, (), (), len(node.queued))
        node.load_seconds = op.load_seconds
        request = (op.incarnation, op.request)
        if node.last_request == request and node.last_answer is not None:
            return node.last_answer
        if node.last_request[0] == op.incarnation and op.request < node.last_request[1]:
            # A late copy of a claim answered before: the node would not hear which tasks it holds.
            return self._claimed(node, ())
        stays: list[Stay] = []
        while len(stays) < op.limit and (stay := node.claim()):
            stays.append(stay)
        node.last_request = request
        node.last_answer = self._claimed(node, stays)
        return node.last_answer

    def _claimed(self, node: NodeRecord, stays: Sequence[Stay]) -> Claimed:
        return Claimed(
            node.id,
            True,
            tuple(stay.entry for stay in stays),
            tuple(stay.ticket for stay in stays),
            len(node.queued),
        )

    def _let_go(self, op: LetGo, now: float) -> Answer:
        node = self._node(op.node)
        if op.incarnation == node.incarnation:
            for task, ticket in op.tasks:
                node.let_go(task, ticket)
        return node.membership(now, self.epoch, op.incarnation)

    def _restate(self, op: Restate, now: float) -> Answer:
        node = self._node(op.node)
        if not node.is_current(op.incarnation):
            return Claimed(op.node, False, (), (), len(node.queued))
        node.hold_only({e.task: Stay(e, self._next_ticket()) for e in op.entries})
        self._list_lease(node)
        return self._claimed(node, list(node.held.values()))

    def _report_load(self, op: ReportLoad, now: float) -> Answer:
        node = self._node(op.node)
        node.load_seconds = op.load_seconds
        return node.membership(now, self.epoch)

    def _probe(self, op: Probe, now: float) -> Answer:
        node = self.nodes.get(op.node)
        if node is None:
            return Membership(op.node, False, False, -1, 0, 0.0, self.epoch)
        return node.membership(now, self.epoch)

    def _loose_ends_of_nodes(self) -> dict[str, int]:
        nodes = self.nodes.values()
        return {
            "tasks queued": sum(len(node.queued) for node in nodes),
            "tasks held": sum(len(node.held) for node in nodes),
            "tasks queued while held": sum(len(node.again) for node in nodes),
            "past queue entries": sum(node.past_entries for node in nodes),
            "leases listed twice": max(len(self._leases) - 2 * len(nodes), 0),
        }
