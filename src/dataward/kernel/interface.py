"""What node code may wait on, promised once for both worlds.

`VirtualKernel` keeps these promises under simulated time, `AsyncioKernel` under real time; one
conformance suite holds both to them.
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
    """A coroutine running on its own."""

    @property
    def name(self) -> str: ...

    def done(self) -> bool:
        """Whether it has returned, failed, or been cancelled to the end."""
        ...

    def cancel(self) -> None:
        """Raise `Cancelled` inside the fiber, at the await where it stands.

        A fiber gets `Cancelled` at most once: later calls do nothing, so a `finally` that awaits
        is not cut short by a second caller. A fiber that has not started never runs. A fiber
        that cancels itself meets `Cancelled` at the next await that really waits.
        """
        ...

    def join(self, timeout_seconds: float | None = None) -> Awaitable[T_co]:
        """What the fiber returned. Raises what it raised.

        Raises `FiberCancelled` if it was cancelled, `TimedOut` if it is not done in time (it goes
        on regardless). Any number of fibers may join; they are told in the order they came.
        """
        ...


class Flag(Protocol):
    """A flag that fibers can wait for."""

    def set(self) -> None:
        """Raise the flag and wake everyone who waits, in the order they came.

        All who wait now are woken, even if the flag is cleared before they run.
        """
        ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout_seconds: float | None = None) -> Awaitable[bool]:
        """True once the flag is up; False if time ran out first.

        Returns at once, without letting others run, if the flag is already up or no time is given
        (zero or less).
        """
        ...


class Queue(Protocol[T]):
    """An unbounded first-in, first-out queue.

    An item is handed to the getter that has waited longest. No item is ever lost: one handed to a
    getter that is cancelled before it runs goes to the next, or back to the front.
    """

    def put(self, item: T) -> None: ...

    def get(self, timeout_seconds: float | None = None) -> Awaitable[T]:
        """The oldest item; raises `TimedOut` if none comes in time.

        Returns at once, without letting others run, if there is one; raises at once if there is
        none and no time is given (zero or less).
        """
        ...

    def take_all(self) -> list[T]:
        """Everything in the queue, oldest first, leaving it empty."""
        ...

    def __len__(self) -> int: ...


class Kernel(Protocol):
    """Time, fibers and the things fibers wait on. One kernel serves one run.

    **Failures are never lost.** A fiber that raises while nobody is joining it fails the run, at
    once: every other fiber is cancelled and `run` raises the exception. Joining later is too late,
    so a fiber whose failure is expected must be joined before it can fail, or catch it itself. An
    exception that is no `Exception` (`KeyboardInterrupt`) fails the run even when joined. If more
    fail while the run winds down, the first is raised and the others are added to it as notes.
    """

    def now(self) -> float:
        """Seconds since an arbitrary moment; never runs backwards."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait. Zero or less lets everyone who is ready run first, and takes no time.

        Real time is kept to the millisecond only: a live sleep may end that much early.
        """
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> Fiber[T]:
        """Start a fiber. It first runs after the caller waits, in order of spawning."""
        ...

    def flag(self) -> Flag: ...

    def queue(self) -> Queue[Any]: ...

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main` is done and give back what it returned, or raise what it raised.

        The fibers then left are cancelled in the order they were spawned, and waited for; so are
        those that they spawn while ending. One that ignores `Cancelled` holds the run up.
        """
        ...
