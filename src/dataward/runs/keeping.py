"""Which files between tasks are kept once no task needs them, so that later runs find them."""

import heapq
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from dataward.live.depot_disk import clear_incoming, files_in_depot, published_in_depot
from dataward.model.quantities import parse_bytes
from dataward.model.workflow import FileId, TaskId
from dataward.runs.outcomes import Outcome

SHARE_OF_FREE = 0.1  # of what the disk has free when a run begins, if nothing else is said


@dataclass(frozen=True, slots=True)
class Keep:
    """How much to keep between tasks, in bytes; ``everything`` goes to ``outputs/`` if asked."""

    budget_bytes: float | None = None  # None: a share of what is free
    everything: bool = False

    def bytes_in(self, directory: Path) -> float:
        """The bytes that may be kept in this directory."""
        if self.budget_bytes is not None:
            return self.budget_bytes
        status = os.statvfs(directory)
        return SHARE_OF_FREE * status.f_bavail * status.f_frsize

    def __str__(self) -> str:
        if self.everything:
            return "all"
        if self.budget_bytes is None:
            return "auto"
        return f"{self.budget_bytes:.0f}" if self.budget_bytes else "final"


def parse_keep(text: str) -> Keep:
    """``auto``, ``final``, ``all`` or a size such as ``50GB``. Raises SettingError."""
    plain = {"auto": Keep(), "final": Keep(0.0), "all": Keep(everything=True)}
    return plain[text] if text in plain else Keep(parse_bytes(text))


@dataclass
class Keeping:
    """Chooses what to keep in a budget; what is cheapest to make again, per byte, goes first."""

    budget_bytes: float
    used_bytes: int = 0
    _kept: dict[FileId, tuple[float, int]] = field(default_factory=dict)  # worth and size
    _cheapest: list[tuple[float, FileId]] = field(default_factory=list)

    def add(self, file: FileId, size_bytes: int, seconds: float) -> list[FileId]:
        """The files to let go of now that this one is no longer needed; it may be among them.

        ``seconds`` is how long it took to make the file.
        """
        self.remove(file)
        worth = seconds / size_bytes if size_bytes else inf
        self._kept[file] = worth, size_bytes
        heapq.heappush(self._cheapest, (worth, file))
        self.used_bytes += size_bytes
        gone = []
        while self.used_bytes > self.budget_bytes:
            worth, cheapest = heapq.heappop(self._cheapest)
            if self._kept.get(cheapest, (None,))[0] == worth:  # else it was removed, or added again
                self.remove(cheapest)
                gone.append(cheapest)
        return gone

    def remove(self, file: FileId) -> None:
        """Forget a file that is needed again, or gone."""
        if file in self._kept:
            self.used_bytes -= self._kept.pop(file)[1]


def trim_depots(depots: Path, outcomes: Mapping[TaskId, Outcome], budget_bytes: float) -> None:
    """Remove what no outcome names from the depots, and the cheapest files beyond the budget.

    Without a budget the depots go as a whole.
    """
    if not budget_bytes:
        shutil.rmtree(depots, ignore_errors=True)
        return
    made = {
        file.digest: outcome.seconds for outcome in outcomes.values() for file in outcome.outputs
    }
    keeping = Keeping(budget_bytes)
    for depot in sorted(depots.iterdir()) if depots.is_dir() else ():
        for place in published_in_depot(depot):
            os.unlink(place.path)  # it is in outputs/
        clear_incoming(depot)
        for place in files_in_depot(depot):
            file = FileId(place.path)
            gone = [file]
            if place.digest in made:
                gone = keeping.add(file, place.size_bytes, made[place.digest])
            for path in gone:
                os.unlink(path)
        _remove_if_empty(depot / "incoming", depot, depots)


def _remove_if_empty(*directories: Path) -> None:
    for directory in directories:
        with suppress(OSError):
            directory.rmdir()
