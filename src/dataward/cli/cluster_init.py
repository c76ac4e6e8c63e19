"""``dataward cluster init``: founds a cluster."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import JsonOption, check_address
from dataward.cli.parameters import Argument, Option


def cluster_init_command(
    directory: Annotated[Path, Argument(help="A new directory for the cluster's files.")],
    name: Annotated[str, Option(help="The cluster's name; default: the directory's.")] = "",
    store: Annotated[
        str, Option(help="The store's server, as valkey://:PASSWORD@HOST:6379 or valkeys://...")
    ] = "",
    contacts: Annotated[
        list[str] | None,
        Option("--contact", help="Where a node will be, as HOST:PORT, for who submits."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Found a cluster: its certificate authority, and an access file for each role.

    `node.access` is for machines that run nodes, `submit.access` for people who may submit
    workflows and so run code as the nodes' user, `read.access` for those who may only look. Keep
    `authority.key` to yourself: whoever has it can let anybody in.

    Examples:

    - `dataward cluster init lab`
    - `dataward cluster init lab --store valkeys://:secret@db.example.org`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import print_json, stderr_console, stdout_console
    from dataward.cli.visiting import needs_extra

    try:
        from dataward.cluster.founding import ClusterDirectory
        from dataward.stores.address import warnings_about
    except ImportError as error:
        raise needs_extra(error) from error
    for contact in contacts or ():
        check_address("--contact", contact)
    founded = ClusterDirectory(directory)
    for warning in warnings_about(store) if store else ():
        stderr_console().print(f"warning: {warning}", soft_wrap=True)
    cluster = name or directory.absolute().name
    founded.found(cluster, store, tuple(contacts or ()))
    files = {role: str(founded.access_file(role)) for role in ("node", "submit", "read")}
    if json:
        print_json({"cluster": cluster, "access": files})
        return
    console = stdout_console()
    console.print(f"founded {visible(cluster)} in {visible(directory)}", soft_wrap=True)
    for role, path in files.items():
        console.print(f"  {role:8}{visible(path)}", soft_wrap=True)
