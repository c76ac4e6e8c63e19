"""Looks after a run from within the cluster, so that its submitter may leave.

A few hosts keep the list of a run's tasks. The first of them that is up, the leader, submits the
tasks, submits them again when a shard of the store has lost writes, and notes in the registry when
all tasks have ended. If the leader goes, the next keeper leads. Two that both think they lead do no
harm: a task that is known stays as it is, and a run ends once.
"""

import asyncio
import logging
from collections.abc import Sequence

from dataward.cluster.description import TaskList, unpacked
from dataward.cluster.host_files import have_kept
from dataward.cluster.promise_renewal import PromiseRenewal, promise_event
from dataward.cluster.result_copies import ResultCopies
from dataward.cluster.run_here import HostParts, RunHere
from dataward.model.answers import Standing, Tallied
from dataward.model.events import NodeFacts, RunEnded, RunStarted, TaskSkipped
from dataward.model.ids import CLIENT, NodeId
from dataward.model.members import ClusterRun, Member
from dataward.model.messages import Stock
from dataward.model.operations import InputFile, Tally
from dataward.model.seeds import seeded
from dataward.model.states import RunState, TaskState
from dataward.model.workflow import TaskId
from dataward.node.client import Client
from dataward.node.homes import Homes
from dataward.node.store_client import StoreClient
from dataward.runs.run_directory import ended_state
from dataward.stores.registry import Registry
from dataward.world import StoreUnavailable

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.02  # between looks at how far the run is; longer ones later
LOOK_SHARE = 0.03
RETRY_SECONDS = 0.2  # if the store does not answer
LOOK_SECONDS_MAX = 2.0
SETTLE_SECONDS = 2.0
COPY_SECONDS_MAX = 60.0
COPY_LEASES = 3  # for which copies of results, and nodes that have the only one, are waited for
UNSETTLED_MAX = 10


def leader_of(run: ClusterRun, members: Sequence[NodeId]) -> NodeId | None:
    """The keeper who looks after the run now: the first that is up."""
    return next((node for node in run.keepers if node in members), None)


class Keeper:
    """One keeper's part in one run: a fiber of the run's own kernel, once ``tend`` has begun it."""

    def __init__(self, parts: HostParts, registry: Registry, here: RunHere) -> None:
        self._parts = parts
        self._registry = registry
        self._here = here
        self._client: Client | None = None
        self._facts: tuple[NodeFacts, ...] = ()
        self._unsettled = 0  # how often the replicas were behind

    async def tend(self, members: Sequence[Member]) -> None:
        self._facts = tuple(NodeFacts(m.node, m.cores, m.speed, m.site) for m in members)
        await self._here.began()
        kernel = self._here.kernel
        assert kernel is not None
        kernel.spawn(self._tend(), "keeper")

    async def _tend(self) -> None:
        parts, run = self._parts, self._here.run
        tasks = unpacked(await parts.fetch_part(self._tasks_part, run.keepers), TaskList)
        client = self._client = self._make_client(tasks)
        kernel = client.kernel
        while leader_of(run, self._here.members) != parts.node:
            await kernel.sleep(LOOK_SECONDS_MAX)
        await self._submit(client, tasks)
        kernel.spawn(client.watch(parts.lease_seconds / 4), "keeper watch")
        if self._here.promises is not None:
            speeds = {fact.id: fact.speed for fact in self._facts}
            keeping = PromiseRenewal(parts, self._registry, self._here, tasks, client.store, speeds)
            kernel.spawn(keeping.watch(), "keeper of promises")
        await self._see_it_end(client, tasks)

    @property
    def _tasks_part(self) -> str:
        assert self._here.orders is not None
        return self._here.orders.tasks

    def _make_client(self, tasks: TaskList) -> Client:
        parts, here = self._parts, self._here
        assert here.orders is not None
        assert here.strategy is not None
        assert here.kernel is not None
        assert here.network is not None
        store = StoreClient(
            parts.store_of(here.run), here.kernel, seeded(CLIENT), here.strategy.settings
        )
        homes = Homes(CLIENT, self._here.members, seeded(here.run.name), store, here.strategy.home)
        placed = {file.id: file.nodes for file in here.orders.placed}
        return Client(store, homes, tasks.specs, placed, here.network.send, here.kernel, here.emit)

    async def _submit(self, client: Client, tasks: TaskList) -> None:
        """Submit the tasks; if the store knows them all, queue those that may be in no queue."""
        run = self._here.run
        known = sum(sum(tally.counts.values()) for tally in await self._tallies(client))
        if not known:
            self._announce(tasks)
            await self._have_results_kept(tasks)
        if known == len(tasks.specs):  # by a keeper that may have died just after that
            await client.queue_ready()
            return
        log.info("run %s: submitting %d tasks", run.name, len(tasks.specs) - known)
        await client.submit(again=known > 0)
        self._have_inputs_copied()

    def _announce(self, tasks: TaskList) -> None:
        run, now, here = self._here.run, self._here.now(), self._here
        total = len(tasks.specs) + len(tasks.skipped)
        here.emit(RunStarted(now, run.workflow, total, run.strategy, 0, self._facts))
        if run.promise is not None:
            here.emit(promise_event(run, run.promise, now))
        for skipped in tasks.skipped:
            here.emit(TaskSkipped(now, skipped.id))

    async def _have_results_kept(self, tasks: TaskList) -> None:
        """Have hosts keep the results that they have of tasks which need not run.

        An earlier run has made them. If that is cleaned, they are still results of this one.
        """
        assert self._here.orders is not None
        outputs = (output for task in tasks.skipped for output in task.outputs)
        wanted = frozenset(self._here.orders.wanted)
        if digests := sorted({output.digest for output in outputs if output.id in wanted}):
            client, run = self._parts.client, self._here.run.name
            members = list(self._here.members)
            await asyncio.gather(*(have_kept(client, node, run, digests) for node in members))

    def _have_inputs_copied(self) -> None:
        """Have one more node bring in each input that only one has, when it has time to."""
        here = self._here
        assert here.orders is not None
        assert here.network is not None
        stocks: dict[NodeId, list[InputFile]] = {}
        for number, file in enumerate(here.orders.placed):
            others = [node for node in self._here.members if node not in file.nodes]
            if len(file.nodes) == 1 and others:
                wanted = InputFile(file.id, file.size_bytes, TaskId(""), file.digest)
                stocks.setdefault(others[number % len(others)], []).append(wanted)
        for node, files in stocks.items():
            here.network.send(node, Stock(tuple(files)))

    async def _see_it_end(self, client: Client, tasks: TaskList) -> None:
        """Wait until every task has ended and has its copies, and say so in the registry."""
        copies = self._result_copies(client)
        while True:
            counts: dict[TaskState, int] = {}
            for tally in await self._tallies(client):
                for state, count in tally.counts.items():
                    counts[state] = counts.get(state, 0) + count
            complete, failed, removed = (
                counts.get(end, 0)
                for end in (TaskState.COMPLETE, TaskState.FAILED, TaskState.REMOVED)
            )
            has_ended = complete + failed + removed >= len(tasks.specs)
            is_kept = has_ended and await copies.are_there(tasks.specs, self._here.now())
            if is_kept and await self._is_settled():
                break
            # In proportion to how long it has run: a short run is soon seen to have ended.
            pause = min(max(LOOK_SECONDS, LOOK_SHARE * self._here.now()), LOOK_SECONDS_MAX)
            await client.kernel.sleep(pause)
        done = complete + len(tasks.skipped)
        self._here.emit(RunEnded(self._here.now(), done, failed, 0, 0, removed))
        await self._say_it_ended(ended_state(failed, removed))

    def _result_copies(self, client: Client) -> ResultCopies:
        here = self._here
        assert here.orders is not None
        assert here.network is not None
        assert here.node is not None
        return ResultCopies(
            here.orders.copies,
            frozenset(here.orders.wanted),
            here.members,
            client.store,
            here.network.send,
            here.node.run_again,
            min(COPY_LEASES * self._parts.lease_seconds, COPY_SECONDS_MAX),
        )

    async def _say_it_ended(self, state: RunState) -> None:
        while True:
            try:
                await self._registry.end_run(self._here.run.name, state)
                return
            except StoreUnavailable as error:
                log.warning("%s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _is_settled(self) -> bool:
        """Whether the store's replicas know of all that has ended.

        Otherwise a server that is lost right after the end would take outcomes with it, and nobody
        would commit them again. A replica that is behind for long is not waited for.
        """
        store = self._parts.store_of(self._here.run)
        try:
            if await store.settle(SETTLE_SECONDS):
                return True
        except StoreUnavailable:
            return False
        self._unsettled += 1
        if self._unsettled < UNSETTLED_MAX:
            return False
        log.warning("run %s ends, though a replica of the store is behind", self._here.run.name)
        return True

    async def _tallies(self, client: Client) -> list[Tallied]:
        shards = range(client.store.shard_count)
        answers = await client.store.call([Tally(shard) for shard in shards])
        return [answer for answer in answers if isinstance(answer, Tallied)]

    @property
    def is_ready(self) -> bool:
        return self._client is not None

    async def remove(self, tasks: Sequence[TaskId]) -> list[Standing]:
        """Remove tasks, with all that depend on them."""
        assert self._client is not None
        return await self._client.remove(tasks)

    def knows(self, task: TaskId) -> bool:
        return self._client is not None and any(spec.id == task for spec in self._client.specs)
