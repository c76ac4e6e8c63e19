"""``dataward run``: runs a workflow for real, on this machine."""

import os
from contextlib import ExitStack
from dataclasses import replace as replaced
from pathlib import Path
from typing import Annotated

import typer

from dataward.cli.exit_codes import ExitCode
from dataward.cli.forecast import show_forecast
from dataward.cli.one_run import OneRun
from dataward.cli.output import print_json, print_warnings, reading_file
from dataward.cli.run_end import end_as_json, print_end
from dataward.cli.settings import change_settings, is_setting_of
from dataward.cli.strategy import changed_strategy
from dataward.errors import SettingError
from dataward.formats import read_workflow
from dataward.live.fitting import check_settable, fitted
from dataward.live.live_runner import RunnerSettings
from dataward.live.session import Slice
from dataward.model.parameters import parse_parameters, with_parameters
from dataward.model.quantities import parse_seconds
from dataward.model.wrapping import wrapped
from dataward.runs.belonging import check_belonging
from dataward.runs.keeping import parse_keep
from dataward.runs.preparation import stem_of
from dataward.runs.run_directory import RunDirectory, RunState
from dataward.runs.selection import asked_for
from dataward.runs.workflow_run import RunOptions
from dataward.strategies.registry import strategy_named


def run_command(
    file: Annotated[Path, typer.Argument(help="The workflow: WfFormat, DAX or Pegasus YAML.")],
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only what makes these: files, tasks or types of tasks; default: everything."
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(help="Tasks at a time on each node; default: as many as cores.", min=1),
    ] = None,
    nodes: Annotated[
        int, typer.Option(help="Nodes, each with its own depot, to try out locality.", min=1)
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="The run directory; default NAME.run, here.")
    ] = None,
    keep: Annotated[
        str,
        typer.Option(
            help="Files between tasks that are kept for reruns: up to 50GB, say; auto (a tenth of "
            "what the disk has free), final (none), or all (in outputs/ too)."
        ),
    ] = "auto",
    force: Annotated[
        list[str] | None,
        typer.Option("--force", help="Run this task, or type of tasks, even if nothing changed."),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set-param", help="Fill {name} in commands and file names: name=value."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would run, why, and for how long.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Use the run directory even if it is another workflow's."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the last run, which was interrupted.")
    ] = False,
    retries: Annotated[int, typer.Option(help="How often to retry a failing task.", min=0)] = 0,
    time_limit: Annotated[
        str, typer.Option(help="Longest run of a task, as 90s, 5min or 2h; default: no limit.")
    ] = "",
    wrap: Annotated[
        list[str] | None,
        typer.Option(help="Run every command by another, or TYPE= and one for tasks of a type."),
    ] = None,
    strategy: Annotated[str, typer.Option(help="How tasks are scheduled.")] = "adage",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A node's or runner's setting, as log_bytes_max=1000000."),
    ] = None,
    events: Annotated[Path | None, typer.Option(help="Write every event to this file too.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing while it runs.")] = False,
) -> None:
    """Run a workflow on this machine: real processes, real files.

    Everything is kept in one directory: outputs (`outputs/`), what tasks printed, and the events.
    A second run in the same directory runs only tasks that are affected by changes. Ctrl-C lets
    running tasks finish, a second Ctrl-C kills them; `--resume` continues after that or a crash.

    Inputs are looked for beside FILE, or in NAME.inputs beside it. Tasks run with your permissions;
    there is no sandbox against malice.

    Examples:

    - `dataward run montage.json`
    - `dataward run montage.json --slots 4 --retries 2 --time-limit 10min`
    - `dataward run montage.json --nodes 4 --keep all --out /scratch/montage.run`
    - `dataward run montage.json --resume`
    - `dataward run words.json merged.txt --dry-run`
    - `dataward run words.json --force count --set-param lang=en`
    - `dataward run blast.json --wrap 'apptainer exec blast.sif {command}'`
    - `dataward run blast.json --wrap 'blastall=nice -n 19 {command}'`
    """
    changes = set_ or []
    for_runner = [change for change in changes if is_setting_of(RunnerSettings, change)]
    for_node = [change for change in changes if change not in for_runner]
    runner = RunnerSettings(time_limit_seconds=parse_seconds(time_limit) if time_limit else 0.0)
    machine = Slice(nodes, slots or os.cpu_count() or 1)
    for change in for_node:
        check_settable(change.partition("=")[0], machine)
    options = RunOptions(
        machine=machine,
        strategy=changed_strategy(fitted(strategy_named(strategy), machine), for_node),
        runner=change_settings(runner, for_runner),
        retries=retries,
        keep=parse_keep(keep),
    )
    with reading_file(file):
        workflow = with_parameters(read_workflow(file), parse_parameters(parameters or []))
    print_warnings(workflow, str(file))
    workflow, request = asked_for(wrapped(workflow, wrap or ()), file, targets or [], force or [])
    options = replaced(options, request=request)
    directory = RunDirectory(out or Path(f"{stem_of(file)}.run"))
    if resume and not directory.exists():
        raise SettingError(f"{directory.path} holds no run to resume; run without --resume")
    if not replace:
        check_belonging(directory, workflow, file)
    if dry_run:
        show_forecast(workflow, file, directory, options, json=json)
        return
    directory.make()
    with ExitStack() as stack:
        stack.callback(directory.lock().release)
        given = _words(
            slots=slots, nodes=nodes if nodes > 1 else None, retries=retries or None,
            keep=keep if keep != "auto" else None, time_limit=time_limit or None,
            strategy=strategy if strategy != "adage" else None,
        )  # fmt: skip
        given += [word for change in changes for word in ("--set", change)]
        given += [word for change in parameters or () for word in ("--set-param", change)]
        given += [word for line in wrap or () for word in ("--wrap", line)]
        given += targets or []
        one = OneRun(workflow, file, directory, options, resume=resume, given=given)
        end = one.run(stack, events, quiet=quiet or json)
        if json:
            print_json(end_as_json(end))
        else:
            print_end(end)
    if end.is_interrupted:
        # typer.Exit with this code would become KeyboardInterrupt, and the end is already printed.
        raise SystemExit(ExitCode.INTERRUPTED)
    if end.state is RunState.FAILED:
        raise typer.Exit(ExitCode.FAILED)


def _words(**options: object) -> list[str]:
    """Options that differ from their defaults, as words of a command line."""
    return [
        word
        for name, value in options.items()
        if value is not None
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
