"""Faults at counted points of a simulated run: its third message, its seventeenth store call.

That somebody removes a task is no fault, but it may come at any point as well.

The simulation is deterministic, so a run without faults says which points there are, and the same
run with a fault at one of them is the same up to that point. `small_worlds` tries them all.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from random import Random

from dataward.model.events import FaultInjected
from dataward.model.ids import NodeId
from dataward.model.workflow import TaskId
from dataward.sim.interference import Interference, StoreFate
from dataward.sim.invariants import Checker
from dataward.sim.simulation import Simulation

Points = dict[str, int]  # how many points of each series a run has passed

CALLS, MESSAGES = "calls", "messages"  # series; nodes and shards have one each, of their own name
ECHO_SECONDS = 3.0  # until a doubled message arrives again
RESTART_LEASES = 0.1  # until a node is back with its lease intact
CRASH_LEASES = 2.5  # until a node is back when others have taken its tasks over


class PointKind(Enum):
    """What goes wrong at a point."""

    CALL = "call"  # a call to a shard does not arrive
    ANSWER = "answer"  # a call to a shard takes effect, but the caller is not answered
    MESSAGE = "message"  # a message does not arrive
    DOUBLE = "double"  # a message arrives, and once more later
    CRASH = "crash"  # a node goes down until its lease has run out
    RESTART = "restart"  # a node goes down and is back within its lease
    FORGET = "forget"  # a shard loses its last writes
    REMOVE = "remove"  # somebody removes a task
    LEAVE = "leave"  # a node leaves on purpose, and comes back later
    JOIN = "join"  # a node comes that was not there


_AT_CALLS = {
    PointKind.CALL, PointKind.ANSWER, PointKind.REMOVE, PointKind.LEAVE, PointKind.JOIN
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Track:
    """A kind of fault in one place: it can strike at every point of one series.

    ``place`` is the node that goes or comes, the shard that forgets or the task that is removed;
    ``span`` is the number of calls that the shard forgets.
    """

    kind: PointKind
    place: str = ""
    span: int = 1

    @property
    def series(self) -> str:
        if self.kind in _AT_CALLS:
            return CALLS
        return self.place or MESSAGES

    def points(self, after: Points, until: Points) -> range:
        """The points of a run at which this fault can strike, after some point and up to another.

        A shard cannot forget more calls than there were.
        """
        return range(max(after[self.series] + 1, self.span), until[self.series] + 1)


@dataclass(frozen=True, slots=True)
class PointFault:
    """One fault at one point; its text is what `parse_world` reads."""

    track: Track
    point: int

    def __str__(self) -> str:
        kind, span = self.track.kind.value, self.track.span
        where = f"{kind} {self.track.place}" if self.track.place else kind
        first = f"{self.point - span + 1}-" if span > 1 else ""
        return f"{where}@{first}{self.point}"


def shard_name(index: int) -> str:
    return f"s{index}"


class Script(Interference):
    """Lets faults happen at their points, and counts all points of the run.

    Points are: each part of a store call that goes to one shard; each message; each step of the
    kernel while a node is up, for that node; each call that a shard has applied, for that shard.
    A step resumes one fiber or calls one callback: nothing comes between two steps, so a node that
    goes down after each step goes down at every moment there is.
    """

    def __init__(self, faults: Sequence[PointFault]) -> None:
        super().__init__(Random(0))  # never drawn from: all rates are zero
        self.passed: Points = {CALLS: 0, MESSAGES: 0}
        self.struck: Points = {}  # the points passed when the last fault struck
        self.over_seconds = 0.0
        self._due = {(fault.track.series, fault.point): fault for fault in faults}
        self._forget: dict[PointFault, Callable[[], None]] = {}

    @property
    def missed(self) -> list[PointFault]:
        """The faults whose points the run has not come to."""
        return list(self._due.values())

    def arrange(self, simulation: Simulation, checker: Checker) -> None:
        """Count the points of a simulation that was made with this script and has not run yet."""
        self._simulation = simulation
        self._checker = checker
        self._shards = [shard_name(i) for i in range(simulation.platform.store.shards)]
        self.passed.update(dict.fromkeys((*simulation.census.present, *self._shards), 0))
        self.struck = dict(self.passed)
        simulation.kernel.on_step = self._on_step
        if any(fault.track.kind is PointKind.LEAVE for fault in self._due.values()):
            simulation.census.vary()
        simulation.store.after_call.append(self._after_call)
        for index in range(len(self._shards)):
            self._remember(index)

    def _pass(self, series: str) -> PointFault | None:
        """Count a point, and return the fault that strikes there, if there is one."""
        self.passed[series] += 1
        fault = self._due.pop((series, self.passed[series]), None)
        if fault is not None:
            self.struck = dict(self.passed)
        return fault

    def _lasts(self, seconds: float) -> float:
        """The time so many seconds from now; the faults are not over before."""
        until = self._simulation.kernel.now() + seconds
        self.over_seconds = max(self.over_seconds, until)
        return until

    # --- between machines ------------------------------------------------------------------------

    def store_fate(self, caller: str, shard: int) -> StoreFate:
        fault = self._pass(CALLS)
        if fault is None:
            return StoreFate.ANSWERED
        kind, place = fault.track.kind, fault.track.place
        if kind is PointKind.REMOVE:
            self._remove(TaskId(place))
        elif kind is PointKind.LEAVE:
            self._leave(NodeId(place))
        elif kind is PointKind.JOIN:
            self._join(NodeId(place))
        if kind not in (PointKind.CALL, PointKind.ANSWER):
            return StoreFate.ANSWERED
        return StoreFate.LOST if fault.track.kind is PointKind.CALL else StoreFate.UNANSWERED

    def _remove(self, task: TaskId) -> None:
        simulation = self._simulation
        now, kind = simulation.kernel.now(), PointKind.REMOVE
        simulation.emit(FaultInjected(now, kind.value, task))
        simulation.remove(task)

    def _leave(self, node: NodeId) -> None:
        simulation = self._simulation
        if simulation.machines[node].node is None:
            return  # it is down
        simulation.emit(FaultInjected(simulation.kernel.now(), PointKind.LEAVE.value, node))
        simulation.leave(node)
        back_seconds = self._lasts(CRASH_LEASES * simulation.strategy.settings.lease_seconds)
        simulation.kernel.call_at(back_seconds, self._come_back, node)

    def _come_back(self, node: NodeId) -> None:
        """Boot a node that has left; if it is still about to, then as soon as it has."""
        simulation = self._simulation
        if node in simulation.census:
            return  # it has come back after a crash
        if simulation.machines[node].up:
            simulation.kernel.call_at(self._lasts(1.0), self._come_back, node)
        else:
            simulation.boot(node)

    def _join(self, node: NodeId) -> None:
        simulation = self._simulation
        if simulation.machines[node].node is not None:
            return  # it is there already
        simulation.emit(FaultInjected(simulation.kernel.now(), "late", node))
        simulation.boot(node)

    def delivery_delays(self, source: str, target: str) -> list[float]:
        fault = self._pass(MESSAGES)
        if fault is None:
            return [0.0]
        if fault.track.kind is PointKind.MESSAGE:
            self.lost_messages += 1
            return []
        self._lasts(ECHO_SECONDS)
        return [0.0, ECHO_SECONDS]

    # --- nodes -----------------------------------------------------------------------------------

    def _on_step(self) -> None:
        for node, machine in self._simulation.machines.items():
            if machine.up and node in self.passed:
                fault = self._pass(node)
                if fault is not None:
                    self._go_down(node, fault.track.kind)

    def _go_down(self, node: NodeId, kind: PointKind) -> None:
        simulation = self._simulation
        leases = CRASH_LEASES if kind is PointKind.CRASH else RESTART_LEASES
        back_seconds = self._lasts(leases * simulation.strategy.settings.lease_seconds)
        simulation.emit(FaultInjected(simulation.kernel.now(), kind.value, node))
        simulation.crash(node)
        simulation.kernel.call_at(back_seconds, self._boot, node)

    def _boot(self, node: NodeId) -> None:
        if self._simulation.machines[node].node is None:  # else it had left, and is back already
            self._simulation.boot(node)

    # --- shards ----------------------------------------------------------------------------------

    def _after_call(self, index: int) -> None:
        fault = self._pass(self._shards[index])
        if fault is not None:
            simulation = self._simulation
            now, kind = simulation.kernel.now(), fault.track.kind
            simulation.emit(FaultInjected(now, kind.value, f"store-{index}"))
            self._forget.pop(fault)()
        self._remember(index, anew=fault is not None)

    def _remember(self, index: int, *, anew: bool = False) -> None:
        """Copy a shard if a fault will set it back to what it is now.

        A shard that has just been set back is copied ``anew`` for later faults: it cannot be set
        back to what it forgot.
        """
        name = self._shards[index]
        for fault in self._due.values():
            is_now = self.passed[name] == fault.point - fault.track.span
            if fault.track.place == name and (is_now or (anew and fault in self._forget)):
                self._forget[fault] = self._set_back(index)

    def _set_back(self, index: int) -> Callable[[], None]:
        copy = deepcopy(self._simulation.store.shards[index])
        books = self._checker.snapshot(index)

        def forget() -> None:
            self._simulation.forget_writes(index, copy)
            self._checker.restore(index, books)

        return forget
