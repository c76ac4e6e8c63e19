"""``dataward logs``: prints what a task printed."""

from typing import TYPE_CHECKING, Annotated

from dataward.cli.options import ContactOption, ElsewhereOption, RunArgument, TaskArgument
from dataward.cli.parameters import Option

if TYPE_CHECKING:
    from dataward.runs.run_directory import RunRecord


def logs_command(
    run: RunArgument,
    task: TaskArgument,
    stderr: Annotated[
        bool | None, Option("--stderr/--stdout", help="Print only one; default: both.")
    ] = None,
    access: ElsewhereOption = None,
    contacts: ContactOption = None,
    attempt: Annotated[
        str, Option(help="An attempt, as n0.1.7; default: the one that won, or the last.")
    ] = "",
) -> None:
    """Print what a task wrote to stdout and stderr, unchanged.

    Of a task that was skipped, that is what it wrote in the run that made its outputs.

    Examples:

    - `dataward logs montage.run mAdd_1`
    - `dataward logs montage.run/2 mAdd_1 --stderr`
    """
    from dataward.cli.recorded import run_named

    with run_named(run, access, contacts, [task]) as record:
        _print_logs(record, task, stderr, attempt, is_whole=access is not None)


def _print_logs(
    record: "RunRecord", task: str, stderr: bool | None, attempt: str, *, is_whole: bool
) -> None:
    """``is_whole`` says that a log which is not here does not exist, whatever the run was."""
    from shlex import quote

    from dataward.api.report import with_runs_before
    from dataward.cli.complaints import visible
    from dataward.cli.recorded import UntoldTaskError, check_told, workflow_of
    from dataward.cli.task_logs import any_log, attempts_at, print_streams, say
    from dataward.errors import SettingError
    from dataward.model.ids import AttemptId
    from dataward.model.workflow import TaskId
    from dataward.reports.known_tasks import find_task

    name = TaskId(task)
    find_task(workflow_of(record), task)
    check_told(record, task)
    there = record.facts().cluster_run
    told = there if is_whole and there else record.path
    attempts, winner = attempts_at(record, name)
    for earlier in reversed(with_runs_before(record)[:-1]) if not attempts else ():
        attempts, winner = attempts_at(earlier, name)
        if attempts:
            say(f"{visible(task)} did not run in {visible(record.path)}; {visible(earlier.path)}:")
            record = earlier
            break
    if attempt and attempt not in attempts:
        known = ", ".join(attempts) or "none"
        raise SettingError(
            f"task {task!r} has no attempt {attempt!r} in this run; there are {known}"
        )
    if not attempts:
        say(f"{visible(task)} did not run in {visible(told)}, so it printed nothing")
        return
    chosen = AttemptId(attempt) if attempt else winner or attempts[-1]
    wanted = ["out", "err"] if stderr is None else ["err" if stderr else "out"]
    if there and not is_whole and not any_log(record, name, chosen):
        raise UntoldTaskError(
            f"what {task!r} printed is at the cluster's nodes; "
            f"see it with: dataward logs {there} {quote(task)} --access FILE"
        )
    print_streams(record, name, chosen, wanted)
