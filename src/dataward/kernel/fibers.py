"""Fibers, flags and queues under virtual time.

To wait, a generator puts the running fiber in a waiting place and yields None to the kernel's loop.
Nothing is allocated per wait but that generator.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Coroutine, Generator
from types import coroutine as awaitable
from typing import Any, Generic, Protocol, TypeVar

from dataward.kernel.interface import Cancelled, FiberCancelled, TimedOut
from dataward.kernel.timeline import Timeline

T = TypeVar("T")


class WaitingPlace(Protocol):
    """Where a fiber waits: a flag, a queue, or another fiber's end."""

    def withdraw(self, fiber: VirtualFiber[Any]) -> None:
        """Take the fiber off the list of those who wait here."""
        ...

    def take_back(self, handed: Any) -> None:
        """Take back what a fiber was handed but will never pick up."""
        ...

    def kind(self) -> str:
        """The name of this place in a message."""
        ...


class _Nothing:
    """The `_value` of a fiber that has been handed nothing, as None is a legal item."""

    __slots__ = ()


_NOTHING: Any = _Nothing()


class _Gone:
    """Replaces the coroutine of a fiber that is over: resuming it does nothing."""

    __slots__ = ()

    def send(self, _: None) -> None:
        return None


_GONE: Any = _Gone()


class _Interrupt:
    """Replaces a coroutine until its next turn, and then raises `Cancelled` inside it.

    So the loop need not check for cancellation: it always calls `send` on the fiber's `coroutine`.
    """

    __slots__ = ("_fiber", "coroutine")

    def __init__(self, fiber: VirtualFiber[Any]) -> None:
        self._fiber = fiber
        self.coroutine = fiber.coroutine

    def send(self, _: None) -> Any:
        self._fiber.coroutine = self.coroutine
        return self.coroutine.throw(Cancelled())


class VirtualFiber(Generic[T]):
    """A coroutine on the virtual kernel, with its state and the fibers that wait for its end.

    At any moment a fiber is in exactly one state: running (`kernel.current`), ready (once in
    `kernel.ready`), asleep (due at `wake`), waiting (`waits_on`, and due at `wake` if the wait
    has a time limit), or over (`coroutine` is `_GONE`). `_value` is what the fiber has been handed
    but not yet picked up and, once the fiber is over, what it returned.
    """

    __slots__ = (
        "_cancelled",
        "_error",
        "_kernel",
        "_value",
        "coroutine",
        "joiners",
        "name",
        "waits_on",
        "wake",
    )

    def __init__(self, kernel: Timeline, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self.name: str = name or getattr(coroutine, "__qualname__", "fiber")
        self._kernel = kernel
        self.coroutine: Any = coroutine
        self._value: Any = _NOTHING
        self._error: BaseException | None = None
        self.wake: float | None = None
        self.waits_on: WaitingPlace | None = None
        self.joiners: list[VirtualFiber[Any]] | None = None
        self._cancelled = False

    def done(self) -> bool:
        return self.coroutine is _GONE

    def cancel(self) -> None:
        if self._cancelled or self.coroutine is _GONE:
            return
        self._cancelled = True
        kernel = self._kernel
        if kernel.current is self:
            # A running fiber must reach its next await first; before the callback runs, it has.
            kernel.call_at(kernel.time, self._interrupt)
        elif inspect.getcoroutinestate(self.coroutine) == inspect.CORO_CREATED:
            self.coroutine.close()
            self.finish(None, FiberCancelled(self.name))
        else:
            self._interrupt()

    def vacate(self) -> Coroutine[Any, Any, T]:
        """The coroutine, which will not be resumed again. The fiber leaves its waiting place."""
        self._leave_place()
        held = self.coroutine
        coroutine: Coroutine[Any, Any, T] = held.coroutine if type(held) is _Interrupt else held
        return coroutine

    def whereabouts(self) -> str:
        """What the fiber waits on, for a message."""
        if self.waits_on is not None:
            return self.waits_on.kind()
        if self._kernel.is_armed(self):
            return "the end of time"
        return "something outside the kernel"

    def _interrupt(self) -> None:
        if self.coroutine is _GONE:
            return
        was_ready = not self._leave_place()
        self.coroutine = _Interrupt(self)
        if not was_ready:
            self._kernel.ready.append(self)

    def _leave_place(self) -> bool:
        """Stop sleeping or waiting, and give back what was handed over. False if it was ready."""
        handed = self._value
        place = self.waits_on
        armed = self._kernel.is_armed(self)
        if armed:
            self._kernel.disarm(self)
        if place is not None:
            self.waits_on = None
            self._value = _NOTHING
            if handed is _NOTHING:
                place.withdraw(self)
            else:
                place.take_back(handed)
        return armed or (place is not None and handed is _NOTHING)

    @awaitable
    def join(self, timeout_seconds: float | None = None) -> Generator[None, None, T]:
        if self.coroutine is not _GONE:
            kernel = self._kernel
            fiber = kernel.current
            if timeout_seconds is None:
                fiber.wake = None
            elif not kernel.arm(fiber, kernel.time + timeout_seconds):
                raise TimedOut(self.name, timeout_seconds)
            if self.joiners is None:
                self.joiners = []
            self.joiners.append(fiber)
            fiber.waits_on = self
            yield
            if fiber._value is _NOTHING:
                if fiber.waits_on is not None:
                    fiber.waits_on = None
                    self.joiners.remove(fiber)
                assert timeout_seconds is not None
                raise TimedOut(self.name, timeout_seconds)
            fiber.waits_on = None
            fiber._value = _NOTHING
        return self.outcome()

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        result: T = self._value
        return result

    def finish(self, value: Any, error: BaseException | None) -> None:
        self.coroutine = _GONE
        self._value = value
        self._error = error
        kernel = self._kernel
        kernel.forget(self)
        for joiner in self.joiners or ():
            joiner._value = True
            if joiner.wake is not None:
                kernel.disarm(joiner)
            kernel.ready.append(joiner)

    def withdraw(self, fiber: VirtualFiber[Any]) -> None:
        assert self.joiners is not None
        self.joiners.remove(fiber)

    def take_back(self, handed: object) -> None:
        """Nothing to take back: joiners are handed only True."""

    def kind(self) -> str:
        return f"the end of {self.name}"


class VirtualFlag:
    """A `Flag` under virtual time."""

    __slots__ = ("_kernel", "_set", "_waiters")

    def __init__(self, kernel: Timeline) -> None:
        self._kernel = kernel
        self._set = False
        # A dictionary, because it keeps order and removes cheaply: every node may wait for one
        # "stop" flag, with a time limit. Made when first needed, as nobody waits for most flags.
        self._waiters: dict[VirtualFiber[Any], None] | None = None

    def set(self) -> None:
        self._set = True
        waiters = self._waiters
        if waiters:
            self._waiters = None
            kernel = self._kernel
            for fiber in waiters:
                fiber._value = True
                if fiber.wake is not None:
                    kernel.disarm(fiber)
                kernel.ready.append(fiber)

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    @awaitable
    def wait(self, timeout_seconds: float | None = None) -> Generator[None, None, bool]:
        if self._set:
            return True
        kernel = self._kernel
        fiber = kernel.current
        if timeout_seconds is None:
            fiber.wake = None
        elif not kernel.arm(fiber, kernel.time + timeout_seconds):
            return False
        if self._waiters is None:
            self._waiters = {fiber: None}
        else:
            self._waiters[fiber] = None
        fiber.waits_on = self
        yield
        if fiber._value is _NOTHING:
            if fiber.waits_on is not None:
                fiber.waits_on = None
                del self._waiters[fiber]
            return False
        fiber.waits_on = None
        fiber._value = _NOTHING
        return True

    def withdraw(self, fiber: VirtualFiber[Any]) -> None:
        assert self._waiters is not None
        del self._waiters[fiber]

    def take_back(self, handed: object) -> None:
        """Nothing to take back: waiters are handed only True."""

    def kind(self) -> str:
        return "a flag"


class VirtualQueue(Generic[T]):
    """A `Queue` under virtual time. It holds items or getters, never both."""

    __slots__ = ("_getters", "_items", "_kernel")

    def __init__(self, kernel: Timeline) -> None:
        self._kernel = kernel
        # An empty deque takes 760 bytes: too much for every inbox of a million nodes, many of
        # which hand each item straight to a getter and never store one.
        self._items: deque[T] | None = None
        self._getters: list[VirtualFiber[Any]] = []

    def put(self, item: T) -> None:
        if self._getters:
            fiber = self._getters.pop(0)
            fiber._value = item
            if fiber.wake is not None:
                self._kernel.disarm(fiber)
            self._kernel.ready.append(fiber)
        elif self._items is None:
            self._items = deque((item,))
        else:
            self._items.append(item)

    @awaitable
    def get(self, timeout_seconds: float | None = None) -> Generator[None, None, T]:
        if self._items:
            return self._items.popleft()
        kernel = self._kernel
        fiber = kernel.current
        if timeout_seconds is None:
            fiber.wake = None
        elif not kernel.arm(fiber, kernel.time + timeout_seconds):
            raise TimedOut("a queue", timeout_seconds)
        self._getters.append(fiber)
        fiber.waits_on = self
        yield
        item: T = fiber._value
        if item is _NOTHING:
            if fiber.waits_on is not None:
                fiber.waits_on = None
                self._getters.remove(fiber)
            assert timeout_seconds is not None
            raise TimedOut("a queue", timeout_seconds)
        fiber.waits_on = None
        fiber._value = _NOTHING
        return item

    def take_all(self) -> list[T]:
        items = list(self._items or ())
        self._items = None
        return items

    def __len__(self) -> int:
        return len(self._items or ())

    def withdraw(self, fiber: VirtualFiber[Any]) -> None:
        self._getters.remove(fiber)

    def take_back(self, handed: T) -> None:
        if self._getters:
            self.put(handed)
        elif self._items is None:
            self._items = deque((handed,))
        else:
            self._items.appendleft(handed)

    def kind(self) -> str:
        return "a queue"
