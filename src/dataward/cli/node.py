"""``dataward node``: runs a node of a cluster."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import LeaseOption, SlotsOption
from dataward.cli.parameters import Option


def node_command(
    access: Annotated[Path, Option(help="The access file for nodes: node.access.")],
    name: Annotated[
        str, Option(help="The node's name, different from all others; default: the host's.")
    ] = "",
    slots: SlotsOption = None,
    depot: Annotated[
        Path | None, Option(help="Where files are kept; default: dataward-NAME, here.")
    ] = None,
    capacity: Annotated[
        str, Option(help="How much the depot may hold, as 100GB; default: what the disk has.")
    ] = "",
    listen: Annotated[
        str, Option(help="Listen here, as 0.0.0.0:7000; default: loopback, any port.")
    ] = "127.0.0.1:0",
    address: Annotated[
        str, Option(help="Where others reach it, as HOST:PORT; default: the host's name.")
    ] = "",
    store: Annotated[str, Option(help="The store's server; default: as in the access file.")] = "",
    lease: LeaseOption = "10s",
    site: Annotated[str, Option(help="The site that the node is at.")] = "",
    bandwidth: Annotated[
        str, Option(help="Of the node's link, as 10Gbps, for plans; default: 1Gbps.")
    ] = "",
    quiet: Annotated[bool, Option("--quiet", help="Say nothing but warnings.")] = False,
) -> None:
    """Run a node: it joins the cluster, serves files and runs tasks, until it is drained.

    Ctrl-C or SIGTERM drains it: it finishes the tasks that run, hands over files that others need,
    and leaves. A second one ends it at once; what it ran is then run elsewhere. A node that is
    started again with the same depot has its files still.

    Tasks run with your permissions; there is no sandbox against malice.

    Examples:

    - `dataward node --access lab/node.access`
    - `dataward node --access lab/node.access --listen 0.0.0.0:7000 --depot /scratch/dw --slots 32`
    """
    from dataward.cli.visiting import needs_extra

    try:
        from dataward.cli.node_process import run_node
    except ImportError as error:
        raise needs_extra(error) from error
    run_node(
        access, name=name, slots=slots or 0, depot=depot, capacity=capacity, listen=listen,
        address=address, store=store, lease=lease, site=site,
        bandwidth=bandwidth, quiet=quiet,
    )  # fmt: skip
