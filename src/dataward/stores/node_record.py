"""What a shard keeps about one node: its lease, its queue, and the tasks it holds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

import msgspec

from dataward.model.answers import Claimed, Membership
from dataward.model.ids import NodeId
from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId

PAST_MAX = 64  # outdated entries of a node's queue that are tolerated


class Stay(msgspec.Struct, frozen=True):
    """One stay of a task at a node, from being queued to being let go; ``ticket`` is its name."""

    entry: QueueEntry
    ticket: int


@dataclass(slots=True)
class NodeRecord:
    """``seized`` means that others have begun to take this incarnation's tasks over.

    A task is queued or held, not both. A task that is queued while it is held waits in ``again``
    until the node lets go of it: the node may be done with the stay that it holds, and not yet
    know of the new one.
    """

    id: NodeId
    incarnation: int = -1
    lease_until: float = -inf
    lease_seconds: float = 0.0
    load_seconds: float = 0.0
    seized: bool = False
    held: dict[TaskId, Stay] = field(default_factory=dict)
    again: dict[TaskId, Stay] = field(default_factory=dict)
    queued: dict[TaskId, Stay] = field(default_factory=dict)
    queued_seconds: float = 0.0
    last_request: tuple[int, int] = (-1, -1)
    last_answer: Claimed | None = None
    patrolled_until: float = -inf
    _heap: list[tuple[QueueEntry, int]] = field(default_factory=list)

    def membership(self, now: float, epoch: int, incarnation: int | None = None) -> Membership:
        return Membership(  # by position, which takes half the time: every third answer is one
            self.id,
            incarnation is None or self.is_current(incarnation),
            now <= self.lease_until and not self.seized,
            self.incarnation,
            len(self.queued),
            self.load_seconds + self.queued_seconds,
            epoch,
            self.load_seconds,
        )

    def is_current(self, incarnation: int) -> bool:
        return incarnation == self.incarnation and not self.seized

    def enqueue(self, entry: QueueEntry, ticket: int) -> None:
        """Queue a task. If it is queued already, the new ticket replaces the old one."""
        if entry.task in self.held:
            self.again[entry.task] = Stay(entry, ticket)
            return
        if stay := self.queued.get(entry.task):
            self._unqueue(stay)
        self.queued[entry.task] = Stay(entry, ticket)
        self.queued_seconds += entry.seconds
        heappush(self._heap, (entry, ticket))
        self._tidy()

    def claim(self) -> Stay | None:
        """The most urgent queued task, now held, or None. Outdated heap entries are skipped."""
        while self._heap:
            entry, ticket = heappop(self._heap)
            stay = self.queued.get(entry.task)
            if stay is not None and stay.ticket == ticket:
                self._unqueue(stay)
                self.held[entry.task] = stay
                return stay
        return None

    def let_go(self, task: TaskId, ticket: int) -> None:
        """End the stay with this ticket, or with ticket -1 every stay of the task."""
        if (stay := self.again.get(task)) and ticket in (stay.ticket, -1):
            del self.again[task]
        if (stay := self.queued.get(task)) and ticket in (stay.ticket, -1):
            self._unqueue(stay)
            self._tidy()
        if (stay := self.held.get(task)) and ticket in (stay.ticket, -1):
            self._release(task)

    def _release(self, task: TaskId) -> None:
        del self.held[task]
        if stay := self.again.pop(task, None):
            self.enqueue(stay.entry, stay.ticket)

    def _tidy(self) -> None:
        """Drop outdated heap entries before they outnumber the others: a dead node claims none."""
        if len(self._heap) > 2 * len(self.queued) + PAST_MAX:
            self._heap = [(stay.entry, stay.ticket) for stay in self.queued.values()]
            heapify(self._heap)

    @property
    def past_entries(self) -> int:
        """How many outdated entries there are beyond those that are tolerated."""
        return max(len(self._heap) - 2 * len(self.queued) - PAST_MAX, 0)

    def _unqueue(self, stay: Stay) -> None:
        del self.queued[stay.entry.task]
        self.queued_seconds = self.queued_seconds - stay.entry.seconds if self.queued else 0.0

    def stays(self) -> Iterator[Stay]:
        """Every stay that is orphaned if this node is dead: held, then again, then queued."""
        yield from self.held.values()
        yield from self.again.values()
        yield from self.queued.values()

    def rejoin(self, incarnation: int, lease_seconds: float, now: float) -> None:
        """Come back; the tasks that the last incarnation held are queued again."""
        if incarnation == self.incarnation and self.seized:
            return  # a repeated Join of an incarnation whose tasks are being taken over
        if incarnation != self.incarnation:
            self.incarnation = incarnation
            self.seized = False
            self.patrolled_until = -inf
            self.load_seconds = 0.0
            self.hold_only({})
        self.lease_seconds = lease_seconds
        self.lease_until = now + lease_seconds

    def hold_only(self, entries: dict[TaskId, Stay]) -> None:
        """Hold these tasks only; other tasks held so far are queued again."""
        for task, stay in list(self.held.items()):
            self._release(task)
            if task not in self.queued:  # if it was in ``again``, that newer ticket counts
                self.enqueue(stay.entry, stay.ticket)
        for task, stay in entries.items():
            if kept := self.queued.get(task):
                self._unqueue(kept)
                stay = kept
            self.held[task] = stay
