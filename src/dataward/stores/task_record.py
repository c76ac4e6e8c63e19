"""The record a shard keeps of one task, and how the task's state follows from the record."""

from dataclasses import dataclass, field

from dataward.model.answers import Refusal
from dataward.model.ids import (
    NOBODY,
    NOWHERE,
    AttemptId,
    NodeId,
    incarnation_of,
    node_of,
    number_of,
)
from dataward.model.operations import Copy, OutputFile, TaskSpec
from dataward.model.states import ALLOWED, FINAL, PROGRESS, TaskState
from dataward.model.workflow import FileId, TaskId

StateCounts = dict[TaskState, int]
"""How many tasks of a shard are in each state."""

_BY_PROGRESS = {step: state for state, step in PROGRESS.items()}


@dataclass(slots=True)
class AttemptRecord:
    """One run of a task that is under way."""

    node: NodeId
    incarnation: int
    state: TaskState


@dataclass(slots=True)
class TaskRecord:
    """ADAGE's Table 2 for one task.

    ``generation`` counts the task's ends: 0 before the first, more than one only where outputs were
    lost and the task ran again. ``notices`` has, for each parent, the latest generation known to be
    complete; ``required`` has the generation that the parent must reach, where that is not the
    first. ``void_before`` has, for each node that lost or ended attempts, the first attempt that
    may still act: an operation of an ended attempt that comes late or twice must change nothing.
    """

    spec: TaskSpec
    state: TaskState = TaskState.WAITING
    generation: int = 0
    waiting_for: int = 0
    notices: dict[TaskId, int] = field(default_factory=dict)
    required: dict[TaskId, int] = field(default_factory=dict)
    input_copies: dict[FileId, Copy] = field(default_factory=dict)
    copies: dict[FileId, dict[NodeId, None]] = field(default_factory=dict)
    written: dict[FileId, OutputFile] = field(default_factory=dict)  # as last committed
    attempts: dict[AttemptId, AttemptRecord] = field(default_factory=dict)
    void_before: dict[NodeId, tuple[int, int]] = field(default_factory=dict)
    holders: list[NodeId] = field(default_factory=list)  # Table 2's node-list
    backups: int = 0
    failures: dict[AttemptId, bool] = field(default_factory=dict)
    winner: AttemptId = NOBODY
    failed_parent: TaskId | None = None
    removed_parent: TaskId | None = None
    placement: int = 0  # how often it became ready again
    history: list[tuple[float, TaskState]] = field(default_factory=list)
    was_recalled: bool = False  # its last commit tells of an earlier run: it did not run itself

    def missing(self) -> dict[TaskId, int]:
        """The parents that have not reached the generation this task requires, and which that is.

        As far as this task has heard.
        """
        return {
            parent: generation
            for parent in self.spec.parents
            if self.notices.get(parent, 0) < (generation := self.required.get(parent, 1))
        }

    def hear_of_all_parents(self) -> None:
        """Wait for no parent any more, without noting a generation that was not yet heard of.

        Were a later generation noted, a second run of this task that misses an input might require
        the generation after that one, which might never come.
        """
        for parent in self.missing():
            self.notices[parent] = max(self.notices.get(parent, 0), 1)
            self.required.pop(parent, None)
        self.waiting_for = 0

    def forget_contents_of_inputs(self) -> None:
        """Keep only where the inputs were: the task has ended.

        Should it run again, its node asks the producers what they wrote.
        """
        for file, copy in self.input_copies.items():
            if copy.size_bytes >= 0 or copy.digest:
                self.input_copies[file] = Copy(file, copy.node)

    def known_copies(self) -> tuple[Copy, ...]:
        """Where each output is; one that nobody has is NOWHERE."""
        return tuple(
            Copy(file, node, self.written[file].size_bytes, self.written[file].digest)
            if file in self.written
            else Copy(file, node)
            for file, nodes in self.copies.items()
            for node in nodes or (NOWHERE,)
        )

    def hold(self, node: NodeId) -> None:
        if node not in self.holders:
            self.holders.append(node)

    def fence(self, node: NodeId, incarnation: int) -> None:
        """End the attempts of this and earlier incarnations of a node; none may act any more."""
        self._void(node, (incarnation + 1, 0))
        for name, attempt in list(self.attempts.items()):
            if attempt.node == node and attempt.incarnation <= incarnation:
                del self.attempts[name]

    def end(self, attempt: AttemptId) -> bool:
        """Whether the attempt was on the list; it is taken off for good."""
        incarnation, count = number_of(attempt)
        self._void(node_of(attempt), (incarnation, count + 1))
        return self.attempts.pop(attempt, None) is not None

    def _void(self, node: NodeId, before: tuple[int, int]) -> None:
        self.void_before[node] = max(before, self.void_before.get(node, before))

    def why_void(self, node: NodeId, attempt: AttemptId) -> Refusal | None:
        """FENCED if the attempt's incarnation may no longer act, OVER if only the attempt may not.

        None if the attempt may act.
        """
        first = self.void_before.get(node)
        if first is None or number_of(attempt) >= first:
            return None
        return Refusal.FENCED if incarnation_of(attempt) < first[0] else Refusal.OVER

    def settle(self, at: float, counts: StateCounts) -> None:
        """Move to the state that attempts and notices imply, unless the task is finished."""
        if self.state in FINAL:
            return
        if not self.attempts:
            self.move(TaskState.WAITING if self.waiting_for else TaskState.READY, at, counts)
            return
        states = [attempt.state for attempt in self.attempts.values()]
        furthest = states[0] if len(states) == 1 else max(states, key=PROGRESS.__getitem__)
        self.move(furthest, at, counts)

    def move(self, to: TaskState, at: float, counts: StateCounts) -> None:
        """Change the state, its shard's counts with it, and note the time.

        Steps that were never reported get the same time.

        Reports come late, and from other clocks: no entry of the history is earlier than the one
        before it.
        """
        if to is self.state:
            return
        counts[self.state] -= 1
        counts[to] += 1
        if self.history:
            at = max(at, self.history[-1][0])
        while to not in ALLOWED[self.state]:
            between = PROGRESS.get(self.state, -1) + 1
            assert between in _BY_PROGRESS, f"{self.spec.id}: {self.state} cannot become {to}"
            self.state = _BY_PROGRESS[between]
            self.history.append((at, self.state))
        self.state = to
        self.history.append((at, to))
