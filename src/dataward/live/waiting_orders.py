"""Orders that wait for a runner process, and whose turn it is where several runs share a pool.

A process that comes free goes to the run that has the fewest cores just then; of equals, to the one
that has used the least time, in core seconds. Within a run the order that came first is next: the
run's node has put the most urgent task first. So a run of a million tasks takes as many cores as
there are while it is alone, and half of them when a run of ten tasks comes.

A node gives its next order when it has heard of the end of one, so for a moment no order of its run
waits. A process is held for that run if it is that run's turn. Otherwise a run of short tasks would
have one of them carried out for each long task of another run.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from dataward.live.runner_connection import PendingOrder


class WaitingOrders:
    def __init__(self) -> None:
        self._by_run: dict[str, deque[PendingOrder]] = {}
        self._used_seconds: dict[str, float] = {}  # core seconds of each run that is known here
        self._expected_until: dict[str, float] = {}  # runs whose next order should come by then

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

    @property
    def is_shared(self) -> bool:
        """Whether orders of several runs have been carried out, or looked at."""
        return len(self._used_seconds) > 1

    def add(self, pending: PendingOrder) -> None:
        self._expected_until.pop(pending.run, None)
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
        return self._by_run[self._by_turn(self._by_run, cores_of)[0]][0]

    def lines(self, cores_of: Mapping[str, int]) -> dict[str, Sequence[PendingOrder]]:
        """All orders that wait, by run: the run whose turn it is first."""
        return {run: self._by_run[run] for run in self._by_turn(self._by_run, cores_of)}

    def _by_turn(self, runs: Iterable[str], cores_of: Mapping[str, int]) -> list[str]:
        return sorted(runs, key=lambda run: (cores_of.get(run, 0), self.used_by(run), run))

    def expect(self, run: str, until: float) -> None:
        """An order of this run has ended: its next one should come by then."""
        self._expected_until[run] = until

    def held_until(self, cores_of: Mapping[str, int], now: float) -> float | None:
        """Until when a process waits for a run whose turn it is; None if an order of it waits."""
        expected = {run: until for run, until in self._expected_until.items() if until > now}
        self._expected_until = expected
        first = self._by_turn({*expected, *self._by_run}, cores_of)[:1]
        return expected.get(first[0]) if first else None

    def used(self, run: str, core_seconds: float) -> None:
        """Count the time that an order of this run has used."""
        self._used_seconds[run] = self.used_by(run) + core_seconds

    def forget(self, run: str) -> None:
        """The run is over."""
        self._used_seconds.pop(run, None)
        self._expected_until.pop(run, None)

    def used_by(self, run: str) -> float:
        """A run that is new here begins with as much as the one that has used the least."""
        if run not in self._used_seconds:
            self._used_seconds[run] = min(self._used_seconds.values(), default=0.0)
        return self._used_seconds[run]

    def _line_of(self, run: str) -> deque[PendingOrder]:
        return self._by_run.setdefault(run, deque())
