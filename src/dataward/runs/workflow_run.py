"""A workflow run for real, from its file to its outputs."""

import asyncio
import gc
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf

from dataward.errors import DatawardError, OutputError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.depot_disk import Place
from dataward.live.live_runner import RunnerSettings
from dataward.live.runner_pool import RunnerPool
from dataward.live.session import Session, SessionPaths, Slice, runner_pools
from dataward.model.events import (
    Event,
    NodeFacts,
    RunEnded,
    RunResumed,
    RunStarted,
    TaskDue,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.operations import NodeId
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.node.client import Client, task_specs
from dataward.runs.housekeeping import Housekeeping, publish
from dataward.runs.outcomes import Outcome, load_outcomes, outcomes_of, save_outcomes
from dataward.runs.preparation import Preparation, Preparer
from dataward.runs.run_directory import RunDirectory, RunRecord, file_name_for
from dataward.stores.embedded import EmbeddedStore
from dataward.strategies.strategy import Strategy

TICK_SECONDS = 0.25
GC_THRESHOLDS = (50_000, 50, 100)  # a task leaves hundreds of objects behind, and no cycles
PASS_STEP = 1_000  # more sessions than anybody starts
EVENTS_UNTOLD_MAX = 10_000
Sink = Callable[[Sequence[Event]], None]
"""Told of events, many at a time: one by one would take longer than some tasks do."""


class StoreStopped(OutputError):  # noqa: N818 - the disk's doing
    """The run cannot go on, for what happens cannot be written down."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        DatawardError.__init__(self, why)  # which says it all


@dataclass(frozen=True, slots=True)
class RunOptions:
    machine: Slice
    strategy: Strategy
    runner: RunnerSettings = RunnerSettings()  # noqa: RUF009 - frozen
    retries: int = 0
    keep_all: bool = False
    session: int = 1
    began_seconds: float = 0.0  # how long the run had gone on before it was broken off


@dataclass(frozen=True, slots=True)
class RunOutcome:
    complete: int
    skipped: int
    failed: int
    unfinished: int
    makespan_seconds: float


@dataclass
class WorkflowRun:
    """Prepare it, then ``run`` once. The caller holds the run directory's lock.

    Processes of the ``pools`` may have been launched already.
    """

    workflow: Workflow
    preparer: Preparer
    directory: RunDirectory
    record: RunRecord
    options: RunOptions
    pools: Mapping[NodeId, RunnerPool]
    sinks: Sequence[Sink] = ()
    on_tick: Callable[[float], None] = lambda now: None
    on_interrupt: Callable[[int, int], None] = lambda times, running: None
    complete_before: Collection[TaskId] = ()  # by earlier sessions of this run
    _finished: dict[TaskId, TaskState] = field(default_factory=dict)
    _skipped: int = 0
    _session: Session | None = None
    _interrupts: int = 0
    _passes: int = -1
    _latest_seconds: float = 0.0  # when a task last finished
    _messages: int = 0
    _store_calls: int = 0
    _untold: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Tasks have working directories of their own.
        self.directory = RunDirectory(self.directory.path.absolute())
        self.record = RunRecord(self.record.path.absolute())
        self._logs = str(self.record.logs)
        self._finished.update(dict.fromkeys(self.complete_before, TaskState.COMPLETE))

    # --- from outside ----------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Begin nothing more; asked again, end what runs. Called on the loop."""
        self._interrupts += 1
        if self._session is not None:
            if self._interrupts == 1:
                self._session.drain()
            else:
                self._over.set()
            running = sum(node.attempts.started for node in self._session.nodes)
            self.on_interrupt(self._interrupts, running)

    @property
    def is_interrupted(self) -> bool:
        return self._interrupts > 0

    # --- the run ---------------------------------------------------------------------------------

    def run(self) -> RunOutcome:
        """Run what is due, and again what that has changed. Raises StoreStopped."""
        try:
            with _few_cycles_searched_for():
                return self._run()
        finally:
            self._tell()

    def _run(self) -> RunOutcome:
        self._kernel = AsyncioKernel(epoch_seconds=time.monotonic() - self.options.began_seconds)
        self._emit_start()
        outcomes, pools = gather_outcomes(self.directory), self.pools
        while True:
            session = self._new_session(pools)
            try:
                prepared = self._pass(session, outcomes)
            finally:
                session.close()
                shutil.rmtree(self.directory.work, ignore_errors=True)
            if prepared.remaining is not None:
                if session.backlog.error:
                    raise session.backlog.error
                outcomes = fold(self.directory, session.store, outcomes)
            if not self._must_decide_again(prepared):
                outcome = self._ended()
                if not outcome.failed and not outcome.unfinished:
                    # All that was wanted is elsewhere. After a failure, what is here is needed.
                    shutil.rmtree(self.directory.depot, ignore_errors=True)
                return outcome
            pools = runner_pools(self.options.machine, self.directory.work)

    def _must_decide_again(self, prepared: Preparation) -> bool:
        """Something was made again that others, who were skipped, had read: it may differ."""
        failed = any(state is TaskState.FAILED for state in self._finished.values())
        unclear = bool(prepared.decision.skip) and bool(prepared.decision.due)
        return unclear and not failed and not self._interrupts

    def _new_session(self, pools: Mapping[NodeId, RunnerPool]) -> Session:
        # A kernel serves one run; the time of the next one goes on.
        epoch_seconds = time.monotonic() - self._kernel.now()
        self._kernel = AsyncioKernel(epoch_seconds=epoch_seconds)
        return Session(
            kernel=self._kernel,
            paths=SessionPaths(self.directory.depot, self.directory.store),
            pools=pools,
            machine=self.options.machine,
            strategy=self.options.strategy,
            runner_settings=self.options.runner,
            # Attempts of one list of events must differ, and each pass has a store of its own.
            incarnation=self.options.session + PASS_STEP * (self._passes + 1),
            emit=self._emit,
            log_stem=self._log_stem,
        )

    def _pass(self, session: Session, outcomes: Mapping[TaskId, Outcome]) -> Preparation:
        """Decide which tasks are due, and run them."""
        prepared = self.preparer.prepare(outcomes, self._node_ids())
        self._emit_decision(prepared)
        self._publish_known(prepared)
        if prepared.remaining is not None:
            self._passes += 1
            for pool in session.pools.values():
                pool.launch(len(prepared.remaining))
            self._session = session
            try:
                self._kernel.run(self._main(session, prepared))
            finally:
                self._session = None
        return prepared

    async def _main(self, session: Session, prepared: Preparation) -> None:
        remaining = prepared.remaining
        assert remaining is not None
        self._over = self._kernel.flag()
        self._left = set(remaining.task_ids)
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError, RuntimeError):  # not in the main thread: somebody else's
                asyncio.get_running_loop().add_signal_handler(number, self.interrupt)
        await session.start(prepared.outside, prepared.held)
        self._housekeeping = Housekeeping(
            remaining, self.directory.outputs, self.preparer.is_wanted, self._find, session.drop,
            session.backlog.add, self._read_by_skipped(prepared),
        )  # fmt: skip
        try:
            await self._client(session, prepared).submit()
            gc.freeze()  # what was submitted lives to the end
            if self._interrupts:
                session.drain()
            while not await self._over.wait(TICK_SECONDS):
                self._tell()
                self.on_tick(self._kernel.now())
                if session.store.stopped:
                    raise StoreStopped(str(self.directory.store), session.store.stopped)
                if session.backlog.error:
                    raise session.backlog.error
                if self._interrupts and session.is_idle:
                    break
            self._housekeeping.on_end()
        finally:
            session.stop()
            self._messages += session.wires.messages
            self._store_calls += session.store.calls

    def _client(self, session: Session, prepared: Preparation) -> Client:
        workflow, platform = prepared.remaining, self.options.machine.platform()
        assert workflow is not None
        plan = self.options.strategy.plan(workflow, platform, self._located(workflow, prepared), 0)
        specs = task_specs(
            workflow,
            plan,
            session.ids,
            backups_max=session.settings.backups_max,
            retries=self.options.retries,
            digests=prepared.digests,
        )
        return Client(session.client(), session.store.shard_count, list(specs), {}, session.wake)

    def _located(self, workflow: Workflow, prepared: Preparation) -> dict[int, Sequence[int]]:
        """Which nodes have which of the files it starts from."""
        found: dict[int, Sequence[int]] = {}
        holders = [prepared.held.get(node, {}) for node in self._node_ids()]
        made = workflow.producers.degrees()
        for index, file in enumerate(workflow.file_ids):
            if not made[index]:
                found[index] = [n for n, files in enumerate(holders) if file in files]
        return {file: nodes for file, nodes in found.items() if nodes}

    def _node_ids(self) -> tuple[str, ...]:
        return tuple(machine.id for machine in self.options.machine.platform().machines)

    def _log_stem(self, task: TaskId, attempt: str) -> str:
        return f"{self._logs}/{file_name_for(task)}.{attempt}"

    def _read_by_skipped(self, prepared: Preparation) -> set[FileId]:
        names, inputs = self.workflow.file_ids, self.workflow.inputs
        return {
            names[file] for task in prepared.decision.skip for file in inputs.row(task).tolist()
        }

    def _find(self, file: FileId) -> Place | None:
        assert self._session is not None
        for disk in self._session.wires.disks.values():
            place = disk.where(file)
            if place is not None:
                return place
        return None

    # --- events ----------------------------------------------------------------------------------

    def _tell(self) -> None:
        events, self._untold = self._untold, []
        for sink in self.sinks:
            sink(events)

    def _emit(self, event: Event) -> None:
        self._untold.append(event)
        if len(self._untold) >= EVENTS_UNTOLD_MAX:
            self._tell()
        if type(event) is TaskFinished:
            self._on_finished(event)
        elif type(event) is TaskReopened:
            self._left.add(event.task)

    def _on_finished(self, event: TaskFinished) -> None:
        self._finished[event.task] = event.state
        self._latest_seconds = event.at
        self._left.discard(event.task)
        if event.state is TaskState.COMPLETE:
            self._housekeeping.on_complete(event.task)
        if not self._left:
            self._over.set()

    def _emit_start(self) -> None:
        options, now = self.options, self._kernel.now()
        if options.session > 1:
            self._emit(RunResumed(now, options.session))
            return
        machines = options.machine.platform().machines
        facts = tuple(NodeFacts(m.id, m.cores, m.speed, m.site) for m in machines)
        self._emit(
            RunStarted(now, self.workflow.name, len(self.workflow), options.strategy.name, 0, facts)
        )

    def _emit_decision(self, prepared: Preparation) -> None:
        now, ids = self._kernel.now(), self.workflow.task_ids
        fresh = [index for index in prepared.decision.skip if ids[index] not in self._finished]
        if not self._passes + 1:  # what a later pass skips was told, or has just run
            for index in fresh:
                self._emit(TaskSkipped(now, ids[index]))
        self._skipped = len(fresh)
        if prepared.decision.skip:
            for index, why in prepared.decision.due.items():
                self._emit(TaskDue(now, ids[index], why))

    def _ended(self) -> RunOutcome:
        states = list(self._finished.values())
        complete = sum(state is TaskState.COMPLETE for state in states)
        failed = len(states) - complete
        now = self._latest_seconds or self._kernel.now()  # what follows the last task is ours
        outcome = RunOutcome(
            complete, self._skipped, failed, len(self.workflow) - len(states) - self._skipped, now
        )
        self._emit(
            RunEnded(now, complete + self._skipped, failed, self._messages, self._store_calls)
        )
        return outcome

    # --- files -----------------------------------------------------------------------------------

    def _publish_known(self, prepared: Preparation) -> None:
        """Results of earlier runs that were broken off before these had been put in their place."""
        for outcome in prepared.decision.skip.values():
            for file in outcome.outputs:
                path = self.directory.outputs / file.id
                place = prepared.outside.get(file.id)
                if self.preparer.is_wanted(file.id) and place is not None and not place.outside:
                    publish(place, path, stays=True)


@contextmanager
def _few_cycles_searched_for() -> Iterator[None]:
    """All that there is now lives to the end, and of what comes there are few cycles."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def gather_outcomes(directory: RunDirectory) -> dict[TaskId, Outcome]:
    """All that is known of earlier runs, also of one that was killed and left its store."""
    outcomes = load_outcomes(directory.outcomes)
    if directory.store.is_dir():
        with EmbeddedStore(directory.store, lambda: inf, AsyncioKernel()) as store:
            return fold(directory, store, outcomes)
    return outcomes


def fold(
    directory: RunDirectory, store: EmbeddedStore, outcomes: dict[TaskId, Outcome]
) -> dict[TaskId, Outcome]:
    """What was known and what a store tells, on the disk before the store is removed."""
    known = {**outcomes, **outcomes_of(store.committed(), {}, outcomes)}
    save_outcomes(directory.outcomes, known)
    shutil.rmtree(directory.store)
    return known
