"""One run of a workflow with its record: begins or resumes it, and counts its events."""

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from dataward.errors import SettingError
from dataward.formats import read_workflow, write_workflow
from dataward.live.runner_pool import RunnerPool
from dataward.model.events import AttemptMeasured, Event, TaskFinished
from dataward.model.ids import NodeId
from dataward.model.states import RunState, TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.plan.bounds import makespan_bounds
from dataward.plan.end_forecast import EndForecast
from dataward.reports.event_file import EventFileReader, EventFileWriter
from dataward.reports.progress import RunProgress
from dataward.reports.run_summary import RunSummary, RunTally
from dataward.runs.deciding import Decision
from dataward.runs.end_forecasts import forecast_before, forecaster_of
from dataward.runs.known_times import Outcomes
from dataward.runs.preparation import Preparer
from dataward.runs.run_directory import (
    RunDirectory,
    RunFacts,
    RunRecord,
    ended_state,
    new_facts,
)
from dataward.runs.run_options import RunOptions
from dataward.runs.stale_outputs import StaleOutputs
from dataward.runs.watcher import Watcher
from dataward.runs.workflow_run import Listener, RunOutcome, WorkflowRun


@dataclass(frozen=True, slots=True)
class RunEnding:
    """What a run came to, whether it ended or was interrupted."""

    state: RunState
    progress: RunProgress
    summary: RunSummary
    record: RunRecord
    bound_seconds: float  # no schedule could have been faster
    stale: StaleOutputs
    forecast: EndForecast | None = None  # of the makespan, before the first task ran


class RecordedRun:
    """One run of a workflow: call `run` once. The caller holds the run directory's lock."""

    def __init__(
        self,
        workflow: Workflow,
        source: Path,
        directory: RunDirectory,
        options: RunOptions,
        pools: Mapping[NodeId, RunnerPool],
        watcher: Watcher,
        *,
        resume: bool,
    ) -> None:
        """Processes of the ``pools`` may have been launched already."""
        self._watcher = watcher
        self._workflow = workflow
        self._source = source
        self._directory = directory
        self._options = options
        self._pools = pools
        self._resume = resume
        ids, wide = workflow.task_ids, np.flatnonzero(workflow.cores > 1).tolist()
        self._tally = RunTally({ids[i]: int(workflow.cores[i]) for i in wide})
        self._progress = RunProgress(workflow, self._tally.book)
        self._seconds = workflow.runtime_seconds.copy()  # measured where known, else declared
        self._complete: dict[TaskId, None] = {}
        self._forecast: EndForecast | None = None
        self._is_forecast = False

    def run(
        self, stack: ExitStack, events: Path | None, preparer: Preparer | None = None
    ) -> RunEnding:
        """Run, or resume. If anything is raised, the record says that the run was interrupted.

        A ``preparer`` has looked at the inputs already.
        """
        preparer = preparer or self._look_at_inputs()
        # Opened first: a run that cannot write its events has not begun.
        others = [EventFileWriter(events)] if events else []
        for other in others:
            stack.callback(other.close)
        record, facts = self._resumed() if self._resume else self._begun()
        files = [EventFileWriter(record.events, append=True), *others]
        stack.callback(files[0].close)
        watcher = self._watcher
        watcher.begin(self._progress)
        stack.callback(watcher.close)

        def tick(now: float) -> None:
            watcher.refresh(now)
            for file in files:
                file.flush()

        def interrupted(times: int, running: int) -> None:
            if times == 1:
                watcher.interrupted(running)

        sinks = [*(file.add_all for file in files), self._count]
        run = WorkflowRun(
            self._workflow, preparer, self._directory, record, self._options, self._pools,
            Listener(sinks, tick, self._on_decided, interrupted), self._complete,
        )  # fmt: skip
        try:
            outcome = run.run()
            files[0].sync()  # before the record says how the run ended
        except BaseException:
            self._note(record, facts, RunState.INTERRUPTED)
            raise
        finally:
            watcher.close()
        state = _state(outcome, run.is_interrupted and outcome.unfinished > 0)
        self._note(record, facts, state, outcome)
        summary, bound_seconds = self._tally.summary(), self._bound_seconds()
        return RunEnding(
            state, self._progress, summary, record, bound_seconds, outcome.stale, self._forecast
        )

    def _on_decided(self, now: float, decision: Decision, outcomes: Outcomes) -> None:
        """Forecast the end, if this is the first decision of the run."""
        if self._is_forecast:
            return
        self._is_forecast = True
        machine = self._options.machine
        forecaster = forecaster_of(self._workflow, outcomes, machine, self._progress)
        tasks = list(decision.due), list(decision.perhaps)
        left = forecast_before(forecaster.known, *tasks, machine)
        self._watcher.foreseen(left, forecaster.left)
        self._forecast = None if left is None else left.after(now)

    def _count(self, events: Iterable[Event]) -> None:
        for event in events:
            self._progress.add(event)
            self._tally.add(event)
            if type(event) is AttemptMeasured:
                self._seconds[self._workflow.index_of[event.task]] = event.wall_seconds
            elif type(event) is TaskFinished and event.state is TaskState.COMPLETE:
                self._complete[event.task] = None

    def _look_at_inputs(self) -> Preparer:
        preparer = Preparer(
            self._workflow,
            self._source,
            self._directory,
            keep_all=self._options.keep.everything,
            request=self._options.request,
        )
        self._watcher.look_at_inputs(preparer.look_at_inputs(), preparer.input_count)
        return preparer

    # --- the record ------------------------------------------------------------------------------

    def _begun(self) -> tuple[RunRecord, RunFacts]:
        machine = self._options.machine
        facts = msgspec.structs.replace(
            new_facts(self._workflow.name, str(self._source)),
            nodes=machine.nodes,
            slots=machine.slots,
            strategy=self._options.strategy.name,
            keep=str(self._options.keep),
            tasks=len(self._workflow),
        )
        record = self._directory.new_record()
        with self._watcher.busy(f"writing {record.workflow}", len(self._workflow)):
            write_workflow(self._workflow, record.workflow)
        EventFileWriter(record.events).close()
        record.begin(facts)
        return record, facts

    def _resumed(self) -> tuple[RunRecord, RunFacts]:
        """The last run, with its events counted. Raises SettingError if it cannot be resumed."""
        record = self._directory.latest()
        facts = record.facts()
        if facts.state is RunState.COMPLETE:
            raise SettingError(
                f"{record.path} is complete, so there is nothing to resume; "
                "run without --resume to run tasks that changes since then affect"
            )
        if read_workflow(record.workflow) != self._workflow:
            raise SettingError(
                f"{self._source} has changed since {record.path} was begun; "
                "run without --resume: tasks that have not changed are skipped anyway"
            )
        latest = 0.0
        for event in EventFileReader(record.events):
            self._count([event])
            latest = max(latest, event.at)
        facts = msgspec.structs.replace(
            facts,
            starts=facts.starts + 1,
            state=RunState.RUNNING,
            counted_from=time.time() - latest,
        )
        record.write_facts(facts)
        self._options = replace(self._options, start=facts.starts, began_seconds=latest)
        return record, facts

    def _note(
        self, record: RunRecord, facts: RunFacts, state: RunState, outcome: RunOutcome | None = None
    ) -> None:
        seconds = self._tally.summary().makespan_seconds
        facts = msgspec.structs.replace(facts, state=state, makespan_seconds=seconds)
        if outcome is not None:
            facts = msgspec.structs.replace(
                facts,
                complete=outcome.complete,
                skipped=outcome.skipped,
                failed=outcome.failed,
                removed=outcome.removed,
            )
        record.write_facts(facts)

    def _bound_seconds(self) -> float:
        """The lower bound on the makespan, for the measured run times, with all files on hand."""
        measured = replace(self._workflow, runtime_seconds=self._seconds)
        machine = self._options.machine
        return makespan_bounds(
            measured,
            nodes=machine.nodes,
            cores=machine.slots,
            bandwidth_bytes_per_second=float("inf"),
        ).best_seconds


def _state(outcome: RunOutcome, is_interrupted: bool) -> RunState:
    if is_interrupted:
        return RunState.INTERRUPTED
    return ended_state(outcome.failed, outcome.removed)
