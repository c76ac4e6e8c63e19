"""Spares: runs of tasks that other nodes run too, on cores that nothing here needs.

Should the other node die, or become slow, the time that the task has run is not lost. A spare ends
when another task wants its core and cannot wait for one, unless the spare is the only run of its
task by then. What is run as a spare is decided in `spare_offers`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.operations import Look, QueueEntry, TaskSpec
from dataward.model.workflow import TaskId
from dataward.node.attempts import UnderWay
from dataward.node.capacity import Capacity
from dataward.node.handing_over import give_up
from dataward.node.placer import Placer
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World

# Of the time that is left until a task must start by the plan. Sipht on 16 nodes lost 2,468 s of a
# critical task whose spare had ended for a task that could have waited.
PATIENCE_SHARE = 0.5


@dataclass
class Spares:
    world: World
    store: StoreClient
    state: NodeState
    capacity: Capacity
    placer: Placer

    def __post_init__(self) -> None:
        self._wanted_by: dict[TaskId, float] = {}  # by when tasks that wait are to have a core
        self._news = self.world.kernel.flag()

    async def next_entry(self) -> QueueEntry:
        """The next task to run as a spare. Those that come while no core is idle are let go of."""
        waiting = self.state.spares
        while True:
            await waiting.grown.wait()
            entry = waiting.take(min(waiting.tasks()))
            if self._has_idle_core():
                return entry
            self.state.outbox.let_go(entry.task)

    def _has_idle_core(self) -> bool:
        """Whether a core is left that neither attempts nor tasks that wait will take."""
        state = self.state
        taken = state.attempts.all + len(state.queue) + len(self.world.runner.taken_seconds())
        return taken < self.world.cores and not state.is_draining

    # --- giving way ------------------------------------------------------------------------------

    async def take_cores(self, task: TaskSpec) -> None:
        """Wait for the task's cores and memory; if need be, spares end for it."""
        if not self.state.attempts.spares() or self.capacity.has_room_for(task):
            return await self.capacity.take(task)
        now = self.world.kernel.now()
        self._wanted_by[task.id] = now + self._patience_seconds(task, now)
        self._news.set()
        try:
            await self.capacity.take(task)
        finally:
            del self._wanted_by[task.id]

    def _patience_seconds(self, task: TaskSpec, now: float) -> float:
        """For how long a task waits for another core before a spare ends for it.

        The task is not to start too late for the plan, and waits for no spare that is less urgent.
        Where run times are not certain, the plan says too little of how late is too late, and other
        nodes count on cores that spares have: with a sigma of 0.5, patience made runs 4% longer.
        The kernel's time and a task's priority both count from the beginning of the run.
        """
        if task.estimated_spread > 0:
            return 0.0
        if any(spare.entry.priority >= task.priority for spare in self.state.attempts.spares()):
            return 0.0
        return PATIENCE_SHARE * max(task.priority - now, 0.0)

    async def make_room(self) -> None:
        """End spares, the least urgent first, as long as a task waits that can wait no longer."""
        while True:
            first = min(self._wanted_by.values(), default=None)
            now = self.world.kernel.now()
            if first is not None and first <= now and (last := self._least_urgent()):
                await self._end(last)
                await self.world.kernel.sleep(0)  # whoever is given the core takes it
                continue
            self._news.clear()
            await self._news.wait(None if first is None or first <= now else first - now)

    def _least_urgent(self) -> list[UnderWay]:
        """The spare that is to end first; none if all are ending already."""
        able = [spare for spare in self.state.attempts.spares() if spare.may_end]
        return sorted(able, key=lambda spare: spare.entry)[-1:]

    async def give_way(self) -> None:
        """End all spares whenever a task waits for a core, maybe of another run on this machine."""
        while True:
            await self.state.attempts.has_spares.wait()
            await self.world.runner.crowded()
            await self._end([spare for spare in self.state.attempts.spares() if spare.may_end])

    async def _end(self, spares: Iterable[UnderWay]) -> None:
        """End these spares, but keep those that are the only runs of their tasks."""
        entries = {spare.entry.task: spare.entry for spare in spares}
        for standing in await self.store.call([Look(task) for task in entries]):
            assert isinstance(standing, Standing)
            if standing.live_attempts <= 1 and self.state.attempts.is_spare(standing.task):
                self.state.attempts.keep(standing.task)
                del entries[standing.task]
        given_up = await give_up(self.state, self.store, list(entries.values()), staging=True)
        needy = [standing for _, standing in given_up]
        await self.placer.place_for_good(needy, Occasion.LEFT)  # their nodes have died meanwhile
        for standing in needy:
            self.state.outbox.let_go(standing.task)
