"""The cores and memory of a node, and how many tasks may wait at the runner for a core."""

from dataward.model.operations import TaskSpec
from dataward.node.lead import Lead
from dataward.node.settings import NodeSettings
from dataward.node.slots import Slots
from dataward.world import World


class Capacity:
    """Gives out cores and memory. A task that asks for more than the node has is given all."""

    def __init__(self, world: World, settings: NodeSettings) -> None:
        self._cores = Slots(world.kernel, world.cores)
        self._memory = Slots(world.kernel, world.memory_bytes)
        self._lead = Lead(settings, world.cores)
        self._precedence = settings.precedence
        self._at_least = world.cores + settings.staging_ahead
        self._idle_staging = settings.idle_staging
        self.give_way_share = settings.give_way_share  # of its run time, for more urgent tasks

    @property
    def attempts_max(self) -> int:
        """How many attempts may be under way: running, staging in, or in line at the runner."""
        return self._at_least + self._lead.tasks

    def may_begin(self, under_way: int, staged: int) -> bool:
        """Whether one more attempt may begin beside so many, of which so many have their inputs.

        If cores are idle because the tasks for them wait for inputs, a few more may begin: one of
        them may have all it needs.
        """
        if under_way < self.attempts_max:
            return True
        return staged < self._cores.total and under_way < self.attempts_max + self._idle_staging

    def has_cores_for(self, tasks: int) -> bool:
        """Whether so many tasks of one core could have one at once."""
        return self._cores.free >= tasks

    def has_room_for(self, task: TaskSpec) -> bool:
        """Whether a task could have its cores and its memory at once, with nobody before it."""
        cores = min(task.cores, self._cores.total)
        memory = min(task.memory_bytes, self._memory.total)
        return self._cores.may_have_at_once(cores) and (
            not memory or self._memory.may_have_at_once(memory)
        )

    async def take(self, task: TaskSpec) -> None:
        """Wait for the cores and the memory that a task asks for."""
        cores, urgency = min(task.cores, self._cores.total), self._precedence.of(task.priority)
        await self._cores.take(cores, urgency)
        if not task.memory_bytes:
            return
        try:
            await self._memory.take(min(task.memory_bytes, self._memory.total), urgency)
        except BaseException:
            self._cores.give_back(cores)
            raise

    def give_back(self, task: TaskSpec) -> None:
        if task.memory_bytes:
            self._memory.give_back(min(task.memory_bytes, self._memory.total))
        self._cores.give_back(min(task.cores, self._cores.total))

    def loose_ends(self) -> dict[str, int]:
        """How many places are taken; all 0 when no task runs."""
        return {
            "cores taken": round(self._cores.total - self._cores.free),
            "bytes of memory taken": round(self._memory.total - self._memory.free),
        }

    def learn(self, seconds: float) -> None:
        """Record a task's run time: while tasks are short, some may wait at the runner."""
        self._lead.learn(seconds)
        self._cores.allow_debt(self._lead.tasks)
