"""The submission role of a node: has a workflow promised, stage by stage, and then confirmed.

All handlers take what has happened and return what must be sent. A workflow is accepted only when
every node has said that its booking is confirmed; if one cannot be had, all are released.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from dataward.deadlines.frames import Allocation, awaited, frames_of_stage
from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.reservations import Promise, WantedBytes, WantedSlots


class AskKey(NamedTuple):
    """Names a request: tasks ``low`` to ``high`` of a sequence. A cut gives two keys from one."""

    workflow: int
    sequence: int
    attempt: int
    low: int
    high: int


class AskFor(NamedTuple):
    key: AskKey
    wanted: WantedSlots


class BookingRef(NamedTuple):
    """A booking of a node, by the node's own number; and other slots of its host that serve too.

    A task of two cores has the first slot ``beside`` the node, one of three the first two.
    """

    node: int
    number: int
    beside: tuple[int, ...] = ()


class PlacedTask(NamedTuple):
    """Where a task was promised, and other slots of that node's host that it takes."""

    node: int
    promise: Promise
    beside: tuple[int, ...] = ()


class ConfirmAt(NamedTuple):
    booking: BookingRef
    key: AskKey


class ReleaseAt(NamedTuple):
    node: int
    key: AskKey


SubmissionOrder = AskFor | ConfirmAt | ReleaseAt


class SubmissionState(Enum):
    ASKING = "asking"
    CONFIRMING = "confirming"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(slots=True)
class WorkflowSubmission:
    """One workflow on its way to a promise."""

    number: int
    allocation: Allocation
    attempts_max: int = 3  # of a request that nobody has answered
    at_once_max: int = 1 << 30  # sequences of a stage that are asked for at a time
    data: Mapping[int, WantedBytes] = field(default_factory=dict)  # what tasks read
    state: SubmissionState = SubmissionState.ASKING
    stage: int = 0
    bookings: dict[AskKey, BookingRef] = field(default_factory=dict)
    unconfirmed: set[AskKey] = field(default_factory=set)
    unreleased: dict[tuple[AskKey, int], None] = field(default_factory=dict)  # and at which node
    _attempts: dict[int, int] = field(default_factory=dict)  # of each sequence asked for
    _left: dict[int, int] = field(default_factory=dict)  # tasks without a promise
    _frames: dict[int, Frame] = field(default_factory=dict)  # of the stage's sequences
    _waiting: list[int] = field(default_factory=list)  # sequences of the stage, the last first
    _silences: int = 0

    def begin(self) -> list[SubmissionOrder]:
        return self._ask_stage()

    def on_reserved(
        self, key: AskKey, booking: BookingRef, promises: Sequence[Promise]
    ) -> list[SubmissionOrder]:
        """A node has reserved tasks. Answers to requests that are over free that node again."""
        if self.bookings.get(key) == booking:
            return []
        if not self._is_open(key):
            return [self._release(key, booking.node)]
        self.bookings[key] = booking
        tasks = self.allocation.outline.sequences[key.sequence]
        for task, promise in zip(tasks[key.low : key.high], promises, strict=True):
            self.allocation.promise(task, *promise)
        self._left[key.sequence] -= key.high - key.low
        if any(self._left[s] for s in self.allocation.outline.stages[self.stage]):
            return self._ask_more()
        self.stage += 1
        if self.stage < self.allocation.outline.width:
            return self._ask_stage()
        self.state = SubmissionState.CONFIRMING
        self.unconfirmed = set(self.bookings)
        return [ConfirmAt(booking, key) for key, booking in self.bookings.items()]

    def on_refused(self, key: AskKey, *, is_certain: bool = False) -> list[SubmissionOrder]:
        """Nobody can serve a request, or a piece of it, as far as the tree knows now.

        What is known of holes is some seconds old, and a hole that another request was sent after
        counts as taken. So the owner asks again after a while (`on_silence`), and gives up if the
        last attempt was in vain, or if every leaf was tried.
        """
        if not self._is_open(key):
            return []
        is_last = self._attempts[key.sequence] >= self.attempts_max
        return self._give_up() if is_certain or is_last else []

    def on_silence(self, now: float) -> list[SubmissionOrder]:
        """What to say again after a while without answers.

        A booking that nobody confirms is at a node that is gone: then the workflow is refused.
        Releases are repeated until the last booking is over.
        """
        if self.state is SubmissionState.ASKING:
            return self._ask_again()
        if self.state is SubmissionState.CONFIRMING:
            self._silences += 1
            if self._silences > self.attempts_max:
                return self._give_up()
            return [ConfirmAt(self.bookings[key], key) for key in sorted(self.unconfirmed)]
        if now > self.allocation.deadline:
            self.unreleased = {}
        return [ReleaseAt(node, key) for key, node in self.unreleased]

    def on_confirmed(self, key: AskKey, booking: BookingRef) -> None:
        if self.state is SubmissionState.CONFIRMING and self.bookings.get(key) == booking:
            self.unconfirmed.discard(key)
            if not self.unconfirmed:
                self.state = SubmissionState.ACCEPTED

    def on_expired(self, key: AskKey, booking: BookingRef) -> list[SubmissionOrder]:
        """A booking was gone when it was to be confirmed."""
        waits = self.state is SubmissionState.CONFIRMING and key in self.unconfirmed
        return self._give_up() if waits and self.bookings.get(key) == booking else []

    def on_released(self, key: AskKey, node: int) -> None:
        self.unreleased.pop((key, node), None)

    def withdraw(self) -> list[SubmissionOrder]:
        """Give back what was promised: it is wanted no more."""
        return self._give_up()

    def placed(self) -> dict[int, PlacedTask]:
        """For each promised task, the node and the promise."""
        allocation, found = self.allocation, {}
        for key, booking in self.bookings.items():
            for task in allocation.outline.sequences[key.sequence][key.low : key.high]:
                promise = Promise(allocation.latest_starts[task], allocation.latest_ends[task])
                beside = booking.beside[: allocation.outline.width_of(task) - 1]
                found[task] = PlacedTask(booking.node, promise, beside)
        return found

    def on_lost_node(self, node: int) -> list[SubmissionOrder]:
        """A node with bookings is gone before the workflow was accepted."""
        for key in [key for key, at in self.unreleased if at == node]:
            del self.unreleased[key, node]
        is_over = self.state in (SubmissionState.ACCEPTED, SubmissionState.REFUSED)
        is_here = any(booking.node == node for booking in self.bookings.values())
        return self._give_up() if is_here and not is_over else []

    def _is_open(self, key: AskKey) -> bool:
        """Whether an answer to this request is still waited for."""
        if self.state is not SubmissionState.ASKING or self._left.get(key.sequence, 0) == 0:
            return False
        is_current = self._attempts.get(key.sequence, 0) == key.attempt
        others = [k for k in self.bookings if k.sequence == key.sequence]
        return is_current and all(k.high <= key.low or key.high <= k.low for k in others)

    def _ask_stage(self) -> list[SubmissionOrder]:
        """Ask for the sequences of the stage, as many at a time as may be, the widest first.

        Those of one core find room in what these leave; the other way round, slots of one host
        would hardly be free together any more.
        """
        outline = self.allocation.outline
        stage = outline.stages[self.stage]
        self._frames = self._stage_frames()
        self._left |= {sequence: len(outline.sequences[sequence]) for sequence in stage}
        self._waiting = list(reversed(stage))
        self._waiting.sort(key=self._width)
        return self._ask_more()

    def _width(self, sequence: int) -> int:
        outline = self.allocation.outline
        return max(map(outline.width_of, outline.sequences[sequence])) if outline.cores else 1

    def _ask_more(self) -> list[SubmissionOrder]:
        """Ask for sequences that wait, so that enough requests of the stage are on their way."""
        orders: list[SubmissionOrder] = []
        under_way = len(self._missing())
        while self._waiting and under_way < self.at_once_max:
            orders.append(self._asked_for(self._waiting.pop()))
            under_way += 1
        return orders

    def _missing(self) -> list[int]:
        """The stage's sequences that were asked for and are not all reserved."""
        waiting = set(self._waiting)
        stage = self.allocation.outline.stages[self.stage]
        return [sequence for sequence in stage if self._left[sequence] and sequence not in waiting]

    def _stage_frames(self) -> dict[int, Frame]:
        stage = self.allocation.outline.stages[self.stage]
        return dict(zip(stage, frames_of_stage(self.allocation, self.stage), strict=True))

    def _asked_for(self, sequence: int) -> AskFor:
        outline = self.allocation.outline
        tasks = outline.sequences[sequence]
        attempt = self._attempts.get(sequence, 0) + 1
        self._attempts[sequence] = attempt
        self._left[sequence] = len(tasks)
        work = [outline.work[task] for task in tasks]
        flags = awaited(self.allocation, tasks)
        nothing = WantedBytes(0.0)
        staging = [self.data.get(task, nothing) for task in tasks] if self.data else []
        frame = self._frames[sequence]
        cores = [outline.width_of(task) for task in tasks] if outline.cores else []
        wanted = WantedSlots(work, frame, flags, self.allocation.pace, staging, cores)
        return AskFor(AskKey(self.number, sequence, attempt, 0, len(tasks)), wanted)

    def _ask_again(self) -> list[SubmissionOrder]:
        """Ask once more for the sequences that are not all reserved, from their start."""
        missing = self._missing()
        if any(self._attempts[sequence] >= self.attempts_max for sequence in missing):
            return self._give_up()
        orders: list[SubmissionOrder] = []
        for key in [key for key in self.bookings if key.sequence in missing]:
            orders.append(self._release(key, self.bookings.pop(key).node))
            for task in self.allocation.outline.sequences[key.sequence]:
                self.allocation.withdraw(task)
        self._frames = self._stage_frames()
        return [*orders, *map(self._asked_for, missing)]

    def _give_up(self) -> list[SubmissionOrder]:
        self.state = SubmissionState.REFUSED
        booked, self.bookings, self.unconfirmed = self.bookings, {}, set()
        return [self._release(key, booking.node) for key, booking in booked.items()]

    def _release(self, key: AskKey, node: int) -> ReleaseAt:
        """Free a booking; until its node has said that it is free, this is said again."""
        self.unreleased[key, node] = None
        return ReleaseAt(node, key)


def cut_key(key: AskKey, count: int) -> tuple[AskKey, AskKey]:
    """The names of two pieces of a request, the first with so many tasks."""
    middle = key.low + count
    return key._replace(high=middle), key._replace(low=middle)
