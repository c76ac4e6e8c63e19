"""What the slots of a host have promised, and which waiting order may start in which slot.

Each slot has a queue of promised tasks (`ExecutionRole`), those included that are not ready yet. A
free slot starts the task that `next_to_start` names: earliest deadline first, and none that would
make a task late that is still to come. An order without a promise counts as one whose deadline is
infinitely late: it starts only where it makes no promise late.

A task of several cores is in the queue of each of its slots, and starts when all of them are free.
If it is late and one of them is not, no task with a later deadline starts in the others: under load
they would hardly ever be free at the same time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from dataward.deadlines.local_schedule import QueueSlot, may_begin, next_to_start, pushed_starts
from dataward.deadlines.reservations import ExecutionRole, as_mates
from dataward.live.runner_connection import PendingOrder
from dataward.model.workflow import TaskId

UNKNOWN_SECONDS = 1e9  # of an order of which nobody knows how long it takes
HOLD_SECONDS = 60.0  # for which a promise is kept whose run is not there
STRAYS_MAX = 64  # promised orders that are tried in other slots than their own
LEAST_SECONDS = 1.0  # that an order of unknown length still takes


QueuedName = tuple[str, str]
"""(run, task); what was only booked has other names."""


class SlotPromise(NamedTuple):
    """A task that a slot has promised to end by a deadline, and the seconds reserved for it.

    A task of several cores has a promise of each of its slots.
    """

    task: TaskId
    slot: int
    deadline: float
    seconds: float


class Start(NamedTuple):
    """An order that starts now, and the slots that it takes."""

    pending: PendingOrder
    slots: tuple[int, ...]


class PromisedSlots:
    """One for a host. ``clock`` gives the time that all hosts share, in which promises are made."""

    def __init__(
        self, slots: int, clock: Callable[[], float], *, speed: float = 1.0, place: int = -1,
        bytes_per_second: float = 1e9,
    ) -> None:  # fmt: skip
        self.clock = clock
        self.roles = [
            ExecutionRole(
                speed=speed,
                patience_seconds=inf,
                hold_seconds=HOLD_SECONDS,
                place=place,
                bytes_per_second=bytes_per_second,
            )
            for _ in range(slots)
        ]
        as_mates(self.roles)
        self._deadlines: dict[str, Mapping[TaskId, float]] = {}  # of all tasks of promised runs
        self._begun: dict[str, set[str]] = {}  # tasks that have begun here, and need no slot

    def __bool__(self) -> bool:
        """Whether anything is promised."""
        return bool(self._deadlines) or any(role.queue for role in self.roles)

    def adopt(
        self,
        run: str,
        promises: Iterable[SlotPromise],
        deadlines: Mapping[TaskId, float],
        begun: Iterable[TaskId] = (),
    ) -> None:
        """Have the promises of a run that go to these slots, instead of older ones of the run.

        ``deadlines`` are those of all tasks of the run, wherever they were promised; of those that
        have ``begun`` here none needs a slot.
        """
        self._deadlines[run] = deadlines
        over = self._begun.setdefault(run, set())
        over.update(begun)
        slots: dict[int, list[QueueSlot]] = {}
        for one in promises:
            if one.task in over or one.slot >= len(self.roles):
                continue
            slot = QueueSlot(one.deadline, one.seconds, (run, one.task))
            slots.setdefault(one.slot, []).append(slot)
        for number, role in enumerate(self.roles):
            role.adopt(run, slots.get(number, ()))

    def release(self, is_dropped: Callable[[object], bool]) -> None:
        """Free what was booked by these."""
        for role in self.roles:
            for booker in [booker for booker in role.booked if is_dropped(booker)]:
                role.release(booker)

    def forget(self, run: str) -> None:
        """The run is over."""
        self._deadlines.pop(run, None)
        self._begun.pop(run, None)
        self.release(lambda booker: booker == run)

    def is_promised(self, run: str) -> bool:
        return run in self._deadlines

    # --- which order starts ----------------------------------------------------------------------

    def note_running(self, running: Sequence[PendingOrder]) -> list[int]:
        """The slots that are free beside these orders; roles are told when the others will be."""
        now = self.clock()
        free = list(range(len(self.roles)))
        unplaced = []
        for pending in running:
            if pending.slots and all(slot in free for slot in pending.slots):
                free = [slot for slot in free if slot not in pending.slots]
            else:
                unplaced.append(pending)
        for pending in unplaced:  # given out when nothing was promised
            pending.take(tuple(free[-min(pending.order.cores, len(free)) :] if free else ()))
            free = [slot for slot in free if slot not in pending.slots]
        for role in self.roles:
            role.busy_until(0.0)
        for pending in running:
            for slot in pending.slots:
                self.roles[slot].busy_until(now + _seconds_left(pending))
        return free

    def next_start(
        self, waiting: Mapping[str, Sequence[PendingOrder]], free: Sequence[int]
    ) -> Start | None:
        """What to start now of the orders that wait, by run, in slots that are free; or None.

        ``waiting`` has the runs in the order in which they get what is not promised.
        """
        now = self.clock()
        promised = {
            (run, pending.order.task): pending
            for run, line in waiting.items()
            if run in self._deadlines
            for pending in line
        }
        wide = {task: one.order.cores for task, one in promised.items() if one.order.cores > 1}
        homes = self._homes(wide)
        kept = self._kept_free(homes, free, now)

        def may_start(task: QueuedName) -> bool:
            if task not in wide:
                return task in promised
            slots = homes.get(task, ())
            return bool(slots) and all(
                n in free and may_begin(self.roles[n].queue, now, task) for n in slots
            )

        found: list[tuple[float, int, QueuedName]] = []
        for slot in free if promised else ():
            queue = self.roles[slot].queue
            place = next_to_start(queue, now, may_start)
            if place is not None and queue[place].deadline <= kept.get(slot, (inf,))[0]:
                found.append((queue[place].deadline, slot, queue[place].task))
        if found:
            _, slot, task = min(found, key=lambda one: one[:2])
            return Start(promised[task], homes.get(task, (slot,)))
        strays = sorted(promised.values(), key=self._deadline)[:STRAYS_MAX]
        others = [line[0] for run, line in waiting.items() if run not in self._deadlines and line]
        for pending in [*strays, *others]:
            task = (pending.run, pending.order.task)
            usable = [slot for slot in free if slot not in kept or kept[slot][1] == task]
            fitting = [slot for slot in usable if self._fits(pending, slot, now)]
            cores = min(pending.order.cores, len(self.roles))
            if len(fitting) >= cores:
                fitting.sort(key=lambda slot: (-self._first_start(slot), slot))
                return Start(pending, tuple(fitting[:cores]))
        return None

    def look_again_seconds(self) -> float:
        """After how long an order may start that may not now, if nothing else happens.

        A promised task whose latest start has passed is late, and holds nobody up.
        """
        now = self.clock()
        starts = [start for role in self.roles for start in pushed_starts(role.queue)]
        return min((start - now for start in starts if start >= now), default=inf)

    def _deadline(self, pending: PendingOrder) -> float:
        return self._deadlines[pending.run].get(TaskId(pending.order.task), 0.0)

    def started(self, start: Start) -> None:
        """The order takes its slots; what was reserved for it, in whichever slot, is used."""
        pending = start.pending
        pending.take(start.slots)
        task = (pending.run, pending.order.task)
        if pending.run in self._begun:
            self._begun[pending.run].add(pending.order.task)
        for role in self.roles:
            slot = role.take(task)
            if slot is not None:
                pending.expect(slot.seconds)

    def _homes(self, wide: Mapping[QueuedName, int]) -> dict[QueuedName, tuple[int, ...]]:
        """The slots that have promised tasks of several cores, of which each has as many."""
        found: dict[QueuedName, tuple[int, ...]] = {}
        for number, role in enumerate(self.roles if wide else ()):
            for slot in role.queue:
                if slot.task in wide:
                    found[slot.task] = (*found.get(slot.task, ()), number)
        return {task: slots for task, slots in found.items() if len(slots) == wide[task]}

    def _kept_free(
        self, homes: Mapping[QueuedName, tuple[int, ...]], free: Sequence[int], now: float
    ) -> dict[int, tuple[float, QueuedName]]:
        """Free slots of tasks that are late and wait for other slots: the deadline, and the task.

        Of several such tasks the one with the earliest deadline has the slot.
        """
        found: dict[int, tuple[float, QueuedName]] = {}
        for task, slots in homes.items():
            if all(slot in free for slot in slots):
                continue
            queue = self.roles[slots[0]].queue
            promise = next(slot for slot in queue if slot.task == task)
            if promise.deadline - promise.seconds < now:
                for number in set(slots).intersection(free):
                    own = (promise.deadline, task)
                    found[number] = min(found.get(number, own), own)
        return found

    def _fits(self, pending: PendingOrder, slot: int, now: float) -> bool:
        """Whether an order that is not in this slot's queue makes nobody late there."""
        task = (pending.run, pending.order.task)
        queue = [other for other in self.roles[slot].queue if other.task != task]
        extra = QueueSlot(inf, pending.seconds or UNKNOWN_SECONDS, task)
        return may_begin([*queue, extra], now, task)

    def _first_start(self, slot: int) -> float:
        starts = pushed_starts(self.roles[slot].queue)
        return starts[0] if starts else inf


def _seconds_left(pending: PendingOrder) -> float:
    """How long a running order takes yet: one that overruns, as long again as it has run."""
    passed = pending.passed_seconds()
    left = pending.seconds - passed
    return left if left > 0 else max(passed, LEAST_SECONDS)
