"""Says whether a run kept its promises: from the events of all its hosts, and from how it ended.

The promises: every task has one committed outcome for each generation; no attempt wins twice; a
task begins only after its parents have finished; nothing is lost; what was fetched is what was
committed, and what an undisturbed run makes.

A host that is killed takes its last events with it: what it had not written yet. So an event may be
missing if a host was cut off at about that time. A host that lost its lease while the store did not
answer has not heard whether its last commits were in time: an attempt that it calls lost may have
won. An event that is there is never excused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dataward.cluster.merging import WAIT_SECONDS, ParentsOf, merged
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    RunEnded,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.ids import NOBODY, AttemptId, NodeId, node_of
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId

# A host writes its events four times a second; a busy one comes to it later.
UNWRITTEN_SECONDS = 2.0

EPOCH_BITS = 20  # of a generation: below them, ends are counted; above, losses of the shard


@dataclass(frozen=True, slots=True)
class FinalState:
    """How a run ended, as the store, a fetch and an undisturbed run tell it."""

    states: Mapping[TaskId, TaskState]  # of every task of the workflow
    generations: Mapping[TaskId, int]
    committed: Mapping[FileId, str]  # digests, of the results
    fetched: Mapping[FileId, str]
    expected: Mapping[FileId, str]  # of an undisturbed run


@dataclass(frozen=True, slots=True)
class Cut:
    """A host's list of events ends here, before the host had written all; or it was removed."""

    node: NodeId
    at: float  # seconds since the run was submitted
    is_removed: bool = False  # with the whole list, so that nothing before is told either


def broken_promises(
    lists: Mapping[NodeId, Iterable[Event]],
    parents: ParentsOf,
    final: FinalState,
    cuts: Sequence[Cut] = (),
) -> list[str]:
    """A sentence for each promise that was broken; empty if all were kept."""
    told = _Told(parents, cuts)
    for event in merged(lists, parents):
        told.add(event)
    return [*told.problems, *told.missing(final), *_problems_of_files(final)]


@dataclass
class _Told:
    """What the events have told so far."""

    parents: ParentsOf
    cuts: Sequence[Cut]
    problems: list[str] = field(default_factory=list)
    winners: dict[tuple[TaskId, int], AttemptId] = field(default_factory=dict)
    wins: dict[AttemptId, tuple[TaskId, int]] = field(default_factory=dict)
    finished: dict[TaskId, float] = field(default_factory=dict)  # when first
    begun: dict[AttemptId, TaskId] = field(default_factory=dict)
    failed: set[AttemptId] = field(default_factory=set)
    perhaps: set[TaskId] = field(default_factory=set)  # finished, by an attempt called lost
    reopened: set[TaskId] = field(default_factory=set)
    closed: dict[tuple[TaskId, int], float] = field(default_factory=dict)
    again: dict[TaskId, str] = field(default_factory=dict)  # tasks that began though complete
    ended: RunEnded | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, AttemptBegan):
            self._on_began(event)
        elif isinstance(event, AttemptEnded):
            if event.outcome is AttemptOutcome.FAILED:
                self.failed.add(event.attempt)
            elif event.outcome is AttemptOutcome.LOST:
                self.perhaps.add(event.task)
        elif isinstance(event, TaskFinished):
            if event.state is TaskState.COMPLETE:
                self._on_complete(event)
        elif isinstance(event, TaskSkipped):
            self.finished.setdefault(event.task, event.at)
        elif isinstance(event, TaskReopened):
            self.reopened.add(event.task)
        elif isinstance(event, RunEnded):
            self.ended = event

    def _on_began(self, event: AttemptBegan) -> None:
        before = self.begun.setdefault(event.attempt, event.task)
        if before != event.task:
            self._say(f"{event.attempt} began both {before!r} and {event.task!r}")
        for parent in self.parents.get(event.task, ()):
            is_told = parent in self.finished or parent in self.perhaps
            if not is_told and not self._may_be_unwritten(event.at):
                self._say(
                    f"{event.attempt} began {event.task!r} at {event.at:.3f} s, "
                    f"before its parent {parent!r} had finished"
                )
        closed = self.closed.get((event.task, event.generation))
        if closed is not None and event.at > closed + WAIT_SECONDS:
            self.again[event.task] = (
                f"{event.attempt} began {event.task!r} at {event.at:.3f} s for generation "
                f"{event.generation}, which was complete at {closed:.3f} s"
            )

    def _on_complete(self, event: TaskFinished) -> None:
        task, attempt, generation = event.task, event.attempt, event.generation
        if attempt == NOBODY:
            self._say(f"{task!r} is complete by no attempt")
            return
        first = self.winners.setdefault((task, generation), attempt)
        if first != attempt:
            self._say(f"generation {generation} of {task!r} was won by {first} and by {attempt}")
        won = self.wins.setdefault(attempt, (task, generation))
        # A commit that a shard forgot is told again, and has a number of the shard's new epoch.
        if won[0] != task or (won[1] != generation and _epoch(won[1]) == _epoch(generation)):
            self._say(f"{attempt} won {won[0]!r} ({won[1]}) and {task!r} ({generation})")
        if attempt in self.failed:
            self._say(f"{attempt} failed, yet {task!r} is complete by it")
        if attempt in self.begun and self.begun[attempt] != task:
            self._say(f"{attempt} began {self.begun[attempt]!r}, yet {task!r} is complete by it")
        if attempt not in self.begun and not self._may_be_unwritten(event.at, node_of(attempt)):
            self._say(f"{task!r} is complete by {attempt}, which never began")
        self.finished.setdefault(task, event.at)
        self.closed.setdefault((task, generation), event.at)

    def missing(self, final: FinalState) -> Iterable[str]:
        """What should have happened by the end and did not."""
        for task, state in final.states.items():
            if state is not TaskState.COMPLETE:
                yield f"{task!r} is {state.value} in the end"
            elif not (task in self.finished or task in self.perhaps or self.cuts):
                yield f"{task!r} is complete in the end, yet no host told of it"
        for task, problem in self.again.items():
            if not _epoch(final.generations.get(task, 0)):  # else the store forgot that it was
                yield problem
        for task, generation in final.generations.items():
            again = generation & ((1 << EPOCH_BITS) - 1)
            is_told = task in self.reopened or _epoch(generation) or self.cuts
            if again > 1 and not is_told:
                yield f"{task!r} ran {again} times, though nobody reopened it"
        if self.ended is None and not self.cuts:
            yield "no host told of the run's end"
        elif self.ended is not None and self.ended.complete != len(final.states):
            yield f"{self.ended.complete} of {len(final.states)} tasks were complete in the end"

    def _may_be_unwritten(self, at: float, node: NodeId | None = None) -> bool:
        """Whether an event before this time, maybe of this node, can be missing."""
        return any(
            (cut.is_removed or cut.at <= at + UNWRITTEN_SECONDS)
            and (node is None or cut.node == node)
            for cut in self.cuts
        )

    def _say(self, problem: str) -> None:
        self.problems.append(problem)


def _epoch(generation: int) -> int:
    return generation >> EPOCH_BITS


def _problems_of_files(final: FinalState) -> Iterable[str]:
    for file, digest in final.expected.items():
        if final.committed.get(file) != digest:
            what = "was not committed" if file not in final.committed else "was committed wrong"
            yield f"result {file!r} {what}"
        if file not in final.fetched:
            yield f"result {file!r} could not be fetched"
        elif final.fetched[file] != digest:
            yield f"result {file!r} was fetched with other contents than an undisturbed run's"
    for file in final.fetched.keys() - final.expected.keys():
        yield f"{file!r} was fetched, which an undisturbed run does not make"
