"""A shard's rules for patrols: how nodes are found dead and fenced, and what else got stuck.

A node is dead once somebody *seizes* its lease after the lease ran out; until then it may still
renew. Its tasks are taken from it one by one (`TakeOver`). Nobody scans: leases, full outboxes and
attempts are each kept in the order in which they come due.
"""

from collections.abc import Sequence
from heapq import heappop
from itertools import islice

from dataward.model.answers import Answer, Findings, Orphans, Suspect, Tallied, Undelivered
from dataward.model.ids import NOBODY
from dataward.model.operations import Patrol, Recounted, Seize, TakeOver, Tally
from dataward.model.states import FINAL, TaskState
from dataward.stores.node_record import NodeRecord, Stay
from dataward.stores.node_rules import NodeRules
from dataward.stores.task_rules import TaskRules

PATROL_HOLD_SECONDS = 5.0  # how long what one patrol was given is given to no other
SUSPECTS_MAX = 16  # old attempts in the answer to one patrol


class PatrolRules(TaskRules, NodeRules):
    """What a patrol is told of a shard, and what it may do to a node that is dead."""

    def __init__(self, index: int) -> None:
        TaskRules.__init__(self)
        NodeRules.__init__(self)
        self.index = index
        # What has been repaired. A recount that ends before a lost task is submitted again has not
        # told that task of its parents, so another one is due.
        self.recounted_epoch = 0
        self.recounted_restored = 0
        self._recount_held_until = 0.0

    def _patrol(self, op: Patrol, now: float) -> Answer:
        orphans = self._find_orphans(op, now)
        undelivered = self._find_undelivered(op, now)
        due = self._is_recount_due and now >= self._recount_held_until
        if due:
            self._recount_held_until = now + PATROL_HOLD_SECONDS
        suspects = self._find_suspects(op, now)
        return Findings(
            self.index, tuple(orphans), tuple(undelivered), tuple(suspects), self.epoch, due,
            self.restored,
        )  # fmt: skip

    @property
    def _is_recount_due(self) -> bool:
        repaired = (self.recounted_epoch, self.recounted_restored)
        return (self.epoch, self.restored) > repaired

    # --- dead nodes ------------------------------------------------------------------------------

    def _find_orphans(self, op: Patrol, now: float) -> list[Orphans]:
        """The tasks that nodes hold, or have queued, whose leases have run out: these are dead now.

        A node with neither is left as it is.
        """
        found: list[Orphans] = []
        room = op.limit
        while room > 0 and self._leases and self._leases[0][0] < now:
            due, id = heappop(self._leases)
            if self._lease_listed.get(id) != due:
                continue  # the node was listed again since, for an earlier time
            del self._lease_listed[id]
            node = self.nodes[id]
            if max(node.lease_until, node.patrolled_until) < now:
                if not (node.held or node.queued):
                    continue
                node.patrolled_until = now + PATROL_HOLD_SECONDS
                node.seized = True
                stays = list(islice(node.stays(), room))
                room -= len(stays)
                found.append(_orphans(node, stays))
            self._list_lease(node)
        return found

    def _seize(self, op: Seize, now: float) -> Answer:
        """Declare a node dead if its lease has run out. The answer says whether it is alive."""
        node = self._node(op.node)
        if node.is_current(op.incarnation) and node.lease_until < now:
            node.seized = True
        return node.membership(now, self.epoch, op.incarnation)

    def _take_over(self, op: TakeOver, now: float) -> Answer:
        """Void every attempt of this incarnation of a node, and of earlier ones.

        What they still ask for, to commit above all, is refused as FENCED. If that makes the task
        ready again, patrols find it until some node says it is in a queue.
        """
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        record.fence(op.node, op.incarnation)
        is_back = any(attempt.node == op.node for attempt in record.attempts.values())
        if op.node in record.holders and not is_back:
            record.holders.remove(op.node)
        self._settle(record, now)
        self._see_it_placed(record, now)
        return self._standing(record, files=True)

    # --- what else got stuck ---------------------------------------------------------------------

    def _find_undelivered(self, op: Patrol, now: float) -> list[Undelivered]:
        """The tasks whose outboxes have been full for too long."""
        found: list[Undelivered] = []
        while len(found) < op.limit:
            task = self.outboxes.give_next(now, op.stale_seconds, PATROL_HOLD_SECONDS)
            if task is None:
                break
            record = self.tasks[task]
            found.append(
                Undelivered(
                    task=task,
                    generation=record.generation,
                    state=record.state,
                    placement=0 if record.state in FINAL else record.placement,
                    children=record.spec.children,
                    copies=record.known_copies(),
                    winner=record.winner if record.state is TaskState.COMPLETE else NOBODY,
                )
            )
        return found

    def _find_suspects(self, op: Patrol, now: float) -> list[Suspect]:
        """The attempts not given to a patrol for longest. Each then goes to the list's end."""
        found: list[Suspect] = []
        while self._begun and len(found) < SUSPECTS_MAX:
            name, (task, since) = next(iter(self._begun.items()))
            if since + op.suspect_seconds > now:
                break
            del self._begun[name]
            record = self.tasks.get(task)
            attempt = record.attempts.get(name) if record is not None else None
            if attempt is not None:
                self._begun[name] = (task, now)
                found.append(Suspect(task, name, attempt.node, attempt.incarnation))
        return found

    def _recounted(self, op: Recounted, now: float) -> Answer:
        repaired = (self.recounted_epoch, self.recounted_restored)
        self.recounted_epoch, self.recounted_restored = max(repaired, (op.epoch, op.restored))
        return Findings(self.index, (), (), (), self.epoch, self._is_recount_due, self.restored)

    def _tally(self, op: Tally, now: float) -> Answer:
        return Tallied(self.index, dict(self.counts), self.epoch)


def _orphans(node: NodeRecord, stays: Sequence[Stay]) -> Orphans:
    return Orphans(
        node.id,
        node.incarnation,
        tuple(stay.entry for stay in stays),
        tuple(stay.ticket for stay in stays),
    )
