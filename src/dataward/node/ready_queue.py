"""The local ready queue: the tasks that this node will run next, most urgent first.

As in ADAGE's Figure 1, it is split into the node's own tasks and replicas received from others:
only own tasks may be given away.
"""

from heapq import heapify, heappop, heappush

from dataward.model.answers import Standing
from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId
from dataward.node.learned_times import LearnedTimes
from dataward.node.waiting_load import WaitingLoad
from dataward.world import Kernel


class ReadyQueue:
    """The most urgent task, to run, and the least urgent, to give, are found in O(log n).

    ``past_max`` outdated heap entries may be kept.
    """

    def __init__(
        self, kernel: Kernel, past_max: int = 1000, times: LearnedTimes | None = None
    ) -> None:
        self._past_max = past_max
        self.grown = kernel.flag()  # set while there is a task to take
        self.offered = kernel.flag()  # set while there is a task to give
        self.wanted = kernel.flag()  # set when the decision maker should claim more
        # Each entry has the number of its stay: the same entry may leave and come back, and a heap
        # entry of an earlier stay is skipped.
        self._entries: dict[TaskId, tuple[QueueEntry, int]] = {}
        self._stays = 0
        self._urgent: list[tuple[QueueEntry, int]] = []
        self._replicas: list[tuple[QueueEntry, int]] = []
        self._patient: list[tuple[float, TaskId, int]] = []
        self._shared: set[TaskId] = set()
        self._givable: set[TaskId] = set()
        self._load = WaitingLoad(times or LearnedTimes())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task: TaskId) -> bool:
        return task in self._entries

    @property
    def load_seconds(self) -> float:
        """How long all queued tasks should run, one after another, by what is known now."""
        return self._load.seconds

    def weigh_again(self) -> None:
        """Let the load be what it is by run times learned since the tasks were queued."""
        self._load.weigh_again()

    @property
    def givable(self) -> int:
        """How many own tasks may still be given to others."""
        return len(self._givable)

    def put(self, entry: QueueEntry) -> None:
        if entry.task in self._entries:
            return
        self._stays += 1
        self._entries[entry.task] = (entry, self._stays)
        if entry.replica:
            heappush(self._replicas, (entry, self._stays))
            self._shared.add(entry.task)
        else:
            heappush(self._urgent, (entry, self._stays))
            if not entry.given:
                heappush(self._patient, (-entry.priority, entry.task, self._stays))
                self._givable.add(entry.task)
                self._tidy()
                self.offered.set()
        self._load.add(entry)
        self.grown.set()

    def _tidy(self) -> None:
        """Drop outdated entries from the heap of the least urgent, before they outnumber others."""
        if len(self._patient) > 2 * len(self._givable) + self._past_max:
            self._patient = [item for item in self._patient if self._is_here(*item[1:])]
            heapify(self._patient)

    def take(self) -> QueueEntry | None:
        """The most urgent own entry; if there is none, the most urgent replica; else None.

        At equal urgency ids decide, so that a run replays exactly.
        """
        for heap in (self._urgent, self._replicas):
            while heap:
                entry, stay = heappop(heap)
                if self._is_here(entry.task, stay):
                    self._forget(entry)
                    return entry
        return None

    def _is_here(self, task: TaskId, stay: int) -> bool:
        present = self._entries.get(task)
        return present is not None and present[1] == stay

    def least_urgent(self, count: int) -> list[QueueEntry]:
        """Up to ``count`` of the least urgent entries that may be given; they stay in the queue."""
        seen: list[tuple[float, TaskId, int]] = []
        while self._patient and len(seen) < count:
            item = heappop(self._patient)
            if item[1] in self._givable and self._is_here(item[1], item[2]):
                seen.append(item)
        for item in seen:
            heappush(self._patient, item)
        return [self._entries[task][0] for _, task, _ in seen]

    def remove(self, task: TaskId, up_to_generation: int | None = None) -> bool:
        """Whether a task was taken out: only if it is queued for this generation or earlier."""
        present = self._entries.get(task)
        if present is None:
            return False
        if up_to_generation is not None and present[0].generation > up_to_generation:
            return False
        self._forget(present[0])
        return True

    def _forget(self, entry: QueueEntry) -> None:
        del self._entries[entry.task]
        self._shared.discard(entry.task)
        self.keep(entry.task)
        self._load.remove(entry)
        if not self._entries:
            self.grown.clear()

    def share(self, task: TaskId) -> None:
        """Note that another node has this task too, and so may finish it."""
        if task in self._entries:
            self._shared.add(task)

    def keep(self, task: TaskId) -> None:
        """Do not give this task away any more: it has left, or has all the backups it may have."""
        self._givable.discard(task)
        if not self._givable:
            self.offered.clear()

    def shared(self) -> list[TaskId]:
        return sorted(self._shared)

    def clear(self) -> None:
        for task in list(self._entries):
            self.remove(task)

    def loose_ends(self) -> dict[str, int]:
        """How many entries of each kind are kept; all 0 when there is no work left."""
        return {
            "tasks in the ready queue": len(self._entries),
            "tasks in the ready queue noted as shared": len(self._shared),
            "tasks in the ready queue noted as givable": len(self._givable),
            "past entries at the near end": len(self._urgent) + len(self._replicas),
        }


def entry_for(task: Standing, *, replica: bool = False) -> QueueEntry:
    """A task's queue entry, for its next generation."""
    return QueueEntry(
        task.priority,
        task.task,
        replica,
        task.seconds,
        task.generation + 1,
        spread=task.spread,
        task_type=task.task_type,
    )
