"""Startlines and deadlines of sequences, from the sequences that have been allocated before.

A workflow is promised sequence by sequence (`plan/sequences.py`), stage by stage: all sequences of
a stage are asked for at once. Nodes answer by when each task ends at the latest and when it starts
at the latest; from that follow the frames of the next stage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from dataward.deadlines.local_schedule import Frame
from dataward.model.workflow import Workflow
from dataward.plan.sequences import Sequences, decompose


@dataclass(frozen=True, slots=True)
class Outline:
    """A workflow as its promises need it: sequences by stage, work, and who waits for whom."""

    sequences: Sequence[Sequence[int]]
    stages: Sequence[Sequence[int]]  # the sequences of each stage
    work: Sequence[float]  # seconds of each task at speed 1
    parents: Sequence[Sequence[int]]
    children: Sequence[Sequence[int]]
    order: Sequence[int]  # parents before children
    minimum_length_seconds: float
    total_length_seconds: float
    cores: Sequence[int] = ()  # that each task takes; empty: one each

    @property
    def width(self) -> int:
        """How many stages it takes to submit the workflow."""
        return len(self.stages)

    def __len__(self) -> int:
        return len(self.work)

    def width_of(self, task: int) -> int:
        """How many cores a task takes at the same time."""
        return self.cores[task] if self.cores else 1


def outline_of(workflow: Workflow, sequences: Sequences | None = None) -> Outline:
    found = decompose(workflow) if sequences is None else sequences
    numbers = found.stages.tolist()
    stages = [[s for s, stage in enumerate(numbers) if stage == n + 1] for n in range(found.width)]
    return Outline(
        list(found.tasks.rows()),
        stages,
        workflow.runtime_seconds.tolist(),
        list(workflow.parents.rows()),
        list(workflow.children.rows()),
        workflow.layers.order.tolist(),
        found.minimum_length_seconds,
        found.total_length_seconds,
        workflow.cores.tolist() if (workflow.cores > 1).any() else (),
    )


@dataclass(slots=True)
class Allocation:
    """What has been promised of one workflow so far: for each task the latest end and start."""

    outline: Outline
    now: float
    deadline: float
    lag_seconds: float = 0.0  # from the end of a task until another node can use what it made
    pace: float = 1.0  # how much of the slack is shared with sequences that come later: 0 to 1
    latest_ends: list[float] = field(default_factory=list)  # inf while not promised
    latest_starts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.latest_ends = self.latest_ends or [inf] * len(self.outline)
        self.latest_starts = self.latest_starts or [inf] * len(self.outline)

    def promise(self, task: int, latest_start: float, latest_end: float) -> None:
        self.latest_starts[task] = latest_start
        self.latest_ends[task] = latest_end

    def withdraw(self, task: int) -> None:
        self.promise(task, inf, inf)

    def is_promised(self, task: int) -> bool:
        return self.latest_ends[task] < inf

    @property
    def is_complete(self) -> bool:
        return all(end < inf for end in self.latest_ends)


def frames_of_stage(allocation: Allocation, stage: int) -> list[Frame]:
    """The frame of each sequence of a stage, all earlier stages being promised.

    A sequence starts after the promised ends of its first task's parents and ends before the latest
    starts of its last task's children. Where a parent or child is of a later sequence, the frame
    leaves time for the longest way to what has been promised, at speed 1, and that way's part of
    the slack: the paper does not say so, and the later sequence would have no time at all.
    """
    outline = allocation.outline
    above, below = _ways_above(allocation), _ways_below(allocation)
    found = []
    for sequence in outline.stages[stage]:
        tasks = outline.sequences[sequence]
        start, way_before = above[tasks[0]]
        end, way_after = below[tasks[-1]]
        own = sum(outline.work[task] for task in tasks)
        slack = max(end - start - own, 0.0)
        pace = allocation.pace * slack / max(way_before + own + way_after, 1e-9)
        found.append(Frame(start + pace * way_before, end - pace * way_after))
    return found


Way = tuple[float, float]
"""(a time, the seconds of unpromised tasks between that time and the promise it follows from)"""


def _ways_above(allocation: Allocation) -> list[Way]:
    """The earliest start of each task, from the promises above it."""
    outline, lag = allocation.outline, allocation.lag_seconds
    found: list[Way] = [(allocation.now, 0.0)] * len(outline)
    for task in outline.order:
        for parent in outline.parents[task]:
            way: Way = (allocation.latest_ends[parent] + lag, 0.0)
            if not allocation.is_promised(parent):
                start, before = found[parent]
                seconds = outline.work[parent] + lag
                way = (start + seconds, before + seconds)
            found[task] = max(found[task], way)
    return found


def _ways_below(allocation: Allocation) -> list[Way]:
    """The latest end of each task, from the promises below it."""
    outline, lag = allocation.outline, allocation.lag_seconds
    found: list[Way] = [(allocation.deadline, 0.0)] * len(outline)
    for task in reversed(outline.order):
        for child in outline.children[task]:
            way: Way = (allocation.latest_starts[child] - lag, 0.0)
            if not allocation.is_promised(child):
                end, after = found[child]
                seconds = outline.work[child] + lag
                way = (end - seconds, after + seconds)
            found[task] = min(found[task], way)
    return found


def awaited(allocation: Allocation, tasks: Sequence[int]) -> list[bool]:
    """For each task of a sequence, whether a task outside that is not promised waits for it."""
    inside = set(tasks)
    return [
        any(
            c not in inside and not allocation.is_promised(c)
            for c in allocation.outline.children[t]
        )
        for t in tasks
    ]
