"""Decides which calls are sent together, in one bundle.

A call that takes microseconds must not be sent alone, and calls that take seconds must not wait
for each other. Nobody says beforehand how long calls take, so each function is timed: its first
call is sent alone, later bundles grow while they take less than ``target_seconds``. A call whose
unfinished dependencies are all in the bundle joins it: a chain or a small tree is then one bundle.
But if another value that it needs would have to be brought to the bundle's node, the call waits
until all its values are made: nobody knows yet at which node most of their bytes will be.
A call that turns out slow is noticed by `dispatcher`, which gives back the calls behind it.

A call that needs large values waits for a slot of the node that has most of their bytes. A slot of
another node may have it if nothing need be moved there; or if moving the values takes less than the
calls that are before it, or than that node has taken no call for.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil
from typing import NamedTuple, Protocol

from dataward.live.call_pipes import TICKETS_MAX
from dataward.node.lead import believed


@dataclass(frozen=True, slots=True)
class BundleSettings:
    target_seconds: float = 0.05  # a bundle that takes this long is large enough
    growth: int = 8  # at most this many times as many calls of one function as ever came back
    calls_max: int = TICKETS_MAX
    ahead: int = 2  # bundles for each slot: one runs, one is on its way
    looks_max: int = 64  # calls of each node that are looked at for those with values nearby


class Pace:
    """How long the calls of one function take, as measured so far."""

    __slots__ = ("__weakref__", "largest", "seconds")

    def __init__(self) -> None:
        self.seconds = -1.0  # of one recent call; -1: not known
        self.largest = 0  # the most calls of it that have come back in one bundle

    @property
    def is_known(self) -> bool:
        return self.seconds >= 0

    def learn(self, calls: int, seconds: float) -> None:
        """Record that this many calls took this long. A slower value is believed at once."""
        self.seconds = believed(self.seconds, seconds / calls)
        self.largest = max(self.largest, calls)


class PreferredNode(NamedTuple):
    """A call should be made at ``node``: to move all it needs elsewhere takes so long at most."""

    node: str
    moving_seconds: float


class Item:
    """A call as the bundler sees it."""

    __slots__ = ("dependants", "gone", "is_out", "missing", "number", "pace", "preferred")

    def __init__(self, number: int, pace: Pace) -> None:
        self.number = number
        self.pace = pace
        self.missing = 0  # dependencies that have not finished
        self.dependants: list[Item] | None = None
        self.is_out = False  # in a bundle that was sent
        self.preferred: PreferredNode | None = None  # once it is ready
        self.gone = False  # finished, or cancelled, or a dependency failed: not to be made


class HomeLine:
    """The calls that should be made at one node."""

    __slots__ = ("calls", "moved_on_at")

    def __init__(self, now: float) -> None:
        self.calls: deque[Item] = deque()
        self.moved_on_at = now  # when the node last took a call, or had none to take


class ValuePlaces(Protocol):
    """Where the large values are that calls need."""

    def preferred_of(self, item: Item) -> PreferredNode | None:
        """Where a call should be made that has just become ready; None: anywhere."""
        ...

    def moving_seconds(self, item: Item, node: str) -> float:
        """How long it takes to bring what a call needs to this node."""
        ...

    def slots_at(self, node: str) -> int: ...


class NoPlaces:
    """All values are as near to one node as to another."""

    def preferred_of(self, item: Item) -> PreferredNode | None:
        return None

    def moving_seconds(self, item: Item, node: str) -> float:
        return 0.0

    def slots_at(self, node: str) -> int:
        return 1


class BundleDraft:
    """A bundle while it is put together."""

    __slots__ = ("_counts", "_seconds", "_settings", "inside", "items")

    def __init__(self, settings: BundleSettings) -> None:
        self.items: list[Item] = []
        self.inside: dict[int, int] = {}  # for a waiting call: how many dependencies are in here
        self._settings = settings
        self._seconds = 0.0
        self._counts: dict[Pace, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether no further call fits, whichever it is."""
        if not self.items:
            return False
        first, settings = self.items[0], self._settings
        return (
            not first.pace.is_known
            or len(self.items) >= settings.calls_max
            or self._seconds >= settings.target_seconds
        )

    def has_room_for(self, item: Item) -> bool:
        if not self.items:
            return True
        pace, settings = item.pace, self._settings
        return (
            pace.is_known
            and self._seconds + pace.seconds <= settings.target_seconds
            and self._counts.get(pace, 0) < pace.largest * settings.growth
            and not self.is_full
        )

    def add(self, item: Item) -> None:
        pace = item.pace
        item.is_out = True
        self.items.append(item)
        self._seconds += max(pace.seconds, 0.0)
        self._counts[pace] = self._counts.get(pace, 0) + 1


@dataclass
class Bundler:
    """Knows which calls are ready, and puts the next bundle together."""

    slots: int
    settings: BundleSettings = field(default_factory=BundleSettings)
    places: ValuePlaces = field(default_factory=NoPlaces)
    ready: "deque[Item]" = field(default_factory=deque)  # to be made anywhere
    at_home: dict[str, HomeLine] = field(default_factory=dict)  # at this node, if it can be
    now: Callable[[], float] = lambda: 0.0

    def add(self, item: Item, needs: Iterable[Item]) -> None:
        """Add a call; ``needs`` are the unfinished calls whose results it takes."""
        self.hold_back(item, needs)
        if not item.missing:
            self._line_of(item).append(item)

    def hold_back(self, item: Item, needs: Iterable[Item]) -> None:
        """Let a call that is in no line wait for these, besides those it waits for already."""
        for need in needs:
            item.missing += 1
            if need.dependants is None:
                need.dependants = []
            need.dependants.append(item)

    def waiting(self) -> int:
        """How many calls are ready."""
        return len(self.ready) + sum(len(line.calls) for line in self.at_home.values())

    def all_ready(self) -> Iterable[Item]:
        return chain(self.ready, *(line.calls for line in self.at_home.values()))

    def _line_of(self, item: Item) -> "deque[Item]":
        item.preferred = self.places.preferred_of(item)
        if item.preferred is None:
            return self.ready
        line = self.at_home.get(item.preferred.node)
        if line is None:
            line = self.at_home[item.preferred.node] = HomeLine(self.now())
        elif not line.calls:
            line.moved_on_at = self.now()
        return line.calls

    def next_bundle(self, node: str = "") -> list[Item]:
        """Calls for a slot of this node, in an order in which they can be made; or no calls.

        A bundle takes only a share of the ready calls, so that no slot idles while another has a
        queue.
        """
        own = self.at_home.get(node)
        if own is not None and own.calls:
            own.moved_on_at = self.now()
            return self._nearest(own.calls, node).items
        if self.ready:
            return self._drafted(self.ready, node).items
        strays = self._strays(node)
        draft = self._drafted(strays, node)
        for item in reversed(strays):  # for which there is no room
            assert item.preferred is not None
            self.at_home[item.preferred.node].calls.append(item)
        return draft.items

    def _drafted(self, ready: "deque[Item]", node: str) -> BundleDraft:
        share = ceil(len(ready) / (self.slots * self.settings.ahead))
        draft = BundleDraft(self.settings)
        while ready and share > 0 and draft.has_room_for(ready[0]):
            seed = ready.popleft()
            share -= 1
            if not seed.gone:
                self._take(seed, draft, node)
            elif not draft.items:
                share = max(share, 1)  # all before were gone, so the bundle still has no call
        return draft

    def _nearest(self, line: "deque[Item]", node: str) -> BundleDraft:
        """Calls of a node's own line, first those for which nothing need be brought there."""
        share = ceil(len(line) / (self.slots * self.settings.ahead))
        draft, aside = BundleDraft(self.settings), list[Item]()
        while line and share > 0 and draft.has_room_for(line[0]):
            if len(aside) == self.settings.looks_max:
                break
            item = line.popleft()
            if item.gone:
                continue
            if self.places.moving_seconds(item, node):
                aside.append(item)
            else:
                share -= 1
                self._take(item, draft, node)
        if aside and not draft.items:
            least = min(aside, key=lambda item: self.places.moving_seconds(item, node))
            aside.remove(least)
            self._take(least, draft, node)
        line.extendleft(reversed(aside))
        return draft

    def _take(self, seed: Item, draft: BundleDraft, node: str) -> None:
        """Add a call and, depth first, the calls whose missing results are then all in the bundle.

        Calls for which another value would have to be brought to the node are left out.
        """
        stack = [seed]
        inside = draft.inside
        while stack and not draft.is_full:
            item = stack.pop()
            if not draft.has_room_for(item):
                continue  # it becomes ready when this bundle has come back
            draft.add(item)
            complete = []
            for child in item.dependants or ():
                have = inside.get(child.number, 0) + 1
                inside[child.number] = have
                if have == child.missing and not child.gone:
                    complete.append(child)
            stack.extend(
                child for child in reversed(complete) if not self.places.moving_seconds(child, node)
            )

    def _strays(self, node: str) -> "deque[Item]":
        """Calls out of other nodes' lines, from the ends, where calls wait longest.

        All those looked at that need nothing brought here; or else the one that needs the least, if
        that is sooner here than to wait there.
        """
        found: list[tuple[float, Item]] = []
        for home, line in self.at_home.items():
            if line.calls and home != node:
                found += self._which_may_leave(line, self.places.slots_at(home), node)
        if not found:
            return deque()
        least = min(seconds for seconds, _ in found)
        chosen = [item for seconds, item in found if seconds == least][: 1 if least else None]
        looks = self.settings.looks_max
        for line in self.at_home.values():
            looked_at = [line.calls.pop() for _ in range(min(len(line.calls), looks))]
            line.calls.extend(item for item in reversed(looked_at) if item not in chosen)
        return deque(chosen)

    def _which_may_leave(
        self, line: HomeLine, slots: int, node: str
    ) -> Iterable[tuple[float, Item]]:
        """Calls of another node's line, and how long it takes to bring what they need here."""
        last, stuck_seconds = len(line.calls) - 1, self.now() - line.moved_on_at
        for back in range(min(last + 1, self.settings.looks_max)):
            item = line.calls[last - back]
            seconds = self.places.moving_seconds(item, node)
            waits_seconds = (last - back) * item.pace.seconds / max(slots, 1)
            if not seconds or max(stuck_seconds, waits_seconds) >= seconds:
                yield seconds, item

    def next_leave(self) -> float | None:
        """When next a call may leave a node that takes no calls; None if none will.

        A call that may leave already waits for nothing but a free slot.
        """
        now = self.now()
        leaves = [
            line.moved_on_at + line.calls[-1].preferred.moving_seconds
            for line in self.at_home.values()
            if line.calls and line.calls[-1].preferred
        ]
        return min((leave for leave in leaves if leave > now), default=None)

    def finished(self, item: Item) -> None:
        """Record that a call has a result; calls that waited for no other are now ready."""
        for child in item.dependants or ():
            child.missing -= 1
            if not child.missing and not child.gone and not child.is_out:
                self._line_of(child).append(child)
        item.dependants = None

    def give_back(self, items: Sequence[Item]) -> None:
        """Send these calls of a bundle, which nobody has begun to make, in another bundle."""
        for item in reversed(items):
            item.is_out = False
            if not item.missing:
                self._line_of(item).appendleft(item)
