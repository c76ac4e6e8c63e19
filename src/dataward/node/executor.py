"""Takes tasks off the ready queue and carries each from stage-in to a proposed commit."""

from dataclasses import dataclass

from dataward.model.answers import Begun, Refusal, Refused
from dataward.model.estimate import estimate_of
from dataward.model.events import AttemptBegan, InputsStaged
from dataward.model.ids import AttemptId
from dataward.model.operations import Begin, QueueEntry, TaskSpec
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import TaskId
from dataward.node.binding import Binder
from dataward.node.capacity import Capacity
from dataward.node.depot import Depot, Staged
from dataward.node.recall import recall
from dataward.node.setbacks import GAVE_WAY, NoIdleCore, Setbacks
from dataward.node.spares import Spares
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.node.telling import tell_advanced, tell_due, tell_ended, tell_measured
from dataward.world import (
    Cancelled,
    DiskFull,
    InputLost,
    RunResult,
    TransferFailed,
    Unserved,
    World,
)


@dataclass
class Executor:
    """Has as many attempts under way as there are cores, and a few more.

    The inputs of these few are fetched while all cores are busy; short tasks then wait at the
    runner.
    """

    world: World
    store: StoreClient
    state: NodeState
    depot: Depot
    setbacks: Setbacks
    binder: Binder
    spares: Spares

    @property
    def capacity(self) -> Capacity:
        """The cores and memory, which spares have while nothing else wants them."""
        return self.spares.capacity

    async def run(self) -> None:
        attempts = self.state.attempts
        while True:
            while not self.capacity.may_begin(len(attempts), attempts.staged):
                await attempts.one_moved_on()
            entry = await self._next_entry()
            self.state.outbox.load_changed()
            await attempts.over(entry.task)
            self._begin(entry)

    async def run_spares(self) -> None:
        """Run tasks of other nodes, too, while cores are idle."""
        while True:
            self._begin(await self.spares.next_entry())

    def _begin(self, entry: QueueEntry) -> None:
        fiber = self.world.kernel.spawn(self._attempt(entry), f"attempt {entry.task}")
        self.state.attempts.begin(entry, fiber)

    async def _next_entry(self) -> QueueEntry:
        """The most urgent task of the ready queue, as soon as there is one."""
        queue = self.state.queue
        while True:
            if self.state.is_draining:
                await self.world.kernel.flag().wait()  # for ever
            entry = queue.take_to_start()
            if entry is not None:
                return entry
            queue.hungry.set()
            queue.wanted.set()
            await queue.grown.wait(queue.held_seconds)

    async def _attempt(self, entry: QueueEntry) -> None:
        try:
            await self._try(entry)
        finally:
            self.state.attempts.end(entry.task)
            if self.state.is_out_of_work:
                self.state.outbox.hurry()

    async def _try(self, entry: QueueEntry) -> None:
        identity = self.state.identity
        attempt, incarnation = identity.next_attempt(), identity.incarnation
        try:
            if await self.binder.sends_away(entry):
                return
            (answer,) = await self.store.call([Begin(entry.task, attempt, self.world.node)])
            if isinstance(answer, Refused):
                self._on_refused(answer, incarnation)
                return
            assert isinstance(answer, Begun)
            await self._go_on(entry, answer, attempt)
        except Cancelled:
            # The task has finished elsewhere, another node is to run it, or the lease is lost. Who
            # called the attempt off still has to release it; after a lost lease the task must stay
            # held by the old incarnation, so that others find it.
            is_off = self.state.attempts.is_called_off(entry.task)
            if identity.incarnation == incarnation and not is_off:
                self.state.outbox.let_go(entry.task)
            raise

    def _on_refused(self, answer: Refused, incarnation: int) -> None:
        """Let go of the task, unless an outcome of another attempt here is on its way."""
        outbox = self.state.outbox
        if answer.reason is Refusal.FENCED:
            self.state.lose_lease(incarnation)
        elif not (answer.reason is Refusal.UNDER_WAY_HERE and outbox.is_about(answer.task)):
            outbox.let_go(answer.task)

    async def _go_on(self, entry: QueueEntry, begun: Begun, attempt: AttemptId) -> None:
        if self._recalls(begun, attempt):
            return
        now, node = self.world.kernel.now(), self.world.node
        output_bytes = sum(file.size_bytes for file in begun.spec.outputs)
        self.state.attempts.begun(entry.task, attempt, output_bytes)
        self.world.emit(
            AttemptBegan(now, entry.task, attempt, node, entry.replica, begun.generation)
        )
        try:
            await self._carry(begun, attempt)
        except Cancelled:
            self._tell_cancelled(entry.task, attempt)
            raise
        except NoIdleCore:
            await self.setbacks.on_no_idle_core(begun.spec.id, attempt)
        except InputLost as lost:
            await self.setbacks.on_input_lost(begun, attempt, lost)
        except Unserved as error:
            await self.setbacks.on_unserved(begun.spec, attempt, error)
        except TransferFailed as error:
            await self.setbacks.on_transfer_failed(begun.spec, attempt, str(error))
        except DiskFull as error:
            await self.setbacks.on_disk_full(begun.spec, attempt, str(error))

    def _tell_cancelled(self, task: TaskId, attempt: AttemptId) -> None:
        attempts = self.state.attempts
        if not attempts.is_called_off(task):
            tell_ended(self.world, task, attempt, AttemptOutcome.CANCELLED)
        elif attempts.is_spare(task):
            why = "its node leaves" if self.state.is_draining else GAVE_WAY
            tell_ended(self.world, task, attempt, AttemptOutcome.RELEASED, why)
        else:
            tell_ended(self.world, task, attempt, AttemptOutcome.SENT_ON)

    def _recalls(self, begun: Begun, attempt: AttemptId) -> bool:
        """Whether the task need not run: what it wrote in an earlier run is proposed instead."""
        task, found = begun.spec.id, recall(begun, self.depot)
        if found is None:
            return False
        if found.due:
            tell_due(self.world, task, found.due)
            return False
        self.state.outbox.recall(task, attempt, found.outputs, found.absent)
        return True

    async def _carry(self, begun: Begun, attempt: AttemptId) -> None:
        """Fetch the inputs, run the task, store its outputs, propose the commit."""
        spec, began = begun.spec, self.world.kernel.now()
        staged = await self.depot.bring(begun)
        if staged.moved_bytes:
            self.state.learned.moved(self.world.kernel.now() - began, staged.moved_bytes)
        try:
            self._staged(spec.id, attempt, staged)
            result = await self._execute(spec, attempt)
            if result.error:
                reason, cause = result.error, result.cause
                tell_ended(self.world, spec.id, attempt, AttemptOutcome.FAILED, reason, cause)
                self.state.outbox.fail(spec.id, attempt, reason)
                return
            self._advanced(spec.id, attempt, TaskState.STAGE_OUT, result.ended_at)
            outputs = await self.depot.store_outputs(spec)
        except InputLost as lost:
            for file in lost.files:
                self.depot.drop(file.id)
            if not all(lost.producers):  # nobody makes it, but another node may have it
                raise TransferFailed(str(lost)) from lost
            raise
        finally:
            self.depot.release(spec)
        if spec.ahead:
            self.state.identity.send_ahead(spec.id, spec.ahead)
        self.state.outbox.commit(
            spec.id, attempt, begun.generation, outputs, awaited=bool(spec.children)
        )

    async def _execute(self, spec: TaskSpec, attempt: AttemptId) -> RunResult:
        """The result of the task, run when there are cores and memory for it."""

        def on_start(at: float) -> None:
            self._advanced(spec.id, attempt, TaskState.RUNNING, at)
            self.state.attempts.start(spec.id)

        await self._take_cores(spec)
        try:
            result = await self.world.runner.run(spec, attempt, on_start)
        finally:
            self.capacity.give_back(spec)
            self.state.attempts.finish_run(spec.id)
        self.capacity.learn(result.wall_seconds)
        if not result.error:
            self.state.learn(spec, result.wall_seconds)
            self.state.learned.ran(result.wall_seconds)
        tell_measured(self.world, spec.id, attempt, result)
        return result

    async def _take_cores(self, spec: TaskSpec) -> None:
        """Wait for cores and memory; a spare waits for none."""
        self.state.attempts.stage(spec.id)
        if not self.state.attempts.is_spare(spec.id):
            await self._give_way(spec)
            return await self.spares.take_cores(spec)
        if not self.capacity.has_room_for(spec):
            raise NoIdleCore
        await self.capacity.take(spec)

    async def _give_way(self, spec: TaskSpec) -> None:
        """Leave free cores to more urgent tasks whose inputs are still coming, but not for long.

        Otherwise a task that is staged a moment too late might wait for one that runs for hours.
        """
        attempts, kernel = self.state.attempts, self.world.kernel
        if not self.capacity.give_way_share:
            return
        given = estimate_of(spec.estimated_seconds, spec.estimated_spread)
        expected = self.state.times.expected_seconds(given, spec.type)
        until = kernel.now() + self.capacity.give_way_share * expected
        while (left := until - kernel.now()) > 0:
            before = attempts.staging_before(spec.priority)
            wanted = before + spec.cores - len(attempts.spares())
            if not before or self.capacity.has_cores_for(wanted):
                return  # with nobody to give way to, it must be in line when a core comes free
            await attempts.one_moved_on(left)

    def _staged(self, task: TaskId, attempt: AttemptId, staged: Staged) -> None:
        now, node = self.world.kernel.now(), self.world.node
        self.world.emit(
            InputsStaged(now, task, attempt, node, staged.local_bytes, staged.moved_bytes)
        )

    def _advanced(self, task: TaskId, attempt: AttemptId, state: TaskState, at: float) -> None:
        tell_advanced(self.world, task, attempt, state, at)
        self.state.outbox.advance(task, attempt, state, at)
