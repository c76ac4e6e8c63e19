"""Sees to it that a run's promises are kept when a host is lost, or late: the leading keeper does.

What the lost host had promised and is not complete is asked for anew, with the same deadline. A
task that has not ended in time is expected to take as long again, and what can not start in time
for that reason is asked for anew. If nobody can promise it, the promise is broken: then all that
has not begun is given back and asked for anew, with the earliest deadline that can be had; without
any, the run goes on as well as it can.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from dataward.cluster.description import (
    PromisedTask,
    RunPromises,
    TaskList,
    digest_of,
    packed,
)
from dataward.cluster.promise_asking import LAG_SECONDS, Promised
from dataward.cluster.promise_wanted import promised_task
from dataward.cluster.run_here import HostParts, RunHere
from dataward.deadlines.frames import Allocation
from dataward.deadlines.reallocation import overtaken, rest_of_workflow
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
LATE_SECONDS = 0.5  # after its deadline, an end may be on its way to the store
LATE_AGAIN_SECONDS = 5.0  # between two times that promises are put off
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
        self._over: set[TaskId] = set()
        self._began: dict[TaskId, float] = {}  # when late tasks began at the latest
        self._late_again = 0.0  # until then, late tasks are not looked for

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
            elif self._may_be_late(promises):
                await self._delay(promises)

    def _may_be_late(self, promises: RunPromises) -> bool:
        """Whether a task was to end by now that is not known to have."""
        now = self._parts.slots_promised.clock()
        due = now - LATE_SECONDS
        is_due = any(one.deadline < due and one.id not in self._over for one in promises.tasks)
        return is_due and now >= self._late_again

    async def _delay(self, promises: RunPromises) -> None:
        """Late tasks take longer than was reserved: have promises for what waits for them."""
        states, now = await self._states(), self._parts.slots_promised.clock()
        left = [one for one in promises.tasks if states.get(one.id) not in OVER]
        self._over = {one.id for one in promises.tasks} - {one.id for one in left}
        late = [one for one in left if one.deadline < now - LATE_SECONDS]
        if not late:
            return
        why = f"{min(late, key=lambda one: one.deadline).id} took longer than was reserved for it"
        log.warning("run %s: %s", self._run, why)
        self._late_again = now + LATE_AGAIN_SECONDS
        before = self._here.run.promise
        assert before is not None
        told = [self._put_off(one, now) if one in late else one for one in left]
        asked = {
            self._specs[task].id
            for task in overtaken(self._parents(), self._by_number(told), LAG_SECONDS)
        }
        begun = {one.id for one in told if states.get(one.id) in BEGUN}
        rest = [one for one in told if one.id in asked - begun]
        kept = [one for one in told if one not in rest]
        promised = None
        is_kept = all(one.deadline <= before.deadline for one in kept)
        if is_kept and rest:
            promised = await self._parts.asking.ask(self._question(kept, rest, before.deadline), {})
        if is_kept and (promised is not None or not rest):
            await self._tell(before, kept, promised, why, broken=before.broken)
            return
        await self._break(before, told, [one for one in told if one.id in begun], why)

    def _put_off(self, one: PromisedTask, now: float) -> PromisedTask:
        """A late task: it takes as long again as it has, since it should have begun."""
        began = self._began.setdefault(one.id, one.deadline - one.seconds)
        return msgspec.structs.replace(one, deadline=now + max(now - began, one.seconds))

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
        await self._break(before, left, [one for one in kept if states.get(one.id) in BEGUN], why)

    async def _break(
        self,
        before: RunPromise,
        left: Sequence[PromisedTask],
        begun: Sequence[PromisedTask],
        why: str,
    ) -> None:
        """Give back what has not begun, and have it promised anew as early as can be."""
        rest = [one for one in left if one not in begun]
        promised = None
        if rest:
            here = self._here.members
            lost = [one for one in rest if one.node not in here]  # taken over when all is settled
            await self._give_back(before, [*begun, *lost])
            question = self._question(begun, rest, before.deadline)
            _, promised = await self._parts.asking.earliest(question, {})
        await self._tell(before, begun, promised, why, broken=why, is_whole=not rest)

    async def _give_back(self, before: RunPromise, kept: Sequence[PromisedTask]) -> None:
        """Have hosts free the time of all other tasks, so that it is not booked twice."""
        if await self._publish(before, RunPromises(0, tuple(kept))) is None:
            log.warning("run %s: its old bookings still count", self._run)

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
        now = self._parts.slots_promised.clock()
        tasks = {number[one.id] for one in asked}
        promised = self._by_number(kept)
        cores = [spec.cores for spec in self._specs]
        return rest_of_workflow(
            work, self._parents(), promised, tasks, now, deadline, LAG_SECONDS, cores
        )

    def _parents(self) -> list[list[int]]:
        number = self._number
        return [[number[p] for p in spec.parents if p in number] for spec in self._specs]

    def _by_number(self, promises: Iterable[PromisedTask]) -> dict[int, Promise]:
        return {
            self._number[one.id]: Promise(one.deadline - one.seconds, one.deadline)
            for one in promises
        }

    async def _tell(
        self,
        before: RunPromise,
        kept: Sequence[PromisedTask],
        promised: Promised | None,
        why: str,
        *,
        broken: str,
        is_whole: bool = False,
    ) -> None:
        """Have all hosts read the new promises, and say what has become of the old ones.

        If what is ``kept`` is all that is left, nothing had to be promised.
        """
        tasks = list(kept)
        if promised is not None:
            tasks += [
                promised_task(self._specs[task].id, one) for task, one in promised.tasks.items()
            ]
        is_promised = promised is not None or is_whole or not broken
        finish = max((one.deadline for one in tasks), default=0.0) if is_promised else 0.0
        changed = msgspec.structs.replace(
            before,
            finish=finish,
            sure=before.sure if finish else 0.0,
            expected=max(before.expected, finish) if broken else before.expected,
            broken=broken,
        )
        number = promised.number if promised is not None else 0
        promise = await self._publish(changed, RunPromises(number, tuple(tasks)))
        if promise is None:  # it is tried again
            return
        moved = len(promised.tasks) if promised is not None else 0
        self._here.emit(promise_event(self._here.run, promise, self._here.now(), why))
        log.warning("run %s: %d tasks promised anew%s", self._run, moved, " late" * bool(broken))

    async def _publish(self, promise: RunPromise, promises: RunPromises) -> RunPromise | None:
        """Have all hosts read these promises, this host being one; None if the store is away."""
        content = packed(promises)
        digest = digest_of(content)
        await self._keep(content, digest)
        promise = msgspec.structs.replace(promise, part=digest)
        try:
            await self._registry.set_promise(self._run, promise)
        except StoreUnavailable as error:
            log.warning("%s", error)
            return None
        for _ in range(round(ADOPTED_SECONDS / LOOK_SECONDS)):
            known = self._here.run.promise
            if known is not None and known.part == digest:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return promise

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
