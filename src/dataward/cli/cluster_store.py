"""``dataward cluster store``: starts a local store for a cluster."""

from pathlib import Path
from typing import Annotated

from dataward.cli.parameters import Argument, Option


def cluster_store_command(
    directory: Annotated[Path, Argument(help="The cluster's directory.")],
    shards: Annotated[
        int, Option(help="Servers that share the work: 1, or 3 as a cluster.", min=1, max=3)
    ] = 1,
    replicas: Annotated[int, Option(help="Replicas of each of 3 servers.", min=0, max=1)] = 0,
    stop: Annotated[bool, Option("--stop", help="End it.")] = False,
    json: Annotated[bool, Option("--json", help="Print its address as JSON.")] = False,
) -> None:
    """Start a Valkey server of this machine for a cluster, in DIRECTORY/store.

    It is for a laptop or a test: it listens on loopback only. Otherwise name your own server, with
    `cluster init --store` or `node --store`.

    Examples:

    - `dataward cluster store lab`
    - `dataward cluster store lab --shards 3 --replicas 1`
    - `dataward cluster store lab --stop`
    """
    from dataward.cli.complaints import visible
    from dataward.cli.output import busy, print_json, stdout_console
    from dataward.cli.visiting import needs_extra

    try:
        from dataward.cluster.founding import ClusterDirectory
        from dataward.cluster.laptop import Laptop
        from dataward.stores.address import read_address
    except ImportError as error:
        raise needs_extra(error) from error
    laptop = Laptop(ClusterDirectory(directory).existing())
    if stop:
        was_up = laptop.stop_store()
        said = "the store has ended" if was_up else "the store was not up"
        stdout_console().print(said)
        return
    with busy("starting the store"):
        place = read_address(laptop.start_store(shards, replicas)).place
    if json:
        print_json({"store": place})
    else:
        stdout_console().print(f"the store of {visible(directory)} is up at {place}")
