"""What is measured of many nodes with deadlines: allocation, speed-ups, events and traffic."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

ByteAmounts = NDArray[np.float64]


@dataclass(slots=True)
class WorkflowTimes:
    """One workflow: when it was submitted, accepted and ended; inf if it was not."""

    kind: int
    submitted: float
    deadline: float
    alone_seconds: float  # that its owner would need by itself
    accepted: float = float("inf")
    ended: float = float("inf")
    is_refused: bool = False

    @property
    def is_late(self) -> bool:
        return self.ended > self.deadline + 1e-6

    @property
    def speed_up(self) -> float:
        return self.alone_seconds / (self.ended - self.submitted)


class PerSecond:
    """Amounts of every node in the current second; the most and the sum over all seconds."""

    def __init__(self, nodes: int) -> None:
        self._now = np.zeros(nodes)
        self.peak = np.zeros(nodes)
        self.total = np.zeros(nodes)

    def add(self, node: int, amount: float) -> None:
        self._now[node] += amount

    def add_many(self, nodes: NDArray[np.int64], amounts: ByteAmounts | float) -> None:
        np.add.at(self._now, nodes, amounts)

    def end_second(self) -> None:
        np.maximum(self.peak, self._now, out=self.peak)
        self.total += self._now
        self._now[:] = 0.0


@dataclass(slots=True)
class DeadlineGauges:
    """Everything that is measured in one simulation."""

    nodes: int
    workflows: list[WorkflowTimes] = field(default_factory=list)
    hops: list[int] = field(default_factory=list)  # of each request that was served
    requests: int = 0
    falls: int = 0  # requests that came down in vain
    cuts: int = 0
    updates: int = 0
    busy_seconds: float = 0.0
    seconds: float = 0.0
    sent: PerSecond = field(init=False)
    received: PerSecond = field(init=False)
    events: PerSecond = field(init=False)

    def __post_init__(self) -> None:
        self.sent, self.received, self.events = (PerSecond(self.nodes) for _ in range(3))

    def end_second(self) -> None:
        self.seconds += 1.0
        for each in (self.sent, self.received, self.events):
            each.end_second()

    def allocation_seconds(self, kind: int | None = None) -> list[float]:
        """How long each accepted workflow took to be allocated, in rising order."""
        return sorted(
            times.accepted - times.submitted
            for times in self.workflows
            if times.accepted < float("inf") and kind in (None, times.kind)
        )

    def ended(self, kind: int | None = None) -> list[WorkflowTimes]:
        return [w for w in self.workflows if w.ended < float("inf") and kind in (None, w.kind)]
