"""A cluster whose servers die, take over and come back, while callers go on calling."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from valkey.crc import key_slot

from conformance.store_cases import a_task
from dataward.cluster.local_store import LocalStore
from dataward.cluster.store_server import StoreServer
from dataward.model.answers import Answer
from dataward.model.members import Member
from dataward.model.operations import Look, Operation, Patrol, Submit, Tally, shard_of
from dataward.stores.connection import SLOTS, Connection, connect
from dataward.stores.registry import Registry
from dataward.stores.valkey import ValkeyStore
from dataward.world import StoreUnavailable
from valkey_servers import a_cluster, program_of

SHARDS = 3
TRIES_MAX = 600


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[StoreServer]]:
    """Three primaries and then a replica of each; a server that is silent is soon called dead."""
    with a_cluster(program_of("any"), tmp_path, replicas=1) as servers:
        for server in servers:
            server.ask("CONFIG", "SET", "cluster-node-timeout", 500)
        yield servers


def on_shard(index: int, count: int) -> list[str]:
    names = (f"t{i}" for i in range(1000))
    return [name for name in names if shard_of(Look(name), SHARDS) == index][:count]


def cut_off(replica: StoreServer, primary: StoreServer) -> None:
    """The replica hears nothing more of its primary, which goes on acknowledging writes."""
    replica.ask("CONFIG", "SET", "masterauth", "wrong")
    primary.ask("CLIENT", "KILL", "TYPE", "replica")
    while replica.told("INFO", "replication")["master_link_status"] != "down":
        primary.ask("WAIT", 1, 20)


def take_over(replica: StoreServer, primary: StoreServer) -> None:
    replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")


def die(replica: StoreServer, primary: StoreServer) -> None:
    process = primary.process()
    assert process is not None
    process.kill()


async def pause(server: StoreServer) -> None:
    """Ask a server to answer a little later."""
    await asyncio.to_thread(server.ask, "WAIT", 9, 20)


async def insist(store: ValkeyStore, *operations: Operation, up: StoreServer) -> list[Answer]:
    """The answers, however often the store is unavailable before it gives them.

    ``up`` is a server that stays up.
    """
    for _ in range(TRIES_MAX):
        try:
            return await store.call(operations)
        except StoreUnavailable:
            await pause(up)
    raise AssertionError("the store did not come back")


@pytest.mark.parametrize("failover", [take_over, die])
def test_a_failover_that_loses_acknowledged_writes_is_noticed_by_all(
    cluster: list[StoreServer], failover: Callable[[StoreServer, StoreServer], None]
) -> None:
    primary, replica = cluster[0], cluster[SHARDS]
    call = partial(insist, up=cluster[2])
    kept, lost, *others = on_shard(0, 20)

    async def act() -> None:
        async with connect(cluster[0].url) as connection, connect(cluster[1].url) as second:
            store, bystander = (ValkeyStore(each, shards=SHARDS) for each in (connection, second))
            before = await store.call([Submit(a_task(kept)), Tally(0), Tally(1)])
            assert [answer.epoch for answer in before[1:]] == [0, 0]
            await bystander.call([Tally(0)])
            assert primary.ask("WAIT", 1, 5000) == 1
            cut_off(replica, primary)
            await store.call([Submit(a_task(lost))])
            assert not (await store.call([Look(lost)]))[0].unknown

            traffic = [
                asyncio.create_task(call(store, Submit(a_task(name)), Tally(0)))
                for name in others[:9]
            ]
            await asyncio.to_thread(failover, replica, primary)
            traffic += [
                asyncio.create_task(call(store, Submit(a_task(name)), Tally(0)))
                for name in others[9:]
            ]
            await asyncio.gather(*traffic)
            while (await call(store, Tally(0)))[0].epoch == 0:
                pass  # the old primary answers until it hears that it is none

            looks = await call(store, Look(kept), Look(lost), Tally(1), Tally(2))
            assert [answer.unknown for answer in looks[:2]] == [False, True]
            assert [answer.epoch for answer in looks[2:]] == [0, 0]
            patrol = (await call(store, Patrol(0, "n1", 10, 0.0, 0.0)))[0]
            assert (patrol.epoch, patrol.recount_due) == (1, True)
            assert (await call(bystander, Tally(0)))[0].epoch == 1
            newcomer = ValkeyStore(second, shards=SHARDS)
            assert (await call(newcomer, Tally(0)))[0].epoch == 1

    asyncio.run(act())


@pytest.mark.parametrize("failover", [take_over, die])
def test_who_waits_for_news_hears_of_a_failover_and_goes_on_after_it(
    cluster: list[StoreServer], failover: Callable[[StoreServer, StoreServer], None]
) -> None:
    up = cluster[2]
    name = next(
        name
        for name in map(str, range(99))
        if key_slot(f"{{registry/{name}}}".encode()) < SLOTS // SHARDS
    )
    member = Member("n1", "n1:1", 1, 1, 1)

    async def act() -> None:
        async with connect(cluster[1].url) as connection, connect(cluster[1].url) as second:
            registry, other = Registry(connection, name), Registry(second, name)
            await registry.renew(member, 600.0)
            since = await registry.news("", 0.0)
            assert cluster[0].ask("WAIT", 1, 5000) == 1
            waiting = asyncio.create_task(heard(registry, since))
            while int(cluster[0].told("INFO", "clients")["blocked_clients"]) < 1:
                await asyncio.sleep(0)
            await asyncio.to_thread(failover, cluster[SHARDS], cluster[0])
            tries = 0
            while not waiting.done():  # a change that reached only the old primary is lost
                tries += 1
                await told(other, tries)
            assert await waiting != since

    async def heard(registry: Registry, since: str) -> str:
        while True:
            try:
                return await registry.news(since, 60.0)
            except StoreUnavailable:
                await pause(up)

    async def told(registry: Registry, tries: int) -> None:
        assert tries < TRIES_MAX
        with suppress(StoreUnavailable):
            await registry.renew(Member("n1", "n1:1", 1, 1, 1 + tries), 600.0)
        await pause(up)

    asyncio.run(asyncio.wait_for(act(), 60.0))


def test_a_cluster_that_was_down_altogether_is_found_again(tmp_path: Path) -> None:
    async def act() -> None:
        connection = connect(LocalStore.start(tmp_path, 3))
        store = ValkeyStore(connection, shards=SHARDS)
        names = [on_shard(index, 1)[0] for index in range(SHARDS)]
        await store.call([Submit(a_task(name)) for name in names])
        LocalStore.stop(tmp_path)
        for name in names:
            with pytest.raises(StoreUnavailable):
                await store.call([Look(name)])
        LocalStore.start(tmp_path, 3)
        found = await store.call([*map(Look, names), *map(Tally, range(SHARDS))])
        await connection.close()
        assert not any(answer.unknown for answer in found[:3])
        assert [answer.epoch for answer in found[3:]] == [1, 1, 1]

    try:
        asyncio.run(act())
    finally:
        LocalStore.stop(tmp_path)


def test_a_slot_that_has_another_owner_is_followed(tmp_path: Path) -> None:
    with a_cluster(program_of("any"), tmp_path, replicas=1) as servers:

        async def act(connection: Connection) -> None:
            store = ValkeyStore(connection, shards=SHARDS)
            name = on_shard(0, 1)[0]
            await store.call([Submit(a_task(name))])
            await asyncio.to_thread(servers[3].ask, "CLUSTER", "FAILOVER")
            while servers[0].told("INFO", "replication")["role"] == "master":
                servers[1].ask("WAIT", 1, 20)
            (found,) = await store.call([Look(name)])  # the map still has the old primary
            assert not found.unknown
            answers = await connection.send_many(
                [(f"k{i}", ("SET", f"k{i}", str(i))) for i in range(50)]
            )
            assert answers == [True] * 50

        async def with_connection() -> None:
            async with connect(servers[1].url) as connection:
                await act(connection)

        asyncio.run(with_connection())
