"""A time limit for any coroutine, on any kernel."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from dataward.kernel.interface import Cancelled, Fiber, FiberCancelled, Kernel, TimedOut

T = TypeVar("T")


async def with_timeout(kernel: Kernel, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
    """What the coroutine returns; cancels it and raises `TimedOut` if it is not done in time.

    The coroutine runs as a fiber of its own and is always over when this returns: on time-out, or
    when the caller is cancelled, its `finally` blocks are waited for. If it fails while being
    cancelled, that failure is raised instead of `TimedOut`.
    """
    fiber = kernel.spawn(coroutine)
    try:
        return await fiber.join(seconds)
    except TimedOut as late:
        # If the fiber is done, the coroutine itself raised this TimedOut, and there is no time-out.
        if fiber.done():
            raise
        await _stop(fiber)
        raise TimedOut(fiber.name, seconds) from late
    except Cancelled:
        await _stop(fiber)
        raise


async def _stop(fiber: Fiber[object]) -> None:
    fiber.cancel()
    with suppress(FiberCancelled):
        await fiber.join()
