"""Virtual time: the future instants, what is due at each, and the fibers that are ready now.

The instants are a heap of bare floats, with a dictionary from each instant to what is due then.
Floats compare several times faster than `(time, sequence, fiber)` tuples. What is due at the same
instant is kept in order of arrival, so the order is that of the tuples, at two thirds of the cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappush
from typing import Any, Protocol

# A heap with up to this many instants of cancelled time-outs costs less than sweeping it.
_HEAP_ALWAYS_ALLOWED = 64


class Sleeper(Protocol):
    """Something that can be due at an instant: a fiber or a `Timer`."""

    wake: float | None


class Turn(Protocol):
    """Something that can be in `ready`: the kernel sends None to its coroutine."""

    @property
    def coroutine(self) -> Any: ...


class Timeline(ABC):
    """The instants, and the line of ready fibers; `VirtualKernel` adds the loop that serves them.

    At an instant, first everything due then runs, in order of arrival; then the fibers that became
    ready by that, first come, first served. Time moves on when no fiber is ready.
    """

    __slots__ = ("_buckets", "_heap", "current", "ready", "time")

    def __init__(self) -> None:
        self.time = 0.0
        # What runs now: a fiber, a `_CallbackTurn`, or None.
        self.current: Any = None
        self.ready: deque[Any] = deque()
        # Every instant in `_buckets` is in the heap; the heap may also hold instants whose
        # last sleeper was woken early. Both hold only instants after `time`, except that the
        # instant being served stays at the top of the heap until its fiber has had its turn.
        self._heap: list[float] = []
        self._buckets: dict[float, Any] = {}

    def now(self) -> float:
        return self.time

    def call_at(self, time: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Call back at this time, or now if it has passed. If the callback fails, the run fails."""
        wake = time + 0.0  # An int must not become the clock's time.
        timer = Timer(self, callback, arguments, wake)
        # This is `arm` inlined: the function call would be a tenth of a callback's cost.
        if not wake > self.time:
            self.ready.append(_CallbackTurn(timer))
        elif self._buckets.setdefault(wake, timer) is timer:
            heappush(self._heap, wake)
        else:
            self._share(timer, wake)
        return timer

    @abstractmethod
    def forget(self, fiber: Any) -> None:
        """Remove a fiber that is over from the list of fibers."""

    def arm(self, sleeper: Sleeper, wake: float) -> bool:
        """Make the sleeper due at a later instant. Does nothing and returns False if not later."""
        if not wake > self.time:
            return False
        sleeper.wake = wake
        if self._buckets.setdefault(wake, sleeper) is sleeper:
            heappush(self._heap, wake)
        else:
            self._share(sleeper, wake)
        return True

    def _share(self, sleeper: Sleeper, wake: float) -> None:
        due = self._buckets[wake]
        if isinstance(due, dict):
            due[sleeper] = None
        else:
            self._buckets[wake] = {due: None, sleeper: None}

    def is_armed(self, sleeper: Sleeper) -> bool:
        wake = sleeper.wake
        if wake is None:
            return False
        due = self._buckets.get(wake)
        return due is sleeper or (due.__class__ is dict and sleeper in due)

    def disarm(self, sleeper: Any) -> None:
        """Make the sleeper no longer due. Its instant stays in the heap until reached or swept."""
        buckets, heap = self._buckets, self._heap
        wake = sleeper.wake
        due = buckets[wake]
        if due is sleeper:
            del buckets[wake]
        else:
            del due[sleeper]
            if not due:
                del buckets[wake]
        if len(heap) > 2 * len(buckets) + _HEAP_ALWAYS_ALLOWED:
            self._sweep()

    def _sweep(self) -> None:
        """Remove instants at which nothing is due; in place, as the loop keeps a reference."""
        served = self._heap[0] == self.time
        self._heap[:] = self._buckets
        if served:
            self._heap.append(self.time)
        heapify(self._heap)

    def _make_ready(self, now: float, due: Any) -> None:
        """Make ready what is due now, in order of arrival; ``due`` is None if all woke early."""
        if due is None:
            return
        self.time = now
        for sleeper in due if due.__class__ is dict else (due,):
            if sleeper.__class__ is Timer:
                self.ready.append(_CallbackTurn(sleeper))
                continue
            if sleeper.waits_on is not None:
                # The wait has timed out, even if another fiber at this instant would have woken it.
                sleeper.waits_on.withdraw(sleeper)
                sleeper.waits_on = None
            self.ready.append(sleeper)


class Timer:
    """A callback due at an instant; cheaper than a fiber that sleeps."""

    __slots__ = ("_arguments", "_callback", "_kernel", "wake")

    def __init__(
        self,
        kernel: Timeline,
        callback: Callable[..., object] | None,
        arguments: tuple[Any, ...],
        wake: float | None,
    ) -> None:
        self._kernel = kernel
        self._callback = callback
        self._arguments = arguments
        self.wake = wake

    def cancel(self) -> None:
        """Do not call the callback, if it has not been called yet."""
        if self._callback is not None:
            self._callback = None
            self._arguments = ()
            if self._kernel.is_armed(self):
                self._kernel.disarm(self)

    def send(self, _: None) -> None:
        callback = self._callback
        if callback is not None:
            self._callback = None
            callback(*self._arguments)


class _CallbackTurn:
    """A callback's place in the line of ready fibers."""

    __slots__ = ("coroutine",)

    def __init__(self, timer: Timer) -> None:
        self.coroutine = timer
