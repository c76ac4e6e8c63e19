"""The node: its components, joined over one world."""

from collections.abc import Collection, Mapping

from dataward.model.ids import NodeId
from dataward.model.messages import (
    Confirm,
    FetchOver,
    HoldOn,
    KeepPromises,
    MayFetch,
    Message,
    Stock,
    Stop,
    TellChildren,
    WantFile,
    WorkQueued,
)
from dataward.model.operations import LetGo, Release
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.node.binding import Binder
from dataward.node.capacity import Capacity
from dataward.node.committer import Committer
from dataward.node.decision_maker import DecisionMaker
from dataward.node.depot import Depot
from dataward.node.executor import Executor
from dataward.node.herald import Herald, Notice
from dataward.node.homes import Homes
from dataward.node.lease import Lease
from dataward.node.leaving import Leaving
from dataward.node.mover import NodeParts
from dataward.node.patrol import ShardPatrol
from dataward.node.placer import Placer
from dataward.node.room import Room
from dataward.node.rules import Rules
from dataward.node.serving import Serving
from dataward.node.setbacks import Setbacks
from dataward.node.spares import Spares
from dataward.node.state import NodeState
from dataward.node.stocking import Stocker
from dataward.node.store_client import StoreClient
from dataward.node.validator import Validator
from dataward.world import Fiber, World

_ABOUT_FETCHING = (MayFetch, HoldOn)


class Node:
    """Runs tasks of workflows until stopped, in either world."""

    def __init__(self, world: World, rules: Rules) -> None:
        settings = rules.settings
        self._world = world
        self._state = state = NodeState(world, settings, rules.order, rules.load)
        self._store = store = StoreClient(world.store, world.kernel, world.random, settings)
        homes = Homes(
            world.node, world.nodes, world.random, store, rules.home, state.queue, state.learned
        )
        self._placer = placer = Placer(world, store, homes, settings.shuns_dead)
        self._depot = depot = Depot(world, settings, store, state.outbox)
        self._serving = Serving(world, settings, depot.__contains__, depot.relays)
        depot.watch(self._serving)
        self._stocker = Stocker(world, depot)
        self._herald = herald = Herald(world, store, state.outbox, placer)
        self._room = room = Room(world, settings, store, depot)
        setbacks = Setbacks(world, settings, store, state, placer, herald, room)
        self._committer = Committer(world, settings, store, state, depot, herald, setbacks)
        self._decision_maker = DecisionMaker(world, settings, store, state)
        self._lease = Lease(world, settings, store, state, depot)
        self._patrol = ShardPatrol(world, settings, store, state.outbox, placer, herald)
        self._validator = Validator(world, settings, store, state, self._patrol)
        self._capacity = capacity = Capacity(world, settings)
        binder = Binder(rules.binding, state, placer)
        self._spares = spares = Spares(world, store, state, capacity, placer)
        self._executor = Executor(world, store, state, depot, setbacks, binder, spares)
        self._mover = rules.mover.at(NodeParts(world, store, state, placer, depot, capacity))
        self._leaving = Leaving(world, store, state, placer, depot, self._is_speaking)
        self._fibers: list[Fiber[None]] = []

    def start(self) -> None:
        """Start every component, in an order that never changes."""
        components = [
            ("join", self._join()),
            ("rejoin", self._lease.rejoin()),
            ("committer", self._committer.run()),
            ("herald", self._herald.run()),
            ("inbox", self._read_inbox()),
            ("lease", self._lease.keep()),
            ("validator", self._validator.run()),
            ("executor", self._executor.run()),
            ("spares", self._executor.run_spares()),
            ("giving way", self._spares.give_way()),
            ("making room", self._spares.make_room()),
            ("stocker", self._stocker.run()),
            *(("mover", loop) for loop in self._mover.loops()),
        ]
        spawn, name = self._world.kernel.spawn, self._world.node
        self._fibers = [spawn(run, f"{name} {what}") for what, run in components]

    def stop(self) -> None:
        """Stop every component, last started first."""
        self._state.attempts.cancel_all()
        for fiber in reversed(self._fibers):
            fiber.cancel()

    def look_again(self) -> None:
        """Look again for a task that may start, since others on this machine have news."""
        self._state.queue.look_again()

    def drain(self) -> None:
        """Begin no more tasks. Those that run go on, and are committed when they end."""
        self._state.drain()

    async def leave(self) -> None:
        """Hand tasks and files over to other nodes, stop, and give up the node's membership.

        Whoever waits for this no longer may cancel it and stop the node: then everything is as
        after a crash.
        """
        await self._leaving.hand_over()
        self.stop()
        await self._leaving.go()

    def give_up(self, node: NodeId, before: int) -> None:
        """Have the tasks of another node taken over, which is known to have ended."""
        self._world.kernel.spawn(self._patrol.give_up(node, before), f"{node} is given up")

    def _is_speaking(self) -> bool:
        """Whether children are being told, operations sent, or a shard repaired by a patrol."""
        unsaid = {**self._committer.loose_ends(), **self._herald.loose_ends()}
        return self._patrol.is_under_way or any(unsaid.values())

    def drop(self, file: FileId) -> None:
        """Remove a file that nobody will ask for again."""
        self._depot.drop(file)

    async def give_way(self) -> None:
        """Let go of all files that may go: another run on this machine finds no room."""
        await self._room.gain()
        self._depot.shed()

    @property
    def waits_for_room(self) -> str:
        """A sentence about a task that found no room in this node's depot lately, or ""."""
        return self._room.said

    @property
    def is_idle(self) -> bool:
        """Whether no attempt is under way, and no outcome on its way to the store."""
        return self._state.is_idle

    @property
    def running(self) -> int:
        """How many attempts have a process that runs, or has run."""
        return self._state.attempts.started

    @property
    def incarnation(self) -> int:
        return self._state.identity.incarnation

    @property
    def load_seconds(self) -> float:
        """How much work waits in the ready queue: what the store should be told."""
        return self._state.queue.load_seconds

    @property
    def is_missing_work(self) -> bool:
        """Whether tasks wait in the ready queue though fewer are under way than there are cores.

        Not if the node is about to stop: then it begins none.
        """
        state = self._state
        has_core = len(state.attempts) < self._world.cores
        return state.queue.has_startable and has_core and not state.is_draining

    @property
    def has_no_work(self) -> bool:
        """Whether the node could begin a task and has none, so that its mover may ask for some."""
        return self._state.queue.hungry.is_set()

    @property
    def attempts_begun(self) -> int:
        """How many attempts this node has begun so far."""
        return self._state.identity.attempts

    @property
    def pooled(self) -> Collection[TaskId]:
        """The tasks that the node keeps for others to ask for."""
        return self._state.pool.tasks()

    def loose_ends(self) -> dict[str, int]:
        """How many of each thing the node keeps that must be 0 when there is no work left."""
        return {
            **self._state.loose_ends(),
            **self._depot.loose_ends(),
            **self._serving.loose_ends(),
            **self._stocker.loose_ends(),
            **self._capacity.loose_ends(),
            **self._committer.loose_ends(),
            **self._herald.loose_ends(),
            **self._mover.loose_ends(),
        }

    async def _join(self) -> None:
        """Join, take over the files on the disk, and only then ask for tasks."""
        await self._lease.join()
        await self._depot.recover()
        await self._decision_maker.run()

    # --- messages --------------------------------------------------------------------------------

    async def _read_inbox(self) -> None:
        while True:
            self._on_message(await self._world.network.inbox.get())

    def _on_message(self, message: Message) -> None:
        state = self._state
        if isinstance(message, WorkQueued):
            state.queue.wanted.set()
        elif isinstance(message, Confirm):
            if not state.knows(message.task):
                self._world.kernel.spawn(self._give_up(message), f"{self._world.node} give up")
        elif isinstance(message, Stop):
            self._stop(message)
        elif isinstance(message, WantFile):
            self._serving.on_want(message)
        elif isinstance(message, FetchOver):
            self._serving.on_over(message)
        elif isinstance(message, _ABOUT_FETCHING):
            self._depot.on_message(message)
        elif isinstance(message, TellChildren):
            task, generation, children = message.task, message.generation, message.children
            self._herald.deliver(Notice(task, generation, TaskState.REMOVED, children, ()))
        elif isinstance(message, KeepPromises):
            state.promise(message.slots)
        elif isinstance(message, Stock):
            if message.for_good:
                self._stocker.take_over(message.files)
            else:
                self._stocker.stock(message.files, keep=message.keep)
        else:
            self._mover.on_message(message)

    async def run_again(self, generations: Mapping[TaskId, int]) -> None:
        """Have complete tasks run again, each unless it has ended once more since."""
        await self._placer.reopen(generations)

    def _stop(self, message: Stop) -> None:
        """Drop a queued task that has ended elsewhere, or cancel the attempt at it."""
        state = self._state
        if state.remove(message.task, message.generation):
            state.outbox.let_go(message.task)
            state.outbox.load_changed()
        else:
            state.attempts.cancel(message.task, message.generation)

    async def _give_up(self, question: Confirm) -> None:
        """Give up an attempt that the store remembers but this node does not; queue the task."""
        await self._store.call([Release(question.task, question.attempt)])
        incarnation = self._state.identity.incarnation
        self._state.identity.holdings.pop(question.task, None)
        await self._store.call([LetGo(self._world.node, incarnation, ((question.task, -1),))])
        await self._placer.place_again(question.task)
