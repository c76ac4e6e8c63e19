"""Sends what happened to this node's attempts to the store, many at a time.

Whatever comes while one batch is under way makes the next: one call commits as many tasks as there
are, which is what keeps durability cheap. Outcomes go at once, or, where a call costs a sync of the
disk and there is work enough, as soon as that pays: sooner if other tasks wait for them. The rest
may wait a moment for company.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from dataward.model.answers import Answer, Committed, Failing, Membership, Refused
from dataward.model.events import AttemptEnded, TaskFinished
from dataward.model.messages import Stop
from dataward.model.operations import (
    AddCopies,
    Advance,
    AttemptId,
    Commit,
    Copy,
    DropCopies,
    Fail,
    LetGo,
    NodeId,
    Operation,
    OutputFile,
    ReportLoad,
    incarnation_of,
)
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.node.depot import Depot
from dataward.node.herald import Herald, Notice
from dataward.node.identity import Identity, OnLeaseLost
from dataward.node.ready_queue import ReadyQueue
from dataward.node.settings import NodeSettings
from dataward.node.store_client import StoreClient
from dataward.world import World


@dataclass
class Committer:
    """Everything here returns at once; the loop does the waiting."""

    world: World
    settings: NodeSettings
    identity: Identity
    store: StoreClient
    herald: Herald
    depot: Depot
    queue: ReadyQueue

    on_lease_lost: OnLeaseLost = lambda incarnation: None
    on_queued: Callable[[], None] = lambda: None
    _proposed: dict[AttemptId, Commit | Fail] = field(default_factory=dict)
    _advances: dict[AttemptId, tuple[TaskId, list[tuple[TaskState, float]]]] = field(
        default_factory=dict
    )
    _outcomes: list[Commit | Fail] = field(default_factory=list)
    _let_go: list[tuple[TaskId, int]] = field(default_factory=list)
    _later: list[Operation] = field(default_factory=list)
    _reported_load_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._work = self.world.kernel.flag()
        self._urgent = self.world.kernel.flag()
        self._awaited = self.world.kernel.flag()  # by other tasks

    # --- what others ask -------------------------------------------------------------------------

    def advance(self, task: TaskId, attempt: AttemptId, state: TaskState, at: float) -> None:
        known = self._advances.get(attempt)
        if known is None:
            known = self._advances[attempt] = (task, [])
        known[1].append((state, at))
        self._work.set()

    def commit(
        self,
        task: TaskId,
        attempt: AttemptId,
        generation: int,
        outputs: tuple[OutputFile, ...],
        *,
        awaited: bool,
    ) -> None:
        """Propose an attempt as the task's outcome; advances not yet sent go along with it."""
        node, steps = self.world.node, self._steps(attempt)
        commit = Commit(task, attempt, node, steps, generation, outputs)
        self._proposed[attempt] = commit
        self._send(commit, awaited=awaited)

    def fail(self, task: TaskId, attempt: AttemptId, reason: str) -> None:
        """Report that the task itself failed."""
        fail = Fail(task, attempt, reason, self._steps(attempt))
        self._proposed[attempt] = fail
        self._send(fail, awaited=True)

    def recommit(self, commit: Commit) -> None:
        """Report again what an earlier acknowledgement may have been lost for."""
        self._send(commit, awaited=True)

    def _steps(self, attempt: AttemptId) -> tuple[tuple[TaskState, float], ...]:
        known = self._advances.pop(attempt, None)
        return tuple(known[1]) if known is not None else ()

    def _send(self, outcome: Commit | Fail, *, awaited: bool) -> None:
        self._outcomes.append(outcome)
        if awaited:
            self._awaited.set()
        self._urgent.set()
        self._work.set()

    def let_go(self, task: TaskId) -> None:
        holding = self.identity.holdings.pop(task, None)
        if holding is not None:
            self._let_go.append((task, holding[1]))
            self._work.set()

    def announce(self, owner: str, copy: Copy) -> None:
        self.later(AddCopies(TaskId(owner), (copy,)))

    def retract(self, owner: str, copy: Copy) -> None:
        self.later(DropCopies(TaskId(owner), (copy,)))

    def later(self, operation: Operation) -> None:
        """Send along with whatever goes next; nobody waits for the answer."""
        self._later.append(operation)
        self._work.set()

    def load_changed(self) -> None:
        """Tell the others, if it changed enough for them to care."""
        change = abs(self.queue.load_seconds - self._reported_load_seconds)
        if change > self.settings.load_report_share * self._reported_load_seconds:
            self._work.set()

    def is_about(self, task: TaskId) -> bool:
        """Whether an outcome of this task is on its way to the store."""
        return any(outcome.task == task for outcome in self._proposed.values())

    @property
    def is_busy(self) -> bool:
        """Whether an outcome is on its way to the store."""
        return bool(self._proposed)

    def forget(self) -> None:
        """Drop what an incarnation that has lost its lease had to say."""
        for attempt, outcome in self._proposed.items():
            if isinstance(outcome, Commit):
                self.depot.discard_outputs(outcome.outputs)
                self._ended(outcome.task, attempt, "lost", "the node's lease had expired")
        self._proposed.clear()
        self._advances.clear()
        self._outcomes.clear()
        self._let_go.clear()

    # --- the loop --------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await self._work.wait()
            await self._urgent.wait(self.settings.company_seconds)
            if self.settings.outcome_seconds and self.queue:
                await self._awaited.wait(self.settings.unawaited_seconds)
                await self.world.kernel.sleep(self.settings.outcome_seconds)
            self._work.clear()
            self._urgent.clear()
            self._awaited.clear()
            operations = self._collect()
            if operations:
                answers = await self.store.call(operations)
                for operation, answer in zip(operations, answers, strict=True):
                    self._on_answer(operation, answer)

    def _collect(self) -> list[Operation]:
        operations: list[Operation] = [
            Advance(task, attempt, state, at)
            for attempt, (task, steps) in self._advances.items()
            for state, at in steps
        ]
        operations += self._outcomes
        operations += self._later
        node = self.world.node
        if self._let_go:
            operations.append(LetGo(node, self.identity.incarnation, tuple(self._let_go)))
        if self.queue.load_seconds != self._reported_load_seconds:
            self._reported_load_seconds = self.queue.load_seconds
            operations.append(ReportLoad(node, self._reported_load_seconds))
        self._advances = {}
        self._outcomes, self._later, self._let_go = [], [], []
        return operations

    def _on_answer(self, operation: Operation, answer: Answer) -> None:
        if isinstance(operation, Commit):
            if isinstance(answer, Committed):
                self._on_won(operation, answer)
            elif isinstance(answer, Refused):
                self._on_lost(operation, answer)
        elif isinstance(operation, Fail):
            self._on_failed(operation, answer)
        elif isinstance(answer, Membership) and answer.queued:
            self.on_queued()

    def _on_won(self, commit: Commit, answer: Committed) -> None:
        if self._proposed.pop(commit.attempt, None):
            self.depot.keep_outputs(commit.task, commit.outputs)
            self.world.disk.journal(commit)
            self._ended(commit.task, commit.attempt, "won")
            self._finished(commit.task, commit.attempt, TaskState.COMPLETE, answer.generation)
            self._stop(answer.rivals, commit.task, answer.generation)
            self.let_go(commit.task)
        self.herald.deliver(
            Notice(commit.task, answer.generation, False, answer.children, answer.copies)
        )

    def _on_lost(self, commit: Commit, answer: Refused) -> None:
        if self._proposed.pop(commit.attempt, None):
            self.depot.discard_outputs(commit.outputs)
            self._ended(commit.task, commit.attempt, "lost", answer.reason)
            if answer.reason == "fenced":
                self.on_lease_lost(incarnation_of(commit.attempt))
            else:
                self.let_go(commit.task)

    def _on_failed(self, fail: Fail, answer: Answer) -> None:
        if self._proposed.pop(fail.attempt, None) is None:
            return  # of a life that has lost its lease
        if not isinstance(answer, Failing):
            self.let_go(fail.task)
        elif answer.final:
            self._finished(fail.task, fail.attempt, TaskState.FAILED, answer.generation)
            self._stop(answer.rivals, fail.task, answer.generation + 1)
            self.herald.deliver(Notice(fail.task, answer.generation, True, answer.children, ()))
            self.let_go(fail.task)
        else:
            self.queue.put(self.identity.holdings[fail.task][0])  # the node still holds it

    def _ended(self, task: TaskId, attempt: AttemptId, outcome: str, reason: str = "") -> None:
        now = self.world.kernel.now()
        self.world.emit(AttemptEnded(now, task, attempt, self.world.node, outcome, reason))

    def _finished(
        self, task: TaskId, attempt: AttemptId, state: TaskState, generation: int
    ) -> None:
        now = self.world.kernel.now()
        self.world.emit(TaskFinished(now, task, attempt, self.world.node, state, generation))

    def _stop(self, rivals: tuple[NodeId, ...], task: TaskId, generation: int) -> None:
        for rival in rivals:
            if rival != self.world.node:
                self.world.network.send(rival, Stop(task, generation))
