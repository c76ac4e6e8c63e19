"""Which calls travel together: decided as plain functions of what is known about them.

A call that takes microseconds must not travel alone, and calls that take seconds must not wait
for each other. Nobody says beforehand which they are, so bundles start small and grow as long as
they take less than a moment. A call whose only unfinished dependencies are in the bundle joins
it: a chain or a small tree is then one journey.
"""

from collections import deque
from dataclasses import dataclass, field
from math import ceil
from typing import Any


@dataclass(frozen=True, slots=True)
class BundleSettings:
    target_seconds: float = 0.05  # a bundle that takes so long is large enough
    growth: int = 8  # one is at most so many times as large as any before it
    calls_max: int = 2000
    ahead: int = 2  # bundles per slot: one runs, one is on its way


@dataclass(slots=True, eq=False)
class Item:
    """A call as the bundler sees it. ``what`` is the caller's."""

    number: int
    what: Any
    missing: int = 0  # dependencies that have not finished
    dependants: "list[Item] | None" = None
    alone: bool = False  # its company died with it once


@dataclass
class Bundler:
    """Calls that wait, those that are ready, and how large the next bundle may be."""

    slots: int
    settings: BundleSettings = field(default_factory=BundleSettings)
    ready: "deque[Item]" = field(default_factory=deque)
    _seconds: float = -1.0  # of a call, lately
    _largest: int = 0  # of the bundles that have come back

    def add(self, item: Item, needs: "list[Item]") -> None:
        """``needs`` are the unfinished ones among the calls whose results it takes."""
        item.missing = len(needs)
        for need in needs:
            if need.dependants is None:
                need.dependants = []
            need.dependants.append(item)
        if not needs:
            self.ready.append(item)

    def next_bundle(self) -> list[Item]:
        """Calls in an order in which they can be made; empty if none is ready."""
        if not self.ready:
            return []
        if self.ready[0].alone:
            return [self.ready.popleft()]
        room = bundle_size(self._seconds, self._largest, self.settings)
        seeds = ceil(len(self.ready) / (self.slots * self.settings.ahead))
        bundle: list[Item] = []
        inside: dict[int, int] = {}  # how many of a waiting call's dependencies are in the bundle
        while self.ready and seeds > 0 and len(bundle) < room and not self.ready[0].alone:
            seeds -= 1
            self._take(self.ready.popleft(), bundle, inside, room)
        return bundle

    def _take(self, seed: Item, bundle: list[Item], inside: dict[int, int], room: int) -> None:
        """Add a call, and depth first those that then lack nothing from outside the bundle."""
        stack = [seed]
        while stack and len(bundle) < room:
            item = stack.pop()
            bundle.append(item)
            for child in item.dependants or ():
                have = inside.get(child.number, 0) + 1
                inside[child.number] = have
                if have == child.missing and not child.alone:
                    stack.append(child)

    def finished(self, bundle: list[Item]) -> None:
        """All of these have results now: whoever lacked nothing else is ready."""
        together = {item.number for item in bundle}
        for item in bundle:
            for child in item.dependants or ():
                child.missing -= 1
                if not child.missing and child.number not in together:
                    self.ready.append(child)
            item.dependants = None

    def learn(self, calls: int, seconds: float) -> None:
        """A bundle of so many calls took so long to make."""
        each = seconds / calls
        known = self._seconds
        # What is slower than expected is believed at once, what is quicker after a while.
        self._seconds = each if known < 0 or each > known else known + (each - known) / 4
        self._largest = max(self._largest, calls)

    def try_alone(self, bundle: list[Item]) -> None:
        """Their process died, through the fault of one of them: each goes by itself now."""
        for item in reversed(bundle):
            item.alone = True
            if not item.missing:
                self.ready.appendleft(item)


def bundle_size(seconds: float, largest: int, settings: BundleSettings) -> int:
    """How many calls may go together, given how long one takes and how many have gone before."""
    if seconds < 0:
        return 1
    wanted = settings.calls_max
    if seconds * wanted > settings.target_seconds:
        wanted = int(settings.target_seconds / seconds)
    return max(1, min(wanted, settings.calls_max, largest * settings.growth))
