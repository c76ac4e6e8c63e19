"""The world with deadlines when things go wrong: wrong estimates, crashes, stragglers.

A node that crashes loses what it has promised, and what it was running, and is away for a while.
Owners then look for other holes for the lost tasks, in time if there are any, else as soon as can
be. The trouble is drawn beforehand, so that other ways to schedule can be given the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.random import RandomState

from dataward.deadlines.frames import Outline
from dataward.deadlines.local_schedule import Frame, QueueSlot
from dataward.deadlines.reservations import Booking, ExecutionRole, WantedSlots
from dataward.deadlines.submission import AskKey, BookingRef, ConfirmAt, SubmissionState
from dataward.model.seeds import seeded
from dataward.sim.deadline_world import DeadlineSettings, DeadlineWorld, PromisedRun
from dataward.sim.flying_request import FlyingRequest

NOTICED_SECONDS = 10.0  # from a crash until owners know of it
AGAIN_SECONDS = 60.0  # until an owner asks again for a task that no node had a hole for
RECOVERY = 100  # attempts from this number on are for tasks that were lost


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
        outline = run.submission.allocation.outline
        task = outline.sequences[sequence][place]
        latest = run.submission.allocation.latest_ends[task]
        least = self.now + loose * outline.work[task] / float(self.speeds.min())
        frame = Frame(self.now, max(latest, least))
        self._attempt += 1
        key = AskKey(run.submission.number, sequence, self._attempt, place, place + 1)
        ask = FlyingRequest(key, run.owner, WantedSlots([outline.work[task]], frame, [False]))
        self._ask(run, [ask])

    def _on_reserved(self, answer: tuple[AskKey, BookingRef, Booking]) -> None:
        key, ref, _ = answer
        run = self.runs.get(key.workflow)
        if key.attempt < RECOVERY or run is None:
            super()._on_reserved(answer)
            return
        outline = run.submission.allocation.outline
        run.nodes[outline.sequences[key.sequence][key.low]] = ref.node
        self._obey(run, [ConfirmAt(ref, key)])

    def _on_refused(self, ask: FlyingRequest) -> None:
        if ask.key.attempt < RECOVERY:
            super()._on_refused(ask)
            return
        run = self.runs.get(ask.key.workflow)
        if run is not None:
            loose = 2.0 * max((ask.wanted.frame.deadline - self.now) / ask.wanted.work[0], 1.0)
            again: Any = (run, ask.key.sequence, ask.key.low, min(loose, 100.0))
            self._calendar.after(AGAIN_SECONDS, self._ask_again, again)
