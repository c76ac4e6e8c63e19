"""``dataward events``: writes the events of a cluster's run as one list."""

from pathlib import Path
from typing import Annotated

from dataward.cli.parameters import Argument, Option


def events_command(
    run: Annotated[str, Argument(help="The run's name, as 'dataward status' lists it.")],
    out: Annotated[Path, Option("--out", "-o", help="The file to write.")],
    access: Annotated[
        Path | None, Option(help="The access file; default: as DATAWARD_ACCESS says.")
    ] = None,
    contacts: Annotated[
        list[str] | None, Option("--contact", help="Ask the node at HOST:PORT.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print how many there are as JSON.")] = False,
) -> None:
    """Write the events of a run, which every node has kept for itself, as one list.

    It has the form of the lists that `run` and `simulate` write. Clocks differ, so the list is in
    an order in which no task begins before those it waits for have ended.

    Examples:

    - `dataward events montage-9e1f -o montage.events --access lab/read.access`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import counted, encodable, print_json, stdout_console
    from dataward.cli.visiting import visit
    from dataward.cluster.mirror import written_events

    count = visit(access, contacts, lambda visitor: written_events(visitor, run, out))
    if json:
        print_json({"file": encodable(out), "events": count})
        return
    stdout_console().print(f"{counted(count, 'event')} in {visible(out)}", soft_wrap=True)
