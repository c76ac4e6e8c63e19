"""A workflow run for real, from its file to its outputs."""

import asyncio
import gc
import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from dataward.deadlines.promising import NodeSchedule
from dataward.errors import FormatError, OwnFaultError
from dataward.kernel.realtime import AsyncioKernel
from dataward.live.promise_book import drain_news
from dataward.live.runner_pool import RunnerPool, close_pools, runner_pools
from dataward.live.session import Session, SessionFiles, SessionSettings
from dataward.live.trees import remove_tree
from dataward.model.events import (
    Event,
    FinishPromised,
    NodeFacts,
    RunEnded,
    RunResumed,
    RunStarted,
    TaskDue,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import IN_VAIN, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.node.client import Client, files_ahead, promises_to_keep, task_specs
from dataward.plan.estimates import Estimated
from dataward.runs.deciding import Decision
from dataward.runs.housekeeping import Housekeeping, publish_known
from dataward.runs.keeping import Keeping, trim_depots
from dataward.runs.known_times import Outcomes, estimated_from
from dataward.runs.outcomes import Outcome, load_outcomes, outcomes_of, save_outcomes
from dataward.runs.preparation import Preparation, Preparer, located_files
from dataward.runs.promise_keeping import PromiseKeeping, wanted_of_run
from dataward.runs.publishing import Publisher
from dataward.runs.removal_requests import RemovalRequests
from dataward.runs.run_directory import RunDirectory, RunRecord, file_name_for
from dataward.runs.run_history import RunHistory, history_of
from dataward.runs.run_options import RunOptions
from dataward.runs.stale_outputs import StaleOutputs
from dataward.runs.workflow_pass import WorkflowPass
from dataward.stores.embedded import CommittedTask, EmbeddedStore
from dataward.stores.journal import check_unused
from dataward.strategies.peercomp import cores_of

GC_THRESHOLDS = (50_000, 50, 100)  # a task leaves hundreds of objects behind, and no cycles
PASS_STEP = 1_000  # between the incarnations of two passes; nobody resumes a run that often
EVENTS_UNTOLD_MAX = 10_000
Sink = Callable[[Sequence[Event]], None]
"""Called with many events at a time: one by one would take longer than some tasks do."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    complete: int
    skipped: int
    failed: int
    removed: int
    unfinished: int
    makespan_seconds: float
    stale: StaleOutputs


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks that are told how a run goes.

    ``on_decided`` gets the time, which tasks are to run, and what earlier runs have left; it is
    called before tasks run, each time that it has been decided.
    ``on_interrupt`` gets how often the run was interrupted, and how many tasks are running.
    """

    sinks: Sequence[Sink] = ()
    on_tick: Callable[[float], None] = lambda now: None
    on_decided: Callable[[float, Decision, Outcomes], None] = lambda now, decision, known: None
    on_interrupt: Callable[[int, int], None] = lambda times, running: None


class WorkflowRun:
    """One run of a workflow: call `run` once. The caller holds the run directory's lock.

    Processes of the ``pools`` may have been launched already.
    """

    def __init__(
        self,
        workflow: Workflow,
        preparer: Preparer,
        directory: RunDirectory,
        record: RunRecord,
        options: RunOptions,
        pools: Mapping[NodeId, RunnerPool],
        listener: "Listener",
        complete_before: Collection[TaskId] = (),  # before this start of the run
    ) -> None:
        self._workflow = workflow
        self._preparer = preparer
        # Tasks have working directories of their own, so no path may be relative.
        self._directory = RunDirectory(directory.path.absolute())
        self._publisher = Publisher(self._directory.outputs, self._directory.drafts)
        self._record = RunRecord(record.path.absolute())
        self._options = options
        self._pools = pools
        self._listener = listener
        self._logs = str(self._record.logs)
        self._epoch_seconds = time.monotonic() - options.began_seconds
        self._finished = dict.fromkeys(complete_before, TaskState.COMPLETE)
        self._skipped: set[TaskId] = set()
        self._history = RunHistory(self._record.number)
        self._was_reopened = False
        self._pass: WorkflowPass | None = None  # the pass under way
        self._passes = 0
        self._interrupts = 0
        self._latest_seconds = 0.0  # when a task last finished
        self._messages = 0
        self._store_calls = 0
        self._untold: list[Event] = []
        self._promises: PromiseKeeping | None = None
        self._session: Session | None = None

    # --- from outside ----------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Begin no more tasks; if asked again, end those that run. Call it on the event loop."""
        self._interrupts += 1
        if self._pass is not None:
            self._pass.interrupt(again=self._interrupts > 1)
            self._listener.on_interrupt(self._interrupts, self._pass.running)

    @property
    def is_interrupted(self) -> bool:
        return self._interrupts > 0

    # --- the run ---------------------------------------------------------------------------------

    def run(self) -> RunOutcome:
        """How the run ended. Raises StoreStopped.

        One pass over the tasks is enough, unless a file that was gone had to be made again, and
        differs from what others had read who did not run.
        """
        try:
            with _few_cycles_searched_for():
                return self._run()
        finally:
            self._tell()

    def _run(self) -> RunOutcome:
        self._emit_start()
        outcomes, pools = gather_outcomes(self._directory), self._pools
        self._preparer.note_stale_outputs(outcomes.values())
        keeping = Keeping(self._options.keep.bytes_in(self._directory.path))
        while True:
            try:
                node_ids = self._options.machine.node_ids
                prepared = self._preparer.prepare(outcomes, node_ids, self._complete())
                self._emit_decision(prepared, is_first=not outcomes)
                publish_known(prepared, self._preparer.is_wanted, self._publisher)
                self._was_reopened = False
                if prepared.remaining is not None and not self._interrupts:
                    self._tell()
                    self._listener.on_decided(self._now(), prepared.decision, outcomes)
                    self._promise(prepared, outcomes)
                    outcomes = self._run_pass(prepared, pools, outcomes, keeping)
            finally:
                close_pools(pools.values())
                with suppress(OSError):
                    remove_tree(self._directory.work)
            if not self._must_decide_again():
                return self._ended(outcomes, keeping.budget_bytes)
            pools = runner_pools(self._options.machine, self._directory.work)

    def _promise(self, prepared: Preparation, outcomes: Mapping[TaskId, Outcome]) -> None:
        """Promise what is to run, or only note the deadline if it was not accepted."""
        options, now = self._options, self._now()
        if options.deadline is None:
            return
        deadline = now + options.deadline.at.timestamp() - time.time()
        if options.promise is None:
            self._emit(FinishPromised(now, deadline, 0.0, 0.0, 0.0))
            return
        wanted = wanted_of_run(self._workflow, outcomes, prepared.decision)
        self._promises = PromiseKeeping(
            wanted, options.machine.platform(), deadline, self._emit, self._cores
        )
        asked = deadline - options.deadline.seconds
        self._promises.take_over(options.promise.later(asked), now)

    def _cores(self) -> list[NodeSchedule]:
        """The cores of this run, with what other runs have promised on them."""
        cores, book = cores_of(self._options.machine.platform()), self._options.book
        return cores if book is None else book.cores(cores, time.time() - self._now())

    def _on_news(self, file: int) -> None:
        """Other promised runs have begun, ended, or given a core back."""
        assert self._options.book is not None
        drain_news(file)
        self._options.book.read()
        if self._session is not None:
            self._session.look_again()

    @contextmanager
    def _book_watched(self) -> Iterator[None]:
        """Hear of other promised runs within this context."""
        if self._options.book is None:
            yield
            return
        loop, file = asyncio.get_running_loop(), self._options.book.watch()
        self._options.book.read()
        loop.add_reader(file, self._on_news, file)
        try:
            yield
        finally:
            loop.remove_reader(file)
            os.close(file)

    def _run_pass(
        self,
        prepared: Preparation,
        pools: Mapping[NodeId, RunnerPool],
        outcomes: dict[TaskId, Outcome],
        keeping: Keeping,
    ) -> dict[TaskId, Outcome]:
        """The outcomes of all tasks, after running those that must run."""
        self._passes += 1
        assert prepared.remaining is not None
        known = estimated_from(prepared.remaining, outcomes)
        for pool in pools.values():
            pool.launch(len(prepared.decision.open))
        # A kernel serves one pass; the next pass has another, whose time goes on.
        kernel = AsyncioKernel(epoch_seconds=self._epoch_seconds)
        with ExitStack() as stack:
            session = kernel.run(self._main(kernel, prepared, pools, keeping, known, stack))
        if session.failure is not None:
            raise session.failure
        self._preparer.remember(session.places())
        return fold(self._directory, session.committed(), outcomes, self._history)

    async def _main(
        self,
        kernel: AsyncioKernel,
        prepared: Preparation,
        pools: Mapping[NodeId, RunnerPool],
        keeping: Keeping,
        known: Estimated,
        stack: ExitStack,
    ) -> Session:
        options, directory = self._options, self._directory
        ids = self._workflow.task_ids
        earlier = {ids[task]: outcome for task, outcome in prepared.decision.perhaps.items()}
        # Names of attempts in one list of events must differ, but each pass has a new store.
        incarnation = options.start + PASS_STEP * (self._passes - 1)
        session = Session(
            kernel,
            SessionSettings(
                options.machine, options.strategy, options.runner, incarnation, options.book
            ),
            SessionFiles(
                directory.depot,
                directory.store,
                prepared.outside,
                prepared.held,
                self._log_stem,
                prepared.recalled,
            ),
            pools,
            self._emit,
        )
        stack.callback(session.close)
        self._session = session
        housekeeping = Housekeeping(
            known.workflow,
            self._publisher,
            self._preparer.is_wanted,
            session,
            keeping,
            lambda task: self._history.seconds_of(task, earlier),
        )
        requests = RemovalRequests(self._record)
        self._pass = WorkflowPass(
            kernel, session, known.workflow, housekeeping, requests, self._tick
        )
        for number in _signals_that_stop():
            with suppress(ValueError, RuntimeError):  # not the main thread: signals are not ours
                asyncio.get_running_loop().add_signal_handler(number, self.interrupt)
        try:
            if self._interrupts:
                self._pass.interrupt(again=False)
            with self._book_watched():
                await self._pass.run(self._client(kernel, session, prepared, known))
        finally:
            self._pass = self._session = None
            session.stop()
            self._messages += session.messages
            self._store_calls += session.store_calls
        return session

    def _client(
        self, kernel: AsyncioKernel, session: Session, prepared: Preparation, known: Estimated
    ) -> Client:
        options, remaining = self._options, known.workflow
        node_ids = options.machine.node_ids
        located = located_files(remaining, [prepared.held.get(node, {}) for node in node_ids])
        platform = options.machine.platform()
        if self._promises is not None and self._promises.made is not None:
            plan = self._promises.plan_for(remaining)
        else:
            plan = options.strategy.plan(known.for_planning(), platform, located, 0)
        specs = task_specs(
            known,
            plan,
            node_ids,
            backups_max=options.strategy.settings.backups_max,
            retries=options.retries,
            digests=prepared.digests,
            earlier=prepared.earlier,
        )
        for node, message in files_ahead(remaining, plan, node_ids, prepared.digests).items():
            session.send(node, message)
        for node, promises in promises_to_keep(remaining, plan, node_ids).items():
            session.send(node, promises)
        return Client(
            session.client(), session.homes(), list(specs), {}, session.send, kernel, self._emit
        )

    def _complete(self) -> set[TaskId]:
        """The tasks that this run has run, and that need not run again."""
        return {task for task, state in self._finished.items() if state is TaskState.COMPLETE}

    def _must_decide_again(self) -> bool:
        """Whether a file was made again, and may differ, that tasks had read who did not run.

        Also if the run was interrupted: it is not complete then if such a task is due.
        """
        in_vain = any(state in IN_VAIN for state in self._finished.values())
        return self._was_reopened and not in_vain

    def _ended(self, outcomes: Mapping[TaskId, Outcome], budget_bytes: float) -> RunOutcome:
        states = list(self._finished.values())
        complete, failed, removed = (
            states.count(end) for end in (TaskState.COMPLETE, TaskState.FAILED, TaskState.REMOVED)
        )
        skipped = len(self._skipped)
        unfinished = len(self._workflow) - len(states) - skipped
        if unfinished and not self._interrupts:
            raise OwnFaultError(f"{unfinished} of {len(self._workflow)} tasks did not end")
        now = self._latest_seconds or self._now()  # time after the last task is our own overhead
        done, messages, calls = complete + skipped, self._messages, self._store_calls
        self._emit(RunEnded(now, done, failed, messages, calls, removed))
        stale = StaleOutputs()
        if not (failed or removed or unfinished):
            stale = self._preparer.clear_stale_outputs()
            # All wanted files are in outputs/. Otherwise files in the depot are still needed.
            with suppress(OSError):
                trim_depots(self._directory.depot, outcomes, budget_bytes)
        return RunOutcome(complete, skipped, failed, removed, unfinished, now, stale)

    def _now(self) -> float:
        return time.monotonic() - self._epoch_seconds

    def _log_stem(self, task: TaskId, attempt: AttemptId) -> str:
        return f"{self._logs}/{file_name_for(task)}.{attempt}"

    # --- events ----------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        self._keep_promises(now)
        if self._options.book is not None:
            self._options.book.flush()
        self._tell()
        self._listener.on_tick(now)

    def _tell(self) -> None:
        events, self._untold = self._untold, []
        for sink in self._listener.sinks:
            sink(events)

    def _keep_promises(self, now: float) -> None:
        """Tell nodes of new promises, if one was broken."""
        if self._promises is None or self._session is None:
            return
        if self._promises.look(now) is not None:
            plan = self._promises.plan_for(self._workflow)
            node_ids = self._options.machine.node_ids
            for node, made in promises_to_keep(self._workflow, plan, node_ids).items():
                self._session.send(node, made)

    def _emit(self, event: Event) -> None:
        self._untold.append(event)
        if len(self._untold) >= EVENTS_UNTOLD_MAX:
            self._tell()
        self._history.add(event)
        if self._promises is not None:
            self._promises.add(event)
        if type(event) is TaskFinished:
            self._finished[event.task] = event.state
            self._latest_seconds = event.at
            if self._pass is not None:
                self._pass.on_finished(event)
        elif type(event) is TaskSkipped:
            if event.task not in self._finished:
                self._skipped.add(event.task)
            if self._pass is not None:
                self._pass.on_skipped(event)
        elif type(event) is TaskDue:
            self._skipped.discard(event.task)
            self._finished.pop(event.task, None)
        elif type(event) is TaskReopened and self._pass is not None:
            self._was_reopened = True
            self._skipped.discard(event.task)
            self._pass.on_reopened(event)

    def _emit_start(self) -> None:
        options, now = self._options, self._now()
        if options.start > 1:
            self._emit(RunResumed(now, options.start))
            return
        workflow, machines = self._workflow, options.machine.platform().machines
        facts = tuple(NodeFacts(m.id, m.cores, m.speed, m.site) for m in machines)
        self._emit(RunStarted(now, workflow.name, len(workflow), options.strategy.name, 0, facts))

    def _emit_decision(self, prepared: Preparation, *, is_first: bool) -> None:
        """Tell what is skipped and what is due; of a first run, where all is new, nothing."""
        now, ids = self._now(), self._workflow.task_ids
        for index in prepared.decision.skip:
            if ids[index] not in self._finished and ids[index] not in self._skipped:
                self._emit(TaskSkipped(now, ids[index]))
        if not is_first:
            for index, why in prepared.decision.due.items():
                self._emit(TaskDue(now, ids[index], why))


def _signals_that_stop() -> list[signal.Signals]:
    """Ctrl-C, a request to end and a closed terminal, but for what ``nohup`` and shells ignore."""
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in stopping if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def _few_cycles_searched_for() -> Iterator[None]:
    """Collect garbage rarely: objects that exist now stay, and new ones form few cycles."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def gather_outcomes(directory: RunDirectory) -> dict[TaskId, Outcome]:
    """The outcomes of earlier runs, also of a run that was killed and left its store."""
    outcomes = load_outcomes(directory.outcomes)
    if not directory.store.is_dir():
        return outcomes
    with _opened_again(directory.store) as store:
        return fold(directory, store.committed(), outcomes, _last_history(directory))


def peek_at_outcomes(directory: RunDirectory) -> dict[TaskId, Outcome]:
    """The same, with everything left as it is. Raises DirectoryInUse.

    A store that is opened cuts off what is unfinished, so a copy of it is opened.
    """
    outcomes = load_outcomes(directory.outcomes)
    if not directory.store.is_dir():
        return outcomes
    check_unused(directory.store)
    with TemporaryDirectory() as place:
        copy = Path(place) / "store"
        shutil.copytree(directory.store, copy)
        with _opened_again(copy, named=directory.store) as store:
            return _merged(store.committed(), outcomes, _last_history(directory))


def _last_history(directory: RunDirectory) -> RunHistory:
    """The history of the latest run that any task has ended in; the present one has just begun."""
    for record in reversed(directory.runs() if directory.exists() else []):
        history = history_of(record)
        if history.made or history.failed:
            return history
    return RunHistory(0)


@contextmanager
def _opened_again(path: Path, named: Path | None = None) -> Iterator[EmbeddedStore]:
    """The store in this directory; an error tells of ``named``, of which the store is a copy."""
    original = named or path
    try:
        store = EmbeddedStore(path, lambda: inf, AsyncioKernel())
    except FormatError as error:
        source = error.source.replace(str(path), str(original))
        remedy = f"remove {original}: tasks of which only it knows then run again"
        raise FormatError(source, error.problem, place=error.place, remedy=remedy) from error
    with store:
        yield store


def fold(
    directory: RunDirectory,
    committed: Iterable[CommittedTask],
    outcomes: dict[TaskId, Outcome],
    history: RunHistory,
) -> dict[TaskId, Outcome]:
    """The known outcomes and those of a store, saved on the disk before the store is removed."""
    known = _merged(committed, outcomes, history)
    save_outcomes(directory.outcomes, known)
    shutil.rmtree(directory.store)
    return known


def _merged(
    committed: Iterable[CommittedTask], outcomes: dict[TaskId, Outcome], history: RunHistory
) -> dict[TaskId, Outcome]:
    return {**outcomes, **history.failed, **outcomes_of(committed, outcomes, history.made)}
