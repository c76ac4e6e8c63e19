"""``dataward watch``: shows a run of a cluster while it goes on."""

from pathlib import Path
from typing import Annotated

from dataward.cli.parameters import Argument, Option


def watch_command(
    run: Annotated[str, Argument(help="The run's name, as 'dataward status' lists it.")],
    access: Annotated[
        Path | None, Option(help="The access file; default: as DATAWARD_ACCESS says.")
    ] = None,
    contacts: Annotated[
        list[str] | None, Option("--contact", help="Ask the node at HOST:PORT.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print how it ended as JSON.")] = False,
    quiet: Annotated[bool, Option("--quiet", help="Only wait until it has ended.")] = False,
) -> None:
    """Watch a run of a cluster until it has ended; Ctrl-C ends the watching, not the run.

    Examples:

    - `dataward watch montage-9e1f --access lab/read.access`
    """
    from dataward.cli.watching import watch_to_end

    watch_to_end(access, contacts, run, json=json, quiet=quiet)
