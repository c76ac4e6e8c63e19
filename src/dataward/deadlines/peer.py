"""A peer of the tree in its three roles: execution, routing and submission.

`receive` and `tick` take what happens and return what to send; nothing here waits, sleeps or knows
a network. A live node and a simulated one drive the same peer. Where it is in the tree is in
`tree_place.py`; here are requests for holes, bookings, and workflows on their way to a promise.
"""

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from random import Random
from typing import Any

from dataward.deadlines.frames import Allocation
from dataward.deadlines.group import PERIOD_SECONDS
from dataward.deadlines.reference_points import reference_points
from dataward.deadlines.reservations import ExecutionRole, WantedBytes
from dataward.deadlines.routing import FALLS, fallen, pass_on
from dataward.deadlines.submission import (
    AskFor,
    AskKey,
    BookingRef,
    ConfirmAt,
    SubmissionOrder,
    SubmissionState,
    WorkflowSubmission,
)
from dataward.deadlines.summary import HoleCounts, classes_of, summary_of
from dataward.deadlines.tree_messages import (
    Address,
    BookingConfirmed,
    BookingReleased,
    ConfirmBooking,
    GroupId,
    HoleRequest,
    NoHole,
    ReleaseBooking,
    Reserved,
    Send,
    TreeMessage,
)
from dataward.deadlines.tree_place import TreePlace

PASSED_MAX = 1000  # requests passed on that are remembered
ANSWER_SECONDS = 6 * PERIOD_SECONDS  # after that without an answer, something was lost
AGAIN_SECONDS = 2 * PERIOD_SECONDS  # after a refusal, until a request is made again


@dataclass
class Peer:
    """One peer, with its place in the tree, what its node has promised, and what it asks for."""

    address: Address
    random: Random
    role: ExecutionRole = field(default_factory=ExecutionRole)
    orphan_since: InitVar[float] = 0.0
    submissions: dict[int, WorkflowSubmission] = field(default_factory=dict)
    place: TreePlace = field(init=False)
    _passed: dict[tuple[AskKey, GroupId | None, int], None] = field(default_factory=dict)
    _asked: dict[int, float] = field(default_factory=dict)  # when each submission last heard

    def __post_init__(self, orphan_since: float) -> None:
        self.place = TreePlace(self.address, self.random, self.summary, orphan_since=orphan_since)
        self._handlers: dict[type[Any], Callable[[Any, float], list[Send]]] = {
            HoleRequest: self._on_ask, Reserved: self._on_reserved, NoHole: self._on_refused,
            ConfirmBooking: self._on_confirm, BookingConfirmed: self._on_booking_confirmed,
            ReleaseBooking: self._on_release, BookingReleased: self._on_booking_released,
        }  # fmt: skip

    def receive(self, message: TreeMessage, now: float) -> list[Send]:
        return self._handlers.get(type(message), self.place.receive)(message, now)

    def tick(self, now: float) -> list[Send]:
        """What is said in every period."""
        self.role.expire(now)
        sends = self.place.tick(now)
        for number, submission in self.submissions.items():
            if now - self._asked.get(number, now) >= ANSWER_SECONDS:
                self._asked[number] = now
                sends += self._sent(submission.on_silence(now))
        return sends

    def submit(
        self,
        number: int,
        allocation: Allocation,
        now: float,
        attempts_max: int = 3,
        at_once_max: int = 1 << 30,
        data: Mapping[int, WantedBytes] | None = None,
    ) -> list[Send]:
        """Ask for a workflow to be promised."""
        submission = WorkflowSubmission(number, allocation, attempts_max, at_once_max, data or {})
        self.submissions[number] = submission
        self._asked[number] = now
        return self._sent(submission.begin())

    def withdraw(self, number: int) -> list[Send]:
        """Give up a workflow, whether it has been promised or not."""
        return self._sent(self.submissions[number].withdraw())

    def forget(self, number: int) -> None:
        """Know no more of a submission; what was booked for it stays booked."""
        self.submissions.pop(number, None)
        self._asked.pop(number, None)

    def summary(self, now: float) -> HoleCounts:
        points = reference_points(now)
        found = self.role.holes(now, points[-1])
        return summary_of(classes_of(found, self.role.speed, now, points))

    # --- requests and bookings ---

    def _on_ask(self, ask: HoleRequest, now: float) -> list[Send]:
        if ask.group is not None:
            group = self.place.groups.get(ask.group)
            return pass_on(group, ask, now) if group is not None and self._is_new(ask) else []
        booking = self.role.reserve(ask.key, ask.wanted, now)
        if booking is not None:
            ref = BookingRef(self.address, booking.number, booking.beside)
            reserved = Reserved(ask.key, ref, booking.promises)
            return [*self.place.report(now), Send(ask.owner, reserved)]
        if self.place.link is None:
            return [Send(ask.owner, NoHole(ask.key))]
        above = self.place.link.ref
        return [Send(above.host, fallen(ask, self.address, above.group))]

    def _is_new(self, ask: HoleRequest) -> bool:
        """Whether a request comes to a group for the first time, so that it is passed on once.

        Else a request that is repeated now and then on its way would become thousands, since it may
        come a hundred times to some group. Every hop counts, so only a repetition has the same
        number; who asks once more asks with another key.
        """
        mark = (ask.key, ask.group, ask.hops)
        if mark in self._passed:
            return False
        self._passed[mark] = None
        if len(self._passed) > PASSED_MAX:
            del self._passed[next(iter(self._passed))]
        return True

    def _sent(self, orders: list[SubmissionOrder]) -> list[Send]:
        """A submission's orders as messages.

        A request starts at the place that has most of its data, or at this peer's own leaf.
        """
        sends = []
        for order in orders:
            if isinstance(order, AskFor):
                place = order.wanted.best_place
                if place is not None:
                    # Where the data is; from there it climbs if that node has no hole.
                    ask = HoleRequest(
                        order.key, self.address, order.wanted, None, None, True, FALLS
                    )
                    sends.append(Send(place, ask))
                elif self.place.link is not None:
                    ref = self.place.link.ref
                    ask = HoleRequest(
                        order.key, self.address, order.wanted, self.address, ref.group, True, FALLS
                    )
                    sends.append(Send(ref.host, ask))
            elif isinstance(order, ConfirmAt):
                confirm = ConfirmBooking(order.key, order.booking, self.address)
                sends.append(Send(order.booking.node, confirm))
            else:
                sends.append(Send(order.node, ReleaseBooking(order.key, self.address)))
        return sends

    def _on_reserved(self, message: Reserved, now: float) -> list[Send]:
        submission = self.submissions.get(message.key.workflow)
        if submission is None:  # given up and forgotten
            return [Send(message.booking.node, ReleaseBooking(message.key, self.address))]
        self._asked[message.key.workflow] = now
        return self._sent(submission.on_reserved(message.key, message.booking, message.promises))

    def _on_refused(self, message: NoHole, now: float) -> list[Send]:
        number = message.key.workflow
        submission = self.submissions.get(number)
        if submission is None:
            return []
        soon = now - ANSWER_SECONDS + AGAIN_SECONDS
        self._asked[number] = min(self._asked[number], soon)
        return self._sent(submission.on_refused(message.key, is_certain=message.is_certain))

    def _on_confirm(self, message: ConfirmBooking, now: float) -> list[Send]:
        is_confirmed = self.role.confirm(message.key, message.booking.number, now)
        answer = BookingConfirmed(message.key, message.booking, is_confirmed)
        return [Send(message.owner, answer)]

    def _on_booking_confirmed(self, message: BookingConfirmed, now: float) -> list[Send]:
        submission = self.submissions.get(message.key.workflow)
        if submission is None:
            return []
        if message.is_confirmed:
            submission.on_confirmed(message.key, message.booking)
            return []
        return self._sent(submission.on_expired(message.key, message.booking))

    def _on_release(self, message: ReleaseBooking, now: float) -> list[Send]:
        was_booked = message.key in self.role.booked
        self.role.release(message.key)
        released = Send(message.owner, BookingReleased(message.key, self.address))
        return [*self.place.report(now), released] if was_booked else [released]

    def _on_booking_released(self, message: BookingReleased, now: float) -> list[Send]:
        submission = self.submissions.get(message.key.workflow)
        if submission is not None:
            submission.on_released(message.key, message.node)
        return []

    @property
    def accepted(self) -> list[WorkflowSubmission]:
        return [s for s in self.submissions.values() if s.state is SubmissionState.ACCEPTED]
