"""The local ready queue: the tasks that this node will run next, most urgent first.

As in ADAGE's Figure 1, it is split into the node's own tasks and replicas received from others:
only own tasks may be given away.
"""

from enum import Enum
from heapq import heapify, heappop, heappush, nlargest
from math import inf

import msgspec

from dataward.model.answers import Standing
from dataward.model.operations import QueueEntry, Shelf
from dataward.model.workflow import TaskId
from dataward.node.core_promises import CorePromises
from dataward.node.learned_times import LearnedTimes
from dataward.node.waiting_load import WaitingLoad
from dataward.world import Kernel

HELD_SECONDS = 0.001  # after its latest start, a task is surely late


class TakeOrder(Enum):
    """In what order a node takes its own tasks; replicas come after them, unless it says so."""

    URGENCY = "urgency"  # by priority
    REPLICAS_TOO = "urgency, replicas too"  # by priority, own tasks and replicas alike
    KEPT_FIRST = "kept first"  # tasks that only this node may run first, each part by priority
    PROMISED = "as promised"  # by deadline, but none that would make a promised task late


class LoadMeasure(Enum):
    """What counts as a node's load."""

    SECONDS = "seconds"  # the estimated run time of all tasks that wait
    SHARED_TASKS = "shared tasks"  # one second for each task that a mover may take away


class ReadyQueue:
    """The most urgent task, to run, and the least urgent, to give, are found in O(log n).

    ``past_max`` outdated heap entries may be kept.
    """

    def __init__(
        self,
        kernel: Kernel,
        past_max: int = 1000,
        order: TakeOrder = TakeOrder.URGENCY,
        measure: LoadMeasure = LoadMeasure.SECONDS,
        times: LearnedTimes | None = None,
        promises: CorePromises | None = None,  # needed if tasks are taken as promised
    ) -> None:
        self._now = kernel.now
        self.promises = promises
        self._past_max = past_max
        self._order = order
        self._measure = measure
        self.grown = kernel.flag()  # set while there is a task to take
        self.offered = kernel.flag()  # set while there is a task to give
        self.confined = kernel.flag()  # set while there is an own task that no mover may take
        self.wanted = kernel.flag()  # set when the decision maker should claim more
        self.hungry = kernel.flag()  # set while the executor could begin a task, and there is none
        # Each entry has the number of its stay: the same entry may leave and come back, and a heap
        # entry of an earlier stay is skipped.
        self._entries: dict[TaskId, tuple[QueueEntry, int]] = {}
        self._stays = 0
        self._kept: list[tuple[QueueEntry, int]] = []  # used only if they come first
        self._urgent: list[tuple[QueueEntry, int]] = []
        self._replicas: list[tuple[QueueEntry, int]] = []
        self._patient: list[tuple[float, TaskId, int]] = []
        self._shared: set[TaskId] = set()
        self._givable: set[TaskId] = set()
        self._confined: set[TaskId] = set()
        self._movable = 0  # own tasks that a mover may take away
        self._load = WaitingLoad(times or LearnedTimes())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task: TaskId) -> bool:
        return task in self._entries

    @property
    def stays(self) -> int:
        """How many entries have come so far."""
        return self._stays

    @property
    def load_seconds(self) -> float:
        """How long all queued tasks should run, one after another, by what is known now.

        Or one second for each task that a mover may take away, if the load is measured so.
        """
        is_counted = self._measure is LoadMeasure.SHARED_TASKS
        return float(self._movable) if is_counted else self._load.seconds

    def weigh_again(self) -> None:
        """Let the load be what it is by run times learned since the tasks were queued."""
        self._load.weigh_again()

    @property
    def givable(self) -> int:
        """How many own tasks may still be given to others."""
        return len(self._givable)

    @property
    def kept(self) -> int:
        """How many own tasks no mover may take: the length of MATRIX's LReadyQ."""
        return len(self._confined)

    def put(self, entry: QueueEntry) -> None:
        if entry.task in self._entries:
            return
        self._stays += 1
        self._entries[entry.task] = (entry, self._stays)
        if self._order is not TakeOrder.PROMISED:
            heappush(self._heap_for(entry), (entry, self._stays))
        if entry.replica:
            self._shared.add(entry.task)
        else:
            if entry.shelf is Shelf.SHARED:
                heappush(self._patient, (-entry.priority, entry.task, self._stays))
                self._givable.add(entry.task)
                self._tidy()
                self.offered.set()
                self._movable += 1
            else:
                self._confined.add(entry.task)
                self.confined.set()
        self._load.add(entry)
        self.grown.set()
        self.hungry.clear()

    def _heap_for(self, entry: QueueEntry) -> list[tuple[QueueEntry, int]]:
        if entry.replica and self._order is not TakeOrder.REPLICAS_TOO:
            return self._replicas
        is_first = self._order is TakeOrder.KEPT_FIRST and entry.shelf is Shelf.KEPT
        return self._kept if is_first else self._urgent

    def _tidy(self) -> None:
        """Drop outdated entries from the heap of the least urgent, before they outnumber others."""
        if len(self._patient) > 2 * len(self._givable) + self._past_max:
            self._patient = [item for item in self._patient if self._is_here(*item[1:])]
            heapify(self._patient)

    def take(self) -> QueueEntry | None:
        """The first own entry in the queue's order; if there is none, the most urgent replica.

        None if there is neither. At equal urgency ids decide, so that a run replays exactly.
        """
        if self._order is TakeOrder.PROMISED:
            return self._take_most_urgent()
        for heap in (self._kept, self._urgent, self._replicas):
            while heap:
                entry, stay = heappop(heap)
                if self._is_here(entry.task, stay):
                    self._forget(entry)
                    return entry
        return None

    def _take_most_urgent(self) -> QueueEntry | None:
        if not self._entries:
            return None
        entry, _ = min(self._entries.values())
        self._forget(entry)
        return entry

    def take_to_start(self) -> QueueEntry | None:
        """The entry to start now, which is `take`'s, unless cores have promised something.

        Then it is one that makes nobody late; if there is none, ``grown`` is cleared.
        """
        if self.promises is None:
            return self.take()
        task = self.promises.choose(self._entries, self._now()) if self._entries else None
        if task is None:
            self.grown.clear()
            return None
        entry, _ = self._entries[task]
        self._forget(entry)
        return entry

    @property
    def held_seconds(self) -> float | None:
        """How long it takes until a task may start that must not start yet; None: for ever."""
        if self.promises is None or not self._entries or self.promises.held_until == inf:
            return None
        return max(self.promises.held_until - self._now(), 0.0) + HELD_SECONDS

    @property
    def has_startable(self) -> bool:
        """Whether a task waits that may start now, as far as is known."""
        return bool(self._entries) and (self.promises is None or self.grown.is_set())

    def look_again(self) -> None:
        """Have the executor look again for a task to start: a core is free, or promises changed."""
        if self._entries:
            self.grown.set()

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

    def most_urgent(self, count: int) -> list[QueueEntry]:
        """Up to ``count`` of the own entries that would be taken first; they stay in the queue."""
        seen: list[tuple[QueueEntry, int]] = []
        while self._urgent and len(seen) < count:
            item = heappop(self._urgent)
            if self._is_here(item[0].task, item[1]):
                seen.append(item)
        for item in seen:
            heappush(self._urgent, item)
        return [entry for entry, _ in seen]

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
        if entry.shelf is not Shelf.SHARED:
            self._confined.discard(entry.task)
            if not self._confined:
                self.confined.clear()
        elif not entry.replica:
            self._movable -= 1
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

    def offer_kept(self, count: int) -> None:
        """Let movers take the ``count`` least urgent of the own tasks that they might not take."""
        kept = (self._entries[task][0] for task in self._confined)
        for entry in nlargest(count, kept):
            self._forget(entry)
            self.put(msgspec.structs.replace(entry, shelf=Shelf.SHARED))

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
            "tasks in the ready queue noted as kept": len(self._confined),
            "past entries at the near end": len(self._kept)
            + len(self._urgent)
            + len(self._replicas),
        }


def entry_for(
    task: Standing,
    shelf: Shelf = Shelf.SHARED,
    *,
    replica: bool = False,
    displaced: bool = False,
) -> QueueEntry:
    """A task's queue entry, for its next generation."""
    return QueueEntry(
        task.priority,
        task.task,
        replica,
        task.seconds,
        task.generation + 1,
        shelf,
        task.spread,
        task.task_type,
        displaced,
    )
