"""The kernel under virtual time: our own deterministic loop, without asyncio's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from heapq import heappop, heappush, heapreplace
from types import coroutine as awaitable
from typing import Any, TypeVar

from dataward.kernel.fibers import VirtualFiber, VirtualFlag, VirtualQueue
from dataward.kernel.interface import Cancelled, Deadlock, FiberCancelled
from dataward.kernel.timeline import Timeline, Timer, Turn

T = TypeVar("T")

# Infinity is not an instant: a fiber that sleeps until infinity never wakes, and may deadlock.
_LAST_INSTANT = sys.float_info.max
# A crashed coroutine may await in `finally`; every such await defeats one attempt to close it.
_CLOSE_ATTEMPTS = 16


class _LookUp(BaseException):
    """Raised in the loop so that it checks whether it has been halted."""


def _look_up() -> None:
    raise _LookUp


class VirtualKernel(Timeline):
    """Runs fibers under virtual time: same program, same order, whatever the hash seed.

    More than `Kernel` promises: fibers may be spawned before `run`; instead of `run` the caller may
    use `run_until` or `step`, and finish with `close`; `call_at` runs a callback without a fiber;
    `kill` crashes a fiber; `on_step` is called after every resumed fiber and every callback (set it
    before one of these starts).
    """

    __slots__ = (
        "_closed",
        "_failure",
        "_fibers",
        "_graveyard",
        "_halted",
        "_target",
        "on_step",
    )

    def __init__(self, on_step: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.on_step = on_step
        # In spawn order; a dictionary so that removing a fiber is cheap.
        self._fibers: dict[VirtualFiber[Any], None] = {}
        self._graveyard: list[Coroutine[Any, Any, Any]] = []
        # The loop halts when this fiber is over, or anything has failed.
        self._target: VirtualFiber[Any] | None = None
        self._failure: BaseException | None = None
        self._halted = False
        self._closed = False

    # What fibers ask for.

    @awaitable
    def sleep(self, seconds: float) -> Generator[float, None, None]:
        yield seconds

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> VirtualFiber[T]:
        if self._closed:
            coroutine.close()
            raise RuntimeError("the run is over: nothing more can be spawned")
        fiber = VirtualFiber(self, coroutine, name)
        self._fibers[fiber] = None
        self.ready.append(fiber)
        return fiber

    def flag(self) -> VirtualFlag:
        return VirtualFlag(self)

    def queue(self) -> VirtualQueue[Any]:
        return VirtualQueue(self)

    # What the simulator asks for.

    def kill(self, fiber: VirtualFiber[Any]) -> None:
        """Crash a fiber: none of its code runs again, not even `finally`, until the run is over.

        Fibers that join it get `FiberCancelled`; an item that was handed to the fiber but not yet
        picked up goes back to its queue. A fiber cannot kill itself, because it would still run to
        its next await.
        """
        assert fiber is not self.current, "a fiber cannot kill itself"
        if fiber.done():
            return
        self._graveyard.append(fiber.vacate())
        fiber.finish(None, FiberCancelled(fiber.name))

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        fiber = self.spawn(main, "main")
        self._target = fiber
        try:
            self._drive(_LAST_INSTANT)
            if not fiber.done() and self._failure is None:
                self._fail(Deadlock([(f.name, f.whereabouts()) for f in self._fibers]))
        finally:
            self.close()
        self._raise_failure()
        return fiber.outcome()

    def run_until(self, time: float) -> None:
        """Run everything due up to and at this time, and move the clock there.

        Raises the failure of a fiber that nobody joins; the clock then stays at that time.
        """
        self._drive(min(time, _LAST_INSTANT))
        self._raise_failure()
        self.time = max(self.time, float(time))

    def step(self) -> bool:
        """Resume a fiber or call a callback, moving the clock if needed; False if none is due."""
        stepped = self._step(_LAST_INSTANT)
        self._raise_failure()
        return stepped

    def close(self) -> None:
        """End the run: cancel the remaining fibers in spawn order, wait for them, close the killed.

        `run` raises the failures that happen meanwhile. A fiber that still waits when nothing is
        scheduled is killed.
        """
        self.on_step = None
        while self._fibers:
            cancelled = list(self._fibers)
            for fiber in cancelled:
                fiber.cancel()
            for fiber in cancelled:
                self._finish_or_kill(fiber)
        self._closed = True
        while self._graveyard:
            _bury(self._graveyard.pop())

    # The loop.

    def _drive(self, limit: float) -> None:
        self._halted = False
        try:
            if self.on_step is None:
                self._loop(limit)
            else:
                self._loop_in_steps(limit, self.on_step)
        finally:
            self.current = None

    def _loop(self, limit: float) -> None:
        """Run until halted, or until nothing is due up to the limit. The heart of the kernel.

        A fiber yields the seconds it wants to sleep, or None when it waits in a waiting place. A
        fiber that wakes and sleeps again is handled without leaving this function, and its new
        instant replaces the old one at the top of the heap in one operation.
        """
        heap, ready = self._heap, self.ready
        take_ready = ready.popleft
        take_due = self._buckets.pop
        keep = self._buckets.setdefault
        while True:
            while ready:
                turn = take_ready()
                self.current = turn
                try:
                    seconds = turn.coroutine.send(None)
                except BaseException as end:
                    self._settle(turn, end)
                    if self._halted:
                        return
                    continue
                if seconds is None:
                    continue
                # This is `arm` inlined: most turns sleep until a store answers.
                if not (wake := self.time + seconds) > self.time:
                    ready.append(turn)
                    continue
                turn.wake = wake
                if keep(wake, turn) is turn:
                    heappush(heap, wake)
                else:
                    self._share(turn, wake)
            if not heap or heap[0] > limit:
                return
            now = heap[0]
            fiber = take_due(now, None)
            if fiber.__class__ is not VirtualFiber:
                heappop(heap)
                if fiber.__class__ is not Timer:
                    self._make_ready(now, fiber)
                    continue
                self.time = now
                self.current = None
                try:
                    fiber.send(None)
                except BaseException as end:
                    self._settle(fiber, end)
                    if self._halted:
                        return
                continue
            self.time = now
            self.current = fiber
            try:
                seconds = fiber.coroutine.send(None)
            except BaseException as end:
                heappop(heap)
                self._settle(fiber, end)
                if self._halted:
                    return
                continue
            if seconds is None:
                heappop(heap)
            elif (wake := now + seconds) > now:
                fiber.wake = wake
                if keep(wake, fiber) is fiber:
                    heapreplace(heap, wake)
                else:
                    heappop(heap)
                    self._share(fiber, wake)
            else:
                heappop(heap)
                ready.append(fiber)

    def _loop_in_steps(self, limit: float, on_step: Callable[[], None]) -> None:
        """The same order of events as `_loop`, with a call of `on_step` after each."""
        while not self._halted and self._step(limit):
            try:
                on_step()
            except BaseException as broken:
                self._fail(broken)

    def _step(self, limit: float) -> bool:
        while not self.ready:
            if not self._heap or self._heap[0] > limit:
                return False
            now = heappop(self._heap)
            self._make_ready(now, self._buckets.pop(now, None))
        turn: Any = self.ready.popleft()
        self.current = turn
        try:
            seconds = turn.coroutine.send(None)
        except BaseException as end:
            self._settle(turn, end)
        else:
            if seconds is not None and not self.arm(turn, self.time + seconds):
                self.ready.append(turn)
        self.current = None
        return True

    # Ends.

    def _settle(self, turn: Turn | Timer, end: BaseException) -> None:
        """Handle the end of a coroutine, or the failure of a callback."""
        if isinstance(end, _LookUp):
            return
        if not isinstance(turn, VirtualFiber):
            self._fail(end)
        elif isinstance(end, StopIteration):
            turn.finish(end.value, None)
        elif isinstance(end, Cancelled):
            turn.finish(None, FiberCancelled(turn.name))
        else:
            turn.finish(None, end)
            is_watched = turn.joiners and isinstance(end, Exception)
            if turn is self._target or not is_watched:
                self._fail(end)

    def forget(self, fiber: VirtualFiber[Any]) -> None:
        del self._fibers[fiber]
        if fiber is self._target:
            self._halted = True
            if fiber is not self.current:
                # Another fiber ended the target. The loop checks `_halted` only after an exception
                # from what it resumed, so a callback raises one.
                self.call_at(self.time, _look_up)

    def _fail(self, error: BaseException) -> None:
        self._halted = True
        if self._failure is None:
            self._failure = error
        elif self._failure is not error:
            self._failure.add_note(f"while the run wound down, also: {error!r}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _finish_or_kill(self, fiber: VirtualFiber[Any]) -> None:
        self._target = fiber
        while not fiber.done():
            self._drive(_LAST_INSTANT)
            if not self._halted:
                self.kill(fiber)


def _bury(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close a crashed coroutine; what its `finally` blocks do or raise no longer matters."""
    for _ in range(_CLOSE_ATTEMPTS):
        try:
            coroutine.close()
        except BaseException:
            continue
        return
