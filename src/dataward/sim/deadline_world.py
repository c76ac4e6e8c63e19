"""A world of up to a million nodes that promise workflows in time, as in the PeerComp paper.

The general simulator runs whole nodes, of 26 kB each. This one keeps what deadlines need: the
bookings of execution nodes, submissions and searches are the very ones of `deadlines/`; what
routing nodes know is in the arrays of `StaticTree`. Time passes in ticks; all that happens in one
tick is dealt with together, in a fixed order, so the same seed gives the same run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from dataward.deadlines.frames import Allocation, Outline
from dataward.deadlines.local_schedule import QueueSlot, TimeHole
from dataward.deadlines.promising import SequenceRequest, pieces_of
from dataward.deadlines.reference_points import CHANGE_SECONDS, reference_points
from dataward.deadlines.reservations import Booking, ExecutionRole, WantedSlots
from dataward.deadlines.routing import FALLS
from dataward.deadlines.search import NONE, cut_in_two, serving_classes
from dataward.deadlines.submission import (
    AskFor,
    AskKey,
    BookingRef,
    ConfirmAt,
    SubmissionOrder,
    SubmissionState,
    WorkflowSubmission,
    cut_key,
)
from dataward.deadlines.summary import classes_of
from dataward.model.seeds import seeded
from dataward.sim.deadline_gauges import DeadlineGauges, WorkflowTimes
from dataward.sim.static_tree import HOLES_TOLD, StaticTree

TICKS_PER_SECOND = 100
ROUND_TICKS = 5  # updates are sent and arrive in rounds of 50 ms
RETRY_SECONDS = 2.0  # after a refusal; by then a leaf's news have climbed some levels
REFRESH_SECONDS = 60.0  # within which all leaves tell their holes anew when points have changed
HEADER_BYTES, TASK_BYTES, CLASS_BYTES = 60, 12, 6


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


class FlyingRequest:
    """A request on its way through the tree; its masks are rows of a table."""

    __slots__ = (
        "falls", "has_fallen", "hops", "is_down", "is_sure", "key", "owner", "pieces", "router",
        "row", "wanted",
    )  # fmt: skip

    def __init__(self, key: AskKey, owner: int, wanted: WantedSlots) -> None:
        self.key = key
        self.owner = owner
        self.wanted = wanted
        self.router = NONE
        self.row = NONE
        self.is_sure = True
        self.is_down = False
        self.falls = FALLS
        self.has_fallen = False
        self.hops = 0
        self.pieces: list[FlyingRequest] = []


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


class MaskTable:
    """Which classes serve each request, surely and possibly, in rows that are used again."""

    def __init__(self) -> None:
        self.surely = np.zeros((0, 0), dtype=bool)
        self.possibly = np.zeros((0, 0), dtype=bool)
        self._free: list[int] = []

    def put(self, surely: NDArray[np.bool_], possibly: NDArray[np.bool_]) -> list[int]:
        count = len(surely)
        if len(self._free) < count:
            self._grow(count, surely.shape[1])
        rows = [self._free.pop() for _ in range(count)]
        self.surely[rows], self.possibly[rows] = surely, possibly
        return rows

    def free(self, row: int) -> None:
        self._free.append(row)

    def _grow(self, count: int, width: int) -> None:
        old = len(self.surely)
        more = max(old, count, 1024)
        empty = np.zeros((more, width), dtype=bool)
        self.surely = np.vstack([self.surely.reshape(old, width), empty])
        self.possibly = np.vstack([self.possibly.reshape(old, width), empty])
        self._free += range(old + more - 1, old - 1, -1)


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
        self.tree = StaticTree(settings.nodes)
        self.gauges = DeadlineGauges(settings.nodes)
        self._random = RandomState(seeded(settings.seed, "deadline world").getrandbits(32))
        draw = self._random.uniform
        drawn = draw(settings.speed_low, settings.speed_high, settings.nodes)
        self.speeds = drawn if speeds is None else np.array(speeds)
        self._busy_until = draw(0.0, 2 * settings.busy_seconds, settings.nodes)
        self.roles: list[ExecutionRole | None] = [None] * settings.nodes
        self.runs: dict[int, PromisedRun] = {}
        self._submitted = 0
        self._masks = MaskTable()
        self._tick = 0
        self._calendar: dict[int, list[tuple[Callable[..., None], Any]]] = {}
        self._ticks: list[int] = []
        self._asks: dict[int, list[FlyingRequest]] = {}
        self._delays: list[int] = []
        self._created = 0.0
        self._points = reference_points(0.0)
        # Updates: rounds in which routing nodes speak, and when each spoke last.
        self._due: dict[int, list[NDArray[np.int64]]] = {}
        self._due_leaves: dict[int, list[int]] = {}
        self._rounds: set[int] = set()
        self._is_due = np.zeros(self.tree.routers, dtype=bool)
        self._spoke = np.full(self.tree.routers, -(10**6), dtype=np.int64)
        self._leaf_spoke: dict[int, int] = {}
        self._leaf_due: set[int] = set()
        self._told: dict[int, list[int]] = {}
        self._start()

    @property
    def now(self) -> float:
        return self._tick / TICKS_PER_SECOND

    # --- running ---

    def run(self, seconds: float) -> DeadlineGauges:
        """Go on for so long."""
        last = self._tick + round(seconds * TICKS_PER_SECOND)
        while self._ticks and self._ticks[0] <= last:
            tick = heappop(self._ticks)
            while self._tick // TICKS_PER_SECOND < tick // TICKS_PER_SECOND:
                self._tick = (self._tick // TICKS_PER_SECOND + 1) * TICKS_PER_SECOND
                self.gauges.end_second()
            self._tick = tick
            for handler, argument in self._calendar.pop(tick, ()):
                handler(argument)
            asks = self._asks.pop(tick, None)
            if asks:
                self._route(asks)
        while self._tick // TICKS_PER_SECOND < last // TICKS_PER_SECOND:
            self._tick = (self._tick // TICKS_PER_SECOND + 1) * TICKS_PER_SECOND
            self.gauges.end_second()
        self._tick = last
        return self.gauges

    def _at(self, tick: int, handler: Callable[[Any], None], argument: Any) -> None:
        bucket = self._calendar.get(tick)
        if bucket is None:
            bucket = self._calendar[tick] = []
            if tick not in self._asks:
                heappush(self._ticks, tick)
        bucket.append((handler, argument))

    def _after(self, seconds: float, handler: Callable[[Any], None], argument: Any) -> None:
        ticks = max(ceil(seconds * TICKS_PER_SECOND - 1e-9), 0)
        self._at(self._tick + ticks, handler, argument)

    def _start(self) -> None:
        self.tree.fill(self._first_classes())
        if self.settings.horizon_seconds > 0:
            self._after(self._interarrival(), self._on_arrival, None)
        self._after(CHANGE_SECONDS, self._on_new_points, None)

    def _first_classes(self) -> NDArray[np.int16]:
        """The classes of all leaves at the start: each is one hole from when it is free."""
        classes = np.full((self.settings.nodes, HOLES_TOLD), NONE, dtype=np.int16)
        end = self._points[-1]
        for node, (free, speed) in enumerate(zip(self._busy_until, self.speeds, strict=True)):
            found = classes_of([TimeHole(free, end)], speed, 0.0, self._points)
            classes[node, : len(found)] = found
            self._told[node] = found
        return classes

    # --- messages ---

    def _send(
        self, source: int, target: int, size: int, handler: Callable[[Any], None], argument: Any
    ) -> None:
        """Have a message handled after its delay; a peer's message to itself takes no time."""
        if source == target:
            handler(argument)
            return
        gauges = self.gauges
        gauges.sent.add(source, size)
        gauges.received.add(target, size)
        gauges.events.add(target, 1.0)
        self._at(self._tick + self._delay(size), handler, argument)

    def _delay(self, size: int) -> int:
        if not self._delays:
            self._delays = self._random.randint(3, 8, 8192).tolist()
        return self._delays.pop() + round(size / self.settings.bytes_per_second * TICKS_PER_SECOND)

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
            self._after(passed, self._on_arrival, None)

    def _submit_drawn(self) -> None:
        kind = int(self._random.randint(len(self.outlines)))
        owner = int(self._random.randint(self.settings.nodes))
        alone = self.outlines[kind].total_length_seconds / float(self.speeds[owner])
        self.submit(kind, owner, self.now + alone / self.settings.priority)

    def submit(self, kind: int, owner: int, deadline: float) -> None:
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

    # --- submission role ---

    def _obey(self, run: PromisedRun, orders: Sequence[SubmissionOrder]) -> None:
        asks: list[FlyingRequest] = []
        for order in orders:
            if isinstance(order, AskFor):
                asks.append(FlyingRequest(order.key, run.owner, order.wanted))
            elif isinstance(order, ConfirmAt):
                self._send(
                    run.owner, order.booking.node, HEADER_BYTES, self._on_confirm,
                    (order.booking, order.key, run),
                )  # fmt: skip
            else:
                self._send(run.owner, order.node, HEADER_BYTES, self._on_release, order)
        if asks:
            self.gauges.requests += len(asks)
            self._mask(asks)
            for ask in asks:
                self._climb_from_leaf(ask, run.owner)
        if run.submission.state is SubmissionState.REFUSED:
            run.times.is_refused = True
            self.runs.pop(run.submission.number, None)

    def _mask(self, asks: list[FlyingRequest]) -> None:
        """Work out which classes serve these requests, and their pieces if they are cut."""
        every = list(asks)
        for ask in asks:
            ask.pieces = self._pieces(ask)
            every += ask.pieces
        frames = np.array([ask.wanted.frame for ask in every])
        work = np.array([sum(ask.wanted.work) for ask in every])
        starts = np.maximum(frames[:, 0], self.now)
        serving = serving_classes(starts, frames[:, 1], work, self.now, self._points)
        for ask, row in zip(every, self._masks.put(*serving), strict=True):
            ask.row = row

    def _pieces(self, ask: FlyingRequest) -> list[FlyingRequest]:
        wanted = ask.wanted
        cut = cut_in_two(wanted.frame, wanted.work, self._points)
        if cut is None:
            return []
        count, first, second = cut
        whole = SequenceRequest(range(len(wanted.work)), wanted.frame, wanted.awaited, wanted.pace)
        pieces = []
        for key, part in zip(
            cut_key(ask.key, count), pieces_of(whole, count, first, second), strict=True
        ):
            work = [wanted.work[place] for place in part.tasks]
            slots = WantedSlots(work, part.frame, part.awaited, part.pace)
            pieces.append(FlyingRequest(key, ask.owner, slots))
        return pieces

    def _forget(self, ask: FlyingRequest) -> None:
        """The request has come to an end: its rows can be used again."""
        self._masks.free(ask.row)
        for piece in ask.pieces:
            self._masks.free(piece.row)

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
            self._after(RETRY_SECONDS, self._on_retry, run)

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

    # --- routing role ---

    def _climb_from_leaf(self, ask: FlyingRequest, leaf: int) -> None:
        ask.is_down, ask.is_sure = False, True
        self._pass_to_router(ask, leaf, int(self.tree.leaf_parent[leaf]))

    def _pass_to_router(self, ask: FlyingRequest, source: int, router: int) -> None:
        ask.router = router
        ask.hops += 1
        target = int(self.tree.host[router])
        size = HEADER_BYTES + TASK_BYTES * len(ask.wanted.work)
        tick = self._tick + 1
        if source != target:
            self.gauges.sent.add(source, size)
            self.gauges.received.add(target, size)
            self.gauges.events.add(target, 1.0)
            tick = self._tick + self._delay(size)
        bucket = self._asks.get(tick)
        if bucket is None:
            bucket = self._asks[tick] = []
            if tick not in self._calendar:
                heappush(self._ticks, tick)
        bucket.append(ask)

    def _route(self, asks: list[FlyingRequest]) -> None:
        """Pass requests on that have come to routing nodes in this tick."""
        fallen = [ask for ask in asks if ask.has_fallen and ask.pieces]
        whole = [ask for ask in asks if not (ask.has_fallen and ask.pieces)]
        self._try(whole, self._in_two)
        self._cut(fallen, self._try_whole)

    def _try(
        self, asks: list[FlyingRequest], otherwise: Callable[[list[FlyingRequest]], None]
    ) -> None:
        """Send requests down to a child with a hole; the others go the other way."""
        left = []
        for is_sure in (True, False):
            group = [ask for ask in asks if ask.is_sure == is_sure]
            if not group:
                continue
            children, numbers = self._chosen(group, is_sure)
            for ask, child, number in zip(group, children, numbers, strict=True):
                if number == NONE:
                    left.append(ask)
                else:
                    self._down(ask, child, number)
        if left:
            otherwise(left)

    def _chosen(self, asks: list[FlyingRequest], is_sure: bool) -> tuple[list[int], list[int]]:
        rows = [ask.row for ask in asks]
        routers = np.array([ask.router for ask in asks])
        table = self._masks.surely if is_sure else self._masks.possibly
        children, numbers = self.tree.chosen(routers, table[rows], is_sure=is_sure)
        return children.tolist(), numbers.tolist()

    def _in_two(self, asks: list[FlyingRequest]) -> None:
        """Cut requests that no hole holds, where both pieces find one; the others climb."""
        self._cut([ask for ask in asks if ask.pieces], self._up)
        self._up([ask for ask in asks if not ask.pieces])

    def _try_whole(self, asks: list[FlyingRequest]) -> None:
        """Requests that have come down in vain are cut first, and sent whole only then."""
        self._try(asks, self._up)

    def _cut(
        self, asks: list[FlyingRequest], otherwise: Callable[[list[FlyingRequest]], None]
    ) -> None:
        if not asks:
            return
        pieces = [piece for ask in asks for piece in ask.pieces]
        for ask in asks:
            for piece in ask.pieces:
                piece.router, piece.is_sure, piece.hops = ask.router, ask.is_sure, ask.hops
                piece.falls, piece.has_fallen = ask.falls, ask.has_fallen
        found: dict[int, tuple[int, int]] = {}
        for is_sure in (True, False):
            group = [piece for piece in pieces if piece.is_sure == is_sure]
            if group:
                children, numbers = self._chosen(group, is_sure)
                for piece, child, number in zip(group, children, numbers, strict=True):
                    found[id(piece)] = (child, number)
        left = []
        for ask in asks:
            if any(found[id(piece)][1] == NONE for piece in ask.pieces):
                left.append(ask)
                continue
            self.gauges.cuts += 1
            self._masks.free(ask.row)
            for piece in ask.pieces:
                self._down(piece, *found[id(piece)])
        if left:
            otherwise(left)

    def _up(self, asks: list[FlyingRequest]) -> None:
        for ask in asks:
            router = ask.router
            source = int(self.tree.host[router])
            if ask.is_down and not self._has_fallen(ask, source):
                continue
            parent = int(self.tree.parent[router])
            if parent != NONE:
                self._pass_to_router(ask, source, parent)
            elif ask.is_sure:
                ask.is_sure = False
                self._route([ask])
            else:
                self._refuse(ask, source)

    def _has_fallen(self, ask: FlyingRequest, source: int) -> bool:
        """Count a way down in vain. False if it was the last: the request goes to its owner."""
        self.gauges.falls += 1
        if ask.falls == 0:
            self._refuse(ask, source)
            return False
        ask.falls -= 1
        ask.is_down, ask.is_sure, ask.has_fallen = False, True, True
        return True

    def _refuse(self, ask: FlyingRequest, source: int) -> None:
        self._forget(ask)
        self._send(source, ask.owner, HEADER_BYTES, self._on_refused, ask)

    def _down(self, ask: FlyingRequest, child: int, number: int) -> None:
        router = ask.router
        source = int(self.tree.host[router])
        self.tree.take_hole(router, child, number)
        ask.is_down = True
        if self.tree.level[router] > 1:
            self._pass_to_router(ask, source, child)
            return
        size = HEADER_BYTES + TASK_BYTES * len(ask.wanted.work)
        ask.hops += 1
        self._send(source, child, size, self._on_ask, (ask, child))

    # --- execution role ---

    def role(self, node: int) -> ExecutionRole:
        role = self.roles[node]
        if role is None:
            role = ExecutionRole(float(self.speeds[node]), float(self._busy_until[node]))
            self.roles[node] = role
            if role.free_from > self.now:
                self._after(role.free_from - self.now, self._start_next, node)
        return role

    def _on_ask(self, arrival: tuple[FlyingRequest, int]) -> None:
        ask, node = arrival
        role = self.role(node)
        booking = role.reserve(ask.key, ask.wanted, self.now)
        if booking is None:
            self._tell_if_changed(node)  # what was known of it was wrong
            if self._has_fallen(ask, node):
                self._climb_from_leaf(ask, node)
            return
        self.gauges.hops.append(ask.hops)
        self._forget(ask)
        self._after(booking.expires - self.now + 1.0, self._on_expiry, (node, ask.key))
        size = HEADER_BYTES + TASK_BYTES * len(booking.promises)
        answer = (ask.key, BookingRef(node, booking.number), booking)
        self._send(node, ask.owner, size, self._on_reserved, answer)
        self._tell_if_changed(node)

    def _on_expiry(self, what: tuple[int, AskKey]) -> None:
        node, key = what
        role = self.role(node)
        booking = role.booked.get(key)
        if booking is not None and not booking.is_confirmed and role.expire(self.now):
            self._tell_if_changed(node)

    def _on_confirm(self, message: tuple[BookingRef, AskKey, PromisedRun]) -> None:
        ref, key, run = message
        is_confirmed = self.role(ref.node).confirm(key, ref.number, self.now)
        answer = (key, ref, run, is_confirmed)
        self._send(ref.node, run.owner, HEADER_BYTES, self._on_confirmed, answer)
        self._start_next(ref.node)

    def _on_release(self, order: Any) -> None:
        self.role(order.node).release(order.key)
        self._tell_if_changed(order.node)
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
        self._after(end - self.now, self._on_end, (node, slot, end))
        self._tell_if_changed(node)

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
            self._send(node, run.nodes[child], HEADER_BYTES, self._on_parent_done, (run, child))
        if run.done == len(outline):
            run.times.ended = ended
            del self.runs[key.workflow]
        self._start_next(node, ended)

    def _on_parent_done(self, what: tuple[PromisedRun, int]) -> None:
        run, task = what
        run.waiting[task] -= 1
        if run.waiting[task] == 0:
            self._start_next(run.nodes[task])

    # --- updates of summaries ---

    def _classes(self, node: int) -> list[int]:
        role = self.roles[node]
        end = self._points[-1]
        if role is None:
            free = max(float(self._busy_until[node]), self.now)
            return classes_of(
                [TimeHole(free, end)], float(self.speeds[node]), self.now, self._points
            )
        found = classes_of(role.holes(self.now, end), role.speed, self.now, self._points)
        return found[-HOLES_TOLD:]

    def _tell_if_changed(self, node: int) -> None:
        """Have a leaf tell its parent of its holes, not sooner than it may."""
        if node in self._leaf_due:
            return
        period = round(self.settings.update_seconds * TICKS_PER_SECOND)
        due = max(self._tick, self._leaf_spoke.get(node, -period) + period)
        self._leaf_due.add(node)
        tick = self._round(-(-due // ROUND_TICKS) * ROUND_TICKS)
        self._due_leaves.setdefault(tick, []).append(node)

    def _round(self, tick: int) -> int:
        """Have a round in which somebody speaks."""
        if tick not in self._rounds:
            self._rounds.add(tick)
            self._at(tick, self._on_round, None)
        return tick

    def _on_round(self, _: None) -> None:
        """Leaves and routing nodes whose time it is speak; parents hear in the next round."""
        tick = self._tick
        self._rounds.discard(tick)
        leaves = self._due_leaves.pop(tick, None)
        if leaves:
            self._speak_leaves(leaves)
        due = self._due.pop(tick, None)
        if due:
            self._speak_routers(np.concatenate(due))

    def _speak_leaves(self, leaves: list[int]) -> None:
        nodes, rows = [], []
        for node in leaves:
            self._leaf_due.discard(node)
            classes = self._classes(node)
            if classes == self._told.get(node):
                continue
            self._told[node] = classes
            self._leaf_spoke[node] = self._tick
            nodes.append(node)
            rows.append(classes + [NONE] * (HOLES_TOLD - len(classes)))
        if not nodes:
            return
        ids = np.array(nodes, dtype=np.int64)
        told = np.array(rows, dtype=np.int16)
        parents = self.tree.leaf_parent[ids]
        self._count_updates(ids, self.tree.host[parents], (told >= 0).sum(axis=1))
        self._at(self._tick + ROUND_TICKS, self._hear_leaves, (ids, told, parents))

    def _hear_leaves(self, update: tuple[Any, Any, Any]) -> None:
        ids, told, parents = update
        self.tree.known_leaves[ids] = told
        self._changed(parents)

    def _speak_routers(self, ids: NDArray[np.int64]) -> None:
        self._is_due[ids] = False
        self._spoke[ids] = self._tick
        rows = self.tree.summaries(ids)
        parents = self.tree.parent[ids]
        self._count_updates(
            self.tree.host[ids], self.tree.host[parents], np.count_nonzero(rows, axis=1)
        )
        self._at(self._tick + ROUND_TICKS, self._hear_routers, (ids, rows, parents))

    def _hear_routers(self, update: tuple[Any, Any, Any]) -> None:
        ids, rows, parents = update
        self.tree.known[ids] = rows
        self._changed(parents)

    def _count_updates(self, sources: Any, targets: Any, classes: Any) -> None:
        gauges, sizes = self.gauges, HEADER_BYTES + CLASS_BYTES * classes.astype(np.float64)
        gauges.updates += len(sources)
        gauges.sent.add_many(sources, sizes)
        gauges.received.add_many(targets, sizes)
        gauges.events.add_many(targets, 1.0)

    def _changed(self, routers: NDArray[np.int64]) -> None:
        """Have routing nodes tell their parents, each not sooner than it may."""
        fresh = np.unique(routers[~self._is_due[routers]])
        fresh = fresh[fresh != self.tree.root]
        if not len(fresh):
            return
        self._is_due[fresh] = True
        period = round(self.settings.update_seconds * TICKS_PER_SECOND)
        due = np.maximum(self._spoke[fresh] + period, self._tick + ROUND_TICKS)
        due = -(-due // ROUND_TICKS) * ROUND_TICKS
        order = np.argsort(due, kind="stable")
        fresh, due = fresh[order], due[order]
        starts = np.flatnonzero(np.diff(due, prepend=-1))
        for part, tick in zip(np.split(fresh, starts[1:]), due[starts].tolist(), strict=True):
            self._due.setdefault(self._round(tick), []).append(part)

    def _on_new_points(self, _: None) -> None:
        """Reference points change: what is known moves to the new ones, and leaves tell anew."""
        before, self._points = (self._created, self._points), reference_points(self.now + 1e-3)
        self._created = self.now
        self.tree.move_to_new_points(before, (self._created, self._points))
        self._after(CHANGE_SECONDS, self._on_new_points, None)
        rounds = round(REFRESH_SECONDS * TICKS_PER_SECOND / ROUND_TICKS)
        for number in range(min(rounds, self.settings.nodes)):
            tick = -(-self._tick // ROUND_TICKS) * ROUND_TICKS + (number + 1) * ROUND_TICKS
            nodes = range(number, self.settings.nodes, rounds)
            self._due_leaves.setdefault(self._round(tick), []).extend(nodes)
