"""Ends tasks of the event loop for good."""

import asyncio
from collections.abc import Sequence
from typing import Any

END_SECONDS = 0.5


async def end_all(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Cancel tasks, and wait for them. The store's client may swallow a cancellation: once more."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=END_SECONDS)
