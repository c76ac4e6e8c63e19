"""Finds a recorded run by name, and reads its record."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dataward.cli.complaints import visible
from dataward.cli.output import busy, counted, stderr_console
from dataward.cli.visiting import on_this_machine, visit
from dataward.errors import DatawardError, FormatError
from dataward.formats import read_workflow
from dataward.model.events import Event
from dataward.model.workflow import TaskId, Workflow
from dataward.reports.event_file import EventFileReader
from dataward.runs.run_directory import (
    NoRunError,
    RunFacts,
    RunRecord,
    find_run,
    runs_below,
)


class UntoldTaskError(DatawardError):
    """What became of a task of a cluster is known only at nodes that are not up."""


def recorded_run(name: str) -> RunRecord:
    """The run of that name; without a name, the latest of the runs below this directory."""
    with looking_into(name or "."):
        return find_run(name) if name else _latest_here()


@contextmanager
def run_named(
    name: str,
    access: Path | None,
    contacts: Sequence[str] | None,
    logs_of: Sequence[str] = (),
) -> Iterator[RunRecord]:
    """As `recorded_run`; with an access file, the run of this name in a cluster, as it is now.

    Its record is brought here for the while, with the logs of these tasks.
    """
    if access is None:
        on_this_machine(contacts)
        yield recorded_run(name)
        return
    if not name:
        raise NoRunError("--access needs a run's name; 'dataward status' lists them")
    from dataward.cluster.mirror import mirrored

    with TemporaryDirectory(prefix="dataward-") as place, ExitStack() as stack:
        path, tasks = Path(place) / name, [TaskId(task) for task in logs_of]
        with busy(f"bringing what is known of {name}"):
            record = visit(
                access,
                contacts,
                lambda visitor: mirrored(visitor, name, path, stack, tasks),
                run=name,
            )
        warn_of_untold(name, record.facts().untold)
        yield record


def warn_of_untold(run: str, untold: int) -> None:
    """Say on stderr that of so many complete tasks of a cluster's run nothing is told here."""
    if untold:
        stderr_console().print(
            f"warning: {visible(run)}: nothing is told of {counted(untold, 'complete task')}: "
            "it is known only at nodes that are not up, or is lost",
            soft_wrap=True,
        )


def check_told(record: RunRecord, task: str) -> None:
    """Check that it is known what became of the task. Raises UntoldTaskError."""
    facts = record.facts()
    if not facts.untold:
        return
    if any(getattr(event, "task", "") == task for event in events_of(record)):
        return
    raise UntoldTaskError(
        f"nothing is known of {task!r}: the node that ran it is not up, or it has not run; "
        f"'dataward status {facts.cluster_run}' says how the run stands"
    )


def _latest_here() -> RunRecord:
    began = {run: facts.began for run in runs_below(Path()) if (facts := facts_of(run))}
    if not began:
        raise NoRunError("there is no run here; name one, or make one with 'dataward run FILE'")
    return max(began, key=lambda run: began[run])


def facts_of(run: RunRecord) -> RunFacts | None:
    """The facts of a run; None, with a warning, if its file cannot be read."""
    try:
        return run.facts()
    except FormatError as error:
        stderr_console().print(f"warning: {visible(str(error))}", soft_wrap=True)
        return None


@contextmanager
def looking_into(name: str) -> Iterator[None]:
    """Turn an OSError into a FormatError about ``name``."""
    try:
        yield
    except OSError as error:
        raise FormatError(name, f"cannot be read ({error.strerror or error})") from error


def workflow_of(run: RunRecord) -> Workflow:
    with busy(f"reading {run.workflow}"):
        return read_workflow(run.workflow)


def events_of(run: RunRecord) -> Iterator[Event]:
    """Every event of a run. There is no warning if the list is incomplete: the run was killed."""
    yield from EventFileReader(run.events)
