"""The operations a node has to send to the store: its components add them, the committer sends.

Outcomes are urgent, the more so if other tasks wait for them. All other operations may wait a
moment, so that more are sent together.
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
    Release,
    ReportLoad,
)
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.node.identity import Identity
from dataward.node.ready_queue import ReadyQueue
from dataward.node.settings import NodeSettings
from dataward.world import World

Proposal = Commit | Fail | Release
Steps = tuple[tuple[TaskState, float], ...]


class Outbox:
    """Collects operations and outcomes. All methods but ``due`` return at once."""

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
        self._alone = world.kernel.flag()  # no more outcomes will come that could go along
        self._proposed: dict[AttemptId, Proposal] = {}
        self._advances: dict[AttemptId, tuple[TaskId, list[tuple[TaskState, float]]]] = {}
        self._outcomes: list[Proposal] = []
        self._let_go: list[tuple[TaskId, int]] = []
        self._later: list[Operation] = []
        self._reported_load_seconds = 0.0

    # --- attempts --------------------------------------------------------------------------------

    def advance(self, task: TaskId, attempt: AttemptId, state: TaskState, at: float) -> None:
        """Report the state an attempt has reached."""
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
        steps = self._steps(attempt)
        self._propose(Commit(task, attempt, self._node, steps, generation, outputs), awaited)

    def recall(
        self,
        task: TaskId,
        attempt: AttemptId,
        outputs: tuple[OutputFile, ...],
        absent: tuple[FileId, ...],
    ) -> None:
        """Propose what an earlier run wrote as the task's outcome."""
        generation = 1  # a task that is made again has lost an output, and must run
        commit = Commit(task, attempt, self._node, (), generation, outputs, True, absent)
        self._propose(commit, awaited=True)

    def _propose(self, commit: Commit, awaited: bool) -> None:
        self._proposed[commit.attempt] = commit
        self._send(commit, awaited=awaited)

    def fail(self, task: TaskId, attempt: AttemptId, reason: str) -> None:
        """Report that the task itself failed."""
        fail = Fail(task, attempt, reason, self._steps(attempt))
        self._proposed[attempt] = fail
        self._send(fail, awaited=True)

    def withdraw(self, commit: Commit, reason: str) -> Fail:
        """The failure that replaces a proposed commit whose outputs are not safe on the disk."""
        fail = Fail(commit.task, commit.attempt, reason, commit.timeline)
        self._proposed[commit.attempt] = fail
        return fail

    def release(self, commit: Commit, *, keep: bool) -> Release:
        """The release of an attempt, in place of a proposed commit, so that the task runs again."""
        release = Release(commit.task, commit.attempt, keep)
        self._proposed[commit.attempt] = release
        return release

    def recommit(self, commit: Commit) -> None:
        """Send again a commit that the store had acknowledged and may have forgotten."""
        self._send(commit, awaited=True)

    def _steps(self, attempt: AttemptId) -> Steps:
        """The attempt's advances that are not yet sent: they go in its outcome."""
        known = self._advances.pop(attempt, None)
        return tuple(known[1]) if known is not None else ()

    def _send(self, outcome: Proposal, *, awaited: bool) -> None:
        self._outcomes.append(outcome)
        if awaited:
            self._awaited.set()
        self._urgent.set()
        self._filled.set()

    def hurry(self) -> None:
        """Outcomes wait for no more company: the node has nothing else to do."""
        if self._outcomes:
            self._awaited.set()
            self._alone.set()

    # --- everything else -------------------------------------------------------------------------

    def let_go(self, task: TaskId) -> None:
        """Stop holding a task, if this node holds it."""
        holding = self._identity.holdings.pop(task, None)
        if holding is not None:
            self._let_go.append((task, holding.ticket))
            self._filled.set()

    def announce(self, owner: str, copy: Copy) -> None:
        """Report a copy on this node; ``owner`` is its producer, or the file if it has none."""
        self.later(AddCopies(TaskId(owner), (copy,)))

    def retract(self, owner: str, copy: Copy) -> None:
        """Report that this node no longer has a copy."""
        self.later(DropCopies(TaskId(owner), (copy,)))

    def later(self, operation: Operation) -> None:
        """Send an operation with the next batch; nobody waits for the answer."""
        self._later.append(operation)
        self._filled.set()

    def load_changed(self) -> None:
        """Report the load, if it changed enough to matter to other nodes."""
        change = abs(self._queue.load_seconds - self._reported_load_seconds)
        if change > self._settings.load_report_share * self._reported_load_seconds:
            self._filled.set()

    def load_told(self) -> float:
        """The load, for an operation that tells it to the store by the way."""
        self._reported_load_seconds = self._queue.load_seconds
        return self._reported_load_seconds

    # --- outcomes on their way -------------------------------------------------------------------

    def is_about(self, task: TaskId) -> bool:
        """Whether an outcome of this task is on its way to the store."""
        return any(outcome.task == task for outcome in self._proposed.values())

    @property
    def is_busy(self) -> bool:
        """Whether an outcome is on its way to the store."""
        return bool(self._proposed)

    def is_proposed(self, attempt: AttemptId) -> bool:
        """Whether this attempt's outcome is on its way; one sent by `recommit` does not count."""
        return attempt in self._proposed

    def arrived(self, attempt: AttemptId) -> bool:
        """Whether the outcome that the store has answered was still proposed; now it is not."""
        return self._proposed.pop(attempt, None) is not None

    def forget(self) -> list[Commit]:
        """The proposed commits of an incarnation that lost its lease; its reports are dropped.

        A commit that is only reported again stays: nobody else will report it.
        """
        abandoned = [o for o in self._proposed.values() if isinstance(o, Commit)]
        self._outcomes = [o for o in self._outcomes if o.attempt not in self._proposed]
        self._proposed.clear()
        self._advances.clear()
        self._let_go.clear()
        return abandoned

    def loose_ends(self) -> dict[str, int]:
        """How much of each kind is still to be said."""
        return {
            "outcomes on their way": len(self._proposed),
            "outcomes to send": len(self._outcomes),
            "attempts whose advances are to send": len(self._advances),
            "tasks to let go of": len(self._let_go),
            "other operations to send": len(self._later),
        }

    # --- for the committer -----------------------------------------------------------------------

    async def due(self) -> None:
        """Wait until there is something to send, and waiting for more would not pay."""
        settings = self._settings
        await self._filled.wait()
        await self._urgent.wait(settings.company_seconds)
        if settings.outcome_seconds and self._queue:
            await self._awaited.wait(settings.unawaited_seconds)
            await self._alone.wait(settings.outcome_seconds)

    def take(self) -> list[Operation]:
        """All operations to send, in the order in which the store should apply them."""
        self._filled.clear()
        self._urgent.clear()
        self._awaited.clear()
        self._alone.clear()
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
            operations.append(ReportLoad(self._node, self.load_told()))
        self._advances = {}
        self._outcomes, self._later, self._let_go = [], [], []
        return operations
