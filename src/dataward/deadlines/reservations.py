"""The execution role of a node: reserve, confirm, release, expire; and what to run next.

A reservation is held for a short time and freed unless it is confirmed, so a lost message never
keeps a hole from others for long. Every operation can be repeated: the second time changes nothing.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from dataward.deadlines.local_schedule import (
    Frame,
    QueueSlot,
    TimeHole,
    best_hole,
    holes,
    is_kept,
    next_to_start,
    paced,
    reserved,
)

EXPIRY_SECONDS = 60.0  # some ten times what an allocation takes; PeerComp does not say


class Promise(NamedTuple):
    """When a task starts at the latest, and when it ends at the latest."""

    latest_start: float
    latest_end: float


class WantedSlots(NamedTuple):
    """What is asked of a node: the work of a sequence's tasks, when, and who waits for them."""

    work: Sequence[float]  # seconds at speed 1
    frame: Frame
    awaited: Sequence[bool]
    pace: float = 1.0


@dataclass(slots=True)
class Booking:
    """A sequence that a node has reserved time for; confirmed bookings never expire.

    A node numbers its bookings. A request that comes once more after its booking was released makes
    another booking, which a late confirmation of the first must not confirm.
    """

    number: int
    promises: list[Promise]
    expires: float

    @property
    def is_confirmed(self) -> bool:
        return self.expires == inf


@dataclass(slots=True)
class ExecutionRole:
    """The queue of a node, and which requests its slots are booked by.

    The ``task`` of a slot is (request, place in the sequence).
    """

    speed: float = 1.0
    free_from: float = 0.0  # when the running task ends
    queue: list[QueueSlot] = field(default_factory=list)
    booked: dict[Hashable, Booking] = field(default_factory=dict)
    bookings_made: int = 0
    patience_seconds: float = 0.0  # how long a confirmed booking stays that should be over

    def reserve(self, request: Hashable, wanted: WantedSlots, now: float) -> Booking | None:
        """A booking for the tasks of a sequence, or None if no hole holds it."""
        known = self.booked.get(request)
        if known is not None:
            return known
        startline, deadline = wanted.frame
        seconds = [work / self.speed for work in wanted.work]
        frame = Frame(max(startline, now), deadline)
        found = holes(self.queue, max(self.free_from, now), deadline)
        hole = best_hole(found, frame, sum(seconds))
        if hole is None:
            return None
        deadlines = paced(Frame(*hole), seconds, wanted.awaited, wanted.pace)
        slots = [
            QueueSlot(end, length, (request, place))
            for place, (end, length) in enumerate(zip(deadlines, seconds, strict=True))
        ]
        self.queue = reserved(self.queue, slots)
        promises = [Promise(slot.deadline - slot.seconds, slot.deadline) for slot in slots]
        expires = min(now + EXPIRY_SECONDS, promises[0].latest_start)
        self.bookings_made += 1
        booking = self.booked[request] = Booking(self.bookings_made, promises, expires)
        return booking

    def confirm(self, request: Hashable, number: int, now: float) -> bool:
        """Make a booking final. False if it is no more."""
        self.expire(now)
        booking = self.booked.get(request)
        if booking is None or booking.number != number:
            return False
        booking.expires = inf
        return True

    def release(self, request: Hashable) -> None:
        """Free what is booked and has not started."""
        if self.booked.pop(request, None) is not None:
            self._drop(lambda booker: booker == request)

    def expire(self, now: float) -> bool:
        """Free bookings that were not confirmed in time, and those that are over. True if any."""
        over = {
            request
            for request, booking in self.booked.items()
            if booking.expires < now
            or booking.promises[-1].latest_end + self.patience_seconds < now
        }
        for request in over:
            del self.booked[request]
        if over:
            self._drop(over.__contains__)
        return bool(over)

    def start_next(self, now: float, is_ready: Callable[[Hashable, int], bool]) -> QueueSlot | None:
        """Take the task to start now from the queue of an idle node; it runs from now on."""

        def may_start(task: tuple[Hashable, int]) -> bool:
            request, place = task
            return self.booked[request].is_confirmed and is_ready(request, place)

        place = next_to_start(self.queue, now, may_start)
        if place is None:
            return None
        slot = self.queue.pop(place)
        self.free_from = now + slot.seconds
        return slot

    def holes(self, now: float, until: float) -> list[TimeHole]:
        return holes(self.queue, max(self.free_from, now), until)

    def check_invariants(self, now: float) -> None:
        """Every promise can be kept, and every slot is booked by somebody."""
        assert is_kept(self.queue, max(self.free_from, min(now, self._first_start())))
        assert {slot.task[0] for slot in self.queue} <= self.booked.keys()

    def _first_start(self) -> float:
        return min((slot.deadline - slot.seconds for slot in self.queue), default=inf)

    def _drop(self, is_dropped: Callable[[Hashable], bool]) -> None:
        self.queue = [slot for slot in self.queue if not is_dropped(slot.task[0])]
