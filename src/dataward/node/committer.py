"""Sends the operations in the node's outbox to the store, many at a time.

An output becomes durable, and then visible, in one order only:

1. The executor has the disk store what a task wrote (`Disk.store_outputs`: hashed, and named by
   content), and puts a `Commit` with the digests into the outbox.
2. The committer awaits `Disk.sync`: now the files would survive a power cut. If the disk cannot do
   that, the commit becomes a failure.
3. Only then it sends the `Commit`. The store answers once it will not forget it: the embedded store
   once its journal is synced (`EmbeddedStore.call`).
4. On the answer, the node keeps the files, notes the commit in its own journal, and the herald
   tells the children where the files are.

How a real disk keeps its two promises is told in `live/depot_disk.py`. Operations that come while
one batch is under way make the next batch: one sync of the disk and one call commit many tasks,
which keeps durability cheap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dataward.model.answers import (
    Answer,
    Committed,
    Failing,
    Membership,
    Refusal,
    Refused,
    Standing,
)
from dataward.model.ids import NodeId, incarnation_of
from dataward.model.messages import Stock, Stop
from dataward.model.operations import Commit, Fail, InputFile, Operation, QueueEntry, Release
from dataward.model.states import AttemptOutcome, FailureCause, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.node.depot import Depot
from dataward.node.forecast import expected_seconds
from dataward.node.herald import Herald, Notice
from dataward.node.safekeeping import safekeeper, worth_a_copy
from dataward.node.setbacks import Setbacks
from dataward.node.settings import NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.node.telling import tell_ended, tell_finished, tell_skipped
from dataward.world import DiskFull, World


@dataclass
class Committer:
    """A commit goes to the store only when the files it names are safe on the disk."""

    world: World
    settings: NodeSettings
    store: StoreClient
    state: NodeState
    depot: Depot
    herald: Herald
    setbacks: Setbacks
    _under_way: int = 0  # operations of which the store has not answered

    async def run(self) -> None:
        outbox = self.state.outbox
        while True:
            await outbox.due()
            operations = outbox.take()
            if operations:
                self._under_way = len(operations)
                await self._send(operations)
                self._under_way = 0

    def loose_ends(self) -> dict[str, int]:
        return {"operations on their way": self._under_way}

    async def _send(self, operations: Sequence[Operation]) -> None:
        if Commit in map(type, operations):
            operations = await self._with_files_safe(operations)
        answers = await self.store.call(operations)
        for operation, answer in zip(operations, answers, strict=True):
            self._on_answer(operation, answer)

    async def _with_files_safe(self, operations: Sequence[Operation]) -> list[Operation]:
        """The operations, once all outputs are synced; if that fails, commits are given up."""
        try:
            await self.world.disk.sync()
        except DiskFull as error:
            return [self._unless_unsafe(operation, str(error)) for operation in operations]
        return list(operations)

    def _unless_unsafe(self, operation: Operation, reason: str) -> Operation:
        """The operation, unless it commits files that were waiting for the sync."""
        if type(operation) is not Commit or operation.recalled:
            return operation  # what an earlier run left needs no sync
        if not self.state.outbox.is_proposed(operation.attempt):
            return operation
        return self._give_up(operation, reason)

    def _give_up(self, commit: Commit, reason: str) -> Fail | Release:
        """What to send in place of a commit: neither task nor retries are to blame for the disk."""
        self.depot.discard_outputs(commit.held)
        outbox, setbacks = self.state.outbox, self.setbacks
        if setbacks.is_hopeless(commit.task):
            tell_ended(
                self.world, commit.task, commit.attempt, AttemptOutcome.FAILED, reason,
                FailureCause.DISK,
            )  # fmt: skip
            return outbox.withdraw(commit, reason)
        tell_ended(self.world, commit.task, commit.attempt, AttemptOutcome.RELEASED, reason)
        return outbox.release(commit, keep=setbacks.is_alone)

    # --- what the store answers ------------------------------------------------------------------

    def _on_answer(self, operation: Operation, answer: Answer) -> None:
        # Comparing types is faster than isinstance, and most operations are none of these.
        if type(operation) is Commit:
            if isinstance(answer, Committed):
                self._on_won(operation, answer)
            elif isinstance(answer, Refused):
                self._on_lost(operation, answer)
        elif type(operation) is Fail:
            self._on_failed(operation, answer)
        elif type(operation) is Release:
            self._on_released(operation, answer)
        elif type(answer) is Membership and answer.queued:
            self.state.queue.wanted.set()

    def _on_won(self, commit: Commit, answer: Committed) -> None:
        if self.state.outbox.arrived(commit.attempt):
            self.depot.keep_outputs(commit.task, commit.held)
            self.world.disk.journal(commit)
            self._tell_won(commit, answer.generation)
            self._stop(answer.rivals, commit.task, answer.generation)
            holding = self.state.identity.holdings.get(commit.task)
            if answer.children and holding is not None and not commit.recalled:
                self._send_ahead(commit, holding.ahead)
                self._have_copied(commit, holding.entry)
            self.state.outbox.let_go(commit.task)
        if answer.children:
            end = TaskState.COMPLETE
            self.herald.deliver(
                Notice(commit.task, answer.generation, end, answer.children, answer.copies)
            )

    def _send_ahead(self, commit: Commit, ahead: tuple[tuple[FileId, NodeId], ...]) -> None:
        """Have the nodes that are planned to read these outputs bring them in."""
        made = {file.id: file for file in commit.held} if ahead else {}
        for id, node in ahead:
            if id in made and node != self.world.node:
                file = InputFile(id, made[id].size_bytes, commit.task, made[id].digest)
                self.world.network.send(node, Stock((file,)))

    def _have_copied(self, commit: Commit, entry: QueueEntry) -> None:
        """Have another node bring in what took long to make, when it has time to."""
        if not self.settings.safe_bytes_per_second:
            return
        world = self.world
        seconds = expected_seconds(entry, self.state.times)
        files = worth_a_copy(commit.task, commit.held, seconds, self.settings)
        node = safekeeper(world.node, world.nodes, world.random) if files else None
        if node is not None:
            world.network.send(node, Stock(files))

    def _tell_won(self, commit: Commit, generation: int) -> None:
        if commit.recalled:
            tell_skipped(self.world, commit.task, generation)
            return
        self._ended(commit, AttemptOutcome.WON)
        self._finished(commit, TaskState.COMPLETE, generation)

    def _on_lost(self, commit: Commit, answer: Refused) -> None:
        if self.state.outbox.arrived(commit.attempt):
            self.depot.discard_outputs(commit.held)
            if not commit.recalled:
                self._ended(commit, AttemptOutcome.LOST, answer.reason.value)
            if answer.reason is Refusal.FENCED:
                self.state.lose_lease(incarnation_of(commit.attempt))
            else:
                self.state.outbox.let_go(commit.task)

    def _on_failed(self, fail: Fail, answer: Answer) -> None:
        if not self.state.outbox.arrived(fail.attempt):
            return  # proposed by an incarnation that has lost its lease
        if not isinstance(answer, Failing):
            self.state.outbox.let_go(fail.task)
        elif answer.final:
            end, generation = TaskState.FAILED, answer.generation
            self._finished(fail, end, generation)
            self._stop(answer.rivals, fail.task, generation + 1)
            self.herald.deliver(Notice(fail.task, generation, end, answer.children, ()))
            self.state.outbox.let_go(fail.task)
        else:
            # The node still holds the task and tries again, unless it was told to stop meanwhile.
            holding = self.state.identity.holdings.get(fail.task)
            if holding is not None:
                self.state.put_again(holding.entry)

    def _on_released(self, release: Release, answer: Answer) -> None:
        if self.state.outbox.arrived(release.attempt):
            assert isinstance(answer, Standing)
            self.setbacks.on_unsynced(answer, stays=release.keep)

    def _ended(self, commit: Commit, outcome: AttemptOutcome, reason: str = "") -> None:
        tell_ended(self.world, commit.task, commit.attempt, outcome, reason)

    def _finished(self, outcome: Commit | Fail, state: TaskState, generation: int) -> None:
        tell_finished(self.world, outcome.task, outcome.attempt, state, generation)

    def _stop(self, rivals: tuple[NodeId, ...], task: TaskId, generation: int) -> None:
        for rival in rivals:
            if rival != self.world.node:
                self.world.network.send(rival, Stop(task, generation))
