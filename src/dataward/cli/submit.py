"""``dataward submit``: submits a workflow to a cluster."""

from typing import TYPE_CHECKING, Annotated

from dataward.cli.deadline_option import BestEffort, DeadlineText
from dataward.cli.options import (
    AccessOption,
    ContactOption,
    ForceOption,
    FreshOption,
    JsonOption,
    ParameterOption,
    QuietOption,
    RetriesOption,
    SettingOption,
    TargetArguments,
    TimeLimitOption,
    TrackProgramsOption,
    UntilOption,
    WorkflowFile,
    WrapOption,
)
from dataward.cli.parameters import Option

if TYPE_CHECKING:
    from dataward.cluster.submitting import SubmittedRun


def submit_command(
    file: WorkflowFile,
    targets: TargetArguments = None,
    access: AccessOption = None,
    contacts: ContactOption = None,
    name: Annotated[str, Option(help="The run's name; default: the workflow's, and letters.")] = "",
    wait: Annotated[bool, Option("--wait", help="Watch the run until it has ended.")] = False,
    fresh: FreshOption = False,
    copies: Annotated[int, Option(help="Nodes that should have each result.", min=1)] = 1,
    force: ForceOption = None,
    until: UntilOption = None,
    parameters: ParameterOption = None,
    retries: RetriesOption = 0,
    time_limit: TimeLimitOption = "",
    wrap: WrapOption = None,
    track_programs: TrackProgramsOption = False,
    strategy: Annotated[str, Option(help="How tasks are scheduled.")] = "dataward",
    deadline: DeadlineText = None,
    best_effort: BestEffort = False,
    set_: SettingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Submit a workflow to a cluster, and leave: the nodes run it to its end.

    Inputs are looked for as by `dataward run`, and uploaded once: a file that some node has already
    is not sent again. Inputs whose location in the workflow is an address (s3://, https://, file://
    for a disk that all nodes share) are read there by the nodes that need them. Tasks whose outcome
    is known in the cluster, by content, are not run again.

    With `--deadline` the nodes are asked first: either all tasks are promised in time, or nothing
    is submitted, and the earliest finish is told that could be promised.

    Examples:

    - `dataward submit montage.json --access lab/submit.access`
    - `dataward submit montage.json --wait --retries 2`
    - `dataward submit blast.json --strategy adage --copies 2 --name blast-7`
    - `dataward submit montage.json --deadline 2h`
    """
    from dataward.cli.deadline_line import refusal_as_json
    from dataward.cli.deadline_option import deadline_given
    from dataward.cli.exit_codes import ExitCode
    from dataward.cli.output import print_json, stdout_console
    from dataward.cli.submission import submission_as_json, submitted, words_about
    from dataward.cli.time_limit import time_limit_seconds
    from dataward.cli.visiting import visit
    from dataward.cli.watching import watch_to_end
    from dataward.cluster.submitting import SubmitRequest
    from dataward.errors import DeadlineRefusedError
    from dataward.model.parameters import parse_parameters

    request = SubmitRequest(
        targets=targets or (),
        until=until or (),
        force=force or (),
        parameters=parse_parameters(parameters or []),
        wrap=wrap or (),
        track_programs=track_programs,
        strategy=strategy,
        settings=set_ or (),
        retries=retries,
        time_limit_seconds=time_limit_seconds(time_limit),
        fresh=fresh,
        copies=copies,
        name=name,
        deadline=deadline_given(deadline, best_effort),
    )
    try:
        submission: SubmittedRun = visit(
            access,
            contacts,
            lambda visitor: submitted(visitor, file, request, quiet=quiet or json),
            role="submit",
        )
    except DeadlineRefusedError as error:
        if not json:
            raise
        print_json(refusal_as_json(error))
        raise SystemExit(ExitCode.REFUSED) from None
    if json and not wait:
        print_json(submission_as_json(submission))
        return
    if not json:
        stdout_console().print(words_about(submission), soft_wrap=True)
    if wait:
        watch_to_end(access, contacts, submission.run.name, json=json, quiet=quiet)
