"""The execution role of a node: reserve, confirm, release, expire; and what to run next.

A reservation is held for a short time and freed unless it is confirmed, so a lost message never
keeps a hole from others for long. Every operation can be repeated: the second time changes nothing.

A host with several slots has a role for each. A task of several cores is reserved in as many of
them for the same time: in the role that was asked, which books it, and in slots that its mates
lend.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from dataward.deadlines.local_schedule import (
    ROUNDING_SECONDS,
    Frame,
    QueueSlot,
    TimeHole,
    best_hole,
    holes,
    is_kept,
    next_to_start,
    paced,
    pushed_starts,
    reserved,
)
from dataward.deadlines.shared_holes import SharedHole, best_shared_hole

EXPIRY_SECONDS = 60.0  # some ten times what an allocation takes; PeerComp does not say


class Promise(NamedTuple):
    """When a task starts at the latest, and when it ends at the latest."""

    latest_start: float
    latest_end: float

    @property
    def seconds(self) -> float:
        return self.latest_end - self.latest_start


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
    cores: Sequence[int] = ()  # that each task takes at the same time; empty: one each

    def part(self, low: int, high: int, frame: Frame, awaited: Sequence[bool]) -> "WantedSlots":
        """Some of the tasks, in a frame of their own."""
        staging, cores = self.staging[low:high], self.cores[low:high]
        return WantedSlots(self.work[low:high], frame, awaited, self.pace, staging, cores)

    @property
    def width(self) -> int:
        """The most cores that a task takes."""
        return max(self.cores, default=1)

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
    beside: tuple[int, ...] = ()  # slots that lend their time: a task of two cores has the first


class LentTo(NamedTuple):
    """Whom a slot lends time: the slot that has booked it, and the request."""

    slot: int
    request: Hashable


@dataclass(slots=True)
class ExecutionRole:
    """The queue of a node, and which requests its slots are booked by.

    The ``task`` of a slot is (request, place in the sequence); of one that is lent to a mate,
    (`LentTo`, place in the sequence).
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
    slot: int = 0  # the number among those of the host
    mates: Mapping[int, "ExecutionRole"] = field(default_factory=dict, repr=False, compare=False)
    lent: dict[LentTo, Booking] = field(default_factory=dict)

    def reserve(self, request: Hashable, wanted: WantedSlots, now: float) -> Booking | None:
        """A booking for the tasks of a sequence, or None if no hole holds it.

        Tasks of several cores are reserved in slots of mates as well, all of them or none.
        """
        known = self.booked.get(request)
        if known is not None:
            return known
        seconds = wanted.seconds(self.speed, self.place, self.bytes_per_second)
        hole = self.hole_for(wanted, now)
        if hole is None:
            return None
        frame = Frame(hole.start, hole.end)
        deadlines = paced(frame, seconds, wanted.awaited, wanted.pace)
        slots = [
            QueueSlot(end, length, (request, place))
            for place, (end, length) in enumerate(zip(deadlines, seconds, strict=True))
        ]
        self.queue = reserved(self.queue, slots)
        promises = [Promise(slot.deadline - slot.seconds, slot.deadline) for slot in slots]
        expires = min(now + EXPIRY_SECONDS, promises[0].latest_start)
        self.bookings_made += 1
        booking = Booking(self.bookings_made, promises, expires, beside=hole.beside)
        self.booked[request] = booking
        for count, number in enumerate(hole.beside):
            lent = LentTo(self.slot, request)
            theirs = [
                QueueSlot(slot.deadline, slot.seconds, (lent, place))
                for place, (slot, cores) in enumerate(zip(slots, wanted.cores, strict=True))
                if cores > count + 1
            ]
            self.mates[number].lend(lent, booking, theirs)
        return booking

    def hole_for(self, wanted: WantedSlots, now: float) -> SharedHole | None:
        """The part of the smallest hole that serves, or None.

        For tasks of several cores, a time in which enough mates are free from the first task to the
        last, also while tasks of one core run.
        """
        startline, deadline = wanted.frame
        frame = Frame(max(startline, now), deadline)
        seconds = sum(wanted.seconds(self.speed, self.place, self.bytes_per_second))
        own, beside = self.holes(now, deadline), wanted.width - 1
        if beside > len(self.mates):
            return None
        if beside:
            theirs = {number: mate.holes(now, deadline) for number, mate in self.mates.items()}
            return best_shared_hole(own, theirs, beside, frame, seconds)
        hole = best_hole(own, frame, seconds)
        return None if hole is None else SharedHole(*hole)

    def lend(self, to: LentTo, booking: Booking, slots: Sequence[QueueSlot]) -> None:
        """Reserve time for tasks of several cores that a mate has booked."""
        self.lent[to] = booking
        self.queue = reserved(self.queue, slots)

    def take_back(self, lent: LentTo) -> None:
        """What was lent is not booked any more."""
        if self.lent.pop(lent, None) is not None:
            self._drop(lent)

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
        """Free what is booked and has not started, in the slots of mates as well."""
        booking = self.booked.pop(request, None)
        if booking is not None:
            self._drop(request)
            for number in booking.beside:
                self.mates[number].take_back(LentTo(self.slot, request))

    def expire(self, now: float) -> bool:
        """Free bookings that were not confirmed in time, and those that are over. True if any."""
        over = [
            request
            for request, booking in self.booked.items()
            if booking.expires < now
            or booking.promises[-1].latest_end + self.patience_seconds < now
        ]
        for request in over:
            self.release(request)
        return bool(over)

    def start_next(self, now: float, is_ready: Callable[[Hashable, int], bool]) -> QueueSlot | None:
        """Take the task to start now from the queue of an idle node; it runs from now on.

        For nodes of one slot.
        """
        assert not self.mates

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
        """Every promise can be kept, and every slot is booked by somebody.

        A task of several cores has the same time in all of its slots, as late as can be: nothing
        behind it in any of them has pushed it to an earlier time.
        """
        assert is_kept(self.queue, max(self.free_from, min(now, self._first_start())))
        assert {slot.task[0] for slot in self.queue} <= self.booked.keys() | self.lent.keys()
        for lent, booking in self.lent.items():
            assert self.mates[lent.slot].booked.get(lent.request) is booking, "lent to nobody"
            assert self.slot in booking.beside
        starts = pushed_starts(self.queue)
        for slot, start in zip(self.queue, starts, strict=True):
            booker, place = slot.task
            if booker in self.lent or self._is_shared(booker, place):
                latest = slot.deadline - slot.seconds
                assert abs(start - latest) < ROUNDING_SECONDS, "two tasks have the same time"
            if booker in self.lent:
                promise = self.lent[booker].promises[place]
                assert promise == (slot.deadline - slot.seconds, slot.deadline)

    def _is_shared(self, request: Hashable, place: int) -> bool:
        booking = self.booked[request]
        tasks = {
            (slot.task[0], slot.task[1]) for n in booking.beside for slot in self.mates[n].queue
        }
        return (LentTo(self.slot, request), place) in tasks

    def _first_start(self) -> float:
        return min((slot.deadline - slot.seconds for slot in self.queue), default=inf)

    def _drop(self, booker: Hashable) -> None:
        self.queue = [slot for slot in self.queue if slot.task[0] != booker]


def as_mates(roles: Iterable[ExecutionRole]) -> None:
    """Have these be the slots of one host."""
    numbered = dict(enumerate(roles))
    for number, role in numbered.items():
        role.slot = number
        role.mates = {other: mate for other, mate in numbered.items() if other != number}
