"""Since when nobody has served an input, and whether it counts as lost by now."""

from dataclasses import dataclass, field
from typing import NamedTuple

from dataward.model.workflow import FileId

TRIES_MIN = 3  # however long they took
PAUSE_SECONDS = 60.0  # between two tries, besides the time after which a file is lost


class _Tries(NamedTuple):
    times: int
    first: float
    last: float


@dataclass
class UnservedFiles:
    """The files that this node asked for in vain, until it has them.

    A node that has not asked for a long time knows nothing of the time between: others may have
    been served. So it counts anew.
    """

    lost_seconds: float
    _tries: dict[FileId, _Tries] = field(default_factory=dict)

    def failed(self, file: FileId, now: float) -> None:
        """Note that all who might have the file were asked in vain."""
        tries = self._tries.get(file)
        if tries is None or now - tries.last > self.lost_seconds + PAUSE_SECONDS:
            tries = _Tries(0, now, now)
        self._tries[file] = _Tries(tries.times + 1, tries.first, now)

    def came(self, file: FileId) -> None:
        self._tries.pop(file, None)

    def seconds(self, file: FileId) -> float:
        """For how long nobody has served the file if that makes it lost, else 0."""
        tries = self._tries.get(file)
        if tries is None or tries.times < TRIES_MIN:
            return 0.0
        unserved = tries.last - tries.first
        return unserved if unserved >= self.lost_seconds else 0.0
