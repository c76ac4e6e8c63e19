"""The kernel under real time: asyncio, on uvloop where it is installed.

Fibers are asyncio tasks, so live code (sockets, child processes) may await asyncio's awaitables
inside them. Flags and queues are our own, because asyncio's behave differently: in its queue a
newcomer can overtake a getter that is already woken, and its time-outs cancel the waiting task.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from dataward.kernel.interface import Cancelled, FiberCancelled, TimedOut

try:
    import uvloop as loops
except ImportError:  # as on Windows
    import asyncio as loops  # type: ignore[no-redef]

__all__ = ["AsyncioFiber", "AsyncioFlag", "AsyncioKernel", "AsyncioQueue", "new_event_loop"]

T = TypeVar("T")

# uvloop counts milliseconds in 64 bits and refuses infinity; a century stands for it.
_FOREVER_SECONDS = 3.2e9

_TIMED_OUT: Any = object()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's event loop, or asyncio's own where uvloop is not installed."""
    return loops.new_event_loop()


class _Line:
    """The fibers that wait at one place, in order. Each is woken or times out, only once."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[Any]] = deque()

    def __bool__(self) -> bool:
        """Whether a fiber waits that has not been cancelled meanwhile."""
        return any(not waiter.done() for waiter in self._waiters)

    async def wait(
        self, timeout_seconds: float | None, take_back: Callable[[Any], None] | None = None
    ) -> Any:
        """What the waker hands over, or `_TIMED_OUT`.

        If the fiber is cancelled after something was handed to it, `take_back` is called with that.
        """
        if timeout_seconds is not None and not timeout_seconds > 0:
            return _TIMED_OUT
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        self._waiters.append(waiter)
        timer = None
        if timeout_seconds is not None:
            timer = loop.call_later(min(timeout_seconds, _FOREVER_SECONDS), self._expire, waiter)
        try:
            return await waiter
        except Cancelled:
            if waiter.cancelled():
                with suppress(ValueError):
                    self._waiters.remove(waiter)
            elif take_back is not None and waiter.result() is not _TIMED_OUT:
                take_back(waiter.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self, waiter: asyncio.Future[Any]) -> None:
        if not waiter.done():
            self._waiters.remove(waiter)
            waiter.set_result(_TIMED_OUT)

    def wake_first(self, handed: Any) -> bool:
        """Hand something to the fiber that has waited longest. False if none waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            # A fiber that was cancelled but has not run since is still in the line.
            if not waiter.done():
                waiter.set_result(handed)
                return True
        return False

    def wake_all(self) -> None:
        while self.wake_first(True):
            pass


class AsyncioFiber(Generic[T]):
    """A coroutine on the asyncio kernel: its task, its outcome, and the fibers that wait for it."""

    __slots__ = (
        "_cancelled",
        "_coroutine",
        "_done",
        "_error",
        "_joiners",
        "_kernel",
        "_started",
        "_task",
        "_value",
        "name",
    )

    def __init__(self, kernel: AsyncioKernel, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self.name: str = name or getattr(coroutine, "__qualname__", "fiber")
        self._kernel = kernel
        self._coroutine = coroutine
        self._value: Any = None
        self._error: BaseException | None = None
        self._joiners = _Line()
        self._started = False
        self._cancelled = False
        self._done = False
        self._task = asyncio.get_running_loop().create_task(self._live(), name=self.name)

    async def _live(self) -> None:
        """Run the coroutine and keep its outcome here; asyncio would warn of one nobody reads."""
        self._started = True
        try:
            self._finish(await self._coroutine, None)
        except Cancelled:
            self._finish(None, FiberCancelled(self.name))
        except BaseException as error:
            is_watched = self._joiners and isinstance(error, Exception)
            self._finish(None, error)
            if self is self._kernel._main or not is_watched:
                self._kernel._fail(error)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._done = True
        self._value = value
        self._error = error
        self._joiners.wake_all()
        self._kernel._forget(self)

    def done(self) -> bool:
        return self._done

    def cancel(self) -> None:
        if self._cancelled or self._done:
            return
        self._cancelled = True
        self._task.cancel()
        if not self._started:
            # asyncio throws Cancelled into `_live` before its first line, so `_live` cannot finish.
            self._coroutine.close()
            self._finish(None, FiberCancelled(self.name))

    async def join(self, timeout_seconds: float | None = None) -> T:
        if not self._done and await self._joiners.wait(timeout_seconds) is _TIMED_OUT:
            assert timeout_seconds is not None
            raise TimedOut(self.name, timeout_seconds)
        if self._error is not None:
            raise self._error
        result: T = self._value
        return result


class AsyncioFlag:
    """A `Flag` under real time."""

    __slots__ = ("_line", "_set")

    def __init__(self) -> None:
        self._set = False
        self._line = _Line()

    def set(self) -> None:
        self._set = True
        if self._line._waiters:
            self._line.wake_all()

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        return self._set or await self._line.wait(timeout_seconds) is not _TIMED_OUT


class AsyncioQueue(Generic[T]):
    """A `Queue` under real time. It holds items or getters, never both."""

    __slots__ = ("_items", "_line")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._line = _Line()

    def put(self, item: T) -> None:
        if not self._line.wake_first(item):
            self._items.append(item)

    async def get(self, timeout_seconds: float | None = None) -> T:
        if self._items:
            return self._items.popleft()
        item: T = await self._line.wait(timeout_seconds, self._take_back)
        if item is _TIMED_OUT:
            assert timeout_seconds is not None
            raise TimedOut("a queue", timeout_seconds)
        return item

    def _take_back(self, item: T) -> None:
        if not self._line.wake_first(item):
            self._items.appendleft(item)

    def take_all(self) -> list[T]:
        items = list(self._items)
        self._items.clear()
        return items

    def __len__(self) -> int:
        return len(self._items)


class AsyncioKernel:
    """Runs fibers in real time. Fibers can be spawned only from within `run`.

    An interrupt (Ctrl-C) cancels every fiber, as any end of the run does, and `run` then raises
    `KeyboardInterrupt`. The kernel's time 0 is ``epoch_seconds`` of the system's monotonic clock.
    """

    __slots__ = (
        "_epoch_seconds",
        "_failure",
        "_fibers",
        "_loop_factory",
        "_main",
        "_one_ended",
        "_over",
    )

    def __init__(
        self,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
        epoch_seconds: float = 0.0,
    ) -> None:
        self._epoch_seconds = epoch_seconds
        self._loop_factory = loop_factory
        self._fibers: dict[AsyncioFiber[Any], None] = {}
        self._main: AsyncioFiber[Any] | None = None
        self._failure: BaseException | None = None
        self._over = AsyncioFlag()
        self._one_ended = AsyncioFlag()

    def now(self) -> float:
        # The event loop's own time would not do: on uvloop it stands still while a fiber runs.
        return time.monotonic() - self._epoch_seconds

    def time_at(self, monotonic_seconds: float) -> float:
        """The kernel's time at this time of the monotonic clock, which all processes share."""
        return monotonic_seconds - self._epoch_seconds

    def sleep(self, seconds: float) -> Awaitable[None]:
        return asyncio.sleep(min(seconds, _FOREVER_SECONDS))

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> AsyncioFiber[T]:
        fiber = AsyncioFiber(self, coroutine, name)
        self._fibers[fiber] = None
        return fiber

    def flag(self) -> AsyncioFlag:
        return AsyncioFlag()

    def queue(self) -> AsyncioQueue[Any]:
        return AsyncioQueue()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            return runner.run(self.run_within(main))

    async def run_within(self, main: Coroutine[Any, Any, T]) -> T:
        """As `run`, in the loop that is running, which may have other kernels as well."""
        fiber = self.spawn(main, "main")
        self._main = fiber
        try:
            await self._over.wait()
        finally:
            await self._wind_down()
        if self._failure is not None:
            raise self._failure
        return await fiber.join()

    async def _wind_down(self) -> None:
        """Cancel the remaining fibers in spawn order and wait for them; then those they spawned."""
        while self._fibers:
            for fiber in self._cancel_all():
                # Not by `join`: then a failure of the fiber would no longer fail the run.
                while not fiber.done():
                    await self._one_ended.wait()

    def _cancel_all(self) -> list[AsyncioFiber[Any]]:
        fibers = list(self._fibers)
        for fiber in fibers:
            fiber.cancel()
        return fibers

    def _end(self) -> None:
        if not self._over.is_set():
            self._over.set()
            # Cancel now rather than when `_run` gets its turn, so that no fiber runs in between.
            self._cancel_all()

    def _forget(self, fiber: AsyncioFiber[Any]) -> None:
        del self._fibers[fiber]
        self._one_ended.set()
        self._one_ended.clear()
        if fiber is self._main:
            self._end()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        elif self._failure is not error:
            self._failure.add_note(f"while the run wound down, also: {error!r}")
        self._end()
