"""Checks after every event of a simulated run that nothing happened that must never happen.

The checker keeps its own records, made from the store's operations and answers and from the event
list; it does not rely on the state of nodes or shards.
"""

from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf

from dataward.model.answers import Answer, Begun, Committed, Findings, Membership, Standing
from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    Event,
    FileEvicted,
    FileMoved,
    FileStored,
    NodeLeft,
    NodeLost,
)
from dataward.model.ids import ORIGIN, AttemptId, NodeId, incarnation_of, node_of
from dataward.model.operations import (
    Begin,
    Commit,
    Join,
    Leave,
    Notify,
    Operation,
    Probe,
    Remove,
    Renew,
    Reopen,
    Seize,
    TakeOver,
    shard_of,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.stores.shard import Shard


class InvariantBroken(AssertionError):  # noqa: N818 - clear without "Error"
    """Something happened that must never happen."""


@dataclass
class Ledger:
    """What one shard has acknowledged. It is set back with the shard when that loses writes."""

    commits: dict[tuple[TaskId, int], AttemptId] = field(default_factory=dict)
    closed: set[TaskId] = field(default_factory=set)
    removed: set[TaskId] = field(default_factory=set)
    fences: set[tuple[TaskId, NodeId, int]] = field(default_factory=set)
    leases: dict[NodeId, tuple[int, float, float]] = field(default_factory=dict)


@dataclass
class Checker:
    """Raises InvariantBroken. Pass ``on_event`` and ``on_applied`` to `Simulation.watch`."""

    workflow: Workflow
    shards: int
    cores: dict[NodeId, int]
    now: Callable[[], float]
    unsafe_files_of: Callable[[NodeId], Collection[FileId]] = lambda node: ()
    must_run: Collection[TaskId] = ()  # what an earlier run did no longer holds for these
    checks: int = 0
    forgotten: dict[AttemptId, NodeId] = field(default_factory=dict)  # commits not said again yet
    _ledgers: dict[int, Ledger] = field(default_factory=dict)
    _ever_committed: set[TaskId] = field(default_factory=set)
    _ever_accepted: set[AttemptId] = field(default_factory=set)
    _ever_removed: set[TaskId] = field(default_factory=set)
    _condemned: set[tuple[NodeId, int]] = field(default_factory=set)
    _held: dict[NodeId, set[FileId]] = field(default_factory=dict)
    _running: dict[NodeId, dict[AttemptId, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ledgers = {index: Ledger() for index in range(self.shards)}
        ids = self.workflow.task_ids
        self._parents = {
            ids[task]: [ids[p] for p in parents]
            for task, parents in enumerate(self.workflow.parents.rows())
        }
        self._task_cores = dict(zip(ids, self.workflow.cores.tolist(), strict=True))

    # --- what the store acknowledged -------------------------------------------------------------

    def on_applied(self, operation: Operation, answer: Answer, shard: Shard) -> None:
        self.checks += 1
        ledger = self._ledgers[shard.index]
        if isinstance(operation, Commit):
            self.forgotten.pop(operation.attempt, None)
            if isinstance(answer, Committed):
                self._on_commit(operation, answer, ledger)
        elif isinstance(operation, Begin) and isinstance(answer, Begun):
            self._on_begin(operation, ledger)
        elif isinstance(operation, TakeOver):
            self._on_take_over(operation, ledger)
        elif isinstance(answer, Standing):
            self._on_standing(operation, answer, ledger)
        elif isinstance(answer, Findings):
            for orphans in answer.orphans:
                self._condemn(orphans.node, orphans.incarnation)
        elif isinstance(operation, Seize) and isinstance(answer, Membership):
            if not answer.current and answer.incarnation == operation.incarnation:
                self._condemn(operation.node, operation.incarnation)
        elif isinstance(operation, Leave) and isinstance(answer, Membership):
            self._on_leave(operation, answer, ledger)
        elif isinstance(answer, Membership) and answer.current:
            self._on_lease(operation, ledger)

    def _on_commit(self, op: Commit, answer: Committed, ledger: Ledger) -> None:
        if op.task in ledger.removed:
            raise InvariantBroken(f"{op.task} was removed, yet {op.attempt} committed it")
        key = (op.task, answer.generation)
        first = ledger.commits.get(key)
        if first == op.attempt:
            return
        if first is not None:
            raise InvariantBroken(f"{op.task} was committed by {first} and again by {op.attempt}")
        if (op.task, op.node, incarnation_of(op.attempt)) in ledger.fences:
            raise InvariantBroken(f"{op.attempt} committed {op.task} after losing its lease")
        if op.recalled and (op.task in self.must_run):
            raise InvariantBroken(f"{op.task} was recalled from an earlier run, but had to run")
        self._check_parents(op.task, "was committed")
        if op.attempt not in self._ever_accepted:
            # A commit that a shard forgot and is told of again was safe when it was accepted. By
            # now another attempt on the node may be writing the same files: if these are lost,
            # whoever needs them has the task run again.
            self._check_synced(op)
        self._ever_accepted.add(op.attempt)
        ledger.commits[key] = op.attempt
        ledger.closed.add(op.task)
        self._ever_committed.add(op.task)

    def _on_standing(self, op: Operation, answer: Standing, ledger: Ledger) -> None:
        task = answer.task
        if answer.state is TaskState.REMOVED:
            if task not in ledger.removed:
                self._on_removed(op, task, ledger)
        elif task in ledger.removed:
            raise InvariantBroken(f"{task} was removed, yet now it is {answer.state.value}")
        elif isinstance(op, Reopen) and answer.granted:
            ledger.closed.discard(task)

    def _on_removed(self, op: Operation, task: TaskId, ledger: Ledger) -> None:
        """Check that somebody asked for the task to be removed, or that a parent of it was."""
        parents = self._ever_removed.intersection(self._parents[task])
        if not (isinstance(op, Remove) or parents):
            raise InvariantBroken(f"{task} was removed, which nobody asked for")
        if isinstance(op, Notify) and op.removed and op.parent not in parents:
            raise InvariantBroken(f"{task} was told that {op.parent} was removed, which is not so")
        ledger.removed.add(task)
        ledger.closed.add(task)
        self._ever_removed.add(task)

    def _check_synced(self, op: Commit) -> None:
        unsafe = self.unsafe_files_of(op.node)
        for file in op.outputs:
            if file.id in unsafe:
                raise InvariantBroken(f"{op.task} was committed before {file.id} was synced")

    def _on_begin(self, op: Begin, ledger: Ledger) -> None:
        if op.task in ledger.closed:
            raise InvariantBroken(f"{op.task} is finished, yet {op.attempt} began it")
        self._check_parents(op.task, "began")

    def _check_parents(self, task: TaskId, what: str) -> None:
        for parent in self._parents[task]:
            if parent not in self._ever_committed:
                raise InvariantBroken(f"{task} {what} before its parent {parent} was committed")

    def _on_take_over(self, op: TakeOver, ledger: Ledger) -> None:
        """Check that the task is taken from a dead incarnation.

        That is one seized after its lease expired, or followed by a later incarnation.
        """
        current, _, _ = self._lease_of(op.node)
        if current == op.incarnation and (op.node, op.incarnation) not in self._condemned:
            raise InvariantBroken(f"{op.task} was taken from {op.node}, whose lease still holds")
        ledger.fences.add((op.task, op.node, op.incarnation))

    def _condemn(self, node: NodeId, incarnation: int) -> None:
        current, until, _ = self._lease_of(node)
        if current == incarnation and until >= self.now():
            raise InvariantBroken(f"{node} was declared dead while its lease still holds")
        self._condemned.add((node, incarnation))

    def _lease_of(self, node: NodeId) -> tuple[int, float, float]:
        home = self._ledgers[shard_of(Probe(node), self.shards)]
        return home.leases.get(node, (-1, 0.0, 0.0))

    def _on_lease(self, op: Operation, ledger: Ledger) -> None:
        if isinstance(op, Join):
            until = self.now() + op.lease_seconds
            ledger.leases[op.node] = (op.incarnation, until, op.lease_seconds)
        elif isinstance(op, Renew):
            seconds = ledger.leases[op.node][2]
            ledger.leases[op.node] = (op.incarnation, self.now() + seconds, seconds)

    def _on_leave(self, op: Leave, answer: Membership, ledger: Ledger) -> None:
        """Check that a node that has left is down at once; its tasks may be taken from it now."""
        if answer.current:
            raise InvariantBroken(f"{op.node} has left, yet it is a member")
        if answer.incarnation == op.incarnation:
            ledger.leases[op.node] = (op.incarnation, -inf, 0.0)
            self._condemned.add((op.node, op.incarnation))

    def snapshot(self, shard: int) -> Ledger:
        return deepcopy(self._ledgers[shard])

    def restore(self, shard: int, ledger: Ledger) -> None:
        """Forget what the shard acknowledged since the snapshot: it lost those writes."""
        for key, attempt in self._ledgers[shard].commits.items():
            if key not in ledger.commits:
                self.forgotten[attempt] = node_of(attempt)
        self._ledgers[shard] = ledger

    # --- what happened on the nodes --------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        self.checks += 1
        if isinstance(event, FileStored):
            self._held.setdefault(event.node, set()).add(event.file)
        elif isinstance(event, FileEvicted):
            self._held[event.node].discard(event.file)
        elif isinstance(event, FileMoved):
            self._on_moved(event)
        elif isinstance(event, AttemptAdvanced):
            self._on_advanced(event)
        elif isinstance(event, AttemptEnded):
            self._running.get(event.node, {}).pop(event.attempt, None)
        elif isinstance(event, NodeLeft):
            if self._running.get(event.node):
                raise InvariantBroken(f"{event.node} has left while a task ran there")
        elif isinstance(event, NodeLost):
            self._running.pop(event.node, None)
        elif isinstance(event, AttemptBegan):
            self._check_parents(event.task, "began")

    def _on_moved(self, event: FileMoved) -> None:
        if event.source != ORIGIN and event.file not in self._held.get(event.source, ()):
            raise InvariantBroken(f"{event.file} came from {event.source}, which never held it")

    def _on_advanced(self, event: AttemptAdvanced) -> None:
        running = self._running.setdefault(event.node, {})
        if event.state is not TaskState.RUNNING:
            running.pop(event.attempt, None)
            return
        cores = self.cores[event.node]
        running[event.attempt] = min(self._task_cores[event.task], cores)
        if sum(running.values()) > cores:
            raise InvariantBroken(f"{event.node} runs more than its {cores} cores can")

    def at_end(self, complete: int, failed: int, removed: int = 0) -> None:
        """Check that every task has an outcome, and that every complete task was committed."""
        open_tasks = len(self.workflow) - complete - failed - removed
        if open_tasks:
            raise InvariantBroken(f"{open_tasks} tasks have no outcome")
        if not (failed or removed) and len(self._ever_committed) != len(self.workflow):
            raise InvariantBroken("a task is called complete that nobody committed")
