"""``dataward why``: says why a task ran, was skipped, waits or failed, or that it was removed."""

import time
from typing import Annotated

from dataward.cli.options import ContactOption, ElsewhereOption, JsonOption, TaskArgument
from dataward.cli.parameters import Option


def why_command(
    task: TaskArgument,
    run: Annotated[
        str, Option(help="A run, as montage.run or montage.run/2; default: the latest here.")
    ] = "",
    access: ElsewhereOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """Say in one sentence why a task ran, was skipped, waits or failed, or that it was removed.

    Examples:

    - `dataward why mAdd_1`
    - `dataward why mAdd_1 --run montage.run/2`
    - `dataward why mAdd_1 --run montage-9e1f --access lab/read.access`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import busy, encodable, print_json, stdout_console
    from dataward.cli.recorded import check_told, events_of, run_named, workflow_of
    from dataward.reports.known_tasks import find_task
    from dataward.reports.why import why

    with run_named(run, access, contacts) as record:
        workflow = workflow_of(record)
        with busy(f"reading {record.events}"):
            now = record.facts().clock_seconds(time.time())
            is_under_way = record.is_under_way()
            find_task(workflow, task)
            check_told(record, task)
            answer = why(events_of(record), workflow, task, is_under_way=is_under_way, now=now)
    if json:
        name = run if access else encodable(record.path)
        print_json({"run": name, "task": task, "why": answer})
    else:
        stdout_console().print(visible(answer), soft_wrap=True)
