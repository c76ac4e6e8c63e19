"""The attempts under way on a node, by task, so that they can be found and cancelled."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId
from dataward.world import Fiber, FiberCancelled, Kernel


@dataclass(slots=True)
class _UnderWay:
    fiber: Fiber[None]
    generation: int
    is_started: bool = False  # its process runs, or has run

    def start(self) -> None:
        self.is_started = True


class Attempts:
    """``on_dropped`` is told the task of an attempt that was cancelled before its first turn."""

    def __init__(self, kernel: Kernel, on_dropped: Callable[[TaskId], None]) -> None:
        self._on_dropped = on_dropped
        self._under_way: dict[TaskId, _UnderWay] = {}
        self._one_over = kernel.flag()

    def __contains__(self, task: TaskId) -> bool:
        return task in self._under_way

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def started(self) -> int:
        """How many attempts have a process that runs, or has run."""
        return sum(attempt.is_started for attempt in self._under_way.values())

    def begin(self, entry: QueueEntry, fiber: Fiber[None]) -> None:
        """Count an attempt as under way, until `end` is called for it."""
        self._under_way[entry.task] = _UnderWay(fiber, entry.generation)

    def start(self, task: TaskId) -> None:
        """Note that the process of the task's attempt runs from now on."""
        if task in self._under_way:
            self._under_way[task].start()

    def end(self, task: TaskId) -> None:
        del self._under_way[task]
        self._one_over.set()

    async def one_over(self) -> None:
        """Wait until some attempt ends."""
        self._one_over.clear()
        await self._one_over.wait()

    async def over(self, task: TaskId) -> None:
        """Wait until no attempt at this task is under way: the task may be queued while one is."""
        while (attempt := self._under_way.get(task)) is not None:
            with suppress(FiberCancelled):
                await attempt.fiber.join()

    # --- cancelling ------------------------------------------------------------------------------

    def cancel(self, task: TaskId, up_to_generation: int) -> None:
        """Cancel the task's attempt if it is for this generation or an earlier one."""
        attempt = self._under_way.get(task)
        if attempt is not None and attempt.generation <= up_to_generation:
            self._cancel(task, attempt)

    def cancel_all(self) -> None:
        for task, attempt in list(self._under_way.items()):
            self._cancel(task, attempt)

    def cancel_unstarted(self) -> None:
        for task, attempt in list(self._under_way.items()):
            if not attempt.is_started:
                self._cancel(task, attempt)

    def _cancel(self, task: TaskId, attempt: _UnderWay) -> None:
        attempt.fiber.cancel()
        if attempt.fiber.done() and self._under_way.get(task) is attempt:
            # It had not had its first turn and will not have it, so it cannot clean up itself.
            self.end(task)
            self._on_dropped(task)
