"""A small world for one component of a node: its test arranges it, drives time, and reads what
was asked of it. The kernel, the store and the node's own state are real; the rest does as told.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, TypeVar

from dataward.kernel import VirtualKernel
from dataward.kernel.fibers import VirtualFiber
from dataward.model.answers import Answer, Begun, Claimed, Membership, Standing
from dataward.model.events import Event, Occasion
from dataward.model.ids import AttemptId, NodeId
from dataward.model.messages import Message
from dataward.model.operations import (
    Begin,
    Claim,
    Commit,
    Enqueue,
    InputFile,
    Join,
    Operation,
    OutputFile,
    QueueEntry,
    Submit,
    TaskSpec,
)
from dataward.model.workflow import FileId, TaskId
from dataward.node.capacity import Capacity
from dataward.node.committer import Committer
from dataward.node.depot import Depot
from dataward.node.herald import Herald
from dataward.node.homes import AdageHome, Home, HomeRule, Homes, View
from dataward.node.identity import Holding
from dataward.node.mover import NodeParts
from dataward.node.placer import Placer
from dataward.node.room import Room
from dataward.node.setbacks import Setbacks
from dataward.node.settings import NodeSettings
from dataward.node.spares import Spares
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.stores.memory import MemoryStore
from dataward.world import (
    DiskFull,
    InputLost,
    Members,
    OnStart,
    RunResult,
    StoredFile,
    StoreUnavailable,
    TransferFailed,
    World,
)

T = TypeVar("T")
O = TypeVar("O")  # noqa: E741 - an operation, an event, or whatever else was seen

# --- builders ------------------------------------------------------------------------------------


def a_task(
    id: str = "t",
    *,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    made_by: str = "",
    size_bytes: int = 10,
    **fields: Any,
) -> TaskSpec:
    """A task of one core and one second that prefers n0; ``made_by`` made all that it reads."""
    plain: dict[str, Any] = {
        "id": TaskId(id),
        "type": "",
        "parents": (made_by,) if made_by else (),
        "children": (),
        "inputs": tuple(InputFile(FileId(f), size_bytes, TaskId(made_by)) for f in reads),
        "outputs": tuple(OutputFile(FileId(f), size_bytes) for f in writes),
        "estimated_seconds": 1.0,
        "cores": 1,
        "memory_bytes": 0,
        "retries": 0,
        "preferred": "n0",
        "priority": 1.0,
        "backups_max": 0,
    }
    return TaskSpec(**{**plain, **fields})


def a_queue_entry(task: str = "t", priority: float = 1.0, **fields: Any) -> QueueEntry:
    return QueueEntry(priority, TaskId(task), **{"seconds": 1.0, "spread": 0.0, **fields})


def a_membership(node: str = "n0", **fields: Any) -> Membership:
    plain = {
        "current": True,
        "up": True,
        "incarnation": 1,
        "queued": 0,
        "load_seconds": 0.0,
        "epoch": 0,
    }
    return Membership(NodeId(node), **{**plain, **fields})


# --- the parts of the world ----------------------------------------------------------------------


class FakeStore:
    """A memory store that writes down what it is asked, and fails or answers as the test says."""

    def __init__(self, kernel: VirtualKernel, log: list[Any], shards: int) -> None:
        self._memory = MemoryStore(kernel.now, shards)
        self._log = log
        self._scripted: dict[type, deque[Answer]] = {}
        self.shard_count = shards
        self.failures_left = 0  # so many calls fail, and do nothing
        self.answers = kernel.flag()  # while it is down, answers are on their way
        self.answers.set()
        self.calls: list[list[Operation]] = []

    async def call(self, operations: Sequence[Operation]) -> list[Answer]:
        self.calls.append(list(operations))
        self._log += operations
        if self.failures_left:
            self.failures_left -= 1
            raise StoreUnavailable("the store is down")
        answers = [await self._answer(operation) for operation in operations]
        await self.answers.wait()
        return answers

    async def _answer(self, operation: Operation) -> Answer:
        if scripted := self._scripted.get(type(operation)):
            return scripted.popleft()
        (answer,) = await self._memory.call([operation])
        return answer

    def will_answer(self, kind: type, *answers: Answer) -> None:
        """The next operations of this kind get these answers, and change nothing."""
        self._scripted.setdefault(kind, deque()).extend(answers)

    def lose_writes(self, shard: int = 0) -> None:
        """The shard says that it lost writes it had acknowledged."""
        self._memory._shards[shard].epoch += 1


class FakeNetwork:
    """Writes down what is sent and fetched; whom the test calls silent serves no file."""

    def __init__(self, kernel: VirtualKernel, disk: "FakeDisk") -> None:
        self._disk = disk
        self.inbox = kernel.queue()
        self.sent: list[tuple[NodeId, Message]] = []
        self.fetched: list[tuple[FileId, NodeId]] = []
        self.digests: dict[FileId, str] = {}  # by which the files fetched were asked for
        self.silent: set[str] = set()
        self.doubted: set[str] = set()
        self.together_bytes = 0
        self.rates: dict[str, float] = {}  # of links that are known beforehand

    def doubts(self, node: NodeId) -> bool:
        return node in self.doubted

    def expected_rate(self, source: NodeId) -> float | None:
        return self.rates.get(source)

    def send(self, to: NodeId, message: Message) -> None:
        self.sent.append((to, message))

    async def fetch(self, file: InputFile, source: NodeId) -> None:
        if source in self.silent:
            raise TransferFailed(f"{source} does not serve")
        if self._disk.is_full:
            raise DiskFull("the disk is full")
        self.fetched.append((file.id, source))
        self.digests[file.id] = file.digest
        self._disk.stored[file.id] = StoredFile(
            file.id, file.size_bytes, file.producer or file.id, written=False
        )


class FakeDisk:
    """Keeps names and sizes; the test says when it is full, and which files have gone."""

    capacity_bytes = 1000.0

    def __init__(self, log: list[Any]) -> None:
        self._log = log
        self.stored: dict[FileId, StoredFile] = {}
        self.commits: list[Commit] = []
        self.gone: set[str] = set()
        self.wanted: set[str] = set()
        self.is_full = False
        self.sync_fails = False
        self.earlier: set[str] = set()  # the files that an earlier run left

    def files(self) -> list[StoredFile]:
        return list(self.stored.values())

    def keep(self, file: InputFile) -> None:
        self._log.append(f"keep {file.id}")

    def is_wanted(self, file: FileId) -> bool:
        return file in self.wanted

    async def open_inputs(self, task: TaskSpec) -> None:
        if gone := [file for file in task.inputs if file.id in self.gone]:
            raise InputLost(gone)

    def output_bytes(self, task: TaskSpec) -> int:
        return sum(file.size_bytes for file in task.outputs)

    async def store_outputs(self, task: TaskSpec) -> tuple[OutputFile, ...]:
        self._log.append("store outputs")
        if self.is_full:
            raise DiskFull("the disk is full")
        for file in task.outputs:
            self.stored[file.id] = StoredFile(file.id, file.size_bytes, task.id, written=True)
        return task.outputs

    def recall(self, file: OutputFile, task: TaskId) -> bool:
        if file.id not in self.earlier:
            return False
        self.stored[file.id] = StoredFile(file.id, file.size_bytes, task, written=True)
        return True

    async def sync(self) -> None:
        self._log.append("sync")
        if self.sync_fails:
            raise DiskFull("the disk is full")

    def remove(self, file: FileId) -> None:
        self._log.append(f"remove {file}")
        self.stored.pop(file, None)

    def journal(self, commit: Commit) -> None:
        self._log.append(f"journal {commit.task}")
        self.commits.append(commit)

    def journalled(self) -> list[Commit]:
        return self.commits


class FakeRunner:
    """Runs tasks in no time, unless the test keeps them from starting or from ending."""

    def __init__(self, kernel: VirtualKernel) -> None:
        self._kernel = kernel
        self.may_start = kernel.flag()
        self.may_end = kernel.flag()
        self.may_start.set()
        self.may_end.set()
        self.given: list[TaskId] = []
        self.ended: list[TaskId] = []
        self.fails: dict[str, str] = {}  # tasks that fail by themselves, with what they say
        self.misses: set[str] = set()  # tasks whose inputs go while they wait for their turn
        self.seconds: dict[str, float] = {}  # how long tasks say that they took; else 1 s
        self.crowd = kernel.flag()  # set when a task has to wait for a core
        self.taken: list[float] = []  # for how long others have had cores
        self.slowness = 1.0  # how many times as long trials take
        self.trials: list[float] = []  # when there was one

    async def run(self, task: TaskSpec, attempt: AttemptId, on_start: OnStart) -> RunResult:
        self.given.append(task.id)
        await self.may_start.wait()
        if task.id in self.misses:
            raise InputLost(task.inputs)
        on_start(self._kernel.now())
        await self.may_end.wait()
        self.ended.append(task.id)
        error = self.fails.get(task.id, "")
        return RunResult(self._kernel.now(), error, wall_seconds=self.seconds.get(task.id, 1.0))

    async def trial(self) -> float:
        self.trials.append(self._kernel.now())
        return 0.001 * self.slowness

    async def crowded(self) -> None:
        await self.crowd.wait()
        self.crowd.clear()

    def taken_seconds(self) -> list[float]:
        return self.taken


# --- all of it -----------------------------------------------------------------------------------


@dataclass
class ARule:
    """A home rule made from a function, which is told of loads on the occasions in ``asks``."""

    choose: Callable[[Standing, Occasion, View], Home]
    asks: frozenset[Occasion] = frozenset({Occasion.ORPHANED, Occasion.REOPENED})
    needs_inputs: bool = False

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return (task.preferred,)


WORLDS: list["FakeWorld"] = []  # those of the present test, to be closed after it


class FakeWorld:
    """The world of node n0, one of a few, with the parts of that node that others share.

    ``log`` has every operation asked of the store and everything done to the disk, in order.
    """

    def __init__(
        self, *, nodes: int = 3, shards: int = 1, cores: int = 2, rule: HomeRule | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        self.kernel = VirtualKernel()
        self.settings = NodeSettings(**settings)
        self.rule: HomeRule = rule or AdageHome()
        self.log: list[Any] = []
        self.events: list[Event] = []
        self.store = FakeStore(self.kernel, self.log, shards)
        self.disk = FakeDisk(self.log)
        self.network = FakeNetwork(self.kernel, self.disk)
        self.runner = FakeRunner(self.kernel)
        self.world = World(
            node=NodeId("n0"),
            nodes=Members(NodeId(f"n{i}") for i in range(nodes)),
            incarnation=1,
            cores=cores,
            memory_bytes=100.0,
            kernel=self.kernel,
            random=Random(1),
            store=self.store,
            network=self.network,
            disk=self.disk,
            runner=self.runner,
            emit=self.events.append,
        )
        self.client = StoreClient(self.store, self.kernel, self.world.random, self.settings)
        self.state = NodeState(self.world, self.settings)
        WORLDS.append(self)

    @cached_property
    def homes(self) -> Homes:
        world = self.world
        return Homes(
            world.node, world.nodes, world.random, self.client, self.rule, self.state.queue
        )

    @cached_property
    def placer(self) -> Placer:
        return Placer(self.world, self.client, self.homes, self.settings.shuns_dead)

    @cached_property
    def committer(self) -> Committer:
        return Committer(
            self.world,
            self.settings,
            self.client,
            self.state,
            self.depot,
            self.herald,
            self.setbacks,
        )

    @cached_property
    def depot(self) -> Depot:
        return Depot(self.world, self.settings, self.client, self.state.outbox)

    @cached_property
    def capacity(self) -> Capacity:
        return Capacity(self.world, self.settings)

    @property
    def parts(self) -> NodeParts:
        return NodeParts(
            self.world, self.client, self.state, self.placer, self.depot, self.capacity
        )

    @cached_property
    def herald(self) -> Herald:
        return Herald(self.world, self.client, self.state.outbox, self.placer)

    @cached_property
    def setbacks(self) -> Setbacks:
        parts = (self.world, self.settings, self.client, self.state, self.placer, self.herald)
        return Setbacks(*parts, self.room)

    @cached_property
    def spares(self) -> Spares:
        return Spares(self.world, self.client, self.state, self.capacity, self.placer)

    @cached_property
    def room(self) -> Room:
        return Room(self.world, self.settings, self.client, self.depot)

    # --- arranging -------------------------------------------------------------------------------

    def have(self, *operations: Operation) -> list[Answer]:
        """Have these done in the store, as if by others: nothing of it is logged."""
        try:
            self.store._memory.call(operations).send(None)
        except StopIteration as done:
            return list(done.value)
        raise AssertionError("a store in memory never waits")

    def join(self, node: str = "n0", incarnation: int = 1, lease_seconds: float = 1e9) -> None:
        self.have(Join(NodeId(node), incarnation, lease_seconds))
        if node == self.world.node:
            self.state.identity.joined = True

    def hold(self, *specs: TaskSpec) -> None:
        """This node has joined and has claimed these tasks, which are not in its queue yet."""
        self.join()
        self.have(*(Submit(spec) for spec in specs))
        self.have(Enqueue(self.world.node, tuple(a_queue_entry(spec.id) for spec in specs)))
        (claimed,) = self.have(Claim(self.world.node, 1, 0, 1000, 0.0))
        assert isinstance(claimed, Claimed)
        for entry, ticket in zip(claimed.entries, claimed.tickets, strict=True):
            self.state.identity.holdings[entry.task] = Holding(entry, ticket)

    def begin(self, spec: TaskSpec) -> tuple[AttemptId, Begun]:
        """This node holds the task, and the store knows of an attempt of it."""
        self.hold(spec)
        attempt = self.state.identity.next_attempt()
        (begun,) = self.have(Begin(spec.id, attempt, self.world.node))
        assert isinstance(begun, Begun)
        return attempt, begun

    # --- acting ----------------------------------------------------------------------------------

    def do(self, act: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, however long that takes."""
        returned: list[T] = []

        async def main() -> None:
            returned.append(await act)

        fiber = self.kernel.spawn(main(), "the test")
        while not fiber.done():
            assert self.kernel.step(), "this would never return"
        return returned[0]

    def start(self, act: Coroutine[Any, Any, T]) -> VirtualFiber[T]:
        """Let a component run until it waits."""
        fiber = self.kernel.spawn(act)
        self.pass_time()
        return fiber

    def pass_time(self, seconds: float = 0.0) -> None:
        """Let everybody run, for so long."""
        self.kernel.run_until(self.kernel.now() + seconds)

    async def wait_for_ever(self) -> None:
        """For fibers that only have to be there."""
        await self.kernel.flag().wait()

    # --- looking ---------------------------------------------------------------------------------

    def asked(self, kind: type[O]) -> list[O]:
        """The operations of this kind that were sent to the store."""
        return [entry for entry in self.log if isinstance(entry, kind)]

    def told(self, kind: type[O]) -> list[O]:
        """The events of this kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def sent(self, kind: type[O]) -> list[tuple[NodeId, O]]:
        """The messages of this kind, each with whom it was sent to."""
        return [(to, message) for to, message in self.network.sent if isinstance(message, kind)]

    def known(self, task: str) -> Any:
        """The store's own record of a task."""
        for shard in self.store._memory._shards:
            if task in shard.tasks:
                return shard.tasks[TaskId(task)]
        raise KeyError(task)

    def queue_of(self, node: str) -> list[str]:
        """What is queued for a node in the store."""
        for shard in self.store._memory._shards:
            if node in shard.nodes:
                return list(shard.nodes[NodeId(node)].queued)
        return []

    def held_by(self, node: str) -> list[str]:
        """What the store thinks that a node holds."""
        for shard in self.store._memory._shards:
            if node in shard.nodes:
                return list(shard.nodes[NodeId(node)].held)
        return []
