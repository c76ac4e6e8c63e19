"""What a node does when its depot is full: which files may go, and how long tasks wait for room."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, inf
from typing import NamedTuple

from dataward.model.answers import Standing
from dataward.model.operations import Look, TaskSpec
from dataward.model.quantities import show_bytes
from dataward.model.states import FINAL
from dataward.model.workflow import FileId, TaskId
from dataward.node.depot import Depot
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.world import World

BATCH = 1000  # operations in one call
# A task that is sent around has been here so often before this node calls it hopeless, however many
# other nodes there are: a node is drawn at random, and some of them may have room.
VISITS_MIN = 3
FORGOTTEN_SECONDS_MIN = 60.0  # a visit counts for so long, even if tries are to follow quickly
SAID_LEASES = 3  # for which a node says that a task found no room


class _Visits(NamedTuple):
    number: int
    last_at: float


@dataclass
class Room:
    world: World
    settings: NodeSettings
    store: StoreClient
    depot: Depot
    _visits: dict[TaskId, _Visits] = field(default_factory=dict)  # of tasks that found no room
    _looked_at: float = -inf
    _said: str = ""
    _said_at: float = -inf

    # --- patience --------------------------------------------------------------------------------

    def visits(self, task: TaskId) -> int:
        """How often the task has found no room here, lately."""
        return self._visits[task].number if task in self._visits else 0

    def is_hopeless(self, task: TaskId) -> bool:
        """Whether a task that found no room is not tried again; each question counts as a visit.

        All nodes together try it about ``full_disk_tries`` times. What was long ago does not count;
        but with many nodes, a task that goes around comes back after many pauses.
        """
        now, settings = self.world.kernel.now(), self.settings
        nodes = len(set(self.world.nodes) | {self.world.node})
        before = self._visits.get(task, _Visits(0, now))
        round_seconds = max(settings.full_disk_tries, 4 * nodes) * settings.retry_seconds_max
        forgotten = now - before.last_at > max(round_seconds, FORGOTTEN_SECONDS_MIN)
        count = 1 if forgotten else before.number + 1
        self._visits[task] = _Visits(count, now)
        if nodes == 1:
            return count > settings.full_disk_tries
        return count > max(VISITS_MIN, ceil(settings.full_disk_tries / nodes))

    # --- what is said ----------------------------------------------------------------------------

    def say(self, spec: TaskSpec, reason: str) -> str:
        """The reason why a task waits for room, with all that it needs; `said` repeats it."""
        sizes = [file.size_bytes for file in spec.inputs]
        needed = sum(max(size, 0) for size in (*sizes, *(file.size_bytes for file in spec.outputs)))
        self._said = f"task {spec.id!r} waits for room: {reason}"
        if needed:
            self._said += f"; it needs {show_bytes(needed)} in all at one node"
        self._said_at = self.world.kernel.now()
        return self._said

    @property
    def said(self) -> str:
        """Why a task waits for room, if one does; "" if none did for a while."""
        now = self.world.kernel.now()
        is_recent = now - self._said_at < SAID_LEASES * self.settings.lease_seconds
        return self._said if is_recent else ""

    # --- files that may go -----------------------------------------------------------------------

    async def gain(self) -> bool:
        """Whether there are files here, written by tasks, that may go from now on.

        They are those whose readers have all finished. Should a reader run again, such a file is
        made again. The store is asked for them no more often than once in a while.
        """
        now = self.world.kernel.now()
        if now - self._looked_at < self.settings.retry_seconds_max:
            return False
        self._looked_at = now
        made = self.depot.made_here()
        owners = await self._look(made, children=True)
        readers = dict.fromkeys(child for owner in owners for child in owner.children)
        looks = {look.task: look for look in await self._look(readers)}
        spent: list[FileId] = []
        for owner in owners:
            children = [looks[child] for child in owner.children if child in looks]
            if children and all(child.state in FINAL for child in children):
                read = {file.id for child in children for file in child.inputs}
                spent += [file for file in made[owner.task] if file in read]
        return self.depot.may_go(spent)

    async def _look(self, tasks: Iterable[TaskId], *, children: bool = False) -> list[Standing]:
        found: list[Standing] = []
        looks = [Look(task, children) for task in tasks]
        for start in range(0, len(looks), BATCH):
            answers = await self.store.call(looks[start : start + BATCH])
            found += [answer for answer in answers if isinstance(answer, Standing)]
        return found
