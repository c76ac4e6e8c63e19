"""The protocols of everything node code may wait on.

`VirtualKernel` implements them under simulated time, `AsyncioKernel` under real time; one
conformance suite tests both.
"""

from __future__ import annotations

from asyncio import CancelledError as Cancelled
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

__all__ = [
    "Cancelled",
    "Deadlock",
    "Fiber",
    "FiberCancelled",
    "Flag",
    "Kernel",
    "Queue",
    "TimedOut",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_NAMES_SHOWN = 5


class TimedOut(Exception):  # noqa: N818 - an outcome the caller asked for, not a fault
    """A wait ended because its time was up."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        super().__init__(f"{what} took longer than {seconds:g} s")


class FiberCancelled(Exception):  # noqa: N818
    """The fiber being joined was cancelled or killed.

    Distinct from `Cancelled`, which a joiner sees when the joiner itself is cancelled.
    """

    def __init__(self, fiber: str) -> None:
        self.fiber = fiber
        super().__init__(f"fiber {fiber} was cancelled")


class Deadlock(Exception):  # noqa: N818
    """Nothing is scheduled, so the fibers that wait would wait for ever."""

    def __init__(self, waiting: Sequence[tuple[str, str]]) -> None:
        self.waiting = tuple(waiting)
        shown = ", ".join(f"{name} (on {what})" for name, what in self.waiting[:_NAMES_SHOWN])
        more = len(self.waiting) - _NAMES_SHOWN
        tail = f" and {more} more" if more > 0 else ""
        super().__init__(f"nothing is scheduled, yet {len(self.waiting)} wait: {shown}{tail}")


class Fiber(Protocol[T_co]):
    """A coroutine that runs concurrently with others."""

    @property
    def name(self) -> str: ...

    def done(self) -> bool:
        """Whether the fiber has returned, failed, or ended after being cancelled."""
        ...

    def cancel(self) -> None:
        """Raise `Cancelled` inside the fiber, at its current await.

        A fiber gets `Cancelled` at most once: later calls do nothing, so a second caller does not
        interrupt a `finally` that awaits. A fiber that has not started never runs. A fiber that
        cancels itself gets `Cancelled` at its next await that really waits.
        """
        ...

    def join(self, timeout_seconds: float | None = None) -> Awaitable[T_co]:
        """What the fiber returned. Raises what it raised.

        Raises `FiberCancelled` if the fiber was cancelled, `TimedOut` if it is not done in time
        (the fiber itself goes on). Any number of fibers may join; they wake in the order they came.
        """
        ...


class Flag(Protocol):
    """A flag that fibers can wait for."""

    def set(self) -> None:
        """Set the flag and wake all waiting fibers, in the order they came.

        They are woken even if the flag is cleared before they run.
        """
        ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout_seconds: float | None = None) -> Awaitable[bool]:
        """True once the flag is set; False if time ran out first.

        Returns at once, without letting others run, if the flag is already set or the time is zero
        or less.
        """
        ...


class Queue(Protocol[T]):
    """An unbounded first-in, first-out queue.

    An item is handed to the getter that has waited longest. No item is ever lost: if a getter is
    cancelled before it runs, its item goes to the next getter, or back to the front.
    """

    def put(self, item: T) -> None: ...

    def get(self, timeout_seconds: float | None = None) -> Awaitable[T]:
        """The oldest item; raises `TimedOut` if none comes in time.

        If there is an item, returns at once, without letting others run; if there is none and the
        time is zero or less, raises at once.
        """
        ...

    def take_all(self) -> list[T]:
        """Everything in the queue, oldest first, leaving it empty."""
        ...

    def __len__(self) -> int: ...


class Kernel(Protocol):
    """Time, fibers and the things fibers wait on. One kernel serves one run.

    **Failures are never lost.** A fiber that raises while nobody is joining it fails the run at
    once: every other fiber is cancelled and `run` raises the exception. So a fiber whose failure is
    expected must be joined before it can fail, or catch the failure itself; joining later is too
    late. A `BaseException` that is not an `Exception` (`KeyboardInterrupt`) fails the run even if
    the fiber is joined. If more fibers fail while the run ends, the first failure is raised and the
    others are added to it as notes.
    """

    def now(self) -> float:
        """Seconds since an arbitrary moment; never runs backwards."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait. With zero or less, all ready fibers run first, and no time passes.

        Real time is exact only to a millisecond: a live sleep may end that much early.
        """
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> Fiber[T]:
        """Start a fiber. New fibers first run when the caller waits, in the order of spawning."""
        ...

    def flag(self) -> Flag: ...

    def queue(self) -> Queue[Any]: ...

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main` is done; return what it returned, or raise what it raised.

        The remaining fibers are then cancelled in the order they were spawned, and waited for; so
        are fibers that these spawn while they end. A fiber that ignores `Cancelled` delays the end.
        """
        ...
