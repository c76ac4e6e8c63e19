"""``dataward submit``: submits a workflow to a cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dataward.cli.deadline_option import BestEffort, DeadlineText
from dataward.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from dataward.cluster.submitting import SubmittedRun


def submit_command(
    file: Annotated[Path, Argument(help="The workflow: WfFormat, DAX or Pegasus YAML.")],
    targets: Annotated[
        list[str] | None,
        Argument(help="Only what makes these: files, tasks or types of tasks; default: all."),
    ] = None,
    access: Annotated[
        Path | None, Option(help="The access file; default: as DATAWARD_ACCESS says.")
    ] = None,
    contacts: Annotated[
        list[str] | None, Option("--contact", help="Ask the node at HOST:PORT.")
    ] = None,
    name: Annotated[str, Option(help="The run's name; default: the workflow's, and letters.")] = "",
    wait: Annotated[bool, Option("--wait", help="Watch the run until it has ended.")] = False,
    fresh: Annotated[
        bool, Option("--fresh", help="Run every task, even if the cluster knows its outcome.")
    ] = False,
    copies: Annotated[int, Option(help="Nodes that should have each result.", min=1)] = 1,
    force: Annotated[
        list[str] | None,
        Option("--force", help="Run this task, or type of tasks, even if nothing changed."),
    ] = None,
    until: Annotated[
        list[str] | None,
        Option(help="Go no further than this file, task or type of tasks."),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        Option("--set-param", help="Fill {name} in commands and file names: name=value."),
    ] = None,
    retries: Annotated[int, Option(help="How often to retry a failing task.", min=0)] = 0,
    time_limit: Annotated[
        str, Option(help="Longest run of a task, as 90s, 5min or 2h; default: no limit.")
    ] = "",
    wrap: Annotated[
        list[str] | None,
        Option(help="Run every command by another, or TYPE= and one for tasks of a type."),
    ] = None,
    track_programs: Annotated[
        bool, Option("--track-programs", help="Rerun tasks whose program's own file has changed.")
    ] = False,
    strategy: Annotated[str, Option(help="How tasks are scheduled.")] = "dataward",
    deadline: DeadlineText = None,
    best_effort: BestEffort = False,
    set_: Annotated[
        list[str] | None,
        Option("--set", help="A setting, as log_bytes_max=1000000; --set x=1 lists them."),
    ] = None,
    json: Annotated[bool, Option("--json", help="Print the run as JSON.")] = False,
    quiet: Annotated[bool, Option("--quiet", help="Show nothing while it goes on.")] = False,
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
    from dataward.cli.deadline_option import deadline_given
    from dataward.cli.output import print_json, stdout_console
    from dataward.cli.submission import submission_as_json, submitted, words_about
    from dataward.cli.visiting import visit
    from dataward.cli.watching import watch_to_end
    from dataward.cluster.submitting import SubmitRequest
    from dataward.model.parameters import parse_parameters
    from dataward.model.quantities import parse_seconds

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
        time_limit_seconds=parse_seconds(time_limit) if time_limit else 0.0,
        fresh=fresh,
        copies=copies,
        name=name,
        deadline=deadline_given(deadline, best_effort),
    )
    submission: SubmittedRun = visit(
        access, contacts, lambda visitor: submitted(visitor, file, request, quiet=quiet or json)
    )
    if json and not wait:
        print_json(submission_as_json(submission))
        return
    if not json:
        stdout_console().print(words_about(submission), soft_wrap=True)
    if wait:
        watch_to_end(access, contacts, submission.run.name, json=json, quiet=quiet)
