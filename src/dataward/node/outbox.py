"""What a node has to tell the store: its components put it in, the committer sends it.

Outcomes are urgent, the more so if other tasks wait for them. Everything else may wait a moment
for company.
"""

from dataward.model.ids import AttemptId
from dataward.model.operations import (
    AddCopies,
    Advance,
    Commit,
    Copy,
    DropCopies,
    Fail,
    LetGo,
    Operation,
    OutputFile,
    ReportLoad,
)
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.node.identity import Identity
from dataward.node.ready_queue import ReadyQueue
from dataward.node.settings import NodeSettings
from dataward.world import World

Proposal = Commit | Fail
Steps = tuple[tuple[TaskState, float], ...]


class Outbox:
    """Everything here returns at once."""

    def __init__(
        self, world: World, settings: NodeSettings, identity: Identity, queue: ReadyQueue
    ) -> None:
        self._node = world.node
        self._settings = settings
        self._identity = identity
        self._queue = queue
        self._filled = world.kernel.flag()
        self._urgent = world.kernel.flag()
        self._awaited = world.kernel.flag()
        self._sleep = world.kernel.sleep
        self._proposed: dict[AttemptId, Proposal] = {}
        self._advances: dict[AttemptId, tuple[TaskId, list[tuple[TaskState, float]]]] = {}
        self._outcomes: list[Proposal] = []
        self._let_go: list[tuple[TaskId, int]] = []
        self._later: list[Operation] = []
        self._reported_load_seconds = 0.0

    # --- attempts --------------------------------------------------------------------------------

    def advance(self, task: TaskId, attempt: AttemptId, state: TaskState, at: float) -> None:
        """An attempt has come so far."""
        known = self._advances.get(attempt)
        if known is None:
            known = self._advances[attempt] = (task, [])
        known[1].append((state, at))
        self._filled.set()

    def commit(
        self,
        task: TaskId,
        attempt: AttemptId,
        generation: int,
        outputs: tuple[OutputFile, ...],
        *,
        awaited: bool,
    ) -> None:
        """Propose an attempt as the task's outcome; ``awaited`` if other tasks wait for it."""
        commit = Commit(task, attempt, self._node, self._steps(attempt), generation, outputs)
        self._proposed[attempt] = commit
        self._send(commit, awaited=awaited)

    def fail(self, task: TaskId, attempt: AttemptId, reason: str) -> None:
        """Report that the task itself failed."""
        fail = Fail(task, attempt, reason, self._steps(attempt))
        self._proposed[attempt] = fail
        self._send(fail, awaited=True)

    def withdraw(self, commit: Commit, reason: str) -> Fail:
        """Turn a proposed commit into a failure, for its outputs are not safe on the disk."""
        fail = Fail(commit.task, commit.attempt, reason, commit.timeline)
        self._proposed[commit.attempt] = fail
        return fail

    def recommit(self, commit: Commit) -> None:
        """Report again what the store had acknowledged and may have forgotten."""
        self._send(commit, awaited=True)

    def _steps(self, attempt: AttemptId) -> Steps:
        """Advances not yet sent: they go along with the attempt's outcome."""
        known = self._advances.pop(attempt, None)
        return tuple(known[1]) if known is not None else ()

    def _send(self, outcome: Proposal, *, awaited: bool) -> None:
        self._outcomes.append(outcome)
        if awaited:
            self._awaited.set()
        self._urgent.set()
        self._filled.set()

    # --- everything else -------------------------------------------------------------------------

    def let_go(self, task: TaskId) -> None:
        """Hold a task no longer, if this node holds it."""
        holding = self._identity.holdings.pop(task, None)
        if holding is not None:
            self._let_go.append((task, holding.ticket))
            self._filled.set()

    def announce(self, owner: str, copy: Copy) -> None:
        """This node has a copy; ``owner`` is the file's producer, or the file if it has none."""
        self.later(AddCopies(TaskId(owner), (copy,)))

    def retract(self, owner: str, copy: Copy) -> None:
        """This node has that copy no longer."""
        self.later(DropCopies(TaskId(owner), (copy,)))

    def later(self, operation: Operation) -> None:
        """Send along with whatever goes next; nobody waits for the answer."""
        self._later.append(operation)
        self._filled.set()

    def load_changed(self) -> None:
        """Report the load, if it changed enough for others to care."""
        change = abs(self._queue.load_seconds - self._reported_load_seconds)
        if change > self._settings.load_report_share * self._reported_load_seconds:
            self._filled.set()

    # --- outcomes on their way -------------------------------------------------------------------

    def is_about(self, task: TaskId) -> bool:
        """Whether an outcome of this task is on its way to the store."""
        return any(outcome.task == task for outcome in self._proposed.values())

    @property
    def is_busy(self) -> bool:
        """Whether an outcome is on its way to the store."""
        return bool(self._proposed)

    def is_proposed(self, attempt: AttemptId) -> bool:
        """Whether this attempt's outcome is on its way; not one that is only said again."""
        return attempt in self._proposed

    def arrived(self, attempt: AttemptId) -> bool:
        """The store has answered an attempt's outcome. False if nobody proposes it any more."""
        return self._proposed.pop(attempt, None) is not None

    def forget(self) -> list[Commit]:
        """Drop what an incarnation that has lost its lease had to say; return its commits."""
        abandoned = [o for o in self._proposed.values() if isinstance(o, Commit)]
        self._proposed.clear()
        self._advances.clear()
        self._outcomes.clear()
        self._let_go.clear()
        return abandoned

    # --- for whoever sends it --------------------------------------------------------------------

    async def due(self) -> None:
        """Wait until there is something to send and waiting longer would not pay."""
        settings = self._settings
        await self._filled.wait()
        await self._urgent.wait(settings.company_seconds)
        if settings.outcome_seconds and self._queue:
            await self._awaited.wait(settings.unawaited_seconds)
            await self._sleep(settings.outcome_seconds)

    def take(self) -> list[Operation]:
        """Everything there is to say, in the order in which the store should hear it."""
        self._filled.clear()
        self._urgent.clear()
        self._awaited.clear()
        operations: list[Operation] = [
            Advance(task, attempt, state, at)
            for attempt, (task, steps) in self._advances.items()
            for state, at in steps
        ]
        operations += self._outcomes
        operations += self._later
        if self._let_go:
            incarnation = self._identity.incarnation
            operations.append(LetGo(self._node, incarnation, tuple(self._let_go)))
        if self._queue.load_seconds != self._reported_load_seconds:
            self._reported_load_seconds = self._queue.load_seconds
            operations.append(ReportLoad(self._node, self._reported_load_seconds))
        self._advances = {}
        self._outcomes, self._later, self._let_go = [], [], []
        return operations
