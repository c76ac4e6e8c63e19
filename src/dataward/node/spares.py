"""Spares: runs of tasks that other nodes run too, on cores that nothing here needs.

Should the other node die, or become slow, the time that the task has run is not lost. A spare ends
as soon as anything else wants its core, unless the spare is the only run of its task by then. What
is run as a spare is decided in `spare_offers`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.operations import Look, QueueEntry, TaskSpec
from dataward.node.attempts import UnderWay
from dataward.node.capacity import Capacity
from dataward.node.handing_over import give_up
from dataward.node.placer import Placer
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World


@dataclass
class Spares:
    world: World
    store: StoreClient
    state: NodeState
    capacity: Capacity
    placer: Placer

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

    async def make_room(self, task: TaskSpec) -> None:
        """End as many spares as this task needs to have its cores and memory, or all of them."""
        while not self.capacity.has_room_for(task) and (last := self._least_urgent()):
            await self._end(last)

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
