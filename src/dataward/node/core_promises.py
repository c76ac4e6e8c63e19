"""What each core of a node has promised, and which task may start now so that all of it is kept.

A node that was told nothing has promised nothing: it takes its tasks by their deadlines.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from dataward.deadlines.local_schedule import (
    QueueSlot,
    idle_until,
    may_begin,
    next_to_start,
    reserved,
)
from dataward.model.messages import PromisedSlot
from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId
from dataward.world import CoresForUs, SharedCores

ReadyTasks = Mapping[TaskId, tuple[QueueEntry, int]]
"""Tasks that wait in the ready queue, each with the number of its stay there."""


@dataclass
class CorePromises:
    """One queue for each core, and the cores that tasks are on.

    A task that nobody promised, since its node is lost or a message was, has its priority as its
    deadline. Such a task, and one whose own core is busy, may start on any idle core that has
    nothing to start itself, if it ends before that core must start what it has promised.
    """

    cores: int
    shared: SharedCores = field(default_factory=CoresForUs)
    held_until: float = inf  # when a task that waits may perhaps start, if nothing else happens

    def __post_init__(self) -> None:
        self._queues: list[list[QueueSlot]] = [[] for _ in range(self.cores)]
        self._cores_of: dict[TaskId, tuple[int, ...]] = {}
        self._busy: dict[int, TaskId] = {}

    def promise(self, slots: Iterable[PromisedSlot]) -> None:
        """Keep these promises instead of those made before; tasks that run are not among them."""
        running = set(self._busy.values())
        queues: list[list[QueueSlot]] = [[] for _ in range(self.cores)]
        cores: dict[TaskId, tuple[int, ...]] = {}
        for slot in slots:
            if slot.task not in running and slot.core < self.cores:
                queues[slot.core].append(QueueSlot(slot.deadline, slot.seconds, slot.task))
                cores[slot.task] = (*cores.get(slot.task, ()), slot.core)
        self._queues = [reserved((), queue) for queue in queues]
        self._cores_of = cores
        self._tell({})

    def choose(self, ready: ReadyTasks, now: float) -> TaskId | None:
        """The task to start now, which has its cores from now on; None if none may start.

        Idle cores are asked in order: first for what they have promised, then for what others have.
        A core is left to somebody else whose task is tighter, and waits for it.
        """
        idle = [core for core in range(self.cores) if core not in self._busy]
        ours = []
        for core in idle:
            queue = self._merged(core, now)
            place = self._next(queue, ready, now, idle)
            if place is not None and isinstance(queue[place].task, bool):
                continue
            ours.append(core)
            if place is not None:
                task = TaskId(queue[place].task)
                if self._start(task, self._cores_of[task], now + queue[place].seconds):
                    self._tell(ready)
                    return task
        for core in ours:
            found = self._other(core, ready, now, idle)
            if found is not None and self._start(found[0], (core,), now + found[1]):
                self._tell(ready)
                return found[0]
        self.held_until = min((idle_until(self._merged(c, now), now) for c in idle), default=inf)
        self._tell(ready)
        return None

    def end(self, task: TaskId) -> None:
        """Give back the cores of a task that is no longer under way."""
        for core in [core for core, busy in self._busy.items() if busy == task]:
            del self._busy[core]
            self.shared.give_back(core)

    def forget(self, task: TaskId) -> None:
        """Drop the promise of a task that has ended elsewhere, or will not run."""
        for core in self._cores_of.pop(task, ()):
            self._queues[core] = [slot for slot in self._queues[core] if slot.task != task]

    def _start(self, task: TaskId, cores: Collection[int], until: float) -> bool:
        """Whether the task has got its cores: none of them is used by somebody else."""
        taken: list[int] = []
        for core in cores:
            if not self.shared.take(core, until):
                for other in taken:
                    self.shared.give_back(other)
                return False
            taken.append(core)
        self.forget(task)
        self._busy.update(dict.fromkeys(cores, task))
        return True

    def _next(
        self, queue: Sequence[QueueSlot], ready: ReadyTasks, now: float, idle: Collection[int]
    ) -> int | None:
        """The place of the task to start. One of several cores must make nobody late on any."""

        def may_start(task: object) -> bool:
            if isinstance(task, bool):  # somebody else's
                return task
            own = TaskId(str(task))
            cores = self._cores_of[own]
            if own not in ready or not all(other in idle for other in cores):
                return False
            if len(cores) == 1:
                return True
            return all(may_begin(self._merged(other, now), now, own) for other in cores)

        return next_to_start(queue, now, may_start)

    def _other(
        self, core: int, ready: ReadyTasks, now: float, idle: Collection[int]
    ) -> tuple[TaskId, float] | None:
        """The most urgent task that has no core of its own, or whose core is busy; how long."""
        until = idle_until(self._merged(core, now), now)
        for entry, _ in sorted(ready.values()):
            own = self._cores_of.get(entry.task, ())
            is_waiting = not own or (len(own) == 1 and own[0] not in idle)
            seconds = self._seconds(entry, own) if is_waiting else inf
            if now + seconds <= until and is_waiting:
                return entry.task, seconds
        return None

    def _seconds(self, entry: QueueEntry, cores: Sequence[int]) -> float:
        """For how long a task is promised, or should run."""
        for core in cores:
            for slot in self._queues[core]:
                if slot.task == entry.task:
                    return slot.seconds
        return entry.seconds

    def _merged(self, core: int, now: float) -> Sequence[QueueSlot]:
        """The queue of a core with what others have promised; nobody waits for who is late."""
        theirs = [
            QueueSlot(slot.deadline, slot.seconds, slot.is_ready and slot.latest_start >= now)
            for slot in self.shared.promised(core)
        ]
        return reserved(self._queues[core], theirs) if theirs else self._queues[core]

    def _tell(self, ready: ReadyTasks) -> None:
        wanted = self._wanted(ready) if self.shared.has_others else {}
        self.shared.tell(list(self._queues), wanted)

    def _wanted(self, ready: ReadyTasks) -> dict[int, float]:
        """For each core, the deadline of its first task that is ready and waits."""
        wanted = {}
        for core, queue in enumerate(self._queues):
            first = next((slot.deadline for slot in queue if slot.task in ready), None)
            if first is not None:
                wanted[core] = first
        return wanted

    def loose_ends(self) -> dict[str, int]:
        return {"cores with a task": len(self._busy)}
