"""A world of up to a million nodes that promise workflows in time, as in the PeerComp paper.

The general simulator runs whole nodes, of 26 kB each. This one keeps what deadlines need: the
bookings of execution nodes, submissions and searches are the very ones of `deadlines/`; what
routing nodes know is in the arrays of `StaticTree`. Time passes in ticks; all that happens in one
tick is dealt with together, in a fixed order, so the same seed gives the same run.

Here are workflows, their owners and the nodes that run them. How requests find a node is in
`request_routing.py`, how nodes tell of their holes in `summary_updates.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.random import RandomState

from dataward.deadlines.frames import Allocation, Outline
from dataward.deadlines.local_schedule import QueueSlot, TimeHole
from dataward.deadlines.reservations import Booking, ExecutionRole
from dataward.deadlines.search import NONE
from dataward.deadlines.submission import (
    AskFor,
    AskKey,
    BookingRef,
    ConfirmAt,
    SubmissionOrder,
    SubmissionState,
    WorkflowSubmission,
)
from dataward.deadlines.summary import classes_of
from dataward.model.seeds import seeded
from dataward.sim.deadline_gauges import DeadlineGauges, WorkflowTimes
from dataward.sim.deadline_post import HEADER_BYTES, TASK_BYTES, DeadlinePost
from dataward.sim.flying_request import FlyingRequest, MaskTable
from dataward.sim.request_routing import RequestRouting
from dataward.sim.static_tree import HOLES_TOLD, StaticTree
from dataward.sim.summary_updates import SummaryUpdates
from dataward.sim.tick_calendar import TICKS_PER_SECOND, TickCalendar

RETRY_SECONDS = 2.0  # after a refusal; by then a leaf's news have climbed some levels


@dataclass(frozen=True, slots=True)
class DeadlineSettings:
    """The paper's setting, and what had to be assumed.

    Its links have 1 Mbps and 50 ms in mean; here a message takes 30 to 70 ms, and its length over
    the bandwidth. Speeds are drawn evenly from 0.5 to 1.5. ``load`` is the work that arrives over
    the work that all nodes can do.
    """

    nodes: int
    seed: int = 0
    load: float = 1.0
    priority: float = 1.1
    bytes_per_second: float = 125_000.0
    update_seconds: float = 1.0  # the least time between two updates of one node
    speed_low: float = 0.5
    speed_high: float = 1.5
    busy_seconds: float = 600.0  # at the start, nodes are busy for up to twice this
    lag_seconds: float = 0.25  # from the end of a task until its children's nodes know
    pace: float = 0.3  # of `paced`: more of the small worlds' workflows are accepted than at 1
    horizon_seconds: float = inf  # workflows arrive until then


class PromisedRun:
    """A workflow from its submission to its end."""

    __slots__ = ("done", "is_waiting", "nodes", "owner", "submission", "times", "waiting")

    def __init__(self, owner: int, submission: WorkflowSubmission, times: WorkflowTimes) -> None:
        self.owner = owner
        self.submission = submission
        self.times = times
        outline = submission.allocation.outline
        self.waiting = [len(parents) for parents in outline.parents]  # parents not heard of yet
        self.nodes = [NONE] * len(outline)
        self.done = 0
        self.is_waiting = False  # before it asks again


class DeadlineWorld:
    """Workflows arrive, are promised or refused, and run."""

    def __init__(
        self,
        settings: DeadlineSettings,
        outlines: Sequence[Outline],
        speeds: Sequence[float] | None = None,
    ) -> None:
        """``speeds`` are those of the nodes, if they are not to be drawn."""
        self.settings = settings
        self.outlines = outlines
        self.gauges = DeadlineGauges(settings.nodes)
        self._random = RandomState(seeded(settings.seed, "deadline world").getrandbits(32))
        draw = self._random.uniform
        drawn = draw(settings.speed_low, settings.speed_high, settings.nodes)
        self.speeds = drawn if speeds is None else np.array(speeds)
        self._busy_until = draw(0.0, 2 * settings.busy_seconds, settings.nodes)
        self.roles: list[ExecutionRole | None] = [None] * settings.nodes
        self.runs: dict[int, PromisedRun] = {}
        self._submitted = 0
        tree, self._masks = StaticTree(settings.nodes), MaskTable()
        self._calendar = TickCalendar[FlyingRequest]()
        self._post = DeadlinePost(
            self._calendar, self.gauges, self._random, settings.bytes_per_second
        )
        self._routing = RequestRouting(
            tree, self._post, self._masks, self.gauges, self._on_ask, self._on_refused
        )
        self._updates = SummaryUpdates(
            tree, self._calendar, self.gauges, settings.update_seconds, self._classes
        )
        self._start()

    @property
    def now(self) -> float:
        return self._calendar.now

    def run(self, seconds: float) -> DeadlineGauges:
        """Go on for so long."""
        self._calendar.run(seconds, self._routing.route, self.gauges.end_second)
        return self.gauges

    def _start(self) -> None:
        self._updates.fill()
        if self.settings.horizon_seconds > 0:
            self._calendar.after(self._interarrival(), self._on_arrival, None)
        self._updates.begin()

    # --- workflows arrive ---

    def _interarrival(self) -> float:
        mean = float(np.mean([o.total_length_seconds for o in self.outlines]))
        capacity = float(self.speeds.sum())
        return float(self._random.exponential(mean / (self.settings.load * capacity)))

    def _on_arrival(self, _: None) -> None:
        """All workflows that arrive within this tick."""
        passed = 0.0
        while passed < 1 / TICKS_PER_SECOND:
            self._submit_drawn()
            passed += self._interarrival()
        if self.now + passed < self.settings.horizon_seconds:
            self._calendar.after(passed, self._on_arrival, None)

    def _submit_drawn(self) -> None:
        kind = int(self._random.randint(len(self.outlines)))
        owner = int(self._random.randint(self.settings.nodes))
        alone = self.outlines[kind].total_length_seconds / float(self.speeds[owner])
        self.submit(kind, owner, self.now + alone / self.settings.priority)

    def submit(self, kind: int, owner: int, deadline: float) -> PromisedRun:
        """Ask for a workflow of this kind to be promised."""
        outline = self.outlines[kind]
        alone = outline.total_length_seconds / float(self.speeds[owner])
        times = WorkflowTimes(kind, self.now, deadline, alone)
        self.gauges.workflows.append(times)
        self._submitted += 1
        settings = self.settings
        allocation = Allocation(outline, self.now, deadline, settings.lag_seconds, settings.pace)
        submission = WorkflowSubmission(self._submitted, allocation)
        run = self.runs[self._submitted] = PromisedRun(owner, submission, times)
        self._obey(run, submission.begin())
        return run

    # --- submission role ---

    def _obey(self, run: PromisedRun, orders: Sequence[SubmissionOrder]) -> None:
        asks: list[FlyingRequest] = []
        for order in orders:
            if isinstance(order, AskFor):
                asks.append(FlyingRequest(order.key, run.owner, order.wanted))
            elif isinstance(order, ConfirmAt):
                self._post.send(
                    run.owner, order.booking.node, HEADER_BYTES, self._on_confirm,
                    (order.booking, order.key, run),
                )  # fmt: skip
            else:
                self._post.send(run.owner, order.node, HEADER_BYTES, self._on_release, order)
        if asks:
            self.gauges.requests += len(asks)
            self._ask(run, asks)
        if run.submission.state is SubmissionState.REFUSED:
            run.times.is_refused = True
            self.runs.pop(run.submission.number, None)

    def _ask(self, run: PromisedRun, asks: list[FlyingRequest]) -> None:
        """Send requests of one workflow on their way."""
        self._masks.add(asks, self.now, self._updates.points)
        for ask in asks:
            self._routing.climb_from_leaf(ask, run.owner)

    def _on_reserved(self, answer: tuple[AskKey, BookingRef, Booking]) -> None:
        key, ref, booking = answer
        run = self.runs.get(key.workflow)
        if run is None:
            return
        tasks = run.submission.allocation.outline.sequences[key.sequence]
        for task in tasks[key.low : key.high]:
            run.nodes[task] = ref.node
        self._obey(run, run.submission.on_reserved(key, ref, booking.promises))

    def _on_refused(self, ask: FlyingRequest) -> None:
        run = self.runs.get(ask.key.workflow)
        if run is None:
            return
        self._obey(run, run.submission.on_refused(ask.key))
        if run.submission.state is SubmissionState.ASKING and not run.is_waiting:
            run.is_waiting = True
            self._calendar.after(RETRY_SECONDS, self._on_retry, run)

    def _on_retry(self, run: PromisedRun) -> None:
        run.is_waiting = False
        if run.submission.state is SubmissionState.ASKING:
            self._obey(run, run.submission.on_silence(self.now))

    def _on_confirmed(self, answer: tuple[AskKey, BookingRef, PromisedRun, bool]) -> None:
        key, ref, run, is_confirmed = answer
        if not is_confirmed:
            self._obey(run, run.submission.on_expired(key, ref))
            return
        run.submission.on_confirmed(key, ref)
        if run.submission.state is SubmissionState.ACCEPTED and run.times.accepted == inf:
            run.times.accepted = self.now

    # --- execution role ---

    def role(self, node: int) -> ExecutionRole:
        role = self.roles[node]
        if role is None:
            role = ExecutionRole(float(self.speeds[node]), float(self._busy_until[node]))
            self.roles[node] = role
            if role.free_from > self.now:
                self._calendar.after(role.free_from - self.now, self._start_next, node)
        return role

    def _on_ask(self, arrival: tuple[FlyingRequest, int]) -> None:
        ask, node = arrival
        role = self.role(node)
        booking = role.reserve(ask.key, ask.wanted, self.now)
        if booking is None:
            self._updates.tell_if_changed(node)  # what was known of it was wrong
            self._routing.fall_back(ask, node)
            return
        self.gauges.hops.append(ask.hops)
        self._masks.forget(ask)
        self._calendar.after(booking.expires - self.now + 1.0, self._on_expiry, (node, ask.key))
        size = HEADER_BYTES + TASK_BYTES * len(booking.promises)
        answer = (ask.key, BookingRef(node, booking.number), booking)
        self._post.send(node, ask.owner, size, self._on_reserved, answer)
        self._updates.tell_if_changed(node)

    def _on_expiry(self, what: tuple[int, AskKey]) -> None:
        node, key = what
        role = self.role(node)
        booking = role.booked.get(key)
        if booking is not None and not booking.is_confirmed and role.expire(self.now):
            self._updates.tell_if_changed(node)

    def _on_confirm(self, message: tuple[BookingRef, AskKey, PromisedRun]) -> None:
        ref, key, run = message
        is_confirmed = self.role(ref.node).confirm(key, ref.number, self.now)
        answer = (key, ref, run, is_confirmed)
        self._post.send(ref.node, run.owner, HEADER_BYTES, self._on_confirmed, answer)
        self._start_next(ref.node)

    def _on_release(self, order: Any) -> None:
        self.role(order.node).release(order.key)
        self._updates.tell_if_changed(order.node)
        self._start_next(order.node)

    def _is_ready(self, request: Any, place: int) -> bool:
        run = self.runs.get(request.workflow)
        if run is None:  # refused in the end; word of that is on its way
            return False
        sequence = run.submission.allocation.outline.sequences[request.sequence]
        return bool(run.waiting[sequence[request.low + place]] == 0)

    def _start_next(self, node: int, at: float | None = None) -> None:
        """Start a task on a node that is idle.

        A task that follows another one starts when that one has ended, not at the next tick: else
        ticks would add up to late ends.
        """
        role = self.role(node)
        if role.free_from > self.now + 1e-9:
            return
        slot = role.start_next(self.now if at is None else at, self._is_ready)
        if slot is None:
            return
        self.gauges.busy_seconds += slot.seconds
        end = self.end_of(node, slot, role.free_from - slot.seconds)
        self._calendar.after(end - self.now, self._on_end, (node, slot, end))
        self._updates.tell_if_changed(node)

    def end_of(self, node: int, slot: QueueSlot, start: float) -> float:
        """When a task that starts now really ends: here, as its node has reckoned."""
        return start + slot.seconds

    def _on_end(self, what: tuple[int, QueueSlot, float]) -> None:
        """A task has ended: those that wait for it hear of that, and the next one starts."""
        node, slot, ended = what
        key, place = slot.task
        run = self.runs.get(key.workflow)
        if run is None:  # it started before its workflow was refused in the end
            self._start_next(node, ended)
            return
        outline = run.submission.allocation.outline
        task = outline.sequences[key.sequence][key.low + place]
        if place == key.high - key.low - 1:
            self.role(node).booked.pop(key, None)
        run.done += 1
        self.gauges.events.add(node, 1.0)
        for child in outline.children[task]:
            self._post.send(
                node, run.nodes[child], HEADER_BYTES, self._on_parent_done, (run, child)
            )
        if run.done == len(outline):
            run.times.ended = ended
            del self.runs[key.workflow]
        self._start_next(node, ended)

    def _on_parent_done(self, what: tuple[PromisedRun, int]) -> None:
        run, task = what
        run.waiting[task] -= 1
        if run.waiting[task] == 0:
            self._start_next(run.nodes[task])

    def _classes(self, node: int) -> list[int]:
        """The classes of a node's holes: one from when it is free if it was never asked."""
        role = self.roles[node]
        points = self._updates.points
        end = points[-1]
        if role is None:
            free = max(float(self._busy_until[node]), self.now)
            return classes_of([TimeHole(free, end)], float(self.speeds[node]), self.now, points)
        found = classes_of(role.holes(self.now, end), role.speed, self.now, points)
        return found[-HOLES_TOLD:]
