"""The world with deadlines when things go wrong: wrong estimates, crashes, stragglers.

A node that crashes loses what it has promised, and what it was running, and is away for a while.
Owners then look for other holes for the lost tasks, in time if there are any, else as soon as can
be. When a task is late, owners look for other holes for the tasks that wait for its node. The
trouble is drawn beforehand, so that other ways to schedule can be given the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.random import RandomState

from dataward.deadlines.frames import Outline
from dataward.deadlines.local_schedule import Frame, QueueSlot, pushed_starts
from dataward.deadlines.reservations import Booking, ExecutionRole, WantedSlots
from dataward.deadlines.search import NONE
from dataward.deadlines.submission import AskKey, BookingRef, ConfirmAt, ReleaseAt, SubmissionState
from dataward.model.seeds import seeded
from dataward.sim.deadline_world import DeadlineSettings, DeadlineWorld, PromisedRun
from dataward.sim.flying_request import FlyingRequest

NOTICED_SECONDS = 10.0  # from a crash until owners know of it
AGAIN_SECONDS = 60.0  # until an owner asks again for a task that no node had a hole for
LATE_SECONDS = 1.0  # a task that runs so much longer than reserved is late
RECOVERY = 100  # attempts from this number on are for tasks that were lost or are to be moved


@dataclass(frozen=True, slots=True)
class NodeTrouble:
    """When each node is away, and when it is slow; inf if never."""

    crashes: Sequence[float]
    returns: Sequence[float]
    slow_from: Sequence[float]
    slow_until: Sequence[float]
    slow_factor: float = 5.0

    def end_of(self, node: int, start: float, seconds: float) -> float:
        """When a task that starts then ends on a node, which may be slow for part of that."""
        begin, end = self.slow_from[node], self.slow_until[node]
        if start + seconds <= begin or start >= end:
            return start + seconds
        before = max(begin - start, 0.0)
        left = seconds - before
        slow_room = end - max(start, begin)
        if left * self.slow_factor <= slow_room:
            return max(start, begin) + left * self.slow_factor
        return end + left - slow_room / self.slow_factor


def drawn_trouble(
    nodes: int, seed: int, horizon: float, *, crash: float = 0.0, slow: float = 0.0
) -> NodeTrouble:
    """Shares of the nodes that crash, and that are slow, once each, at drawn times.

    How long is as in the presets of the general simulator: 200 s and 500 s on average.
    """
    random = RandomState(seeded(seed, "trouble").getrandbits(32))
    crashes = np.where(random.uniform(size=nodes) < crash, random.uniform(0, horizon, nodes), inf)
    slow_from = np.where(random.uniform(size=nodes) < slow, random.uniform(0, horizon, nodes), inf)
    away, slowed = random.exponential(200.0, nodes), random.exponential(500.0, nodes)
    return NodeTrouble(
        crashes.tolist(),
        (crashes + away).tolist(),
        slow_from.tolist(),
        (slow_from + slowed).tolist(),
    )


class TroubledDeadlineWorld(DeadlineWorld):
    """``true_work`` is what tasks of each kind really take, at speed 1; outlines are estimates."""

    def __init__(
        self,
        settings: DeadlineSettings,
        outlines: Sequence[Outline],
        true_work: Sequence[Sequence[float]],
        trouble: NodeTrouble,
        speeds: Sequence[float] | None = None,
    ) -> None:
        self._true_work = true_work
        self._trouble = trouble
        self._running: dict[int, QueueSlot] = {}
        self._attempt = RECOVERY
        self._moving: dict[AskKey, tuple[int, QueueSlot]] = {}  # whose places are kept till then
        super().__init__(settings, outlines, speeds)
        for node, at in enumerate(trouble.crashes):
            if at < inf:
                self._calendar.after(at, self._on_crash, node)

    def role(self, node: int) -> ExecutionRole:
        role = super().role(node)
        role.patience_seconds = inf  # tasks that are late run all the same
        return role

    def end_of(self, node: int, slot: QueueSlot, start: float) -> float:
        key, place = slot.task
        run = self.runs[key.workflow]
        task = run.submission.allocation.outline.sequences[key.sequence][key.low + place]
        self._running[node] = slot
        late_in = start + slot.seconds + LATE_SECONDS - self.now
        self._calendar.after(late_in, self._on_late, (node, slot, start))
        seconds = self._true_work[run.times.kind][task] / float(self.speeds[node])
        return self._trouble.end_of(node, start, seconds)

    def _start_next(self, node: int, at: float | None = None) -> None:
        if node not in self._running:
            super()._start_next(node, at)

    def _on_end(self, what: tuple[int, QueueSlot, float]) -> None:
        node, slot, ended = what
        if self._running.get(node) is not slot:
            return  # the node crashed while it ran
        del self._running[node]
        self.role(node).free_from = min(self.role(node).free_from, ended)
        super()._on_end(what)

    def _on_late(self, what: tuple[int, QueueSlot, float]) -> None:
        """A task is late, and may take as long again: ask for others that wait for its node.

        Those that would be late keep their place until another node has promised them.
        """
        node, slot, start = what
        if self._running.get(node) is not slot:
            return
        passed = self.now - start
        self._calendar.after(passed, self._on_late, what)
        self.role(node).busy_until(self.now + passed)
        self._updates.tell_if_changed(node)
        queue = self.role(node).queue
        for waiting, latest in zip(queue, pushed_starts(queue), strict=True):
            key, place = waiting.task
            run = self.runs.get(key.workflow)
            is_accepted = run is not None and run.submission.state is SubmissionState.ACCEPTED
            if run is not None and is_accepted and latest < self.now + passed:
                asked = self._ask_for(run, key.sequence, key.low + place)
                self._moving[asked] = (node, waiting)

    def _on_crash(self, node: int) -> None:
        role = self.role(node)
        slots = [*role.queue]
        running = self._running.pop(node, None)
        if running is not None:
            slots.append(running)
        back = self._trouble.returns[node]
        self.roles[node] = ExecutionRole(role.speed, back)
        self._calendar.after(back - self.now, self._start_next, node)
        self._updates.tell_if_changed(node)
        self._calendar.after(NOTICED_SECONDS, self._on_crash_noticed, (node, slots))

    def _on_crash_noticed(self, what: tuple[int, list[QueueSlot]]) -> None:
        node, slots = what
        for run in list(self.runs.values()):
            if run.submission.state in (SubmissionState.ASKING, SubmissionState.CONFIRMING):
                self._obey(run, run.submission.on_lost_node(node))
        for slot in slots:
            key, place = slot.task
            owned = self.runs.get(key.workflow)
            if owned is not None and owned.submission.state is SubmissionState.ACCEPTED:
                self._ask_again((owned, key.sequence, key.low + place, 1.0))

    def _ask_again(self, what: tuple[PromisedRun, int, int, float]) -> None:
        """Look for another hole for one lost task; the later it gets, the more time it has."""
        run, sequence, place, loose = what
        self._ask_for(run, sequence, place, loose)

    def _ask_for(
        self, run: PromisedRun, sequence: int, place: int, loose: float | None = None
    ) -> AskKey:
        """Ask for another hole for one task of a workflow that was accepted.

        It starts when its parents have ended at the latest, and must end before its children start
        at the latest. If it may be ``loose``, it has at least so many times the seconds that it
        takes on the slowest node.
        """
        allocation = run.submission.allocation
        outline, lag = allocation.outline, allocation.lag_seconds
        task = outline.sequences[sequence][place]
        ends = [allocation.latest_ends[parent] for parent in outline.parents[task]]
        starts = [allocation.latest_starts[child] for child in outline.children[task]]
        earliest = max(self.now, *(end + lag for end in ends)) if ends else self.now
        latest = min(starts) - lag if starts else allocation.deadline
        work = outline.work[task]
        if loose is not None:
            latest = max(latest, earliest + loose * work / float(self.speeds.min()))
        self._attempt += 1
        key = AskKey(run.submission.number, sequence, self._attempt, place, place + 1)
        wanted = WantedSlots([work], Frame(earliest, latest), [False])
        self._ask(run, [FlyingRequest(key, run.owner, wanted)])
        return key

    def _on_reserved(self, answer: tuple[AskKey, BookingRef, Booking]) -> None:
        key, ref, _ = answer
        run = self.runs.get(key.workflow)
        if key.attempt < RECOVERY or run is None:
            super()._on_reserved(answer)
            return
        node, slot = self._moving.pop(key, (NONE, None))
        if slot is not None and self.role(node).take(slot.task) is None:  # it has begun after all
            self._obey(run, [ReleaseAt(ref.node, key)])
            return
        outline = run.submission.allocation.outline
        run.nodes[outline.sequences[key.sequence][key.low]] = ref.node
        self._obey(run, [ConfirmAt(ref, key)])

    def _on_refused(self, ask: FlyingRequest) -> None:
        if ask.key.attempt < RECOVERY:
            super()._on_refused(ask)
            return
        if self._moving.pop(ask.key, None) is not None:
            return  # it stays where it is
        run = self.runs.get(ask.key.workflow)
        if run is not None:
            loose = 2.0 * max((ask.wanted.frame.deadline - self.now) / ask.wanted.work[0], 1.0)
            again: Any = (run, ask.key.sequence, ask.key.low, min(loose, 100.0))
            self._calendar.after(AGAIN_SECONDS, self._ask_again, again)
