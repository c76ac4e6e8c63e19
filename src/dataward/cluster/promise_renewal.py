"""Sees to it that a run's promises are kept when a host is lost: the run's leading keeper does it.

What the lost host had promised and is not complete is asked for anew, with the same deadline. If
nobody can promise that, the promise is broken: then all that has not begun is asked for anew, with
the earliest deadline that can be had; without any, the run goes on as well as it can.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from dataward.cluster.description import (
    PromisedTask,
    RunPromises,
    TaskList,
    digest_of,
    packed,
)
from dataward.cluster.promise_asking import LAG_SECONDS, Promised
from dataward.cluster.run_here import HostParts, RunHere
from dataward.deadlines.frames import Allocation
from dataward.deadlines.reallocation import rest_of_workflow
from dataward.deadlines.reservations import Promise
from dataward.model.answers import Standing
from dataward.model.events import FinishPromised
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun, RunPromise
from dataward.model.operations import Look
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.node.store_client import StoreClient
from dataward.stores.registry import Registry
from dataward.world import StoreUnavailable, TransferFailed

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
ADOPTED_SECONDS = 5.0  # within which this host has read what was promised anew
LOOKS_AT_ONCE = 1000
OVER = (TaskState.COMPLETE, TaskState.FAILED, TaskState.REMOVED)
BEGUN = (TaskState.STAGE_IN, TaskState.RUNNING, TaskState.STAGE_OUT)


class PromiseRenewal:
    def __init__(
        self,
        parts: HostParts,
        registry: Registry,
        here: RunHere,
        tasks: TaskList,
        store: StoreClient,
        speeds: Mapping[NodeId, float],
    ) -> None:
        self._parts = parts
        self._registry = registry
        self._here = here
        self._specs = tasks.specs
        self._number = {spec.id: number for number, spec in enumerate(tasks.specs)}
        self._store = store
        self._speeds = speeds
        self._settled: set[NodeId] = set()  # lost hosts that had nothing left to do

    async def watch(self) -> None:
        """Look for lost hosts for as long as the run goes on."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            promises = self._here.promises
            if promises is None:
                return
            present = set(self._here.members)
            gone = {one.node for one in promises.tasks} - present - self._settled
            self._settled &= {one.node for one in promises.tasks} - present
            if gone:
                await self._replace(promises, gone)

    async def _replace(self, promises: RunPromises, gone: Collection[NodeId]) -> None:
        states = await self._states()
        left = [one for one in promises.tasks if states.get(one.id) not in OVER]
        lost = [one for one in left if one.node in gone]
        if not lost:
            self._settled.update(gone)
            return
        why = f"{' and '.join(sorted(gone))} {'are' if len(gone) > 1 else 'is'} gone"
        log.warning("run %s: %s, and %d promised tasks with it", self._run, why, len(lost))
        before = self._here.run.promise
        assert before is not None
        asking = self._parts.asking
        kept = [one for one in left if one.node not in gone]
        promised = await asking.ask(self._question(kept, lost, before.deadline), {})
        if promised is not None:
            await self._tell(before, kept, promised, why, broken=before.broken)
            return
        fixed = [one for one in kept if states.get(one.id) in BEGUN]
        rest = [one for one in left if one not in fixed]
        question = self._question(fixed, rest, before.deadline)
        _, promised = await asking.earliest(question, {})
        kept = fixed if promised is not None else kept
        await self._tell(before, kept, promised, why, broken=why)

    @property
    def _run(self) -> str:
        return self._here.run.name

    async def _states(self) -> dict[TaskId, TaskState]:
        found: dict[TaskId, TaskState] = {}
        for first in range(0, len(self._specs), LOOKS_AT_ONCE):
            some = self._specs[first : first + LOOKS_AT_ONCE]
            for look in await self._store.call([Look(spec.id) for spec in some]):
                if isinstance(look, Standing):
                    found[look.task] = look.state
        return found

    def _question(
        self, kept: Sequence[PromisedTask], asked: Sequence[PromisedTask], deadline: float
    ) -> Allocation:
        number, work = self._number, [0.0] * len(self._specs)
        for one in (*kept, *asked):
            work[number[one.id]] = one.seconds * self._speeds.get(one.node, 1.0)
        parents = [[number[p] for p in spec.parents if p in number] for spec in self._specs]
        promised = {
            number[one.id]: Promise(one.deadline - one.seconds, one.deadline) for one in kept
        }
        now = self._parts.slots_promised.clock()
        return rest_of_workflow(
            work, parents, promised, {number[one.id] for one in asked}, now, deadline, LAG_SECONDS
        )

    async def _tell(
        self,
        before: RunPromise,
        kept: Sequence[PromisedTask],
        promised: Promised | None,
        why: str,
        *,
        broken: str,
    ) -> None:
        """Have all hosts read the new promises, and say what has become of the old ones."""
        tasks = list(kept)
        if promised is not None:
            tasks += [
                PromisedTask(self._specs[task].id, one.node, one.slot, one.deadline, one.seconds)
                for task, one in promised.tasks.items()
            ]
        finish = max(one.deadline for one in tasks) if promised is not None else 0.0
        content = packed(RunPromises(promised.number if promised is not None else 0, tuple(tasks)))
        digest = digest_of(content)
        await self._keep(content, digest)
        promise = RunPromise(
            before.deadline,
            finish,
            before.sure if finish else 0.0,
            max(before.expected, finish) if broken else before.expected,
            digest,
            broken,
        )
        try:
            await self._registry.set_promise(self._run, promise)
        except StoreUnavailable as error:  # it is tried again
            log.warning("%s", error)
            return
        moved = len(promised.tasks) if promised is not None else 0
        self._here.emit(promise_event(self._here.run, promise, self._here.now(), why))
        log.warning("run %s: %d tasks promised anew%s", self._run, moved, " late" * bool(broken))
        for _ in range(round(ADOPTED_SECONDS / LOOK_SECONDS)):
            known = self._here.run.promise
            if known is not None and known.part == digest:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _keep(self, content: bytes, digest: str) -> None:
        """Have the run's keepers hold the list of promises."""
        self._parts.keep_part(content, digest)
        place = self._parts.index.find(digest)
        assert place is not None
        for node in self._here.run.keepers:
            if node != self._parts.node and node in self._here.members:
                try:
                    await self._parts.client.put_file(node, place.path, digest)
                except TransferFailed as error:
                    log.info("%s", error)


def promise_event(
    run: ClusterRun, promise: RunPromise, now: float, why: str = ""
) -> FinishPromised:
    """What was promised, or promised anew, on the run's clock."""

    def since(at: float) -> float:
        return at - run.submitted_at if at else 0.0

    deadline, finish, expected = map(since, (promise.deadline, promise.finish, promise.expected))
    return FinishPromised(now, deadline, finish, promise.sure, expected, why)
