"""Orders that wait for a runner process, and whose turn it is where several runs share a pool.

A process that comes free goes to the run that has the fewest cores just then; of equals, to the one
that has used the least time, in core seconds. Within a run the order that came first is next: the
run's node has put the most urgent task first. So a run of a million tasks takes as many cores as
there are while it is alone, and half of them when a run of ten tasks comes.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from dataward.live.runner_connection import PendingOrder


class WaitingOrders:
    def __init__(self) -> None:
        self._by_run: dict[str, deque[PendingOrder]] = {}
        self._used_seconds: dict[str, float] = {}  # core seconds of each run that is known here

    def __bool__(self) -> bool:
        return bool(self._by_run)

    def __contains__(self, pending: PendingOrder) -> bool:
        return pending in self._by_run.get(pending.run, ())

    @property
    def are_of_several_runs(self) -> bool:
        return len(self._by_run) > 1

    def runs(self) -> list[str]:
        """The runs whose orders wait."""
        return list(self._by_run)

    def add(self, pending: PendingOrder) -> None:
        self._line_of(pending.run).append(pending)

    def put_back(self, pending: PendingOrder) -> None:
        """Let an order that was given to a process and had not begun wait again, first of all."""
        self._line_of(pending.run).appendleft(pending)

    def remove(self, pending: PendingOrder) -> None:
        line = self._by_run[pending.run]
        line.remove(pending)
        if not line:
            del self._by_run[pending.run]

    def next_one(self, cores_of: Mapping[str, int]) -> PendingOrder:
        """The order whose turn it is, if the runs have so many cores at present."""
        if len(self._by_run) == 1:
            (line,) = self._by_run.values()
            return line[0]
        run = min(self._by_run, key=lambda run: (cores_of.get(run, 0), self.used_by(run), run))
        return self._by_run[run][0]

    def lines(self, cores_of: Mapping[str, int]) -> dict[str, Sequence[PendingOrder]]:
        """All orders that wait, by run: the run whose turn it is first."""
        runs = sorted(self._by_run, key=lambda run: (cores_of.get(run, 0), self.used_by(run), run))
        return {run: self._by_run[run] for run in runs}

    def used(self, run: str, core_seconds: float) -> None:
        """Count the time that an order of this run has used."""
        self._used_seconds[run] = self.used_by(run) + core_seconds

    def forget(self, run: str) -> None:
        """The run is over."""
        self._used_seconds.pop(run, None)

    def used_by(self, run: str) -> float:
        """A run that is new here begins with as much as the one that has used the least."""
        if run not in self._used_seconds:
            self._used_seconds[run] = min(self._used_seconds.values(), default=0.0)
        return self._used_seconds[run]

    def _line_of(self, run: str) -> deque[PendingOrder]:
        return self._by_run.setdefault(run, deque())
