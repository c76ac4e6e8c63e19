"""How fast this node's machine is now, beside its best, as small trials say."""

from dataclasses import dataclass
from math import inf

SLOW_FACTOR = 3.0  # a core that shares its circuits, with all others busy, takes twice as long


@dataclass
class MachinePace:
    """``slowness`` is how many times as long as at best things take here: 1 unless that is much."""

    slowness: float = 1.0
    _least_seconds: float = inf
    _last_seconds: float = inf

    @property
    def is_slow(self) -> bool:
        return self.slowness > 1.0

    def note(self, seconds: float) -> bool:
        """Heed a trial that took so long; whether it differs from what was known before.

        A trial that was disturbed says nothing of the machine: the shorter one of two counts.
        """
        lately = min(self._last_seconds, seconds)
        self._least_seconds, self._last_seconds = min(self._least_seconds, seconds), seconds
        factor = lately / self._least_seconds
        self.slowness = factor if factor >= SLOW_FACTOR else 1.0
        return (seconds >= SLOW_FACTOR * self._least_seconds) != self.is_slow
