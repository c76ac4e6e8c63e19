"""``dataward run --access``: submits a workflow, watches it, and brings its results here."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

from dataward.cli.complaints import visible
from dataward.cli.output import busy, stderr_console
from dataward.cli.recorded import warn_of_untold
from dataward.cli.run_end import RunEnd
from dataward.cli.submission import submitted, words_about
from dataward.cli.visiting import visit
from dataward.cli.watching import say_it_goes_on, watched
from dataward.cluster.mirror import bring_logs, mirrored
from dataward.cluster.results import fetched
from dataward.cluster.submitting import SubmitRequest
from dataward.cluster.visitor import Visitor
from dataward.errors import OutputError
from dataward.formats.read import read_workflow
from dataward.model.events import AttemptMeasured, Event
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.bounds import makespan_bounds
from dataward.reports.event_file import EventFileReader
from dataward.reports.progress import RunProgress
from dataward.reports.run_summary import RunTally
from dataward.runs.recorded_run import RunEnding
from dataward.runs.run_directory import RunDirectory, RunRecord
from dataward.runs.stale_outputs import StaleOutputs

FAILURES_BROUGHT = 100  # tasks whose logs are brought here; what others printed stays at the nodes


def run_on_cluster(
    access: Path,
    contacts: Sequence[str] | None,
    file: Path,
    request: SubmitRequest,
    out: Path,
    *,
    quiet: bool,
) -> RunEnd:
    """The end of the run. Ctrl-C ends the watching; the run goes on in the cluster."""

    async def work(visitor: Visitor) -> RunEnd:
        submission = await submitted(visitor, file, request, quiet=quiet)
        name = submission.run.name
        if not quiet:
            stderr_console().print(words_about(submission), soft_wrap=True)
        try:
            await watched(visitor, name, quiet=quiet)
        except BaseException:
            say_it_goes_on(name, access)
            raise
        brings = nullcontext() if quiet else busy(f"fetching the results of {name}")
        try:
            with ExitStack() as stack, brings:
                record = await mirrored(visitor, name, out, stack)
                await fetched(visitor, name, (), RunDirectory(out).outputs)
        except OutputError:
            fetch = f"dataward fetch {name} -o DIR --access {visible(access)}"
            stderr_console().print(f"{name} has ended; fetch it with: {fetch}", soft_wrap=True)
            raise
        cores = [member.cores for member in visitor.members.values()]
        answer = submission.answer.as_json() if submission.answer is not None else None
        ending = ending_of(record, len(cores), max(cores, default=1))
        for failure in ending.progress.failures()[:FAILURES_BROUGHT]:
            await bring_logs(visitor, name, record, failure.task, [failure.node])
        warn_of_untold(name, record.facts().untold)
        logs = f"dataward logs {name} TASK --access {visible(access)}"
        return RunEnd(ending, str(file), answer=answer, logs=logs)

    return visit(access, contacts, work, role="submit")


def ending_of(record: RunRecord, nodes: int, cores: int) -> RunEnding:
    """What a run came to, by its record."""
    workflow = read_workflow(record.workflow)
    wide = {workflow.task_ids[i]: int(c) for i, c in enumerate(workflow.cores.tolist()) if c > 1}
    tally = RunTally(wide)
    progress = RunProgress(workflow, tally.book)
    for event in EventFileReader(record.events):
        progress.add(event)
        tally.add(event)
    measured = replace(
        workflow, runtime_seconds=_measured(workflow, EventFileReader(record.events))
    )
    bound = makespan_bounds(
        measured, nodes=nodes, cores=cores, bandwidth_bytes_per_second=float("inf")
    )
    state = record.facts().state
    return RunEnding(state, progress, tally.summary(), record, bound.best_seconds, StaleOutputs())


def _measured(workflow: Workflow, events: Iterable[Event]) -> Seconds:
    seconds = workflow.runtime_seconds.copy()
    for event in events:
        if type(event) is AttemptMeasured:
            seconds[workflow.index_of[event.task]] = event.wall_seconds
    return seconds
