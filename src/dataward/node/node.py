"""The node: its components, joined over one world."""

from dataward.model.answers import Membership
from dataward.model.events import NodeJoined
from dataward.model.messages import Confirm, Message, WorkQueued
from dataward.model.operations import Join, LetGo, Release
from dataward.model.workflow import TaskId
from dataward.node.attempts import Attempts
from dataward.node.committer import Committer
from dataward.node.decision_maker import DecisionMaker
from dataward.node.depot import Depot
from dataward.node.executor import Executor
from dataward.node.herald import Herald, Home, preferred_home
from dataward.node.identity import Identity
from dataward.node.lead import Lead
from dataward.node.load_balancer import LoadBalancer
from dataward.node.ready_queue import ReadyQueue
from dataward.node.settings import NodeSettings
from dataward.node.slots import Slots
from dataward.node.store_client import StoreClient
from dataward.node.validator import Validator
from dataward.world import Fiber, World


class Node:
    """Runs workflows' tasks until stopped. Knows nothing of simulation."""

    def __init__(self, world: World, settings: NodeSettings, home: Home = preferred_home) -> None:
        self.world = world
        self.settings = settings
        self.identity = Identity(world.node, world.incarnation)
        self.store = StoreClient(world.store, world.kernel, world.random, settings)
        self.queue = ReadyQueue(world.kernel.flag(), world.kernel.flag())
        self.attempts = Attempts(world.kernel)
        self.herald = Herald(world, self.store, home)
        self.depot = Depot(world, settings, self.store)
        self.committer = Committer(
            world, settings, self.identity, self.store, self.herald, self.depot, self.queue
        )
        self.herald.later = self.committer.later
        self.depot.announce = self.committer.announce
        self.depot.retract = self.committer.retract
        self.committer.on_lease_lost = self._on_lease_lost
        self.decision_maker = DecisionMaker(
            world, settings, self.identity, self.store, self.queue, self.herald,
            self.attempts.__contains__, self._on_lease_lost,
        )  # fmt: skip
        self.balancer = LoadBalancer(
            world, settings, self.store, self.queue, self.committer, self.herald
        )
        self.committer.on_queued = self.decision_maker.look
        self.validator = Validator(
            world, settings, self.identity, self.store, self.queue, self.committer, self.herald,
            self.decision_maker, self._on_lease_lost,
        )  # fmt: skip
        self.cores = Slots(world.kernel, world.cores)
        self.memory = Slots(world.kernel, world.memory_bytes)
        self.lead = Lead(settings, world.cores)
        self._fibers: list[Fiber[None]] = []

    def start(self) -> None:
        """Start every component, in an order that never changes."""
        spawn = self.world.kernel.spawn
        name = self.world.node
        self._fibers = [spawn(self._join_first(), f"{name} join")]
        components = [
            ("committer", self.committer.run()),
            ("herald", self.herald.run()),
            ("inbox", self._read_inbox()),
            ("validator", self.validator.run()),
            ("patrol", self.validator.patrol()),
        ]
        if self.settings.giving:
            components.append(("balancer", self.balancer.run()))
        self._fibers += [spawn(run, f"{name} {what}") for what, run in components]
        executor = Executor(
            self.world, self.settings, self.identity, self.store, self.queue,
            self.decision_maker, self.depot, self.cores, self.memory, self.committer,
            self.herald, self.attempts, self.lead, self._on_lease_lost,
        )  # fmt: skip
        self._fibers.append(spawn(executor.run(), f"{name} executor"))

    def stop(self) -> None:
        """Stop every component, last started first."""
        self.attempts.cancel_all()
        for fiber in reversed(self._fibers):
            fiber.cancel()

    def drain(self) -> None:
        """Begin nothing more. What runs goes on, and is committed when it ends."""
        self.decision_maker.draining = True
        self.attempts.cancel_unstarted()

    @property
    def is_idle(self) -> bool:
        """Whether no attempt is under way, nor any outcome on its way to the store."""
        return not self.attempts and not self.committer.is_busy

    async def _join_first(self) -> None:
        await self._join()
        await self.depot.recover()
        await self.decision_maker.run()

    async def _join(self) -> None:
        member = await self.store.ask(
            Join(self.world.node, self.identity.incarnation, self.settings.lease_seconds),
            Membership,
        )
        if not member.current:
            # Another incarnation of ours is known that we do not remember: outrank it.
            self.identity.incarnation = member.incarnation + 1
            await self._join()
            return
        self.identity.joined = True
        now = self.world.kernel.now()
        self.world.emit(NodeJoined(now, self.world.node, self.identity.incarnation))
        self.decision_maker.look()

    def _on_lease_lost(self, incarnation: int) -> None:
        """Others are taking over what this node held: let it all go and come back as new."""
        if incarnation != self.identity.incarnation or not self.identity.joined:
            return  # an earlier life, or one that has no lease to lose yet
        self.attempts.cancel_all()
        self.queue.clear()
        self.committer.forget()
        self.identity.be_reborn()
        self.world.kernel.spawn(self._join(), f"{self.world.node} rejoin")

    def _knows(self, task: TaskId) -> bool:
        return task in self.queue or task in self.attempts or self.committer.is_about(task)

    async def _give_up(self, question: Confirm) -> None:
        """The store remembers an attempt that this node does not: let others have the task."""
        await self.store.call([Release(question.task, question.attempt)])
        life = self.identity.incarnation
        self.identity.holdings.pop(question.task, None)
        await self.store.call([LetGo(self.world.node, life, ((question.task, -1),))])
        await self.herald.place_again(question.task)

    async def _read_inbox(self) -> None:
        while True:
            self._on_message(await self.world.network.inbox.get())

    def _on_message(self, message: Message) -> None:
        if isinstance(message, WorkQueued):
            self.decision_maker.look()
            return
        if isinstance(message, Confirm):
            if not self._knows(message.task):
                self.world.kernel.spawn(self._give_up(message), f"{self.world.node} give up")
            return
        if self.queue.remove(message.task, message.generation):
            self.committer.let_go(message.task)
            self.committer.load_changed()
        else:
            self.attempts.cancel(message.task, message.generation)
