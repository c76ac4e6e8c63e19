"""``dataward watch``: shows a run of a cluster while it goes on."""

from dataward.cli.options import (
    AccessOption,
    ClusterRunArgument,
    ContactOption,
    JsonOption,
    QuietOption,
)


def watch_command(
    run: ClusterRunArgument,
    access: AccessOption = None,
    contacts: ContactOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Watch a run of a cluster until it has ended; Ctrl-C ends the watching, not the run.

    Examples:

    - `dataward watch montage-9e1f --access lab/read.access`
    """
    from dataward.cli.watching import watch_to_end

    watch_to_end(access, contacts, run, json=json, quiet=quiet)
