"""Time in ticks: what is done in which tick, and what arrives in it to be dealt with together."""

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from typing import Any, Generic, TypeVar

TICKS_PER_SECOND = 100

T = TypeVar("T")
TickHandler = Callable[[Any], None]


class TickCalendar(Generic[T]):
    """Handlers by tick, in the order in which they were noted, and arrivals that come after."""

    def __init__(self) -> None:
        self.tick = 0
        self._handlers: dict[int, list[tuple[TickHandler, Any]]] = {}
        self._arrivals: dict[int, list[T]] = {}
        self._ticks: list[int] = []  # a heap of the ticks that have either

    @property
    def now(self) -> float:
        return self.tick / TICKS_PER_SECOND

    def at(self, tick: int, handler: TickHandler, argument: Any) -> None:
        """Call the handler in that tick."""
        bucket = self._handlers.get(tick)
        if bucket is None:
            bucket = self._handlers[tick] = []
            if tick not in self._arrivals:
                heappush(self._ticks, tick)
        bucket.append((handler, argument))

    def after(self, seconds: float, handler: TickHandler, argument: Any) -> None:
        """Call the handler after so long, rounded up to a tick."""
        ticks = max(ceil(seconds * TICKS_PER_SECOND - 1e-9), 0)
        self.at(self.tick + ticks, handler, argument)

    def arrive(self, tick: int, what: T) -> None:
        """Have this among the arrivals of that tick."""
        bucket = self._arrivals.get(tick)
        if bucket is None:
            bucket = self._arrivals[tick] = []
            if tick not in self._handlers:
                heappush(self._ticks, tick)
        bucket.append(what)

    def run(
        self,
        seconds: float,
        on_arrivals: Callable[[list[T]], None],
        end_second: Callable[[], None],
    ) -> None:
        """Go on for so long; ``end_second`` is called at the end of each second."""
        last = self.tick + round(seconds * TICKS_PER_SECOND)
        while self._ticks and self._ticks[0] <= last:
            tick = heappop(self._ticks)
            self._pass_seconds(tick, end_second)
            self.tick = tick
            for handler, argument in self._handlers.pop(tick, ()):
                handler(argument)
            arrivals = self._arrivals.pop(tick, None)
            if arrivals:
                on_arrivals(arrivals)
        self._pass_seconds(last, end_second)
        self.tick = last

    def _pass_seconds(self, tick: int, end_second: Callable[[], None]) -> None:
        while self.tick // TICKS_PER_SECOND < tick // TICKS_PER_SECOND:
            self.tick = (self.tick // TICKS_PER_SECOND + 1) * TICKS_PER_SECOND
            end_second()
