"""The attempts under way on a node, by task, so that they can be found and cancelled.

Spares, which run only while a core is idle (see `spares`), are kept apart: whoever plans with this
node's cores does not count them.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from dataward.model.ids import AttemptId
from dataward.model.operations import QueueEntry, Shelf
from dataward.model.workflow import TaskId
from dataward.world import Fiber, FiberCancelled, Kernel


class BegunAttempt(NamedTuple):
    """An attempt that the store knows: its name, and how much it should write."""

    id: AttemptId
    output_bytes: int


@dataclass(slots=True)
class UnderWay:
    """An attempt under way; ``started_at`` is when its process began to run, if it has.

    An attempt that ``has_run`` is still under way while its outputs are stored.
    """

    fiber: Fiber[None]
    entry: QueueEntry
    begun: BegunAttempt | None = None  # once the store knows it
    is_staged: bool = False  # whether its inputs are here
    started_at: float | None = None
    has_run: bool = False
    is_called_off: bool = False

    @property
    def waits_to_run(self) -> bool:
        """Whether the store knows the attempt, and its process has not begun to run."""
        return self.begun is not None and self.started_at is None and not self.is_called_off

    @property
    def waits_for_core(self) -> bool:
        return self.is_staged and self.waits_to_run

    @property
    def may_end(self) -> bool:
        """Whether the attempt of a spare can be called off: it is known, and has not run yet."""
        return self.begun is not None and not self.has_run and not self.is_called_off

    @property
    def runs(self) -> bool:
        return self.started_at is not None and not self.has_run

    @property
    def begun_as(self) -> AttemptId | None:
        """The attempt's name, once the store knows it."""
        return self.begun.id if self.begun is not None else None

    @property
    def output_bytes(self) -> int:
        """How much the attempt should write, as far as is known."""
        return self.begun.output_bytes if self.begun is not None else 0

    def begin(self, attempt: BegunAttempt) -> None:
        self.begun = attempt

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
        self._spares: dict[TaskId, UnderWay] = {}
        self._staged = 0
        self.started_one = kernel.flag()  # set when a process has begun to run
        self._moved_on = kernel.flag()
        self.has_spares = kernel.flag()  # set while a spare is under way

    def __contains__(self, task: TaskId) -> bool:
        return self._find(task) is not None

    def __len__(self) -> int:
        """How many attempts are under way, spares left out."""
        return len(self._under_way)

    @property
    def all(self) -> int:
        """How many attempts are under way, spares included."""
        return len(self._under_way) + len(self._spares)

    @property
    def started(self) -> int:
        """How many attempts have a process that runs, or has run, spares included."""
        return sum(attempt.started_at is not None for attempt in self._each())

    def under_way(self) -> Iterable[UnderWay]:
        """The attempts under way, spares left out, in the order in which they were begun."""
        return self._under_way.values()

    def spares(self) -> Collection[UnderWay]:
        """The spares under way, in the order in which they were begun."""
        return self._spares.values()

    def _each(self) -> list[UnderWay]:
        return [*self._under_way.values(), *self._spares.values()]

    def _find(self, task: TaskId) -> UnderWay | None:
        return self._under_way.get(task) or self._spares.get(task)

    def begin(self, entry: QueueEntry, fiber: Fiber[None]) -> None:
        """Count an attempt as under way, until `end` is called for it."""
        if entry.shelf is Shelf.SPARE:
            self._spares[entry.task] = UnderWay(fiber, entry)
            self.has_spares.set()
        else:
            self._under_way[entry.task] = UnderWay(fiber, entry)

    def is_spare(self, task: TaskId) -> bool:
        return task in self._spares

    def keep(self, task: TaskId) -> None:
        """Let the task's spare, if there is one, be an attempt like any other from now on."""
        spare = self._spares.pop(task, None)
        if spare is None:
            return
        self._under_way[task] = spare
        self._staged += spare.is_staged
        self._note_spares()
        self.started_one.set()

    def _note_spares(self) -> None:
        if not self._spares:
            self.has_spares.clear()

    def begun(self, task: TaskId, attempt: AttemptId, output_bytes: int = 0) -> None:
        """Note the name by which the store knows the attempt, and how much it should write."""
        under_way = self._find(task)
        if under_way is not None:
            under_way.begin(BegunAttempt(attempt, output_bytes))

    def stage(self, task: TaskId) -> None:
        """Note that the inputs of the task's attempt are here."""
        under_way = self._find(task)
        if under_way is not None:
            self._staged += not under_way.is_staged and task in self._under_way
            under_way.stage()
            self._wake()

    @property
    def staged(self) -> int:
        """How many attempts have their inputs here, spares left out."""
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
        under_way = self._find(task)
        if under_way is not None:
            under_way.start(self._kernel.now())
            self.started_one.set()

    def finish_run(self, task: TaskId) -> None:
        """Note that the process has ended: the attempt needs no core any more, and is not late."""
        under_way = self._find(task)
        if under_way is not None:
            under_way.finish_run()

    def end(self, task: TaskId) -> None:
        if self._spares.pop(task, None) is None:
            self._staged -= self._under_way.pop(task).is_staged
        self._note_spares()
        self._on_end(task)
        self._wake()

    async def over(self, task: TaskId) -> None:
        """Wait until no attempt at this task is under way: the task may be queued while one is."""
        while (attempt := self._find(task)) is not None:
            with suppress(FiberCancelled):
                await attempt.fiber.join()

    # --- cancelling ------------------------------------------------------------------------------

    def cancel(self, task: TaskId, up_to_generation: int) -> None:
        """Cancel the task's attempt if it is for this generation or an earlier one."""
        attempt = self._find(task)
        if attempt is not None and attempt.entry.generation <= up_to_generation:
            self._cancel(attempt)

    def call_off(self, task: TaskId, *, staging: bool = False) -> AttemptId | None:
        """Cancel an attempt that waits for a core, so that another node may run the task.

        With ``staging``, also one that waits for its inputs. A spare is cancelled even if it runs.
        Returns the attempt's name; the caller releases it in the store. None if the attempt has got
        its core, or has ended.
        """
        attempt = self._find(task)
        if attempt is None:
            return None
        waits = attempt.waits_to_run if staging else attempt.waits_for_core
        if not (waits or (self.is_spare(task) and attempt.may_end)):
            return None
        attempt.call_off()
        attempt.fiber.cancel()
        return attempt.begun_as

    def is_called_off(self, task: TaskId) -> bool:
        attempt = self._find(task)
        return attempt is not None and attempt.is_called_off

    def cancel_all(self) -> None:
        for attempt in self._each():
            self._cancel(attempt)

    def cancel_unstarted(self) -> None:
        """Cancel the attempts that do not run yet, and all spares."""
        for attempt in self._each():
            if attempt.started_at is None or self.is_spare(attempt.entry.task):
                self._cancel(attempt)

    def _cancel(self, attempt: UnderWay) -> None:
        task = attempt.entry.task
        attempt.fiber.cancel()
        if attempt.fiber.done() and self._find(task) is attempt:
            # It had not had its first turn and will not have it, so it cannot clean up itself.
            self.end(task)
            self._on_dropped(task)
