"""Waits until a cluster has just these members: ``python members.py STORE CLUSTER NODE...``.

It is a program, for hosts that only processes in their network namespace can reach.
"""

import asyncio
import sys

from dataward.stores.connection import connect
from dataward.stores.registry import Registry


async def wait_for_members(store: str, cluster: str, nodes: set[str]) -> None:
    async with connect(store) as connection:
        registry = Registry(connection, cluster)
        since = await registry.news("", 0.0)
        while {member.node for member in await registry.members()} != nodes:
            since = await registry.news(since, 60.0)


if __name__ == "__main__":
    asyncio.run(wait_for_members(sys.argv[1], sys.argv[2], set(sys.argv[3:])))
