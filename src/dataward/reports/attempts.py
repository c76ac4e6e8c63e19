"""Rebuilds attempts from the events about them.

Most attempts have an event for their end. Attempts on a node that crashed have none, nor do those a
node had proposed to commit when it lost its lease; this module decides when such attempts ended.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    Event,
    InputsStaged,
    NodeJoined,
    NodeLost,
    RunEnded,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId

# Another attempt won, or the run was over.
BEATEN = frozenset({AttemptOutcome.LOST, AttemptOutcome.CANCELLED, AttemptOutcome.CUT_OFF})

CoresOf = Mapping[TaskId, int]
ONE_CORE_EACH: CoresOf = MappingProxyType({})


class Step(Enum):
    """The step an attempt has just taken."""

    BEGAN = "began"
    STAGED = "staged"
    RAN = "ran"
    WROTE = "wrote"  # it has run, and its outputs are being stored
    ENDED = "ended"


@dataclass(slots=True)
class Attempt:
    """One run of a task on a node. Times are in order; a step that never happened has None."""

    task: TaskId
    id: AttemptId
    node: NodeId
    replica: bool
    began: float
    staged: float | None = None  # the inputs are there; the attempt now waits for a core
    running: float | None = None
    stage_out: float | None = None
    ended: float = 0.0
    outcome: AttemptOutcome = AttemptOutcome.UNDER_WAY
    reason: str = ""

    @property
    def latest(self) -> float:
        """When the attempt last took a step."""
        for moment in (self.stage_out, self.running, self.staged):
            if moment is not None:
                return moment
        return self.began

    @property
    def stage_in_seconds(self) -> float:
        return (self.ended if self.staged is None else self.staged) - self.began

    @property
    def waiting_seconds(self) -> float:
        if self.staged is None:
            return 0.0
        return (self.ended if self.running is None else self.running) - self.staged

    @property
    def running_seconds(self) -> float:
        if self.running is None:
            return 0.0
        return (self.ended if self.stage_out is None else self.stage_out) - self.running

    @property
    def stage_out_seconds(self) -> float:
        return 0.0 if self.stage_out is None else self.ended - self.stage_out


OnStep = Callable[[Attempt, Step, float], None]


class AttemptBook:
    """Keeps the attempts under way, and tells listeners of every step of each, and when.

    Steps come in order and none is skipped: an attempt that runs has been staged.
    """

    def __init__(self, *listeners: OnStep) -> None:
        self._listeners = list(listeners)
        self._under_way: dict[NodeId, dict[AttemptId, Attempt]] = {}
        self.handlers: dict[type[Any], Callable[[Any], None]] = {
            AttemptBegan: self._on_began,
            InputsStaged: self._on_staged,
            AttemptAdvanced: self._on_advanced,
            AttemptEnded: self._on_ended,
            NodeLost: self._on_node_lost,
            NodeJoined: self._on_node_joined,
            RunEnded: self._on_run_ended,
        }

    def add(self, event: Event) -> None:
        handler = self.handlers.get(type(event))
        if handler is not None:
            handler(event)

    def listen(self, listener: OnStep) -> None:
        self._listeners.append(listener)

    def _on_step(self, attempt: Attempt, step: Step, at: float) -> None:
        for listener in self._listeners:
            listener(attempt, step, at)

    def under_way(self) -> list[Attempt]:
        """The attempts that have not ended, by node and then in the order they began."""
        return [attempt for node in self._under_way.values() for attempt in node.values()]

    def end_all(self, at: float, outcome: AttemptOutcome) -> None:
        for node in list(self._under_way):
            self._end_node(node, at, outcome)

    # --- what happens ----------------------------------------------------------------------------

    def _on_began(self, event: AttemptBegan) -> None:
        attempt = Attempt(event.task, event.attempt, event.node, event.replica, event.at)
        self._under_way.setdefault(event.node, {})[event.attempt] = attempt
        self._on_step(attempt, Step.BEGAN, event.at)

    def _on_staged(self, event: InputsStaged) -> None:
        attempt = self._find(event.node, event.attempt)
        if attempt is not None and attempt.staged is None:
            self._stage(attempt, event.at)

    def _on_advanced(self, event: AttemptAdvanced) -> None:
        attempt = self._find(event.node, event.attempt)
        if attempt is None:
            return
        running = attempt.running
        if event.state is TaskState.RUNNING and running is None:
            staged = self._stage(attempt, event.at) if attempt.staged is None else attempt.staged
            attempt.running = at = max(event.at, staged)
            self._on_step(attempt, Step.RAN, at)
        elif (
            event.state is TaskState.STAGE_OUT and running is not None and attempt.stage_out is None
        ):
            attempt.stage_out = at = max(event.at, running)
            self._on_step(attempt, Step.WROTE, at)

    def _stage(self, attempt: Attempt, at: float) -> float:
        attempt.staged = at = max(at, attempt.began)
        self._on_step(attempt, Step.STAGED, at)
        return at

    def _on_ended(self, event: AttemptEnded) -> None:
        attempt = self._under_way.get(event.node, {}).pop(event.attempt, None)
        if attempt is not None:
            self._end(attempt, event.at, event.outcome, event.reason)

    def _on_node_lost(self, event: NodeLost) -> None:
        self._end_node(event.node, event.at, AttemptOutcome.CRASHED)

    def _on_node_joined(self, event: NodeJoined) -> None:
        self._end_node(event.node, event.at, AttemptOutcome.FORGOTTEN)

    def _on_run_ended(self, event: RunEnded) -> None:
        self.end_all(event.at, AttemptOutcome.CUT_OFF)

    def _find(self, node: NodeId, attempt: AttemptId) -> Attempt | None:
        under_way = self._under_way.get(node)
        return under_way.get(attempt) if under_way else None

    def _end_node(self, node: NodeId, at: float, outcome: AttemptOutcome) -> None:
        for attempt in self._under_way.pop(node, {}).values():
            self._end(attempt, at, outcome)

    def _end(self, attempt: Attempt, at: float, outcome: AttemptOutcome, reason: str = "") -> None:
        # RunEnded has the store's time, which is earlier than the node's by a message's latency.
        attempt.ended = max(at, attempt.latest)
        attempt.outcome = outcome
        attempt.reason = reason
        self._on_step(attempt, Step.ENDED, attempt.ended)
