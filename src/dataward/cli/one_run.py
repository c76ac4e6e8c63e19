"""One call of ``dataward run``: writes its record, shows its progress and sums up its events."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from dataward.cli.complaints import visible
from dataward.cli.output import busy, counted, stderr_console
from dataward.cli.run_end import RunEnd
from dataward.cli.run_view import RunView
from dataward.errors import SettingError
from dataward.formats import read_workflow, write_workflow
from dataward.live.leftovers import end_leftovers
from dataward.live.runner_pool import RunnerPool, close_pools
from dataward.live.session import runner_pools
from dataward.live.trees import remove_tree
from dataward.model.events import AttemptMeasured, Event, TaskFinished
from dataward.model.ids import NodeId
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.plan.bounds import makespan_bounds
from dataward.plan.critical_path import bottom_levels
from dataward.reports.event_file import EventFileReader, EventFileWriter
from dataward.reports.progress import RunProgress
from dataward.reports.run_summary import RunTally
from dataward.runs.preparation import Preparer
from dataward.runs.run_directory import RunDirectory, RunFacts, RunRecord, RunState, new_facts
from dataward.runs.stale_outputs import StaleOutputs
from dataward.runs.workflow_run import Listener, RunOptions, RunOutcome, WorkflowRun

MANY_INPUTS = 1000  # fewer are checked so fast that no progress bar is needed


class OneRun:
    def __init__(
        self,
        workflow: Workflow,
        source: Path,
        directory: RunDirectory,
        options: RunOptions,
        *,
        resume: bool,
        given: Sequence[str] = (),
    ) -> None:
        self._given = given
        self._workflow = workflow
        self._source = source
        self._directory = directory
        self._options = options
        self._resume = resume
        ids, wide = workflow.task_ids, np.flatnonzero(workflow.cores > 1).tolist()
        self._tally = RunTally({ids[i]: int(workflow.cores[i]) for i in wide})
        cores = options.machine.nodes * options.machine.slots
        self._progress = RunProgress(workflow, cores, bottom_levels, self._tally.book)
        self._seconds = workflow.runtime_seconds.copy()  # measured where known, else declared
        self._complete: dict[TaskId, None] = {}

    def run(self, stack: ExitStack, events: Path | None, *, quiet: bool) -> RunEnd:
        """Run, or resume. If anything is raised, the record says that the run was interrupted."""
        pools = self._launched(stack)
        preparer = self._look_at_inputs(quiet=quiet)
        record, facts = self._resumed() if self._resume else self._begun()
        files = [EventFileWriter(record.events, append=True)]
        files += [EventFileWriter(events)] if events else []
        for file in files:
            stack.callback(file.close)
        view = RunView(self._progress, quiet=quiet)
        stack.callback(view.close)

        def tick(now: float) -> None:
            view.refresh(now)
            for file in files:
                file.flush()

        def interrupted(times: int, running: int) -> None:
            if times == 1:
                what = f"{counted(running, 'running task')} may end; Ctrl-C again kills"
                view.say(f"stopping: {what if running else 'nothing is running'}")

        sinks = [*(file.add_all for file in files), self._count]
        run = WorkflowRun(
            self._workflow, preparer, self._directory, record, self._options, pools,
            Listener(sinks, tick, interrupted), self._complete,
        )  # fmt: skip
        try:
            outcome = run.run()
        except BaseException:
            self._note(record, facts, RunState.INTERRUPTED)
            raise
        finally:
            view.close()
        _tell_stale(outcome.stale)
        is_interrupted = run.is_interrupted and outcome.unfinished > 0
        self._note(record, facts, _state(outcome, is_interrupted), outcome)
        return RunEnd(
            self._progress,
            self._tally.summary(),
            record,
            str(self._source),
            self._bound_seconds(),
            is_interrupted,
            self._given,
        )

    def _count(self, events: Iterable[Event]) -> None:
        for event in events:
            self._progress.add(event)
            self._tally.add(event)
            if type(event) is AttemptMeasured:
                self._seconds[self._workflow.index_of[event.task]] = event.wall_seconds
            elif type(event) is TaskFinished and event.state is TaskState.COMPLETE:
                self._complete[event.task] = None

    def _launched(self, stack: ExitStack) -> dict[NodeId, RunnerPool]:
        """The nodes' process pools, already starting processes if every task will have to run."""
        work = self._directory.work.absolute()
        end_leftovers(work)
        pools = runner_pools(self._options.machine, work)
        stack.callback(_discard, pools, work)
        if not self._directory.holds_outcomes():
            for pool in pools.values():
                pool.launch(len(self._workflow))
        return pools

    def _look_at_inputs(self, *, quiet: bool) -> Preparer:
        preparer = Preparer(
            self._workflow,
            self._source,
            self._directory,
            keep_all=self._options.keep.everything,
            request=self._options.request,
        )
        console = stderr_console()
        is_shown = preparer.input_count > MANY_INPUTS and console.is_terminal and not quiet
        looking: Iterable[int] = preparer.look_at_inputs()
        if is_shown:
            from rich.progress import track

            looking = track(
                looking, "looking at inputs", preparer.input_count, console=console, transient=True
            )
        for _ in looking:
            pass
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
        with busy(f"writing {record.workflow}"):
            write_workflow(self._workflow, record.workflow)
        EventFileWriter(record.events).close()
        record.write_facts(facts)  # last: a run killed before this counts as not begun
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
        facts.starts += 1
        facts.state = RunState.RUNNING
        record.write_facts(facts)
        self._options = replace(self._options, start=facts.starts, began_seconds=latest)
        return record, facts

    def _note(
        self, record: RunRecord, facts: RunFacts, state: RunState, outcome: RunOutcome | None = None
    ) -> None:
        facts.state = state
        facts.makespan_seconds = self._tally.summary().makespan_seconds
        if outcome is not None:
            facts.complete, facts.skipped = outcome.complete, outcome.skipped
            facts.failed = outcome.failed
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


def _discard(pools: Mapping[NodeId, RunnerPool], work: Path) -> None:
    close_pools(pools.values())
    with suppress(OSError):
        remove_tree(work)


def _tell_stale(stale: StaleOutputs) -> None:
    for files, what in ((stale.removed, "removed"), (stale.changed, "left, since it was edited,")):
        if files:
            names = ", ".join(visible(file) for file in files[:5])
            more = f" and {len(files) - 5:,} more" if len(files) > 5 else ""
            stderr_console().print(
                f"{what} what the workflow no longer makes: {names}{more}", soft_wrap=True
            )


def _state(outcome: RunOutcome, is_interrupted: bool) -> RunState:
    if is_interrupted:
        return RunState.INTERRUPTED
    return RunState.FAILED if outcome.failed else RunState.COMPLETE
