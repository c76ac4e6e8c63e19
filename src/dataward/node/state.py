"""A node's state: its incarnation and holdings, ready queue, pool, attempts, and outbox.

The node's components share this state. Nothing here waits; the components do.
"""

from collections.abc import Sequence
from math import inf

from dataward.model.messages import PromisedSlot
from dataward.model.operations import Commit, QueueEntry, Shelf, TaskSpec
from dataward.model.workflow import TaskId
from dataward.node.attempts import Attempts
from dataward.node.core_promises import CorePromises
from dataward.node.identity import Identity
from dataward.node.learned import Learned
from dataward.node.learned_times import LearnedTimes
from dataward.node.outbox import Outbox
from dataward.node.pace import MachinePace
from dataward.node.pool import Pool
from dataward.node.ready_queue import LoadMeasure, ReadyQueue, TakeOrder
from dataward.node.settings import NodeSettings
from dataward.world import World


class NodeState:
    """One node's state, from its start to its end, through all its incarnations."""

    def __init__(
        self,
        world: World,
        settings: NodeSettings,
        order: TakeOrder = TakeOrder.URGENCY,
        load: LoadMeasure = LoadMeasure.SECONDS,
    ) -> None:
        self.identity = Identity(world.node, world.incarnation)
        self.times = LearnedTimes(world.speed)
        is_promised = order is TakeOrder.PROMISED
        self.promises = CorePromises(world.cores, world.shared_cores) if is_promised else None
        self.queue = ReadyQueue(
            world.kernel, settings.past_entries_max, order, load, self.times, self.promises
        )
        self.pool = Pool(world.kernel)
        self.spares = Pool(world.kernel)  # tasks that wait for an idle core, as spares
        self.outbox = Outbox(world, settings, self.identity, self.queue)
        self.attempts = Attempts(world.kernel, self.outbox.let_go, self._on_end)
        self.learned = Learned()
        self.pace = MachinePace()
        self.overrun_seconds = 0.0  # that the tasks run here took longer than estimated, in all
        self.lease_lost = world.kernel.flag()
        self._abandoned: list[Commit] = []
        self._is_draining = False

    def promise(self, slots: Sequence[PromisedSlot]) -> None:
        """Keep these promises from now on."""
        if self.promises is not None:
            self.promises.promise(slots)
            self.queue.look_again()

    def _on_end(self, task: TaskId) -> None:
        if self.promises is not None:
            self.promises.end(task)
            self.queue.look_again()

    @property
    def is_draining(self) -> bool:
        """Whether no more attempts are begun; those that run may end."""
        return self._is_draining

    @property
    def is_idle(self) -> bool:
        """Whether no attempt is under way, and no outcome on its way to the store."""
        return not self.attempts.all and not self.outbox.is_busy

    @property
    def is_out_of_work(self) -> bool:
        """Whether no attempt is under way, and none will begin with what the node has."""
        return not self.attempts and (not self.queue or self.is_draining)

    def knows(self, task: TaskId) -> bool:
        """Whether the task waits or runs here, or its outcome is on its way to the store."""
        waits = task in self.queue or task in self.pool or task in self.spares
        return waits or task in self.attempts or self.outbox.is_about(task)

    def put(self, entry: QueueEntry) -> None:
        """Put a task that this node holds where it waits."""
        if entry.shelf is Shelf.POOLED:
            self.pool.put(entry)
        elif entry.shelf is Shelf.SPARE:
            self.spares.put(entry)
        else:
            self.queue.put(entry)

    def put_again(self, entry: QueueEntry) -> None:
        """Let a task that was begun here wait again, and tell of the load."""
        self.queue.put(entry)
        self.outbox.load_changed()

    def remove(self, task: TaskId, up_to_generation: int) -> bool:
        """Whether a waiting task was taken out: only if it waits for this generation or earlier."""
        if self.promises is not None:
            self.promises.forget(task)
        places = (self.queue, self.pool, self.spares)
        return any(place.remove(task, up_to_generation) for place in places)

    def learn(self, task: TaskSpec, seconds: float) -> None:
        """Record how long a task ran here, and weigh the waiting ones by it.

        The load that changes by that is told with the attempt's next step.
        """
        is_guess = task.estimated_spread == inf
        if not is_guess:
            self.overrun_seconds += seconds - task.estimated_seconds / self.times.speed
        self.times.learn(task.type, seconds, 0.0 if is_guess else task.estimated_seconds)
        self.queue.weigh_again()

    def loose_ends(self) -> dict[str, int]:
        """How many of each thing the node keeps that must be 0 when there is no work left."""
        return {
            "tasks held": len(self.identity.holdings),
            "attempts under way": self.attempts.all,
            "abandoned commits": len(self._abandoned),
            "tasks in the pool": len(self.pool),
            "spares that wait": len(self.spares),
            **self.queue.loose_ends(),
            **(self.promises.loose_ends() if self.promises is not None else {}),
            **self.outbox.loose_ends(),
        }

    def begin_no_more(self) -> None:
        """Begin no more tasks. Those that were begun go on, and are committed when they end."""
        self._is_draining = True
        self.queue.hungry.clear()  # so that no mover fetches more

    def drain(self) -> None:
        """Begin no more tasks, and cancel those that do not run yet."""
        self.begin_no_more()
        self.attempts.cancel_unstarted()

    def lose_lease(self, incarnation: int) -> None:
        """Drop everything this incarnation holds, since others take it over; become the next.

        Nothing happens if that incarnation is already past, or has not joined and so has no lease.
        """
        if incarnation != self.identity.incarnation or not self.identity.joined:
            return
        self.attempts.cancel_all()
        self.queue.clear()
        self.pool.clear()
        self.spares.clear()
        self._abandoned += self.outbox.forget()
        self.identity.become(incarnation + 1)
        self.lease_lost.set()

    def take_abandoned(self) -> list[Commit]:
        """The commits that were on their way when a lease was lost, each returned once."""
        abandoned, self._abandoned = self._abandoned, []
        return abandoned
