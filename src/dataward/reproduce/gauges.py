"""Measures what a run's summary does not tell: progress and use of cores over time, by node."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    Event,
    FileMoved,
    InputsStaged,
    TaskFinished,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import TaskState

SLICES = 100


class Gauges:
    """Listens to a run's events. Every attempt counts, also those that lost."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._running: dict[AttemptId, float] = {}
        self._spans: list[tuple[float, float]] = []
        self._began: dict[AttemptId, float] = {}
        self.staging_seconds: dict[NodeId, float] = {}  # from an attempt's begin to its inputs
        self.transfer_seconds: dict[NodeId, float] = {}
        self.files_moved: dict[NodeId, int] = {}
        self._moves: list[tuple[float, float]] = []
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            AttemptBegan: self._on_began,
            InputsStaged: self._on_staged,
            FileMoved: self._on_moved,
            AttemptAdvanced: self._on_advanced,
            AttemptEnded: self._on_attempt_ended,
            TaskFinished: self._on_finished,
        }

    def add(self, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def completion_seconds(self) -> list[float]:
        """When each hundredth of the tasks was complete: 101 moments, the first is that of none."""
        ends = np.sort(np.array(self._ends))
        places = np.ceil(np.linspace(0.0, 1.0, SLICES + 1) * len(ends)).astype(np.int64)
        moments: list[float] = np.concatenate([[0.0], ends])[places].tolist()
        return moments

    def busy_profile(self, cores: int, until_seconds: float) -> list[float]:
        """The share of all cores that ran attempts, in each hundredth of the time."""
        if not self._spans or not until_seconds:
            return [0.0] * SLICES
        edges = np.linspace(0.0, until_seconds, SLICES + 1)
        spans = np.array(self._spans)
        used = _seconds_before(edges, spans[:, 0]) - _seconds_before(edges, spans[:, 1])
        shares: list[float] = (np.diff(used) / (until_seconds / SLICES) / cores).tolist()
        return shares

    def transferring_seconds(self) -> float:
        """How long at least one file was on its way."""
        total, until = 0.0, 0.0
        for begin, end in sorted(self._moves):
            total += max(end - max(begin, until), 0.0)
            until = max(until, end)
        return total

    def _on_began(self, event: AttemptBegan) -> None:
        self._began[event.attempt] = event.at

    def _on_staged(self, event: InputsStaged) -> None:
        seconds = event.at - self._began.pop(event.attempt)
        self.staging_seconds[event.node] = self.staging_seconds.get(event.node, 0.0) + seconds

    def _on_moved(self, event: FileMoved) -> None:
        node, seconds = event.target, event.seconds
        self.transfer_seconds[node] = self.transfer_seconds.get(node, 0.0) + seconds
        self.files_moved[node] = self.files_moved.get(node, 0) + 1
        self._moves.append((event.at - seconds, event.at))

    def _on_advanced(self, event: AttemptAdvanced) -> None:
        if event.state is TaskState.RUNNING:
            self._running[event.attempt] = event.at
        elif event.state is TaskState.STAGE_OUT:
            self._stop(event.attempt, event.at)

    def _on_attempt_ended(self, event: AttemptEnded) -> None:
        self._began.pop(event.attempt, None)
        self._stop(event.attempt, event.at)

    def _stop(self, attempt: AttemptId, at: float) -> None:
        started = self._running.pop(attempt, None)
        if started is not None:
            self._spans.append((started, at))

    def _on_finished(self, event: TaskFinished) -> None:
        if event.state is TaskState.COMPLETE:
            self._ends.append(event.at)


def _seconds_before(edges: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each edge, how long before it the moments before it lie, all together."""
    ordered = np.sort(at)
    count = np.searchsorted(ordered, edges)
    passed = np.concatenate([[0.0], np.cumsum(ordered)])[count]
    seconds: NDArray[np.float64] = count * edges - passed
    return seconds
