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


class WantedBytes(NamedTuple):
    """What a task reads from outside its sequence: bytes in all, and bytes at some places."""

    bytes: float
    held: Sequence[tuple[int, float]] = ()  # (place, bytes there)

    def missing(self, place: int) -> float:
        return self.bytes - sum(held for at, held in self.held if at == place)


class WantedSlots(NamedTuple):
    """What is asked of a node: the work of a sequence's tasks, when, and who waits for them."""

    work: Sequence[float]  # seconds at speed 1
    frame: Frame
    awaited: Sequence[bool]
    pace: float = 1.0
    staging: Sequence[WantedBytes] = ()  # of each task; empty: nothing to speak of

    def part(self, low: int, high: int, frame: Frame, awaited: Sequence[bool]) -> "WantedSlots":
        """Some of the tasks, in a frame of their own."""
        return WantedSlots(self.work[low:high], frame, awaited, self.pace, self.staging[low:high])

    def seconds(self, speed: float, place: int, bytes_per_second: float) -> list[float]:
        """How long each task takes; what must be brought in counts for the first."""
        seconds = [work / speed for work in self.work]
        seconds[0] += sum(one.missing(place) for one in self.staging) / bytes_per_second
        return seconds

    @property
    def best_place(self) -> int | None:
        """The place that has the most of what the tasks read, the lowest of equals; or None."""
        held: dict[int, float] = {}
        for one in self.staging:
            for place, size_bytes in one.held:
                held[place] = held.get(place, 0.0) + size_bytes
        return min(held, key=lambda place: (-held[place], place), default=None)


@dataclass(slots=True)
class Booking:
    """A sequence that a node has reserved time for.

    A node numbers its bookings. A request that comes once more after its booking was released makes
    another booking, which a late confirmation of the first must not confirm.
    """

    number: int
    promises: list[Promise]
    expires: float
    is_confirmed: bool = False


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
    hold_seconds: float = inf  # how long a confirmed booking stays that nobody has adopted
    place: int = -1  # where its files are: nodes of one machine may share them
    bytes_per_second: float = 1e9  # at which files come in from other places

    def reserve(self, request: Hashable, wanted: WantedSlots, now: float) -> Booking | None:
        """A booking for the tasks of a sequence, or None if no hole holds it."""
        known = self.booked.get(request)
        if known is not None:
            return known
        seconds = wanted.seconds(self.speed, self.place, self.bytes_per_second)
        hole = self.hole_for(wanted, now)
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

    def hole_for(self, wanted: WantedSlots, now: float) -> TimeHole | None:
        """The part of the smallest hole that serves, or None."""
        startline, deadline = wanted.frame
        seconds = wanted.seconds(self.speed, self.place, self.bytes_per_second)
        found = holes(self.queue, max(self.free_from, now), deadline)
        return best_hole(found, Frame(max(startline, now), deadline), sum(seconds))

    def confirm(self, request: Hashable, number: int, now: float) -> bool:
        """Make a booking final. False if it is no more."""
        self.expire(now)
        booking = self.booked.get(request)
        if booking is None or booking.number != number:
            return False
        if not booking.is_confirmed:
            booking.is_confirmed, booking.expires = True, now + self.hold_seconds
        return True

    def adopt(self, booker: Hashable, slots: Sequence[QueueSlot]) -> None:
        """Have promises that were made, perhaps before this node began; they replace older ones.

        The ``task`` of each slot must be a tuple that begins with the booker.
        """
        self.release(booker)
        if slots:
            self.queue = reserved(self.queue, slots)
            promises = [Promise(slot.deadline - slot.seconds, slot.deadline) for slot in slots]
            self.booked[booker] = Booking(0, promises, inf, is_confirmed=True)

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

    def take(self, task: Hashable) -> QueueSlot | None:
        """The slot of a task, which is no longer queued; None if it has none."""
        found = next((slot for slot in self.queue if slot.task == task), None)
        if found is not None:
            self.queue = [slot for slot in self.queue if slot is not found]
        return found

    def busy_until(self, free_from: float) -> None:
        """What runs ends then."""
        self.free_from = free_from

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
