"""Whether what a store has acknowledged would survive the loss of a server."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from dataward.cluster.local_store import LocalStore
from dataward.cluster.store_server import StoreServer
from dataward.model.ids import NodeId
from dataward.model.operations import Join
from dataward.stores.connection import connect
from dataward.stores.valkey import ValkeyStore
from valkey_servers import program_of


def is_settled(url: str, wait_seconds: float) -> bool:
    async def ask() -> bool:
        async with connect(url) as connection:
            return await ValkeyStore(connection, "run", shards=6).settle(wait_seconds)

    return asyncio.run(ask())


def wait_for_replicas(servers: list[StoreServer]) -> None:
    """Return when every server has heard of all replicas, which may be after they are ready."""
    until = monotonic() + 60.0
    for server in servers:
        while any(len(one) < 4 for one in server.ask("CLUSTER", "SLOTS")):
            assert monotonic() < until, "the replicas are not known"


def write_to_all_shards(url: str) -> None:
    async def write() -> None:
        async with connect(url) as connection:
            joins = [Join(NodeId(f"n{number}"), 1, 60.0) for number in range(100)]
            await ValkeyStore(connection, "run", shards=6).call(joins)

    asyncio.run(write())


def test_a_server_without_replicas_is_not_waited_for(tmp_path: Path) -> None:
    program_of("any")
    url = LocalStore.start(tmp_path / "store")
    try:
        assert is_settled(url, 60.0)
    finally:
        LocalStore.stop(tmp_path / "store")


@pytest.fixture
def replicated(tmp_path: Path):  # type: ignore[no-untyped-def]
    program_of("any")
    url = LocalStore.start(tmp_path / "store", shards=3, replicas=1)
    servers = LocalStore.servers(tmp_path / "store")
    wait_for_replicas(servers)
    yield url, servers
    for server in servers:
        process = server.process()
        if process is not None:
            process.resume()
    LocalStore.stop(tmp_path / "store")


def test_what_replicas_know_is_settled_and_what_one_has_not_heard_is_not(
    replicated: tuple[str, list[StoreServer]],
) -> None:
    url, servers = replicated
    before = is_settled(url, 60.0)

    replica = servers[-1].process()
    assert replica is not None
    replica.suspend()

    write_to_all_shards(url)

    assert before
    assert not is_settled(url, 0.2)
