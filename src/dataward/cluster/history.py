"""Says whether a run kept its promises: from the events of all its hosts, and from how it ended.

The promises: every task has one committed outcome for each generation; no attempt wins twice; a
task begins only after its parents have finished, and only if nobody else has it; nothing is done
again, taken over or called failed without a reason; nothing is lost; what was fetched is what was
committed, and what an undisturbed run makes.

Reasons are the `Troubles` that the cluster had, and each excuses only what follows from it:

- A host that is killed takes its last events with it, so its attempts may have no end, and what it
  had not written yet may be missing: a beginning, an end, a reopening of that very time. What it
  had begun others may begin again, and what only it had may be made again.
- A host that was silent for a while may be given up, and what it ran may be run by others. It may
  call an attempt lost that has won: it did not hear the answer. The same goes while the store is
  away. Each takeover of a task may find it one more node.
- A task that is sent on slowly may be taken for forgotten, and be placed once more.
- A shard that lost its last writes gives ends numbers of a new epoch; these tasks may run again.
- A file that was removed or changed may be made again, if no other node could serve it.

An event that is there is never excused.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf

from dataward.cluster.merging import WAIT_SECONDS, ParentsOf, merged
from dataward.cluster.troubles import SKEW_SECONDS, UNWRITTEN_SECONDS, Troubles
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    FileEvicted,
    FileStored,
    NodeJoined,
    Occasion,
    RunEnded,
    TaskFinished,
    TaskPlaced,
    TaskReopened,
    TaskSkipped,
    TaskTakenOver,
)
from dataward.model.ids import NOBODY, AttemptId, NodeId, incarnation_of, node_of
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId

EPOCH_BITS = 20  # of a generation: below them, ends are counted; above, losses of the shard
KNOWN_SECONDS = 2.0  # after which everybody may know that a node has a file
AT_ONCE_SECONDS = 0.5  # for which two nodes may have a task while one hands it to the other


@dataclass(frozen=True, slots=True)
class FinalState:
    """How a run ended, as the store, a fetch and an undisturbed run tell it."""

    states: Mapping[TaskId, TaskState]  # of every task of the workflow
    generations: Mapping[TaskId, int]
    committed: Mapping[FileId, str]  # digests, of the results
    fetched: Mapping[FileId, str]
    expected: Mapping[FileId, str]  # of an undisturbed run


OutputsOf = Mapping[TaskId, Sequence[FileId]]


def broken_promises(
    lists: Mapping[NodeId, Iterable[Event]],
    parents: ParentsOf,
    final: FinalState,
    troubles: Troubles | None = None,
    outputs: OutputsOf | None = None,
) -> list[str]:
    """A sentence for each promise that was broken; empty if all were kept.

    Without ``outputs``, which says what each task writes, any task may be reopened.
    """
    troubles = troubles or Troubles()
    kept = {node: list(events) for node, events in lists.items()}
    told = _Told(parents, troubles)
    for event in merged(kept, parents):
        told.add(event)
    lives = _Lives(troubles)
    for events in kept.values():
        for event in events:
            lives.add(event)
    reopened = _Reopenings(troubles, outputs)
    for node, events in kept.items():
        reopened.add_all(node, events)
    return [
        *told.problems,
        *lives.problems({task for task, end in final.generations.items() if _epoch(end)}),
        *reopened.problems(),
        *told.missing(final),
        *_problems_of_files(final),
    ]


# --- what was told of tasks ----------------------------------------------------------------------


@dataclass
class _Told:
    """What the events have told so far of each task, in the order in which it happened."""

    parents: ParentsOf
    troubles: Troubles
    problems: list[str] = field(default_factory=list)
    winners: dict[tuple[TaskId, int], AttemptId] = field(default_factory=dict)
    wins: dict[AttemptId, tuple[TaskId, int]] = field(default_factory=dict)
    finished: dict[TaskId, float] = field(default_factory=dict)  # when first
    begun: dict[AttemptId, AttemptBegan] = field(default_factory=dict)
    of_task: dict[TaskId, list[AttemptBegan]] = field(default_factory=dict)
    ended: dict[AttemptId, AttemptEnded] = field(default_factory=dict)
    reopened: dict[TaskId, list[float]] = field(default_factory=dict)
    closed: dict[tuple[TaskId, int], float] = field(default_factory=dict)
    early: list[tuple[AttemptBegan, TaskId]] = field(default_factory=list)  # and which parent
    again: dict[TaskId, str] = field(default_factory=dict)  # tasks that began though complete
    joined: dict[tuple[NodeId, int], float] = field(default_factory=dict)
    run_ended: RunEnded | None = None
    last_at: float = 0.0  # when the last task finished

    def add(self, event: Event) -> None:
        if isinstance(event, AttemptBegan):
            self._on_began(event)
        elif isinstance(event, AttemptEnded):
            self._on_ended(event)
        elif isinstance(event, TaskFinished):
            if event.state is TaskState.COMPLETE:
                self._on_complete(event)
        elif isinstance(event, TaskSkipped):
            self.finished.setdefault(event.task, event.at)
        elif isinstance(event, TaskReopened):
            self.reopened.setdefault(event.task, []).append(event.at)
        elif isinstance(event, NodeJoined):
            self.joined.setdefault((event.node, event.incarnation), event.at)
        elif isinstance(event, RunEnded):
            self.run_ended = event

    def _on_began(self, event: AttemptBegan) -> None:
        before = self.begun.setdefault(event.attempt, event)
        self.of_task.setdefault(event.task, []).append(event)
        if before.task != event.task:
            self._say(f"{event.attempt} began both {before.task!r} and {event.task!r}")
        for parent in self.parents.get(event.task, ()):
            if parent not in self.finished:
                self.early.append((event, parent))
        closed = self.closed.get((event.task, event.generation))
        if closed is not None and event.at > closed + WAIT_SECONDS:
            self.again[event.task] = (
                f"{event.attempt} began {event.task!r} at {event.at:.3f} s for generation "
                f"{event.generation}, which was complete at {closed:.3f} s"
            )

    def _on_ended(self, event: AttemptEnded) -> None:
        self.ended[event.attempt] = event
        is_failed = event.outcome is AttemptOutcome.FAILED
        if is_failed and not self.troubles.may_fail(event.node, event.at):
            self._say(
                f"{event.attempt} of {event.task!r} failed, though nothing was wrong at "
                f"{event.node} ({event.reason})"
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
        ended = self.ended.get(attempt)
        if ended is not None and ended.outcome is AttemptOutcome.FAILED:
            self._say(f"{attempt} failed, yet {task!r} is complete by it")
        began = self.begun.get(attempt)
        if began is not None and began.task != task:
            self._say(f"{attempt} began {began.task!r}, yet {task!r} is complete by it")
        # A host that is back tells again what it had committed, but had perhaps not written.
        if began is None and not self._may_have_begun_untold(attempt, event.at):
            self._say(f"{task!r} is complete by {attempt}, which never began")
        self.finished.setdefault(task, event.at)
        self.closed.setdefault((task, generation), event.at)
        self.last_at = max(self.last_at, event.at)

    # --- what is missing -------------------------------------------------------------------------

    def _may_have_begun_untold(self, attempt: AttemptId, before: float) -> bool:
        """Whether the incarnation that made this attempt was killed before this time.

        Otherwise whoever has written a later event has written this one, too.
        """
        node, joined = (
            node_of(attempt),
            self.joined.get((node_of(attempt), incarnation_of(attempt))),
        )
        killed = self.troubles.killed_after(node, -inf if joined is None else joined)
        return killed <= before + SKEW_SECONDS

    def _may_be_untold(self, task: TaskId, before: float) -> bool:
        """Whether a task may have finished before this time, though nobody has told of it."""
        for attempt in self.of_task.get(task, ()):
            ended = self.ended.get(attempt.attempt)
            killed = self.troubles.killed_after(attempt.node, attempt.at)
            if ended is None and killed <= before and killed < inf:
                return True  # its end was not written
            is_lost = ended is not None and ended.outcome is AttemptOutcome.LOST
            if is_lost and self.troubles.may_not_hear(attempt.node, before):
                return True  # it has won, but its node did not hear so
        return any(
            self._may_have_been_short(task, kill) for _, kill in self.troubles.kills(end=before)
        )

    def _may_have_been_short(self, task: TaskId, kill: float) -> bool:
        """Whether a task may have begun and finished right before a node was killed."""
        ready = [self.finished.get(parent, -inf) for parent in self.parents.get(task, ())]
        if max(ready, default=-inf) > kill + SKEW_SECONDS:
            return False
        # Had it finished then, nobody would have begun it later, nor be at it still.
        return all(
            self._is_over_by(attempt, kill)
            for attempt in self.of_task.get(task, ())
            if attempt.generation == 1
        )

    def _is_over_by(self, attempt: AttemptBegan, at: float) -> bool:
        ended = self.ended.get(attempt.attempt)
        until = self.troubles.killed_after(attempt.node, attempt.at) if ended is None else ended.at
        return until <= at + UNWRITTEN_SECONDS + WAIT_SECONDS

    def missing(self, final: FinalState) -> Iterator[str]:
        """What should have happened, once all events are known, and did not."""
        for event, parent in self.early:
            if not self._may_be_untold(parent, event.at):
                yield (
                    f"{event.attempt} began {event.task!r} at {event.at:.3f} s, "
                    f"before its parent {parent!r} had finished"
                )
        for task, state in final.states.items():
            if state is not TaskState.COMPLETE:
                yield f"{task!r} is {state.value} in the end"
            elif task not in self.finished and not self._may_be_untold(task, inf):
                yield f"{task!r} is complete in the end, yet no host told of it"
        for task, problem in self.again.items():
            if not _epoch(final.generations.get(task, 0)):  # else the store forgot that it was
                yield problem
        yield from self._unreopened(final)
        if self.run_ended is None:
            if not self.troubles.kills(self.last_at):
                yield "no host told of the run's end"
        elif self.run_ended.complete != len(final.states):
            told = self.run_ended.complete
            yield f"{told} of {len(final.states)} tasks were complete in the end"

    def _unreopened(self, final: FinalState) -> Iterator[str]:
        """Tasks that have more ends than anybody asked for."""
        for task, generation in final.generations.items():
            again = generation & ((1 << EPOCH_BITS) - 1)
            if again <= 1 or _epoch(generation):
                continue
            told = len(self.reopened.get(task, ()))
            # Its first end may be untold, too: then a later one is the first that was told.
            begins = self.of_task.get(task, ())
            began = min((a.at for a in begins if a.generation == 1), default=0.0)
            first = self.closed.get((task, 1), began)
            last = max((a.at for a in begins if a.generation > 1), default=inf)
            if told < again - 1 and not self.troubles.may_be_unwritten(first, last):
                yield f"{task!r} ran {again} times, though it was reopened {told} times"

    def _say(self, problem: str) -> None:
        self.problems.append(problem)


# --- the lives of attempts -----------------------------------------------------------------------


@dataclass
class _Lives:
    """Which attempts were alive when, and which nodes were given up."""

    troubles: Troubles
    began: dict[AttemptId, AttemptBegan] = field(default_factory=dict)
    ended: dict[AttemptId, float] = field(default_factory=dict)
    taken: list[TaskTakenOver] = field(default_factory=list)
    joined: dict[tuple[NodeId, int], float] = field(default_factory=dict)
    reopened: dict[tuple[TaskId, int], int] = field(default_factory=dict)  # how often
    sent_on: dict[TaskId, float] = field(default_factory=dict)  # since when, if nobody has it yet
    slow: dict[TaskId, int] = field(default_factory=dict)  # how often it was long on its way

    def add(self, event: Event) -> None:
        if isinstance(event, AttemptBegan):
            self.began.setdefault(event.attempt, event)
        elif isinstance(event, AttemptEnded):
            self.ended.setdefault(event.attempt, event.at)
            if event.outcome is AttemptOutcome.SENT_ON:
                self.sent_on[event.task] = event.at
        elif isinstance(event, TaskPlaced):
            if event.occasion is Occasion.GIVEN and event.task in self.sent_on:
                seconds = event.at - self.sent_on.pop(event.task)
                self.slow[event.task] = self.slow.get(event.task, 0) + (seconds > AT_ONCE_SECONDS)
        elif isinstance(event, TaskFinished):
            if event.attempt != NOBODY:
                self.ended.setdefault(event.attempt, event.at)
        elif isinstance(event, TaskTakenOver):
            self.taken.append(event)
        elif isinstance(event, TaskReopened):
            key = (event.task, event.generation)
            self.reopened[key] = self.reopened.get(key, 0) + 1
        elif isinstance(event, NodeJoined):
            self.joined.setdefault((event.node, event.incarnation), event.at)

    def problems(self, forgotten: Set[TaskId]) -> Iterator[str]:
        """``forgotten`` are the tasks whose shard lost writes: these may be queued at two nodes."""
        yield from self._endless()
        yield from self._side_by_side(forgotten)
        for event in self.taken:
            if not self._was_gone(event):
                yield (
                    f"{event.task!r} was taken over from {event.node} at {event.at:.3f} s, though "
                    "nothing had happened to it"
                )

    def _was_gone(self, event: TaskTakenOver) -> bool:
        """Whether a node may have been given up: something was done to it, or it was not there yet.

        Tasks are queued for nodes that will soon have heard of the run.
        """
        joined = self.joined.get((event.node, event.incarnation), -inf)
        joins = [at for (node, _), at in self.joined.items() if node == event.node]
        is_early = bool(joins) and event.at <= min(joins) + SKEW_SECONDS
        return is_early or self.troubles.may_be_given_up(event.node, joined, event.at)

    def _endless(self) -> Iterator[str]:
        for attempt, event in self.began.items():
            if (
                attempt not in self.ended
                and self.troubles.killed_after(event.node, event.at) == inf
            ):
                yield (
                    f"{attempt} of {event.task!r} has no end, though {event.node} was not killed "
                    "after it began"
                )

    def _side_by_side(self, forgotten: Set[TaskId]) -> Iterator[str]:
        """Attempts that began while another node had the task, and no replica was meant."""
        of_task: dict[tuple[TaskId, int], list[AttemptBegan]] = {}
        taken = Counter(event.task for event in self.taken)
        for event in self.began.values():
            if not event.replica and event.task not in forgotten:
                of_task.setdefault((event.task, event.generation), []).append(event)
        for (task, _), events in of_task.items():
            events.sort(key=lambda event: event.at)
            for place, later in enumerate(events):
                alive = [one for one in events[:place] if self._is_alive(one, later.at)]
                # Two that miss its outputs at the same time may both find a node for a task. So may
                # two that take it over, while the node that had it is back and has it still. And
                # if it is sent on slowly, somebody may take it for forgotten. And if both the node
                # that handed it over and the one that had begun it are killed, both may have it.
                again = self.reopened.get((task, later.generation - 1), 0)
                more = taken[task] + self.slow.get(task, 0)
                more += self._was_handed_over(events[:place], (*alive[:1], later))
                if len(alive) >= max(1, again) + more:
                    yield (
                        f"{later.attempt} began {task!r} at {later.at:.3f} s, while "
                        f"{alive[0].attempt} was at it"
                    )

    def _was_handed_over(
        self, earlier: Iterable[AttemptBegan], now: Iterable[AttemptBegan]
    ) -> bool:
        """Whether an earlier attempt died with its node, and these nodes were killed since."""
        return any(
            one.attempt not in self.ended
            and all(self.troubles.killed_after(other.node, one.at) < other.at for other in now)
            for one in earlier
            if self.troubles.killed_after(one.node, one.at) < inf
        )

    def _is_alive(self, attempt: AttemptBegan, at: float) -> bool:
        """Whether an attempt was surely under way, and its node had not been given up."""
        ended = self.ended.get(attempt.attempt, inf)
        joined = self.joined.get((attempt.node, incarnation_of(attempt.attempt)), -inf)
        is_over = ended <= at + AT_ONCE_SECONDS
        return not is_over and not self.troubles.may_be_given_up(attempt.node, joined, at)


# --- what was made again -------------------------------------------------------------------------


@dataclass
class _Reopenings:
    """Who had which files when, and whether tasks were reopened while somebody could serve them."""

    troubles: Troubles
    outputs: OutputsOf | None
    told: list[tuple[NodeId, TaskReopened]] = field(default_factory=list)
    # By file and node: when the node had it, each from one time to another.
    held: dict[FileId, dict[NodeId, list[list[float]]]] = field(default_factory=dict)

    def add_all(self, node: NodeId, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, TaskReopened):
                self.told.append((node, event))
            elif isinstance(event, FileStored):
                spans = self.held.setdefault(event.file, {}).setdefault(event.node, [])
                spans.append([event.at, inf])
            elif isinstance(event, FileEvicted):
                for span in self.held.get(event.file, {}).get(event.node, ()):
                    span[1] = min(span[1], event.at)

    def problems(self) -> Iterator[str]:
        for node, event in self.told if self.outputs is not None else ():
            assert self.outputs is not None
            if self.troubles.may_not_reach(node, event.at):
                continue
            if self.troubles.store_may_forget(event.at):
                continue
            files = self.outputs.get(event.task, ())
            holders = {file: self._could_serve(file, node, event.at) for file in files}
            if files and all(holders.values()):
                who = ", ".join(sorted({holder for found in holders.values() for holder in found}))
                yield (
                    f"{event.task!r} was reopened at {event.at:.3f} s by {node}, though {who} "
                    "had what it wrote"
                )

    def _could_serve(self, file: FileId, reader: NodeId, at: float) -> list[NodeId]:
        """The nodes that had the file, and that nothing kept from serving it."""
        return [
            node
            for node, spans in self.held.get(file, {}).items()
            if node != reader
            and any(begin + KNOWN_SECONDS <= at <= end for begin, end in spans)
            and not self.troubles.may_be_out_of_reach(file, node, at)
        ]


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
