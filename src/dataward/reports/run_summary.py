"""Sums up a run in numbers, event by event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dataward.model.events import (
    Event,
    FileEvicted,
    FileMoved,
    FinishPromised,
    InputsStaged,
    NodeJoined,
    NodeLost,
    RunEnded,
    RunResumed,
    RunStarted,
    TaskFinished,
    TaskReopened,
    TaskTakenOver,
    WorkGiven,
)
from dataward.model.ids import ORIGIN, NodeId
from dataward.model.states import AttemptOutcome, TaskState
from dataward.reports.attempts import (
    BEATEN,
    ONE_CORE_EACH,
    Attempt,
    AttemptBook,
    CoresOf,
    Step,
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The numbers of a run. Core times are core-seconds: a task on two cores counts twice.

    An attempt runs from ``running`` to ``stage-out``, or to its end if it never reached stage-out.
    It is *useful* if it won and *wasted* if it ended in any other way. An attempt still under way
    when the list ends is neither, but counts as busy. A reopened task has two useful attempts.
    """

    workflow: str
    strategy: str
    seed: int
    nodes: int
    cores: int
    tasks: int
    ended: bool  # whether the list contains the end of the run
    complete: int
    failed: int
    removed: int
    makespan_seconds: float  # to the last event, if the run has not ended

    utilisation: float  # the share of all core-seconds that was useful
    busy_share: float  # the share of all core-seconds in which attempts ran
    locality: float  # the share of input bytes already at the node; 1 if there were none

    useful_seconds: float
    wasted_seconds: float
    busy_seconds: float  # useful, wasted and under way
    starved_seconds: float  # cores idle while an attempt on their node brought its inputs in
    down_seconds: float  # cores of crashed nodes, until they came back

    stage_in_seconds: float  # this and the next two are summed over attempts, not over cores
    waiting_seconds: float  # inputs there, but no core free
    stage_out_seconds: float  # until the commit was answered

    local_bytes: int  # inputs found in the node's depot, over all attempts that staged
    staged_bytes: int  # all inputs of those attempts
    bytes_moved: int  # over the network, from nodes and the origin together
    bytes_from_origin: int
    bytes_evicted: int
    files_moved: int

    attempts: int
    replicas_run: int  # replica attempts that began, even if they never reached running
    replicas_won: int
    replicas_wasted: int
    """Attempts, replicas or not, that reached running and were lost, cancelled or cut off.

    Lost: another attempt had committed. Cancelled: another won and this one was stopped, the task
    was removed, or, rarely, the node lost its lease. Cut off: it still ran when the last task of
    the run committed. Attempts that failed, crashed or were sent elsewhere do not count.
    """
    failed_attempts: int  # by the task's own error, whether or not the task was tried again
    crashed_attempts: int  # lost with their node
    taken_over: int
    reopened: int
    crashes: int
    given: int  # tasks that load balancers gave away
    messages: int
    store_calls: int
    node_busy_seconds: Mapping[NodeId, float]
    promised: FinishPromised | None = None  # the latest; None if the run has no deadline
    promised_first: FinishPromised | None = None

    @property
    def late_seconds(self) -> float:
        """By how much the run ended after its deadline; below 0 if it ended before."""
        return self.makespan_seconds - self.promised.deadline if self.promised else 0.0


def _share(part: float, whole: float, of_nothing: float) -> float:
    return part / whole if whole else of_nothing


class _NodeTally:
    """Adds up how a node's cores were used; ``settle`` counts the time since its last call."""

    __slots__ = (
        "busy", "busy_seconds", "cores", "down_seconds", "down_since", "since", "staging",
        "starved_seconds",
    )  # fmt: skip

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.busy = 0  # cores on which an attempt runs
        self.staging = 0  # attempts that bring inputs in
        self.since = 0.0
        self.busy_seconds = 0.0
        self.starved_seconds = 0.0
        self.down_since: float | None = None
        self.down_seconds = 0.0

    def settle(self, at: float) -> None:
        elapsed = at - self.since
        if elapsed > 0:
            self.since = at
            self.busy_seconds += self.busy * elapsed
            if self.staging and self.busy < self.cores:
                self.starved_seconds += min(self.staging, self.cores - self.busy) * elapsed

    def go_down(self, at: float) -> None:
        if self.down_since is None:
            self.down_since = at

    def come_up(self, at: float) -> None:
        self.down_seconds = self.down_seconds_until(at)
        self.down_since = None

    def down_seconds_until(self, at: float) -> float:
        if self.down_since is None:
            return self.down_seconds
        return self.down_seconds + self.cores * max(at - self.down_since, 0.0)


class RunTally:
    """Counts a run as its events come; ``summary`` can be called at any time.

    It keeps only the nodes and the attempts under way in memory. ``cores_of`` has the tasks that
    take more than one core. Other reports may listen to its ``book``.
    """

    def __init__(self, cores_of: CoresOf = ONE_CORE_EACH) -> None:
        self._cores_of = cores_of
        self._nodes: dict[NodeId, _NodeTally] = {}
        self._started = RunStarted(0.0, "", 0, "", 0, ())
        self._ended: RunEnded | None = None
        self._promised: list[FinishPromised] = []
        self._latest_seconds = 0.0
        self._useful_seconds = self._wasted_seconds = 0.0
        self._stage_in_seconds = self._waiting_seconds = self._stage_out_seconds = 0.0
        self._local_bytes = self._staged_bytes = 0
        self._bytes_moved = self._bytes_from_origin = self._bytes_evicted = self._files_moved = 0
        self._attempts = self._replicas_run = self._replicas_won = self._replicas_wasted = 0
        self._failed_attempts = self._crashed_attempts = 0
        self._complete = self._failed = self._removed = 0
        self._taken_over = self._reopened = self._crashes = self._given = 0
        self.book = AttemptBook(self._on_step)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            **self.book.handlers,
            RunStarted: self._on_run_started,
            RunEnded: self._on_run_ended,
            RunResumed: self._on_run_resumed,
            FinishPromised: self._promised.append,
            NodeJoined: self._on_node_joined,
            NodeLost: self._on_node_lost,
            InputsStaged: self._on_inputs_staged,
            FileMoved: self._on_file_moved,
            FileEvicted: self._on_file_evicted,
            TaskFinished: self._on_task_finished,
            TaskTakenOver: self._on_taken_over,
            TaskReopened: self._on_reopened,
            WorkGiven: self._on_work_given,
        }

    def add(self, event: Event) -> None:
        if event.at > self._latest_seconds:
            self._latest_seconds = event.at
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def summary(self) -> RunSummary:
        ended, started = self._ended, self._started
        now = self._latest_seconds if ended is None else ended.at
        for node in self._nodes.values():
            node.settle(now)
        cores = sum(node.cores for node in self._nodes.values())
        busy_seconds = sum(node.busy_seconds for node in self._nodes.values())
        complete = self._complete - self._reopened
        return RunSummary(
            workflow=started.workflow,
            strategy=started.strategy,
            seed=started.seed,
            nodes=len(self._nodes),
            cores=cores,
            tasks=started.tasks,
            ended=ended is not None,
            complete=complete if ended is None else ended.complete,
            failed=self._failed if ended is None else ended.failed,
            removed=self._removed if ended is None else ended.removed,
            makespan_seconds=now,
            utilisation=_share(self._useful_seconds, cores * now, 0.0),
            busy_share=_share(busy_seconds, cores * now, 0.0),
            locality=_share(self._local_bytes, self._staged_bytes, 1.0),
            useful_seconds=self._useful_seconds,
            wasted_seconds=self._wasted_seconds,
            busy_seconds=busy_seconds,
            starved_seconds=sum(node.starved_seconds for node in self._nodes.values()),
            down_seconds=sum(node.down_seconds_until(now) for node in self._nodes.values()),
            stage_in_seconds=self._stage_in_seconds,
            waiting_seconds=self._waiting_seconds,
            stage_out_seconds=self._stage_out_seconds,
            local_bytes=self._local_bytes,
            staged_bytes=self._staged_bytes,
            bytes_moved=self._bytes_moved,
            bytes_from_origin=self._bytes_from_origin,
            bytes_evicted=self._bytes_evicted,
            files_moved=self._files_moved,
            attempts=self._attempts,
            replicas_run=self._replicas_run,
            replicas_won=self._replicas_won,
            replicas_wasted=self._replicas_wasted,
            failed_attempts=self._failed_attempts,
            crashed_attempts=self._crashed_attempts,
            taken_over=self._taken_over,
            reopened=self._reopened,
            crashes=self._crashes,
            given=self._given,
            messages=0 if ended is None else ended.messages,
            store_calls=0 if ended is None else ended.store_calls,
            node_busy_seconds={id: node.busy_seconds for id, node in self._nodes.items()},
            promised=self._promised[-1] if self._promised else None,
            promised_first=self._promised[0] if self._promised else None,
        )

    # --- attempts --------------------------------------------------------------------------------

    def _on_step(self, attempt: Attempt, step: Step, at: float) -> None:
        node = self._node(attempt.node)
        node.settle(at)
        if step is Step.BEGAN:
            self._attempts += 1
            self._replicas_run += attempt.replica
            node.staging += 1
        elif step is Step.STAGED:
            node.staging -= 1
        elif step is Step.RAN:
            node.busy += self._cores(attempt, node)
        elif step is Step.WROTE:
            node.busy -= self._cores(attempt, node)
        else:
            if attempt.staged is None:
                node.staging -= 1
            elif attempt.running is not None and attempt.stage_out is None:
                node.busy -= self._cores(attempt, node)
            self._on_attempt_over(attempt, attempt.running_seconds * self._cores(attempt, node))

    def _on_attempt_over(self, attempt: Attempt, core_seconds: float) -> None:
        self._stage_in_seconds += attempt.stage_in_seconds
        self._waiting_seconds += attempt.waiting_seconds
        self._stage_out_seconds += attempt.stage_out_seconds
        outcome = attempt.outcome
        if outcome is AttemptOutcome.WON:
            self._useful_seconds += core_seconds
            self._replicas_won += attempt.replica
            return
        self._wasted_seconds += core_seconds
        if outcome in BEATEN:
            self._replicas_wasted += attempt.running is not None
        self._failed_attempts += outcome is AttemptOutcome.FAILED
        self._crashed_attempts += outcome is AttemptOutcome.CRASHED

    def _cores(self, attempt: Attempt, node: _NodeTally) -> int:
        return min(self._cores_of.get(attempt.task, 1), node.cores)

    def _node(self, id: NodeId) -> _NodeTally:
        node = self._nodes.get(id)
        if node is None:  # it joined later, and no event tells its cores
            node = self._nodes[id] = _NodeTally(1)
        return node

    # --- everything else -------------------------------------------------------------------------

    def _on_run_started(self, event: RunStarted) -> None:
        self._started = event
        for facts in event.nodes:
            self._nodes[facts.id] = _NodeTally(facts.cores)

    def _on_run_ended(self, event: RunEnded) -> None:
        self.book.add(event)
        self._ended = event

    def _on_run_resumed(self, event: RunResumed) -> None:
        """Attempts under way are lost; failed and removed tasks run again."""
        self.book.end_all(event.at, AttemptOutcome.CRASHED)
        self._ended = None
        self._failed = self._removed = 0

    def _on_node_joined(self, event: NodeJoined) -> None:
        self.book.add(event)
        self._node(event.node).come_up(event.at)

    def _on_node_lost(self, event: NodeLost) -> None:
        self.book.add(event)
        self._crashes += 1
        self._node(event.node).go_down(event.at)

    def _on_inputs_staged(self, event: InputsStaged) -> None:
        self.book.add(event)
        self._local_bytes += event.local_bytes
        self._staged_bytes += event.local_bytes + event.moved_bytes

    def _on_file_moved(self, event: FileMoved) -> None:
        self._files_moved += 1
        self._bytes_moved += event.size_bytes
        if event.source == ORIGIN:
            self._bytes_from_origin += event.size_bytes

    def _on_file_evicted(self, event: FileEvicted) -> None:
        self._bytes_evicted += event.size_bytes

    def _on_task_finished(self, event: TaskFinished) -> None:
        self._complete += event.state is TaskState.COMPLETE
        self._failed += event.state is TaskState.FAILED
        self._removed += event.state is TaskState.REMOVED

    def _on_taken_over(self, event: TaskTakenOver) -> None:
        self._taken_over += 1

    def _on_reopened(self, event: TaskReopened) -> None:
        self._reopened += 1

    def _on_work_given(self, event: WorkGiven) -> None:
        self._given += len(event.tasks)
