"""``dataward events``: writes the events of a cluster's run as one list."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import AccessOption, ClusterRunArgument, ContactOption, JsonOption
from dataward.cli.parameters import Option


def events_command(
    run: ClusterRunArgument,
    output: Annotated[Path, Option("--output", "-o", help="Where to write the list.")],
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
) -> None:
    """Write the events of a run, which every node has kept for itself, as one list.

    It has the form of the lists that `run` and `simulate` write. Clocks differ, so the list is in
    an order in which no task begins before those it waits for have ended.

    Examples:

    - `dataward events montage-9e1f -o montage.events --access lab/read.access`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import busy, counted, encodable, print_json, stdout_console
    from dataward.cli.recorded import warn_of_untold
    from dataward.cli.visiting import visit
    from dataward.cluster.mirror import written_events

    with busy(f"bringing the events of {run}"):
        told = visit(access, contacts, lambda asks: written_events(asks, run, output), run=run)
    warn_of_untold(run, told.untold)
    count = len(told.events)
    if json:
        print_json({"file": encodable(output), "events": count, "untold_tasks": told.untold})
        return
    stdout_console().print(f"{counted(count, 'event')} in {visible(output)}", soft_wrap=True)
