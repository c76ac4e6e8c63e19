"""Takes tasks off the ready queue and carries each from stage-in to a proposed commit."""

from dataclasses import dataclass
from typing import cast

from dataward.model.answers import Begun, Refused, Standing
from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    AttemptMeasured,
    InputsStaged,
    TaskReopened,
)
from dataward.model.operations import (
    AttemptId,
    Begin,
    Look,
    NodeId,
    Notify,
    Postpone,
    QueueEntry,
    Release,
    Reopen,
    TaskSpec,
)
from dataward.model.states import FINAL, TaskState
from dataward.model.workflow import TaskId
from dataward.node.attempts import Attempts
from dataward.node.committer import Committer
from dataward.node.decision_maker import DecisionMaker
from dataward.node.depot import Depot, InputLost
from dataward.node.herald import Herald
from dataward.node.identity import Identity, OnLeaseLost
from dataward.node.lead import Lead
from dataward.node.ready_queue import ReadyQueue, entry_for
from dataward.node.settings import NodeSettings
from dataward.node.slots import Slots
from dataward.node.store_client import StoreClient
from dataward.world import Cancelled, DiskFull, RunResult, TransferFailed, World


@dataclass
class Executor:
    """Has as many tasks under way as there are cores, and a few more.

    The inputs of those are brought in while cores are busy; short ones wait at the runner itself.
    """

    world: World
    settings: NodeSettings
    identity: Identity
    store: StoreClient
    queue: ReadyQueue
    decision_maker: DecisionMaker
    depot: Depot
    cores: Slots
    memory: Slots
    committer: Committer
    herald: Herald
    attempts: Attempts
    lead: Lead
    on_lease_lost: OnLeaseLost

    async def run(self) -> None:
        at_least = self.world.cores + self.settings.staging_ahead
        while True:
            while len(self.attempts) >= at_least + self.lead.tasks:
                await self.attempts.one_over()
            entry = await self.decision_maker.next_task()
            self.committer.load_changed()
            await self.attempts.over(entry.task)
            fiber = self.world.kernel.spawn(self._attempt(entry), f"attempt {entry.task}")
            self.attempts.begin(entry, fiber)

    async def _attempt(self, entry: QueueEntry) -> None:
        try:
            await self._try(entry)
        finally:
            self.attempts.end(entry.task)

    async def _try(self, entry: QueueEntry) -> None:
        attempt = self.identity.next_attempt()
        life = self.identity.incarnation
        try:
            (answer,) = await self.store.call([Begin(entry.task, attempt, self.world.node)])
            if isinstance(answer, Refused):
                self._on_refused(answer, life)
                return
            assert isinstance(answer, Begun)
            await self._go_on(entry, answer, attempt)
        except Cancelled:
            # Finished elsewhere, or the lease is lost; then others must find the task still held.
            if self.identity.incarnation == life:
                self.committer.let_go(entry.task)
            raise

    def _on_refused(self, answer: Refused, life: int) -> None:
        """Let go, unless the hold covers an attempt whose outcome is on its way to the store."""
        if answer.reason == "fenced":
            self.on_lease_lost(life)
        elif not (answer.reason == "under way here" and self.committer.is_about(answer.task)):
            self.committer.let_go(answer.task)

    async def _go_on(self, entry: QueueEntry, begun: Begun, attempt: AttemptId) -> None:
        now, node = self.world.kernel.now(), self.world.node
        self.world.emit(
            AttemptBegan(now, entry.task, attempt, node, entry.replica, begun.generation)
        )
        try:
            await self._carry(begun, attempt)
        except Cancelled:
            self._ended(entry.task, attempt, "cancelled")
            raise
        except InputLost as lost:
            await self._postpone(begun, attempt, lost)
        except TransferFailed as error:
            await self._try_later(begun.spec, attempt, str(error))
        except DiskFull as error:
            await self._send_elsewhere(begun.spec, attempt, str(error))

    async def _carry(self, begun: Begun, attempt: AttemptId) -> None:
        spec = begun.spec
        staged = await self.depot.bring(begun)
        try:
            now = self.world.kernel.now()
            self.world.emit(
                InputsStaged(
                    now, spec.id, attempt, self.world.node, staged.local_bytes, staged.moved_bytes
                )
            )
            result = await self._execute(spec, attempt)
            if result.error:
                self._ended(spec.id, attempt, "failed", result.error)
                self.committer.fail(spec.id, attempt, result.error)
                return
            self._advanced(spec.id, attempt, TaskState.STAGE_OUT, result.ended_at)
            outputs = await self.depot.store_outputs(spec)
        finally:
            self.depot.release(spec)
        self.committer.commit(
            spec.id, attempt, begun.generation, outputs, awaited=bool(spec.children)
        )

    async def _execute(self, spec: TaskSpec, attempt: AttemptId) -> RunResult:
        """Run the task when there are cores and memory for it; a node gives at most all it has."""

        def on_start(at: float) -> None:
            self._advanced(spec.id, attempt, TaskState.RUNNING, at)
            self.attempts.start(spec.id)

        cores = min(spec.cores, self.cores.total)
        memory_bytes = min(spec.memory_bytes, self.memory.total)
        await self.cores.take(cores)
        try:
            await self.memory.take(memory_bytes)
            try:
                result = await self.world.runner.run(spec, attempt, on_start)
            finally:
                self.memory.give_back(memory_bytes)
        finally:
            self.cores.give_back(cores)
        self.lead.learn(result.wall_seconds)
        self.cores.allow_debt(self.lead.tasks)
        self._measured(spec.id, attempt, result)
        return result

    # --- when it cannot go on --------------------------------------------------------------------

    async def _postpone(self, begun: Begun, attempt: AttemptId, lost: InputLost) -> None:
        """Have the producers run again, and wait for them as if for the first time.

        A crash at any point leaves the producers in their shards' outboxes, and the task either
        held by this node, whose lease will expire, or waiting for notices that will come.
        """
        spec = begun.spec
        standing = await self.store.ask(Look(spec.id), Standing)
        if standing.state in FINAL:
            # Another has won, and then the inputs were let go of: nobody needs them made again.
            self._ended(spec.id, attempt, "lost", "finished")
            self.committer.let_go(spec.id)
            return
        losses = [(task, begun.parents.get(task, 1)) for task in lost.producers]
        answers = await self.store.call([Reopen(task, life) for task, life in losses])
        reopened = [answer for answer in answers if isinstance(answer, Standing)]
        for answer in reopened:
            if answer.granted:
                now = self.world.kernel.now()
                self.world.emit(TaskReopened(now, answer.task, answer.generation))
        ready = [a for a in reopened if a.state is TaskState.READY and not a.live_attempts]
        # Whoever had the files is down or does not serve: not the one to make them again.
        await self.decision_maker.find_homes(ready, {copy.node for copy in begun.copies})
        # One that has run again meanwhile, but whose notice the task's shard forgot, tells it now.
        again = [
            Notify(spec.id, a.task, a.generation, copies=a.copies)
            for a in reopened
            if a.state is TaskState.COMPLETE
        ]
        waits = [Postpone(spec.id, attempt, task, life) for task, life in losses]
        standing = cast(Standing, (await self.store.call([*waits, *again, Look(spec.id)]))[-1])
        self._ended(spec.id, attempt, "postponed", str(lost))
        if standing.state is TaskState.FAILED:
            self.herald.cascade(standing)  # a parent failed while it ran, and it waits in vain
        if standing.state is TaskState.READY and not standing.live_attempts:
            self.queue.put(entry_for(standing))
            await self.herald.placed([standing])
        else:
            self.committer.let_go(spec.id)

    async def _try_later(self, spec: TaskSpec, attempt: AttemptId, reason: str) -> None:
        """Keep the task and try again after a while: nothing here is wrong with it or with us."""
        standing = await self.store.ask(Release(spec.id, attempt, keep=True), Standing)
        self._ended(spec.id, attempt, "released", reason)
        await self.world.kernel.sleep(self.settings.retry_seconds_max)
        if standing.state is TaskState.READY and not standing.live_attempts:
            self.queue.put(entry_for(standing))
        else:
            self.committer.let_go(spec.id)

    async def _send_elsewhere(self, spec: TaskSpec, attempt: AttemptId, reason: str) -> None:
        """This node cannot take the task: any other may do better. Alone, wait for room a while."""
        others = [node for node in self.world.nodes if node != self.world.node]
        if not others and self.attempts.may_wait_for_room(spec.id, self.settings):
            await self._try_later(spec, attempt, reason)
            return
        if not others:
            self._ended(spec.id, attempt, "failed", reason)
            self.committer.fail(spec.id, attempt, reason)
            return
        standing = await self.store.ask(Release(spec.id, attempt), Standing)
        self._ended(spec.id, attempt, "released", reason)
        if standing.state is TaskState.READY and not standing.live_attempts:
            target: NodeId = self.world.random.choice(others)
            await self.herald.enqueue({target: [entry_for(standing)]}, "disk full")
            await self.herald.placed([standing])
        self.committer.let_go(spec.id)

    # --- what others learn of it -----------------------------------------------------------------

    def _advanced(self, task: TaskId, attempt: AttemptId, state: TaskState, at: float) -> None:
        self.world.emit(AttemptAdvanced(at, task, attempt, self.world.node, state))
        self.committer.advance(task, attempt, state, at)

    def _measured(self, task: TaskId, attempt: AttemptId, result: RunResult) -> None:
        self.world.emit(
            AttemptMeasured(
                result.ended_at,
                task,
                attempt,
                self.world.node,
                result.exit_code,
                result.signal,
                result.wall_seconds,
                result.cpu_seconds,
                result.peak_memory_bytes,
            )
        )

    def _ended(self, task: TaskId, attempt: AttemptId, outcome: str, reason: str = "") -> None:
        now = self.world.kernel.now()
        self.world.emit(AttemptEnded(now, task, attempt, self.world.node, outcome, reason))
