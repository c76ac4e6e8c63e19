"""Shards with one safeguard missing each: what seeds of simulation and store tests must notice."""

from math import inf

from dataward.model.answers import Answer, Orphans, Refusal, Undelivered
from dataward.model.operations import Claim, Commit, Notify, Patrol, Seize
from dataward.model.states import TaskState
from dataward.stores.shard import Shard
from dataward.stores.task_record import TaskRecord


class WithoutFence(Shard):
    """A commit is accepted from a node whose task was taken over."""

    def _commit(self, op: Commit, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is not None and record.why_void(op.node, op.attempt) is Refusal.FENCED:
            del record.void_before[op.node]
        return super()._commit(op, now)


class CountsNotices(Shard):
    """Every notice counts a parent off, even one that was heard before."""

    def _notify(self, op: Notify, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is not None and record.notices.get(op.parent, 0) >= op.generation:
            record.waiting_for = max(record.waiting_for - 1, 0)
            record.settle(now, self.counts)
        return super()._notify(op, now)


class NeverRedelivers(Shard):
    """What a node did not live to tell, nobody tells."""

    def _find_undelivered(self, op: Patrol, now: float) -> list[Undelivered]:
        return []


class OrphansTheLiving(Shard):
    """A patrol takes every node for dead, whatever its lease."""

    def _find_orphans(self, op: Patrol, now: float) -> list[Orphans]:
        for node in self.nodes.values():
            node.lease_until = -inf
            self._list_lease(node)
        return super()._find_orphans(op, now)


class SeizesTheLiving(Shard):
    """Whoever is asked after is dead, whatever its lease."""

    def _seize(self, op: Seize, now: float) -> Answer:
        self._node(op.node).lease_until = -inf
        return super()._seize(op, now)


class TakesBackEnds(Shard):
    def _take_back_end(self, record: TaskRecord) -> None:
        self.counts[record.state] -= 1
        self.counts[TaskState.STAGE_OUT] += 1
        record.state = TaskState.STAGE_OUT
        record.generation -= 1


class CommitsTwice(TakesBackEnds):
    """The second replica to commit is told that it won, too."""

    def _commit(self, op: Commit, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is not None and record.winner not in ("", op.attempt):
            self._take_back_end(record)
        return super()._commit(op, now)


class ForgetsClaims(Shard):
    """A claim repeated because its answer was lost takes more tasks, and the first are nobody's."""

    def _claim(self, op: Claim, now: float) -> Answer:
        self._node(op.node).last_request = (-1, -1)
        return super()._claim(op, now)


class CompletesTheRemoved(TakesBackEnds):
    """The attempt at a removed task is told that it won, if it commits."""

    def _commit(self, op: Commit, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is not None and record.state is TaskState.REMOVED:
            self._take_back_end(record)
        return super()._commit(op, now)


class SparesTheYoung(Shard):
    """Whoever hears that a parent was removed goes on waiting for it."""

    def _notify(self, op: Notify, now: float) -> Answer:
        return self._about(op.task, files=False) if op.removed else super()._notify(op, now)


BROKEN_SHARDS = (
    WithoutFence,
    CountsNotices,
    NeverRedelivers,
    OrphansTheLiving,
    SeizesTheLiving,
    CommitsTwice,
    ForgetsClaims,
    CompletesTheRemoved,
    SparesTheYoung,
)
