"""``dataward cluster store``: starts a local store for a cluster."""

from typing import Annotated

from dataward.cli.options import ClusterPath, JsonOption, ReplicasOption, ShardsOption
from dataward.cli.parameters import Option


def cluster_store_command(
    directory: ClusterPath,
    shards: ShardsOption = 1,
    replicas: ReplicasOption = 0,
    stop: Annotated[bool, Option("--stop", help="End it.")] = False,
    json: JsonOption = False,
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
        if json:
            print_json({"store": was_up})
        else:
            stdout_console().print(said)
        return
    with busy("starting the store"):
        place = read_address(laptop.start_store(shards, replicas)).place
    if json:
        print_json({"store": place})
    else:
        stdout_console().print(f"the store of {visible(directory)} is up at {place}")
