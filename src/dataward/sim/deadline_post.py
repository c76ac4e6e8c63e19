"""Messages between nodes with deadlines: how long each takes, and what is counted of it."""

from numpy.random import RandomState

from dataward.sim.deadline_gauges import DeadlineGauges
from dataward.sim.flying_request import FlyingRequest
from dataward.sim.tick_calendar import TICKS_PER_SECOND, TickCalendar, TickHandler

HEADER_BYTES, TASK_BYTES, CLASS_BYTES = 60, 12, 6


class DeadlinePost:
    """Delivers messages: 30 to 70 ms each, and their length over the bandwidth."""

    def __init__(
        self,
        calendar: TickCalendar[FlyingRequest],
        gauges: DeadlineGauges,
        random: RandomState,
        bytes_per_second: float,
    ) -> None:
        self._calendar = calendar
        self._gauges = gauges
        self._random = random
        self._bytes_per_second = bytes_per_second
        self._delays: list[int] = []  # drawn many at a time

    def send(
        self, source: int, target: int, size: int, handler: TickHandler, argument: object
    ) -> None:
        """Have a message handled after its delay; a peer's message to itself takes no time."""
        if source == target:
            handler(argument)
            return
        self._count(source, target, size)
        self._calendar.at(self._calendar.tick + self._delay(size), handler, argument)

    def pass_to_router(self, ask: FlyingRequest, source: int, target: int) -> None:
        """Have a request arrive at the peer that plays a routing node, a tick later at least."""
        size = request_bytes(ask)
        tick = self._calendar.tick + 1
        if source != target:
            self._count(source, target, size)
            tick = self._calendar.tick + self._delay(size)
        self._calendar.arrive(tick, ask)

    def _count(self, source: int, target: int, size: int) -> None:
        gauges = self._gauges
        gauges.sent.add(source, size)
        gauges.received.add(target, size)
        gauges.events.add(target, 1.0)

    def _delay(self, size: int) -> int:
        if not self._delays:
            self._delays = self._random.randint(3, 8, 8192).tolist()
        return self._delays.pop() + round(size / self._bytes_per_second * TICKS_PER_SECOND)


def request_bytes(ask: FlyingRequest) -> int:
    """The length of the message that a request is."""
    return HEADER_BYTES + TASK_BYTES * len(ask.wanted.work)
