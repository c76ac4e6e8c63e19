"""``dataward cluster up``: a whole cluster on this machine."""

from pathlib import Path
from typing import Annotated

from dataward.cli.options import JsonOption, LeaseOption, ReplicasOption, ShardsOption
from dataward.cli.parameters import Argument, Option


def cluster_up_command(
    directory: Annotated[Path, Argument(help="The cluster's directory; a new one is founded.")],
    nodes: Annotated[int, Option(help="How many nodes.", min=1, max=64)] = 2,
    slots: Annotated[
        int | None, Option(help="Tasks at a time on each; default: its share of the cores.", min=1)
    ] = None,
    shards: ShardsOption = 1,
    replicas: ReplicasOption = 0,
    lease: LeaseOption = "10s",
    json: JsonOption = False,
) -> None:
    """Start a store and nodes on this machine: a cluster to try things with.

    They outlive this command; `dataward cluster down` ends them. What they keep is in DIRECTORY, so
    that the next `up` goes on with it.

    Examples:

    - `dataward cluster up lab --nodes 4`
    - `dataward submit montage.json --access lab/submit.access --wait`
    - `dataward cluster down lab`
    """
    import os

    from dataward.cli.complaints import visible
    from dataward.cli.output import busy, counted, print_json, stderr_console, stdout_console
    from dataward.cli.visiting import needs_extra

    try:
        from dataward.cli.laptop_nodes import wait_for_nodes
        from dataward.cluster.founding import ClusterDirectory
        from dataward.cluster.laptop import Laptop
    except ImportError as error:
        raise needs_extra(error) from error
    cluster = ClusterDirectory(directory)
    if not cluster.exists:
        cluster.found(directory.absolute().name)
    laptop = Laptop(cluster)
    each = slots or max((os.cpu_count() or 1) // nodes, 1)
    try:
        with busy("starting the store"):
            laptop.start_store(shards, replicas)
        with busy("starting nodes"):
            names = laptop.start_nodes(nodes, each, ["--lease", lease])
            wait_for_nodes(laptop, names)
    except KeyboardInterrupt:
        end = f"dataward cluster down {visible(directory)}"
        stderr_console().print(f"what has started stays up; end it with: {end}", soft_wrap=True)
        raise
    access = cluster.access_file("submit")
    if json:
        print_json({"nodes": names, "slots": each, "access": str(access)})
        return
    console = stdout_console()
    console.print(f"{counted(nodes, 'node')} of {counted(each, 'slot')} up in {visible(directory)}")
    console.print(f"try: dataward submit FILE --access {visible(access)} --wait", soft_wrap=True)
