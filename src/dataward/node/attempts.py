"""The attempts under way on a node, by task, so that they can be found and cancelled."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from dataward.model.ids import AttemptId
from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId
from dataward.world import Fiber, FiberCancelled, Kernel


@dataclass(slots=True)
class UnderWay:
    """An attempt under way; ``started_at`` is when its process began to run, if it has.

    An attempt that ``has_run`` is still under way while its outputs are stored.
    """

    fiber: Fiber[None]
    entry: QueueEntry
    begun_as: AttemptId | None = None  # the attempt's name, once the store knows it
    is_staged: bool = False  # whether its inputs are here
    started_at: float | None = None
    has_run: bool = False
    is_called_off: bool = False

    @property
    def waits_to_run(self) -> bool:
        """Whether the store knows the attempt, and its process has not begun to run."""
        return self.begun_as is not None and self.started_at is None and not self.is_called_off

    @property
    def waits_for_core(self) -> bool:
        return self.is_staged and self.waits_to_run

    @property
    def runs(self) -> bool:
        return self.started_at is not None and not self.has_run

    def begin(self, attempt: AttemptId) -> None:
        self.begun_as = attempt

    def stage(self) -> None:
        self.is_staged = True

    def call_off(self) -> None:
        self.is_called_off = True

    def start(self, at: float) -> None:
        self.started_at = at

    def finish_run(self) -> None:
        self.has_run = True


class Attempts:
    """``on_dropped`` is told the task of an attempt that was cancelled before its first turn.

    ``on_end`` is told the task of every attempt that is over.
    """

    def __init__(
        self,
        kernel: Kernel,
        on_dropped: Callable[[TaskId], None],
        on_end: Callable[[TaskId], None] = lambda task: None,
    ) -> None:
        self._kernel = kernel
        self._on_dropped = on_dropped
        self._on_end = on_end
        self._under_way: dict[TaskId, UnderWay] = {}
        self._staged = 0
        self.started_one = kernel.flag()  # set when a process has begun to run
        self._moved_on = kernel.flag()

    def __contains__(self, task: TaskId) -> bool:
        return task in self._under_way

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def started(self) -> int:
        """How many attempts have a process that runs, or has run."""
        return sum(attempt.started_at is not None for attempt in self._under_way.values())

    def under_way(self) -> Iterable[UnderWay]:
        """The attempts under way, in the order in which they were begun."""
        return self._under_way.values()

    def begin(self, entry: QueueEntry, fiber: Fiber[None]) -> None:
        """Count an attempt as under way, until `end` is called for it."""
        self._under_way[entry.task] = UnderWay(fiber, entry)

    def begun(self, task: TaskId, attempt: AttemptId) -> None:
        """Note the name by which the store knows the task's attempt."""
        under_way = self._under_way.get(task)
        if under_way is not None:
            under_way.begin(attempt)

    def stage(self, task: TaskId) -> None:
        """Note that the inputs of the task's attempt are here."""
        under_way = self._under_way.get(task)
        if under_way is not None:
            self._staged += not under_way.is_staged
            under_way.stage()
            self._wake()

    @property
    def staged(self) -> int:
        """How many attempts have their inputs here."""
        return self._staged

    def staging_before(self, priority: float) -> int:
        """How many attempts wait for inputs at tasks that are more urgent than this."""
        return sum(
            not attempt.is_staged and attempt.entry.priority < priority
            for attempt in self._under_way.values()
        )

    async def one_moved_on(self, timeout_seconds: float | None = None) -> None:
        """Wait until the inputs of some attempt are here, or some attempt ends, but no longer."""
        self._moved_on.clear()
        await self._moved_on.wait(timeout_seconds)

    def _wake(self) -> None:
        self._moved_on.set()

    def start(self, task: TaskId) -> None:
        """Note that the process of the task's attempt runs from now on."""
        if task in self._under_way:
            self._under_way[task].start(self._kernel.now())
            self.started_one.set()

    def finish_run(self, task: TaskId) -> None:
        """Note that the process has ended: the attempt needs no core any more, and is not late."""
        if task in self._under_way:
            self._under_way[task].finish_run()

    def end(self, task: TaskId) -> None:
        self._staged -= self._under_way.pop(task).is_staged
        self._on_end(task)
        self._wake()

    async def over(self, task: TaskId) -> None:
        """Wait until no attempt at this task is under way: the task may be queued while one is."""
        while (attempt := self._under_way.get(task)) is not None:
            with suppress(FiberCancelled):
                await attempt.fiber.join()

    # --- cancelling ------------------------------------------------------------------------------

    def cancel(self, task: TaskId, up_to_generation: int) -> None:
        """Cancel the task's attempt if it is for this generation or an earlier one."""
        attempt = self._under_way.get(task)
        if attempt is not None and attempt.entry.generation <= up_to_generation:
            self._cancel(task, attempt)

    def call_off(self, task: TaskId, *, staging: bool = False) -> AttemptId | None:
        """Cancel an attempt that waits for a core, so that another node may run the task.

        With ``staging``, also one that waits for its inputs. Returns its name; the caller releases
        it in the store. None if the attempt has got its core, or has ended.
        """
        attempt = self._under_way.get(task)
        if attempt is None or not (attempt.waits_to_run if staging else attempt.waits_for_core):
            return None
        attempt.call_off()
        attempt.fiber.cancel()
        return attempt.begun_as

    def is_called_off(self, task: TaskId) -> bool:
        attempt = self._under_way.get(task)
        return attempt is not None and attempt.is_called_off

    def cancel_all(self) -> None:
        for task, attempt in list(self._under_way.items()):
            self._cancel(task, attempt)

    def cancel_unstarted(self) -> None:
        for task, attempt in list(self._under_way.items()):
            if attempt.started_at is None:
                self._cancel(task, attempt)

    def _cancel(self, task: TaskId, attempt: UnderWay) -> None:
        attempt.fiber.cancel()
        if attempt.fiber.done() and self._under_way.get(task) is attempt:
            # It had not had its first turn and will not have it, so it cannot clean up itself.
            self.end(task)
            self._on_dropped(task)
