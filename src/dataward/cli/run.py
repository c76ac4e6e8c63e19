"""``dataward run``: runs a workflow for real, on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dataward.cli.deadline_option import BestEffort, DeadlineText, deadline_given
from dataward.cli.exit_codes import ExitCode
from dataward.cli.options import (
    ContactOption,
    ElsewhereOption,
    EventsOption,
    ForceOption,
    FreshOption,
    JsonOption,
    ParameterOption,
    QuietOption,
    RetriesOption,
    SettingOption,
    SlotsOption,
    TargetArguments,
    TimeLimitOption,
    TrackProgramsOption,
    UntilOption,
    WorkflowFile,
    WrapOption,
)
from dataward.cli.parameters import Option

if TYPE_CHECKING:
    from dataward.api.run import RunRequest, RunToDo
    from dataward.model.deadline import WantedDeadline
    from dataward.model.states import RunState


def run_command(
    file: WorkflowFile,
    targets: TargetArguments = None,
    slots: SlotsOption = None,
    nodes: Annotated[
        int, Option(help="Nodes, each with its own depot, to try out locality.", min=1)
    ] = 1,
    out: Annotated[Path | None, Option(help="The run directory; default NAME.run, here.")] = None,
    keep: Annotated[
        str,
        Option(
            help="Files between tasks that are kept for reruns: up to 50GB, say; auto (a tenth of "
            "what the disk has free), final (none), or all (in outputs/ too)."
        ),
    ] = "auto",
    force: ForceOption = None,
    until: UntilOption = None,
    parameters: ParameterOption = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only say what would run, why, and for how long.")
    ] = False,
    replace: Annotated[
        bool, Option("--replace", help="Use the run directory even if it is another workflow's.")
    ] = False,
    resume: Annotated[
        bool, Option("--resume", help="Continue the last run, which was interrupted.")
    ] = False,
    retries: RetriesOption = 0,
    time_limit: TimeLimitOption = "",
    wrap: WrapOption = None,
    track_programs: TrackProgramsOption = False,
    strategy: Annotated[
        str, Option(help="How tasks are scheduled; best: as the simulator advises.")
    ] = "dataward",
    set_: SettingOption = None,
    events: EventsOption = None,
    access: ElsewhereOption = None,
    contacts: ContactOption = None,
    fresh: FreshOption = False,
    deadline: DeadlineText = None,
    best_effort: BestEffort = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a workflow on this machine: real processes, real files.

    Everything is kept in one directory: outputs (`outputs/`), what tasks printed, and the events.
    A second run in the same directory runs only tasks that are affected by changes. Ctrl-C lets
    running tasks finish, a second Ctrl-C kills them; `--resume` continues after that or a crash.

    A task may run as long as `--time-limit` says and use the memory that the workflow gives it.
    Figures that a run has measured are no limits: half as much again and 64 MiB are allowed.

    With `--deadline` it says first whether it will end by then, and how sure that is. If that
    cannot be promised, nothing is run, and the earliest that could be is told; `--best-effort` runs
    it anyway. A deadline is a duration, a time of day, or a date and a time.

    Inputs are looked for beside FILE, or in NAME.inputs beside it. Tasks run with your permissions;
    there is no sandbox against malice.

    Examples:

    - `dataward run montage.json`
    - `dataward run montage.json --slots 4 --retries 2 --time-limit 10min`
    - `dataward run montage.json --nodes 4 --keep all --out /scratch/montage.run`
    - `dataward run montage.json --nodes 4 --strategy best`
    - `dataward run montage.json --resume`
    - `dataward run words.json merged.txt --dry-run`
    - `dataward run words.json --until count`
    - `dataward run words.json --force count --set-param lang=en`
    - `dataward run blast.json --wrap 'apptainer exec /images/blast.sif {command}'`
    - `dataward run blast.json --wrap 'blastall=nice -n 19 {command}'`
    - `dataward run montage.json --access lab/submit.access`
    - `dataward run montage.json --deadline 2h`
    - `dataward run montage.json --deadline 2h --best-effort`
    """
    from dataward.api.run import RunRequest, begin, prepared
    from dataward.cli.output import (
        check_spares,
        print_json,
        print_warnings,
        reading_file,
        stderr_console,
        stdout_console,
    )
    from dataward.cli.run_watcher import RunWatcher
    from dataward.cli.time_limit import time_limit_seconds
    from dataward.cli.visiting import on_this_machine
    from dataward.errors import SettingError
    from dataward.formats.read import read_workflow
    from dataward.model.parameters import parse_parameters

    wanted = deadline_given(deadline, best_effort)
    request = RunRequest(
        targets=targets or (),
        until=until or (),
        slots=slots or 0,
        nodes=nodes,
        out=out,
        keep=keep,
        force=force or (),
        parameters=parse_parameters(parameters or []),
        replace=replace,
        resume=resume,
        retries=retries,
        time_limit_seconds=time_limit_seconds(time_limit),
        wrap=wrap or (),
        track_programs=track_programs,
        strategy=strategy,
        settings=set_ or (),
        deadline=wanted,
        best_effort=best_effort,
    )
    check_spares(file, events)
    if access is not None:
        given = _words(
            slots=slots, nodes=nodes if nodes > 1 else None, events=events,
            keep=keep if keep != "auto" else None, resume=resume or None,
            dry_run=dry_run or None, replace=replace or None,
        )  # fmt: skip
        _run_on_cluster(
            access, contacts, file, request, given, wanted, fresh=fresh, json=json, quiet=quiet
        )
        return
    on_this_machine(contacts)
    if fresh:
        raise SettingError("--fresh is for clusters; here, --force names the tasks to run")
    with reading_file(file):
        workflow = read_workflow(file)
    print_warnings(workflow, str(file))
    todo = prepared(workflow, file, request)
    if todo.choice and not (quiet or json):
        stderr_console().print(todo.choice, soft_wrap=True)
    if todo.answer is not None and not (dry_run or json):
        (stdout_console() if not todo.may_begin else stderr_console()).print(
            todo.answer.sentence, soft_wrap=True
        )
    if dry_run:
        from dataward.cli.forecast import show_forecast

        show_forecast(todo, json=json)
        if todo.options.book is not None:
            todo.options.book.close()
        _exit_if_refused(todo)
        return
    if todo.answer is not None and not todo.may_begin:
        if json:
            print_json({"workflow": workflow.name, "state": "refused", **todo.answer.as_json()})
        _exit_if_refused(todo)
    ending = begin(todo, RunWatcher(quiet=quiet or json), events)
    from dataward.cli.run_end import RunEnd, end_as_json, print_end, tell_stale

    given = _words(
        slots=slots, nodes=nodes if nodes > 1 else None, retries=retries or None,
        keep=keep if keep != "auto" else None, time_limit=time_limit or None,
        strategy=strategy if strategy != "dataward" else None,
    )  # fmt: skip
    given += [word for change in set_ or () for word in ("--set", change)]
    given += [word for change in parameters or () for word in ("--set-param", change)]
    given += [word for name in until or () for word in ("--until", name)]
    given += [word for what in force or () for word in ("--force", what)]
    given += [word for line in wrap or () for word in ("--wrap", line)]
    given += ["--track-programs"] if track_programs else []
    named = list(targets or ())
    given += ["--"] * any(name.startswith("-") for name in named) + named
    answer = todo.answer.as_json() if todo.answer is not None else None
    end = RunEnd(ending, str(file), given, todo.choice, answer)
    tell_stale(ending.stale)
    if json:
        print_json(end_as_json(end))
    else:
        print_end(end)
    if end.is_interrupted:
        raise SystemExit(ExitCode.INTERRUPTED)
    _exit_as(end.state)


def _run_on_cluster(
    access: Path,
    contacts: list[str] | None,
    file: Path,
    request: "RunRequest",
    unfit: list[str],
    deadline: "WantedDeadline | None",
    *,
    fresh: bool,
    json: bool,
    quiet: bool,
) -> None:
    from dataward.cli.deadline_line import refusal_as_json
    from dataward.cli.output import print_json
    from dataward.cli.run_end import end_as_json, print_end
    from dataward.cli.visiting import needs_extra
    from dataward.errors import DeadlineRefusedError, SettingError
    from dataward.runs.preparation import stem_of

    if unfit:
        raise SettingError(f"{unfit[0]} is for runs on this machine, not for a cluster")
    if not isinstance(request.strategy, str) or request.strategy == "best":
        raise SettingError("--strategy best asks about this machine; name one for a cluster")
    try:
        from dataward.cli.run_on_cluster import run_on_cluster
        from dataward.cluster.submitting import SubmitRequest
    except ImportError as error:
        raise needs_extra(error) from error
    asked = SubmitRequest(
        targets=request.targets,
        until=request.until,
        force=request.force,
        parameters=request.parameters,
        wrap=request.wrap,
        track_programs=request.track_programs,
        strategy=request.strategy,
        settings=request.settings,
        retries=request.retries,
        time_limit_seconds=request.time_limit_seconds,
        fresh=fresh,
        deadline=deadline,
    )
    out = request.out or Path(f"{stem_of(file)}.run")
    try:
        end = run_on_cluster(access, contacts, file, asked, out, quiet=quiet or json)
    except DeadlineRefusedError as error:
        if not json:
            raise
        print_json(refusal_as_json(error))
        raise SystemExit(ExitCode.REFUSED) from None
    if json:
        print_json(end_as_json(end))
    else:
        print_end(end)
    _exit_as(end.state)


def _exit_if_refused(todo: "RunToDo") -> None:
    if not todo.may_begin:
        raise SystemExit(ExitCode.REFUSED)


def _exit_as(state: "RunState") -> None:
    from dataward.model.states import RunState

    if state is RunState.FAILED:
        raise SystemExit(ExitCode.FAILED)
    if state in (RunState.PARTIAL, RunState.CANCELLED):
        raise SystemExit(ExitCode.PARTIAL)


def _words(**options: object) -> list[str]:
    """Options that differ from their defaults, as words of a command line."""
    return [
        word
        for name, value in options.items()
        if value is not None
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
