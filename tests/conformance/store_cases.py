"""A store to put questions to, with a clock moved by hand, and small tasks to fill it with."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataward.kernel import VirtualKernel
from dataward.model.answers import (
    Answer,
    Claimed,
    Findings,
    Membership,
    Orphans,
    Page,
    Standing,
    Suspect,
    Tallied,
    Undelivered,
    Unfinished,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.operations import (
    Advance,
    Begin,
    Claim,
    Commit,
    Copy,
    Delivered,
    Enqueue,
    Fail,
    Forget,
    InputFile,
    Join,
    LetGo,
    Look,
    Notify,
    Operation,
    OutputFile,
    Patrol,
    Postpone,
    Probe,
    QueueEntry,
    Recount,
    Release,
    Remove,
    Renew,
    Reopen,
    Replicate,
    Submit,
    TakeOver,
    Tally,
    TaskSpec,
)
from dataward.model.states import TaskState
from dataward.world import Store

LEASE = 60.0
STALE = 10.0
HOLD = 5.0  # no patrol's hold is longer than this
NEVER = 1e9


@dataclass
class HandClock:
    """Stands still until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class KernelClock:
    """The clock of a virtual kernel, which a test moves by running it on."""

    kernel: VirtualKernel

    @property
    def now(self) -> float:
        return self.kernel.now()

    def move(self, seconds: float) -> None:
        self.kernel.run_until(self.kernel.now() + seconds)


def run_on(kernel: VirtualKernel) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """What runs one coroutine after another on the same kernel, each to its end."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        ends: list[tuple[Any, Exception | None]] = []

        async def keep_end() -> None:
            try:
                ends.append((await main, None))
            except Exception as error:
                ends.append((None, error))

        fiber = kernel.spawn(keep_end(), "main")
        while not fiber.done():
            assert kernel.step(), "it would wait for ever"
        result, error = ends[0]
        if error is not None:
            raise error
        return result

    return run


def run_alone(main: Coroutine[Any, Any, Any]) -> Any:
    return VirtualKernel().run(main)


def a_task(
    id: str,
    *,
    parents: Sequence[str] = (),
    children: Sequence[str] = (),
    outputs: Sequence[str] = (),
    retries: int = 0,
    backups_max: int = 2,
    priority: float = 1.0,
    seconds: float = 3.0,
    spread: float = 0.0,
    preferred: NodeId = "n1",
) -> TaskSpec:
    """A task that reads one file of each parent, named for the parent."""
    return TaskSpec(
        id=id,
        type="a type",
        parents=tuple(parents),
        children=tuple(children),
        inputs=tuple(InputFile(f"{parent}.out", 10, parent) for parent in parents),
        outputs=tuple(OutputFile(file, 10) for file in outputs or (f"{id}.out",)),
        estimated_seconds=seconds,
        cores=1,
        memory_bytes=0,
        retries=retries,
        preferred=preferred,
        priority=priority,
        backups_max=backups_max,
        estimated_spread=spread,
    )


def entry(task: str, priority: float = 1.0, seconds: float = 3.0) -> QueueEntry:
    return QueueEntry(priority, task, False, seconds)


def node_of(attempt: AttemptId) -> NodeId:
    return attempt.rsplit(".", 2)[0]


@dataclass
class Found:
    """What one patrol of every shard came upon."""

    orphans: list[Orphans] = field(default_factory=list)
    undelivered: list[Undelivered] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)

    def orphaned(self, node: NodeId) -> list[str]:
        return [e.task for o in self.orphans if o.node == node for e in o.entries]

    def untold(self) -> list[str]:
        return sorted(u.task for u in self.undelivered if not u.placement)

    def unplaced(self) -> list[str]:
        return sorted(u.task for u in self.undelivered if u.placement)


@dataclass
class Asker:
    """Asks a store, one sentence a question. Attempts are named node.incarnation.count."""

    store: Store
    clock: HandClock | KernelClock
    run: Callable[[Coroutine[Any, Any, Any]], Any]
    _requests: int = 0

    def call(self, *operations: Operation) -> list[Answer]:
        answers: list[Answer] = self.run(self.store.call(operations))
        return answers

    def ask(self, operation: Operation) -> Any:
        (answer,) = self.call(operation)
        return answer

    def submit(self, *specs: TaskSpec) -> list[Any]:
        return self.call(*(Submit(spec) for spec in specs))

    def begin(self, task: str, attempt: AttemptId) -> Any:
        return self.ask(Begin(task, attempt, node_of(attempt)))

    def advance(self, task: str, attempt: AttemptId, state: TaskState) -> Standing:
        return self.ask(Advance(task, attempt, state, self.clock.now))

    def commit(self, task: str, attempt: AttemptId, generation: int = 1) -> Any:
        return self.ask(Commit(task, attempt, node_of(attempt), (), generation))

    def complete(self, task: str, attempt: AttemptId = "n1.1.1", generation: int = 1) -> Any:
        self.begin(task, attempt)
        return self.commit(task, attempt, generation)

    def fail(self, task: str, attempt: AttemptId) -> Any:
        return self.ask(Fail(task, attempt, "its own error"))

    def remove(self, task: str) -> Standing:
        return self.ask(Remove(task))

    def release(self, task: str, attempt: AttemptId, *, keep: bool = False) -> Standing:
        return self.ask(Release(task, attempt, keep))

    def notify(
        self,
        child: str,
        parent: str,
        generation: int = 1,
        *,
        failed: bool = False,
        removed: bool = False,
        copies: Sequence[Copy] = (),
    ) -> Standing:
        return self.ask(Notify(child, parent, generation, failed, tuple(copies), removed))

    def delivered(self, task: str, generation: int = 1, placement: int = 0) -> Standing:
        return self.ask(Delivered(task, generation, placement))

    def replicate(
        self, task: str, source: NodeId, node: NodeId, *, spare: bool = False
    ) -> Standing:
        return self.ask(Replicate(task, source, node, spare))

    def take_over(self, task: str, node: NodeId, incarnation: int = 1) -> Standing:
        return self.ask(TakeOver(task, node, incarnation))

    def reopen(self, task: str, generation: int = 1) -> Standing:
        return self.ask(Reopen(task, generation))

    def postpone(self, task: str, attempt: AttemptId, parent: str, generation: int = 1) -> Standing:
        return self.ask(Postpone(task, attempt, parent, generation))

    def look(self, task: str) -> Standing:
        return self.ask(Look(task))

    def forget(self, task: str) -> Standing:
        return self.ask(Forget(task))

    def state(self, task: str) -> TaskState:
        return self.look(task).state

    # --- nodes and shards ------------------------------------------------------------------------

    def join(self, node: NodeId, incarnation: int = 1, lease: float = LEASE) -> Membership:
        return self.ask(Join(node, incarnation, lease))

    def renew(self, node: NodeId, incarnation: int = 1, load: float = 0.0) -> Membership:
        return self.ask(Renew(node, incarnation, load))

    def enqueue(self, node: NodeId, *entries: QueueEntry) -> Membership:
        return self.ask(Enqueue(node, entries))

    def claim(
        self, node: NodeId, incarnation: int = 1, limit: int = 100, request: int | None = None
    ) -> Claimed:
        """A new claim each time, unless its number is given."""
        if request is None:
            self._requests += 1
            request = self._requests
        return self.ask(Claim(node, incarnation, request, limit, 0.0))

    def claimed(self, node: NodeId, incarnation: int = 1, limit: int = 100) -> list[str]:
        return [e.task for e in self.claim(node, incarnation, limit).entries]

    def let_go(self, node: NodeId, *stays: tuple[str, int], incarnation: int = 1) -> Membership:
        return self.ask(LetGo(node, incarnation, stays))

    def drop_orphans(self, orphans: Orphans) -> Membership:
        """What one who has found homes for orphans says last."""
        tasks = (e.task for e in orphans.entries)
        stays = tuple(zip(tasks, orphans.tickets, strict=True))
        return self.let_go(orphans.node, *stays, incarnation=orphans.incarnation)

    def probe(self, node: NodeId) -> Membership:
        return self.ask(Probe(node))

    def patrol(
        self, limit: int = 1000, stale: float = STALE, suspect: float = NEVER, node: str = "guard"
    ) -> Found:
        found = Found()
        shards = range(self.store.shard_count)
        for answer in self.call(*(Patrol(i, node, limit, stale, suspect) for i in shards)):
            assert isinstance(answer, Findings)
            found.orphans += answer.orphans
            found.undelivered += answer.undelivered
            found.suspects += answer.suspects
        return found

    def tally(self) -> dict[TaskState, int]:
        """How many tasks are in each state, in all shards together."""
        total = dict.fromkeys(TaskState, 0)
        for shard, answer in enumerate(
            self.call(*(Tally(i) for i in range(self.store.shard_count)))
        ):
            assert isinstance(answer, Tallied)
            assert answer.shard == shard
            assert answer.counts.keys() == total.keys()
            for state, count in answer.counts.items():
                total[state] += count
        return total

    def recount(self, limit: int) -> list[Unfinished]:
        """Every page of every shard."""
        tasks: list[Unfinished] = []
        for shard in range(self.store.shard_count):
            cursor = 0
            while cursor >= 0:
                page = self.ask(Recount(shard, cursor, limit))
                assert isinstance(page, Page)
                assert len(page.tasks) <= limit
                tasks += page.tasks
                cursor = page.cursor
        return tasks
