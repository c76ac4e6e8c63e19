"""Max-min fair rates of flows over shared links, kept up to date as flows and capacities change.

Only rates live here: no time, no bytes, no completions (see `network_flows`).

A link that is full has a *level*: the rate of the flows it holds back. A flow runs at the level of
its bottleneck, one link of its route. Rates are max-min fair exactly when, on every link,

- the flows it holds back share evenly what the other flows leave, and
- no flow held back elsewhere runs faster than the link's level,

so a change is repaired link by link: a link whose level changed tells the other links of the flows
it holds back, and no others. Links are repaired lowest level first, because a level depends only on
lower levels; each affected link is then repaired about once. Rates are kept per link, not per flow:
of some 1,300 flows whose rate changes when one of 10,000 flows ends, only about five change
bottleneck.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf

# Two levels closer than this are a tie: a flow then stays with the bottleneck it has. Otherwise
# rounding would pass a flow to and fro between two links that fill at the same level.
TIE = 1e-12

# A level that would change by less than this is left as it is: such a change comes from rounding.
# The comparison is with the level in force, so that changes left out do not add up.
NOISE = 1e-14

# A link's flows are summed again after this many repairs, or after as many as it has flows if that
# is more: then rounding does not build up, and summing costs no more than the repairs did.
AGE_MAX = 512


class Link:
    """A shared capacity, and the solver's sums over the flows across it."""

    __slots__ = (
        "age",
        "bound",
        "capacity",
        "changed",
        "dirty",
        "flows",
        "index",
        "level",
        "top",
        "used",
    )

    def __init__(self, index: int, capacity: float) -> None:
        self.index = index
        self.capacity = capacity
        self.flows: dict[Flow, None] = {}
        # The flows this link holds back, each with the other links of its route.
        self.bound: dict[Flow, tuple[Link, ...]] = {}
        # The rate of the bound flows; infinite exactly when there are none.
        self.level = inf
        # The summed rates of the flows that are held back elsewhere, and a bound on the fastest.
        self.used = 0.0
        self.top = 0.0
        # Repairs since `used` was last summed from the flows.
        self.age = 0
        self.dirty = False
        self.changed = False


class Flow:
    """One sender's use of a route; its rate is its bottleneck's level."""

    __slots__ = ("bottleneck", "links")

    def __init__(self, links: tuple[Link, ...]) -> None:
        self.links = links
        self.bottleneck = links[0]


class FairShare:
    """The max-min fair rates of a changing set of flows.

    Changes are gathered and cost little; `solve` brings every level up to date at once. Between a
    change and `solve`, levels mean nothing. Results depend only on the order of the calls.
    """

    def __init__(self, *, repairs_per_flow_max: float = 1.0) -> None:
        """After `repairs_per_flow_max` repairs per flow, `solve` fills the whole network again.

        A repair costs about what filling costs per flow. One change never came near that many
        repairs; a batch that changes most flows at once does, and filling is then cheaper.
        """
        self.links: list[Link] = []
        # The links whose level changed, and the flows whose bottleneck changed (with repeats). The
        # caller empties both lists.
        self.changed: list[Link] = []
        self.moved: list[Flow] = []
        self._flows: dict[Flow, None] = {}
        self._dirty: list[tuple[float, int, Link]] = []
        self._repairs_per_flow_max = repairs_per_flow_max

    def add_link(self, capacity: float) -> Link:
        assert 0 <= capacity < inf
        link = Link(len(self.links), capacity)
        self.links.append(link)
        return link

    def set_capacity(self, link: Link, capacity: float) -> None:
        assert 0 <= capacity < inf
        link.capacity = capacity
        # Rounding errors in `used` were small beside the old capacity, perhaps not beside the new.
        link.age = max(AGE_MAX, len(link.flows))
        self._soil(link)

    def add(self, links: tuple[Link, ...]) -> Flow:
        """A new flow across distinct links, at least one."""
        flow = Flow(links)
        self._flows[flow] = None
        offers = [(link.capacity - link.used) / (len(link.bound) + 1) for link in links]
        offer = min(offers)
        link = links[offers.index(offer)]
        if not link.bound:
            link.level = max(0.0, offer)
            self._note(link)
        for each in links:
            each.flows[flow] = None
        self._bind(flow, link)
        # A level that was just set for this flow alone is right, unless others should be held back.
        if len(link.bound) > 1 or link.top > link.level:
            self._soil(link)
        self._shift(link.bound[flow], link.level, link.level)
        return flow

    def remove(self, flow: Flow) -> None:
        del self._flows[flow]
        link = flow.bottleneck
        others = link.bound[flow]
        self._shift(others, -link.level, 0.0)
        self._unbind(flow, link)
        if link.bound:
            self._soil(link)
        for each in flow.links:
            del each.flows[flow]
            if not each.flows:
                each.used = each.top = 0.0
                each.age = 0

    def solve(self) -> None:
        """Repair links, lowest level first, until no link needs repair."""
        dirty = self._dirty
        if not dirty:
            return
        repairs = self._repairs_per_flow_max * (len(self._flows) + 32)
        while dirty:
            repairs -= 1
            if repairs < 0:
                self._fill_all()
                return
            link = heappop(dirty)[2]
            link.dirty = False
            link.age += 1
            if not self._repair(link):
                self._refill(link)

    def _repair(self, link: Link) -> bool:
        """Whether the link's level could be set; False if it should hold back more flows."""
        if link.age > AGE_MAX and link.age > len(link.flows):
            return False
        bound = link.bound
        if not bound:
            return link.used <= link.capacity * (1 + TIE)
        level = (link.capacity - link.used) / len(bound)
        if link.top > level * (1 + TIE):
            return False
        change = level - link.level
        if -NOISE * level <= change <= NOISE * level:
            return True
        link.level = level
        if not link.changed:
            link.changed = True
            self.changed.append(link)
        # This loop takes most of the time: it is `_shift`, written out. A link whose level rose
        # above another's need not give up its flows: the other link is told here, and takes them.
        dirty = self._dirty
        for others in bound.values():
            for other in others:
                other.used += change
                if level > other.top:
                    other.top = level
                if other.dirty:
                    continue
                if other.level == inf and other.used <= other.capacity:
                    # It holds no flow back, and need not: most changes end here.
                    other.age += 1
                    if other.age <= AGE_MAX or other.age <= len(other.flows):
                        continue
                other.dirty = True
                heappush(dirty, (other.level, other.index, other))
        return True

    def _refill(self, link: Link) -> None:
        """Decide again which flows to take over from other links, given the rates those allow.

        The link is filled to a level where each flow takes the lesser of that level and its rate
        elsewhere. Sums are computed again, which also removes rounding errors in `used`.
        """
        bound = link.bound
        stayed = list(bound.values())
        before = link.level
        allowed = [inf if flow in bound else flow.bottleneck.level for flow in link.flows]
        water = _water_level(link.capacity, allowed) * (1 + TIE)
        kept = [rate for rate in allowed if rate <= water and rate < inf]
        for flow, rate in list(zip(link.flows, allowed, strict=True)):
            if water < rate < inf:
                self._capture(flow, link)
        captured = list(bound.values())[len(stayed) :]
        link.used = sum(kept)
        link.top = max(kept, default=0.0)
        link.age = 0
        level = max(0.0, (link.capacity - link.used) / len(bound)) if bound else inf
        if level != before:
            link.level = level
            self._note(link)
        for others in stayed:
            self._shift(others, level - before, level)
        for others in captured:
            self._shift(others, level, level)

    def _capture(self, flow: Flow, link: Link) -> None:
        """Take a flow over from its bottleneck; its rate is then missing from its other links."""
        owner = flow.bottleneck
        rest = tuple(other for other in owner.bound[flow] if other is not link)
        self._shift(rest, -owner.level, 0.0)
        self._unbind(flow, owner)
        self._bind(flow, link)

    def _bind(self, flow: Flow, link: Link) -> None:
        flow.bottleneck = link
        # A tuple of a list is made in half the time of one from a generator.
        link.bound[flow] = tuple([other for other in flow.links if other is not link])
        self.moved.append(flow)

    def _unbind(self, flow: Flow, link: Link) -> None:
        del link.bound[flow]
        if not link.bound:
            link.level = inf
            self._note(link)

    def _shift(self, links: Iterable[Link], change: float, rate: float) -> None:
        """Tell links that a flow held back elsewhere changed its rate by `change` to `rate`."""
        for link in links:
            link.used += change
            if rate > link.top:
                link.top = rate
            if link.dirty:
                continue
            if link.level == inf and link.used <= link.capacity:
                # It holds no flow back, and need not, as in `_repair`.
                link.age += 1
                if link.age <= AGE_MAX or link.age <= len(link.flows):
                    continue
            self._soil(link)

    def _soil(self, link: Link) -> None:
        if not link.dirty:
            link.dirty = True
            heappush(self._dirty, (link.level, link.index, link))

    def _note(self, link: Link) -> None:
        if not link.changed:
            link.changed = True
            self.changed.append(link)

    def _fill_all(self) -> None:
        """Fill the whole network progressively: the link with the lowest level first."""
        for _, _, link in self._dirty:
            link.dirty = False
        self._dirty.clear()
        free = {link: len(link.flows) for flow in self._flows for link in flow.links}
        for link in free:
            link.bound.clear()
            link.level = inf
            link.used = link.top = 0.0
            link.age = 0
            self._note(link)
        queue = [(link.capacity / count, link.index, link) for link, count in free.items()]
        heapify(queue)
        fixed: set[Flow] = set()
        while queue:
            level, _, link = heappop(queue)
            if not free[link]:
                continue
            level_then, level = level, max(0.0, link.capacity - link.used) / free[link]
            if level > level_then:
                heappush(queue, (level, link.index, link))
                continue
            link.level = level
            for flow in [each for each in link.flows if each not in fixed]:
                fixed.add(flow)
                self._bind(flow, link)
                for other in link.bound[flow]:
                    other.used += level
                    other.top = level
                    free[other] -= 1
            free[link] = 0


def _water_level(capacity: float, allowed: list[float]) -> float:
    """The level at which flows that may each take `allowed` fill the capacity, or infinity."""
    left = capacity
    waiting = len(allowed)
    for rate in sorted(allowed):
        if rate * waiting > left:
            return max(0.0, left / waiting)
        left -= rate
        waiting -= 1
    return inf
