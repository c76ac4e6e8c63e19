"""``dataward cluster up``: a whole cluster on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dataward.cli.options import (
    JsonOption,
    LeaseOption,
    ReplicasOption,
    ShardsOption,
    lease_seconds_of,
)
from dataward.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from dataward.cluster.laptop import StartedNode

LEASE = "10s"


def cluster_up_command(
    directory: Annotated[Path, Argument(help="The cluster's directory; a new one is founded.")],
    nodes: Annotated[int, Option(help="How many nodes.", min=1, max=64)] = 2,
    slots: Annotated[
        int | None, Option(help="Tasks at a time on each; default: its share of the cores.", min=1)
    ] = None,
    shards: ShardsOption = 1,
    replicas: ReplicasOption = 0,
    lease: LeaseOption = LEASE,
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
        from dataward.cluster.local_store import LocalStore
    except ImportError as error:
        raise needs_extra(error) from error
    LocalStore.check_size(shards, replicas)
    lease_seconds_of(lease)
    cluster = ClusterDirectory(directory)
    if not cluster.exists:
        cluster.found(directory.absolute().name)
    laptop = Laptop(cluster)
    each = slots or max((os.cpu_count() or 1) // nodes, 1)
    _check_like(laptop.started(), slots, lease if lease != LEASE else None, directory)
    try:
        with busy("starting the store"):
            laptop.start_store(shards, replicas)
        with busy("starting nodes"):
            wait_for_nodes(laptop, laptop.start_nodes(nodes, each, ["--lease", lease]))
    except KeyboardInterrupt:
        end = f"dataward cluster down {visible(directory)}"
        stderr_console().print(f"what has started stays up; end it with: {end}", soft_wrap=True)
        raise
    access, up = cluster.access_file("submit"), laptop.started()
    found = sorted({node.slots for node in up if node.slots} or {each})
    if json:
        names = [node.node for node in up]
        same = found[0] if len(found) == 1 else None
        print_json({"nodes": names, "slots": same, "access": str(access)})
        return
    console = stdout_console()
    of = " or ".join(counted(number, "slot") for number in found)
    console.print(f"{counted(len(up), 'node')} of {of} up in {visible(directory)}")
    console.print(f"try: dataward submit FILE --access {visible(access)} --wait", soft_wrap=True)


def _check_like(
    running: Sequence["StartedNode"], slots: int | None, lease: str | None, directory: Path
) -> None:
    """Check that nodes which are up already are as asked for, where that was said."""
    from dataward.cli.complaints import visible
    from dataward.cli.output import counted
    from dataward.errors import SettingError

    for node in running:
        if slots is not None and node.slots not in (0, slots):
            what = f"{counted(node.slots, 'slot')}, not {slots}"
        elif lease is not None and node.options and lease not in node.options:
            what = f"another lease than {lease}"
        else:
            continue
        raise SettingError(
            f"{node.node} is up already with {what}; end the cluster first, with: "
            f"dataward cluster down {visible(directory)}"
        )
