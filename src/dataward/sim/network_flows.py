"""Transfers in progress over shared links: how fast each moves, and which is done next.

Links are shared max-min fairly (`fairshare` finds the rates); this module turns rates into bytes
and completion times. It has no clock of its own: the caller says what time it is, asks when the
next transfer will be done, and calls again then. Latency is left to the caller, before `start`.

All flows that one link holds back have the same rate, so progress is kept once per link, as in
processor sharing by virtual time: a link counts the bytes it has served to *each* of its flows, and
a flow is done when that count reaches its target. A rate that changes for a thousand flows of a
link is then one update, and a flow is updated only when it changes bottleneck.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf, ulp
from typing import NewType

from dataward.sim.fairshare import FairShare, Flow, Link

LinkIndex = NewType("LinkIndex", int)

# Completions closer together than this many units in the last place of the time are one instant:
# flows that in exact arithmetic would finish together then do so, at the cost of one solve.
INSTANT_ULPS = 8

# A link's byte count starts again from zero before it exceeds a new flow's size by this factor, so
# that rounding costs a flow less than about 1e-10 of its size.
COUNT_RATIO_MAX = 2.0**20


class Transfer:
    """One flow under way, as handed out by `FlowNetwork.start`; opaque to the caller."""

    __slots__ = ("cap", "flow", "meter", "order", "remaining", "size_bytes", "tag", "target")

    def __init__(self, order: int, size_bytes: float, tag: object) -> None:
        self.order = order
        self.size_bytes = size_bytes
        self.tag = tag
        self.flow: Flow | None = None
        self.cap: Link | None = None
        # Either the meter and the count on it at which the flow is done, or the remaining bytes.
        self.meter: Meter | None = None
        self.target = 0.0
        self.remaining = size_bytes


class Meter:
    """Bytes a link has served to each flow it holds back, and these flows, first done first."""

    __slots__ = ("due", "flows", "index", "pace", "served", "since")

    def __init__(self, index: int) -> None:
        self.index = index
        self.served = 0.0
        self.since = 0.0
        self.pace = 0.0
        # An entry stays when its flow has left the meter; `_is_current` tells.
        self.flows: list[tuple[float, int, Transfer]] = []
        # When the network's queue will next look at this meter: never later than needed.
        self.due = inf

    def read(self, now: float) -> float:
        return self.served + self.pace * (now - self.since)

    def stop(self) -> None:
        """Reset the meter of a link that no longer holds any flow back."""
        self.served = self.pace = 0.0
        self.flows.clear()

    def take(self, now: float, transfer: Transfer, sharing: int) -> None:
        """Count for one more flow; `sharing` flows share the link in all."""
        served = self.read(now)
        if served > COUNT_RATIO_MAX * transfer.remaining or len(self.flows) > 2 * sharing + 16:
            self._restart(now)
            served = 0.0
        transfer.meter = self
        transfer.target = served + transfer.remaining
        heappush(self.flows, (transfer.target, transfer.order, transfer))

    def done_at(self) -> float:
        """The time at which the first flow will be done at the present pace."""
        flows = self.flows
        while flows:
            target, _, transfer = flows[0]
            if transfer.meter is self and transfer.target == target:  # as `_is_current`
                if self.pace <= 0:
                    return inf
                left = target - self.served
                return self.since + left / self.pace if left > 0 else self.since
            heappop(flows)
        return inf

    def _restart(self, now: float) -> None:
        served = self.read(now)
        self.served = 0.0
        self.since = now
        current = [entry for entry in self.flows if _is_current(entry, self)]
        for target, _, transfer in current:
            transfer.target = max(0.0, target - served)
        self.flows = [(each.target, order, each) for _, order, each in current]
        heapify(self.flows)


class FlowNetwork:
    """Links, and the transfers that share them max-min fairly.

    Every call that takes `now` moves time forward to it, never back. Changes made at one instant
    are solved together, when a rate or a completion is next asked for.
    """

    def __init__(self, share: FairShare | None = None) -> None:
        self._share = share or FairShare()
        self._now = 0.0
        self._started = 0
        self._meters: list[Meter] = []
        self._transfers: dict[Flow, Transfer] = {}
        self._queue: list[tuple[float, int]] = []
        self._queue_max = 64  # entries, and 4 for each link: it is then made anew
        self._instant: list[Transfer] = []
        self._finished: list[object] = []
        self._spare_caps: list[Link] = []
        # When the next transfer is done, unless something has changed since that was last asked.
        self._due: float | None = None

    def add_link(self, capacity_bytes_per_second: float) -> LinkIndex:
        link = self._share.add_link(capacity_bytes_per_second)
        self._meters.append(Meter(link.index))
        self._queue_max += 4
        return LinkIndex(link.index)

    def set_capacity(self, now: float, link: LinkIndex, capacity_bytes_per_second: float) -> None:
        """Change a link for all its flows; zero stalls them until it is raised again."""
        self._move_to(now)
        self._due = None
        self._share.set_capacity(self._share.links[link], capacity_bytes_per_second)

    def start(
        self,
        now: float,
        links: tuple[LinkIndex, ...],
        size_bytes: float,
        tag: object,
        rate_max: float | None = None,
    ) -> Transfer:
        """A new transfer over distinct links; `advance` returns its tag when it is done.

        A transfer of no bytes, or over no links, is done at once: at this same `now`.
        """
        assert size_bytes >= 0
        assert len(links) < 2 or len(set(links)) == len(links)
        self._move_to(now)
        transfer = Transfer(self._started, size_bytes, tag)
        self._started += 1
        route = tuple([self._share.links[link] for link in links])
        if rate_max is not None:
            transfer.cap = self._cap(rate_max)
            route = (*route, transfer.cap)
        if size_bytes == 0 or not route:
            self._instant.append(transfer)
        else:
            self._due = None
            transfer.flow = self._share.add(route)
            self._transfers[transfer.flow] = transfer
        return transfer

    def cancel(self, now: float, transfer: Transfer) -> float:
        """The bytes that a transfer had moved. It is stopped, and its tag will not be returned.

        A transfer that is already done stays done: all its bytes moved, and its tag is returned.
        """
        self._move_to(now)
        if transfer in self._instant:
            self._instant.remove(transfer)
            return 0.0
        if transfer.flow is None:
            return transfer.size_bytes
        moved = transfer.size_bytes - self._remaining(transfer)
        self._end(transfer)
        return moved

    def next_completion(self) -> float:
        """The time at which the next transfer is done if nothing changes; infinity if none will be.

        A caller whose clock is coarser than a float must round up, or `advance` finds nothing done.
        """
        return self._now if self._finished else self._next_due()

    def advance(self, now: float) -> list[object]:
        """The tags of transfers done by `now`, by time and then by order of start."""
        self._move_to(now)
        # Once, and not until nothing is due: a second look would solve for the rates between these
        # completions and the starts that the caller is about to make in reply.
        if self._next_due() <= _end_of_instant(now):
            self._complete(now)
        finished, self._finished = self._finished, []
        return finished

    def rate(self, transfer: Transfer) -> float:
        """Bytes per second at present; zero once done."""
        self._solve()
        if transfer.flow is None:
            return inf if transfer in self._instant else 0.0
        return transfer.flow.bottleneck.level

    def _move_to(self, now: float) -> None:
        """Complete transfers due before `now`, so that rates hold until the instant they change."""
        assert now >= self._now
        if now == self._now:
            return
        while (due := self._next_due()) < now:
            self._complete(due)
        self._now = now

    def _next_due(self) -> float:
        if self._instant:
            return self._now
        due = self._due
        if due is None:
            due = self._due = self._find_due()
        return due if due > self._now else self._now

    def _find_due(self) -> float:
        self._solve()
        queue = self._queue
        while queue:
            due, index = queue[0]
            meter = self._meters[index]
            if due == meter.due:
                done_at = meter.done_at()
                if done_at <= due:
                    return due
                meter.due = inf
                self._look_at(meter, done_at)
            # The new entry is no earlier than the old one, which is therefore still in front.
            heappop(queue)
        return inf

    def _complete(self, now: float) -> None:
        """End every transfer due at this instant, in order of start."""
        self._now = now
        self._due = None
        limit = _end_of_instant(now)
        done, self._instant = self._instant, []
        queue = self._queue
        while queue and queue[0][0] <= limit:
            due, index = heappop(queue)
            meter = self._meters[index]
            if due == meter.due:
                meter.due = inf
                while (due := meter.done_at()) <= limit:
                    transfer = heappop(meter.flows)[2]
                    # A flow that left and came back may have an older entry that looks current.
                    transfer.meter = None
                    done.append(transfer)
                self._look_at(meter, due)
        if len(done) > 1:
            done.sort(key=lambda transfer: transfer.order)
        for transfer in done:
            self._end(transfer)
            self._finished.append(transfer.tag)

    def _end(self, transfer: Transfer) -> None:
        transfer.meter = None
        self._due = None
        if transfer.flow is not None:
            self._share.remove(transfer.flow)
            del self._transfers[transfer.flow]
            transfer.flow = None
        if transfer.cap is not None:
            self._spare_caps.append(transfer.cap)
            transfer.cap = None

    def _solve(self) -> None:
        """Bring rates up to date, and move flows to the meters of their new bottlenecks."""
        share = self._share
        share.solve()
        if not share.changed and not share.moved:
            return
        arrivals = self._leave_meters() if share.moved else ()
        for link in share.changed:
            link.changed = False
            self._repace(link)
        share.changed.clear()
        for transfer in arrivals:
            assert transfer.flow is not None
            link = transfer.flow.bottleneck
            meter = self._meters[link.index]
            meter.take(self._now, transfer, len(link.bound))
            self._look_at(meter, meter.done_at())

    def _leave_meters(self) -> Iterable[Transfer]:
        """Take flows that changed bottleneck off their old meter, while its pace still holds."""
        arrivals: dict[Transfer, None] = {}
        for flow in self._share.moved:
            transfer = self._transfers.get(flow)
            if transfer is None or transfer.meter is self._meters[flow.bottleneck.index]:
                continue
            transfer.remaining = self._remaining(transfer)
            transfer.meter = None
            arrivals[transfer] = None
        self._share.moved.clear()
        return arrivals

    def _repace(self, link: Link) -> None:
        meter = self._meters[link.index]
        if not link.bound:
            meter.stop()
            return
        pace, meter.pace = meter.pace, link.level
        meter.served += pace * (self._now - meter.since)
        meter.since = self._now
        # A slower meter is looked at too early, and then again at the right time.
        if link.level > pace:
            self._look_at(meter, meter.done_at())

    def _look_at(self, meter: Meter, due: float) -> None:
        if due >= meter.due:
            return
        meter.due = due
        heappush(self._queue, (due, meter.index))
        if len(self._queue) > self._queue_max:
            self._queue = [(each.due, each.index) for each in self._meters if each.due < inf]
            heapify(self._queue)

    def _remaining(self, transfer: Transfer) -> float:
        if transfer.meter is None:
            return transfer.remaining
        left = transfer.target - transfer.meter.read(self._now)
        return min(max(0.0, left), transfer.size_bytes)

    def _cap(self, rate_max: float) -> Link:
        """A private link that holds one transfer to its own limit."""
        if not self._spare_caps:
            return self._share.links[self.add_link(rate_max)]
        cap = self._spare_caps.pop()
        self._share.set_capacity(cap, rate_max)
        return cap


def _end_of_instant(now: float) -> float:
    return now + INSTANT_ULPS * ulp(now)


def _is_current(entry: tuple[float, int, Transfer], meter: Meter) -> bool:
    target, _, transfer = entry
    return transfer.meter is meter and transfer.target == target
