"""Handles attempts that cannot go on, for reasons other than the task's own error."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from dataward.model.answers import Begun, Standing
from dataward.model.events import Occasion
from dataward.model.ids import AttemptId
from dataward.model.operations import (
    Look,
    Postpone,
    QueueEntry,
    Release,
    TaskSpec,
    notice_of_end,
)
from dataward.model.states import FINAL, IN_VAIN, AttemptOutcome, FailureCause
from dataward.model.workflow import TaskId
from dataward.node.herald import Herald
from dataward.node.placer import Placer
from dataward.node.ready_queue import entry_for
from dataward.node.room import Room
from dataward.node.settings import NodeSettings
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.node.telling import tell_ended
from dataward.world import Cancelled, InputLost, Unserved, World

GAVE_WAY = "another task needed the core of this spare run"
REMEDY = (
    "Give nodes more room (--capacity, a larger disk), clean runs that have ended, or add nodes"
)


class NoIdleCore(Exception):  # noqa: N818 - answered by letting go of the spare
    """When the inputs of a spare were there, no core was idle any more."""


@dataclass
class Setbacks:
    world: World
    settings: NodeSettings
    store: StoreClient
    state: NodeState
    placer: Placer
    herald: Herald
    room: Room

    @contextmanager
    def _told_if_cancelled(self, task: TaskId, attempt: AttemptId) -> Iterator[None]:
        """Say that the attempt has ended, should it be cancelled before the store has heard of it.

        The store may be out of reach until the node's lease is lost, and with it the attempt.
        """
        try:
            yield
        except Cancelled:
            tell_ended(self.world, task, attempt, AttemptOutcome.CANCELLED)
            raise

    # --- inputs that nobody has any more ---------------------------------------------------------

    async def on_input_lost(self, begun: Begun, attempt: AttemptId, lost: InputLost) -> None:
        """Have the producers run again, and let the task wait for them.

        A crash at any point leaves the producers in their shards' outboxes, and the task either
        held by this node, whose lease will expire, or waiting for notices that will come.
        """
        task = begun.spec.id
        with self._told_if_cancelled(task, attempt):
            standing = await self.store.ask(Look(task), Standing)
        if standing.state in FINAL:
            # Another attempt has won, so the inputs were removed: nobody needs them any more.
            tell_ended(self.world, task, attempt, AttemptOutcome.LOST, "finished")
            self.state.outbox.let_go(task)
            return
        generations = {task: begun.parents.get(task, 1) for task in lost.producers}
        # Nodes that had the files are down or do not serve them: others should make them again.
        had_them = {copy.node for copy in begun.copies}
        with self._told_if_cancelled(task, attempt):
            reopened = await self.placer.reopen(generations, had_them)
            standing = await self._postpone(task, attempt, generations, reopened)
        tell_ended(self.world, task, attempt, AttemptOutcome.POSTPONED, str(lost))
        if standing.state in IN_VAIN:
            # A parent has failed or was removed meanwhile, so this task ended when it had to wait.
            self.herald.cascade(standing)
        if standing.needs_node:
            self.state.put_again(self._again(standing))
            await self.placer.are_placed([standing])
        else:
            self.state.outbox.let_go(task)

    async def _postpone(
        self,
        task: TaskId,
        attempt: AttemptId,
        generations: dict[TaskId, int],
        reopened: list[Standing],
    ) -> Standing:
        """The task's standing, after ending the attempt until the producers have run again."""
        waits = [
            Postpone(task, attempt, parent, generation)
            for parent, generation in generations.items()
        ]
        # If a producer has already run again, or will never, but the task's shard forgot the notice
        # of that, repeat the notice.
        notices = [
            notice_of_end(task, p.task, p.generation, p.state, p.copies)
            for p in reopened
            if p.state in FINAL
        ]
        answers = await self.store.call([*waits, *notices, Look(task)])
        return cast(Standing, answers[-1])

    # --- a place that cannot be reached, a disk that is full -------------------------------------

    async def on_transfer_failed(self, spec: TaskSpec, attempt: AttemptId, reason: str) -> None:
        """Keep the task and try again after a while: neither task nor node is at fault."""
        await self._try_again(spec, attempt, reason, self.settings.retry_seconds_max)

    async def _try_again(
        self, spec: TaskSpec, attempt: AttemptId, reason: str, pause_seconds: float
    ) -> None:
        with self._told_if_cancelled(spec.id, attempt):
            standing = await self.store.ask(Release(spec.id, attempt, keep=True), Standing)
        tell_ended(self.world, spec.id, attempt, AttemptOutcome.RELEASED, reason)
        if pause_seconds:
            await self.world.kernel.sleep(pause_seconds)
        if standing.needs_node:
            self.state.put_again(self._again(standing))
        else:
            self.state.outbox.let_go(spec.id)

    async def on_unserved(self, spec: TaskSpec, attempt: AttemptId, missing: Unserved) -> None:
        """Wait for a node that has the input, but not for ever: it may be gone for good."""
        if missing.is_lost:
            self._fail(spec, attempt, str(missing))
        else:
            await self.on_transfer_failed(spec, attempt, str(missing))

    def _fail(
        self,
        spec: TaskSpec,
        attempt: AttemptId,
        reason: str,
        cause: FailureCause = FailureCause.TASK,
    ) -> None:
        tell_ended(self.world, spec.id, attempt, AttemptOutcome.FAILED, reason, cause)
        self.state.outbox.fail(spec.id, attempt, reason)

    async def on_disk_full(self, spec: TaskSpec, attempt: AttemptId, reason: str) -> None:
        """Try the task where there may be room: here, if files may go, or at another node.

        A task that was here before, and found no room either, waits for a while. In the end it
        fails: a person has to make room.
        """
        said = self.room.say(spec, reason)
        if self.is_hopeless(spec.id):
            self._fail(spec, attempt, f"{said}. {REMEDY}", FailureCause.DISK)
        elif await self._gains_room(spec.id, attempt):
            await self._try_again(spec, attempt, reason, 0.0)
        elif self.is_alone:
            await self._try_again(spec, attempt, reason, self.settings.retry_seconds_max)
        else:
            await self._send_elsewhere(spec, attempt, reason)

    async def _gains_room(self, task: TaskId, attempt: AttemptId) -> bool:
        with self._told_if_cancelled(task, attempt):
            return await self.room.gain()

    @property
    def is_alone(self) -> bool:
        """Whether there is no other node that a task could be sent to."""
        return self.placer.homes.is_alone

    def is_hopeless(self, task: TaskId) -> bool:
        """Whether a task that found no room is not tried again; each question counts as a try."""
        return self.room.is_hopeless(task)

    async def _send_elsewhere(self, spec: TaskSpec, attempt: AttemptId, reason: str) -> None:
        was_here_before = self.room.visits(spec.id) > 1
        release = Release(spec.id, attempt, keep=was_here_before)
        with self._told_if_cancelled(spec.id, attempt):
            standing = await self.store.ask(release, Standing)
        tell_ended(self.world, spec.id, attempt, AttemptOutcome.RELEASED, reason)
        if was_here_before:
            await self.world.kernel.sleep(self.settings.retry_seconds_max)
            standing = await self.store.ask(Look(spec.id), Standing)
        if standing.needs_node:
            replica = self._is_replica(spec.id)
            await self.placer.place_for_good([standing], Occasion.NO_ROOM, replica=replica)
        self.state.outbox.let_go(spec.id)

    # --- a spare that finds no idle core ---------------------------------------------------------

    async def on_no_idle_core(self, task: TaskId, attempt: AttemptId) -> None:
        """Let go of a spare; the task goes elsewhere if its other run is over meanwhile."""
        with self._told_if_cancelled(task, attempt):
            standing = await self.store.ask(Release(task, attempt), Standing)
        tell_ended(self.world, task, attempt, AttemptOutcome.RELEASED, GAVE_WAY)
        if standing.needs_node:
            await self.placer.place_for_good([standing], Occasion.LEFT)
        self.state.outbox.let_go(task)

    # --- a disk that lost what was stored --------------------------------------------------------

    def on_unsynced(self, standing: Standing, *, stays: bool) -> None:
        """Have a task run again whose outputs could not be synced; its attempt is released.

        The task ``stays`` if there is no other node. Returns at once: a fiber does the waiting.
        """
        spawn, node = self.world.kernel.spawn, self.world.node
        if stays and standing.needs_node:
            spawn(self._queue_later(standing), f"{node} waits for room")
            return
        self.state.outbox.let_go(standing.task)
        if standing.needs_node:
            # Until the task is placed, it is in its shard's outbox: a crash here loses nothing.
            replica = self._is_replica(standing.task)
            place = self.placer.place_for_good([standing], Occasion.NO_ROOM, replica=replica)
            spawn(place, f"{node} sends elsewhere")

    async def _queue_later(self, standing: Standing) -> None:
        identity = self.state.identity
        incarnation = identity.incarnation
        await self.world.kernel.sleep(self.settings.retry_seconds_max)
        if identity.incarnation == incarnation and standing.task in identity.holdings:
            self.state.put_again(self._again(standing))

    # --- replicas --------------------------------------------------------------------------------

    def _is_replica(self, task: TaskId) -> bool:
        """Whether this node holds the task as a replica: another node has it as its own."""
        holding = self.state.identity.holdings.get(task)
        return holding is not None and holding.entry.replica

    def _again(self, task: Standing) -> QueueEntry:
        """The entry of a task that is tried once more here; a replica stays a replica."""
        return entry_for(task, replica=self._is_replica(task.task))
