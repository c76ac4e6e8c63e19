"""Waits until nodes that were just started have joined their cluster."""

import asyncio
import time
from contextlib import suppress

from dataward.cluster.access import contacts_for, read_access
from dataward.cluster.laptop import Laptop, NodesFailed
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.model.ids import NodeId

START_SECONDS = 180.0  # on a machine that is very busy
POLL_SECONDS = 0.1


def wait_for_nodes(laptop: Laptop, nodes: list[NodeId]) -> None:
    """Return when all of them are members. Raises NodesFailed."""
    asyncio.run(_wait(laptop, nodes))


async def _wait(laptop: Laptop, nodes: list[NodeId]) -> None:
    path, until = laptop.directory.access_file("read"), time.monotonic() + START_SECONDS
    access = read_access(path)
    while time.monotonic() < until:
        laptop.check_running(nodes)
        with suppress(ClusterError):
            async with Visitor(access, contacts_for(path, access)) as visitor:
                members = {member.node for member in (await visitor.cluster()).members}
                if members.issuperset(nodes):
                    return
        await asyncio.sleep(POLL_SECONDS)
    raise NodesFailed(f"the nodes did not all join within {START_SECONDS:.0f} s")
