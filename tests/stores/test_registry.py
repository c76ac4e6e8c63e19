"""The hosts and runs of a cluster, on a server and on the servers of a cluster."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from valkey.crc import key_slot

from dataward.errors import FormatError, SettingError
from dataward.model.members import ClusterRun, Member, RunState
from dataward.stores.connection import Connection, connect
from dataward.stores.registry import Registry
from dataward.world import StoreUnavailable
from valkey_servers import RunningServer, program_of, start_server

LONG = 60.0
SHORT = 0.05  # as leases are that shall run out in a test

Play = Callable[[Coroutine[Any, Any, Any]], Any]


def a_member(node: str, **about: Any) -> Member:
    return Member(node, f"{node}:7000", 4, 8_000_000_000, **{"incarnation": 1, **about})


def a_run(name: str, **about: Any) -> ClusterRun:
    known = {"keepers": ("n1", "n2"), "shards": 16, **about}
    return ClusterRun(name, "montage", "dataward", 1000, "ann", "ab" * 32, **known)


@pytest.fixture
def play() -> Iterator[Play]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(params=["one server", "a cluster"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "one server":
        server: RunningServer = request.getfixturevalue("valkey_server")
        servers = [server]
    else:
        servers = request.getfixturevalue("valkey_cluster")
    for server in servers:
        server.ask("FLUSHALL")
    return servers[0].url


@pytest.fixture
def connection(url: str, play: Play) -> Iterator[Connection]:
    connection = connect(url)
    yield connection
    play(connection.close())


@pytest.fixture
def registry(connection: Connection) -> Registry:
    return Registry(connection, "lab")


# --- hosts ---------------------------------------------------------------------------------------


def test_members_are_listed_by_name_as_they_were_told(play, registry):
    two = a_member("n2", site="here", speed=1.5, draining=True)
    play(registry.renew(two, LONG))
    play(registry.renew(a_member("n1"), LONG))

    assert play(registry.members()) == [a_member("n1"), two]


def test_a_member_that_changed_is_listed_as_it_is_now(play, registry):
    play(registry.renew(a_member("n1"), LONG))
    play(registry.renew(a_member("n1", draining=True), LONG))

    assert play(registry.members()) == [a_member("n1", draining=True)]


def test_a_member_that_leaves_is_gone(play, registry):
    play(registry.renew(a_member("n1"), LONG))
    play(registry.renew(a_member("n2"), LONG))
    play(registry.drop(a_member("n1")))
    play(registry.drop(a_member("never there")))

    assert play(registry.members()) == [a_member("n2")]


def test_a_member_that_was_seen_to_end_is_gone(play, registry):
    play(registry.renew(a_member("n1"), LONG))
    before = play(registry.news("", 0.0))

    play(registry.drop(a_member("n1")))

    assert play(registry.members()) == []
    assert play(registry.news(before, 0.0)) != before


def test_a_member_that_has_begun_again_is_not_gone(play, registry):
    play(registry.renew(a_member("n1", incarnation=2), LONG))

    play(registry.drop(a_member("n1", incarnation=1)))

    assert play(registry.members()) == [a_member("n1", incarnation=2)]


def test_a_server_process_stays_the_same_until_it_ends(play, registry):
    assert play(registry.server_run()) == play(registry.server_run())


def test_a_member_whose_lease_ran_out_is_gone(play, registry):
    play(registry.renew(a_member("n1"), SHORT))
    play(registry.renew(a_member("n2"), LONG))

    play(registry.news("", LONG))

    assert play(registry.members()) == [a_member("n2")]


def test_a_lease_that_is_renewed_goes_on(play, registry):
    play(registry.renew(a_member("n1"), SHORT))
    play(registry.renew(a_member("n1"), LONG))
    play(registry.renew(a_member("n2"), SHORT))

    play(registry.news("", LONG))

    assert play(registry.members()) == [a_member("n1")]


def test_each_beginning_of_a_node_has_a_later_number(play, registry):
    assert [play(registry.next_incarnation("n1")) for _ in range(3)] == [1, 2, 3]
    assert play(registry.next_incarnation("n2")) == 1
    assert play(registry.next_incarnation("n1", after=10)) == 11
    assert play(registry.next_incarnation("n1", after=5)) == 12


def test_the_number_of_a_node_outlives_its_lease(play, registry):
    play(registry.next_incarnation("n1"))
    play(registry.renew(a_member("n1"), SHORT))
    play(registry.news("", LONG))

    assert play(registry.next_incarnation("n1")) == 2


def test_clusters_on_one_server_know_nothing_of_each_other(play, registry, connection):
    other = Registry(connection, "other")
    play(registry.renew(a_member("n1"), LONG))
    play(registry.add_run(a_run("r")))
    play(registry.remember({"k": b"v"}, LONG))

    assert play(other.members()) == []
    assert play(other.runs()) == []
    assert play(other.known(["k"])) == [None]
    assert play(other.next_incarnation("n1")) == 1


# --- runs ----------------------------------------------------------------------------------------


def test_a_run_is_recorded_with_the_servers_time(play, registry, connection):
    earliest = play(connection.send("{registry/lab}", "TIME"))[0]

    added = play(registry.add_run(a_run("r", priority=2.5)))

    latest = play(connection.send("{registry/lab}", "TIME"))[0] + 1
    assert earliest <= added.submitted_at <= latest
    assert added == a_run("r", priority=2.5, submitted_at=added.submitted_at)
    assert added.state is RunState.RUNNING
    assert play(registry.run("r")) == added
    assert play(registry.runs()) == [added]


def test_a_name_that_is_taken_gives_back_the_run_that_has_it(play, registry):
    first = play(registry.add_run(a_run("r")))

    assert play(registry.add_run(a_run("r", keepers=("n9",), shards=3))) == first
    assert play(registry.runs()) == [first]


def test_a_run_that_a_server_forgot_is_told_again_as_it_was(play, registry):
    told = a_run("r", submitted_at=12.5, state=RunState.FAILED, ended_at=13.5)

    assert play(registry.add_run(told)) == told


def test_a_run_without_keepers_is_kept_too(play, registry):
    added = play(registry.add_run(a_run("r", keepers=())))

    assert added.keepers == ()


def test_runs_are_listed_in_the_order_they_were_submitted_in(play, registry):
    for name, at in (("c", 1.0), ("a", 3.0), ("b", 2.0), ("d", 2.0)):
        play(registry.add_run(a_run(name, submitted_at=at)))

    assert [run.name for run in play(registry.runs())] == ["c", "b", "d", "a"]


def test_a_run_ends_once(play, registry):
    added = play(registry.add_run(a_run("r")))

    ended = play(registry.end_run("r", RunState.COMPLETE))
    again = play(registry.end_run("r", RunState.CANCELLED))

    assert ended.state is RunState.COMPLETE
    assert ended.ended_at >= added.submitted_at
    assert again == ended == play(registry.run("r"))


def test_a_run_has_the_keepers_that_it_was_given_last(play, registry):
    play(registry.add_run(a_run("r")))

    changed = play(registry.set_keepers("r", ("n7",)))

    assert changed.keepers == ("n7",)
    assert play(registry.run("r")) == changed
    assert play(registry.set_keepers("r", ())).keepers == ()


def test_a_run_that_nobody_knows_is_none(play, registry):
    assert play(registry.run("r")) is None
    assert play(registry.end_run("r", RunState.FAILED)) is None
    assert play(registry.set_keepers("r", ("n1",))) is None
    assert play(registry.runs()) == []


def test_a_run_that_is_dropped_is_gone(play, registry):
    play(registry.add_run(a_run("r")))
    play(registry.drop_run("r"))
    play(registry.drop_run("r"))

    assert play(registry.runs()) == []


def test_what_is_no_run_is_refused_on_reading(play, registry, connection):
    key = "{registry/lab}"
    play(connection.send(key, "HSET", f"{key}runs", "r", b"\x81\xa4name\x01"))

    with pytest.raises(FormatError, match="ClusterRun that cannot be read"):
        play(registry.runs())


def test_two_runs_cannot_have_one_name(play, registry):
    first = play(registry.add_run(a_run("r")))

    with pytest.raises(SettingError, match="a run called r already"):
        play(registry.add_run(replace(a_run("r"), description="cd" * 32)))

    assert play(registry.runs()) == [first]


@pytest.mark.parametrize("name", ["", "..", "../x", "a b", "A", "a/b", "x" * 81])
def test_a_name_that_could_be_a_path_is_refused(play, registry, name: str):
    with pytest.raises(SettingError, match="cannot be called"):
        play(registry.add_run(a_run(name)))

    assert play(registry.runs()) == []


# --- news ----------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Registry], Coroutine[Any, Any, Any]]] = {
    "a new member": lambda registry: registry.renew(a_member("n9"), LONG),
    "a changed member": lambda registry: registry.renew(a_member("n1", draining=True), LONG),
    "a leave": lambda registry: registry.drop(a_member("n1")),
    "a new run": lambda registry: registry.add_run(a_run("new")),
    "the end of a run": lambda registry: registry.end_run("r", RunState.COMPLETE),
    "other keepers": lambda registry: registry.set_keepers("r", ("n3",)),
    "a dropped run": lambda registry: registry.drop_run("r"),
}
NOTHING: dict[str, Callable[[Registry], Coroutine[Any, Any, Any]]] = {
    "a renewal": lambda registry: registry.renew(a_member("n1"), LONG),
    "a leave of nobody": lambda registry: registry.drop(a_member("n9")),
    "a number": lambda registry: registry.next_incarnation("n1"),
    "a run that is known": lambda registry: registry.add_run(a_run("r")),
    "the end of an ended run": lambda registry: registry.end_run("over", RunState.COMPLETE),
    "the same keepers": lambda registry: registry.set_keepers("r", ("n1", "n2")),
    "a dropped run that is unknown": lambda registry: registry.drop_run("x"),
    "an outcome": lambda registry: registry.remember({"k": b"v"}, LONG),
}


def settle(play: Play, registry: Registry) -> str:
    """n1 is a member, r runs, "over" has ended; returns the position after all that."""
    play(registry.renew(a_member("n1"), LONG))
    play(registry.add_run(a_run("r")))
    play(registry.add_run(a_run("over", state=RunState.FAILED)))
    position: str = play(registry.news("", 0.0))
    return position


@pytest.mark.parametrize("change", list(CHANGES))
def test_who_waits_is_told_of(play, registry, change: str):
    since = settle(play, registry)

    async def wait_and_change() -> tuple[str, str]:
        waiting = asyncio.create_task(registry.news(since, LONG))
        from_now = asyncio.create_task(registry.news("", LONG))
        await is_waiting(registry, 2)
        await CHANGES[change](registry)
        return await waiting, await from_now

    told, told_too = play(wait_and_change())

    assert told == told_too != since
    assert play(registry.news(since, LONG)) == told
    assert play(registry.news(told, 0.0)) == told


async def is_waiting(registry: Registry, count: int) -> None:
    """Return when so many clients are blocked on the server."""
    while True:
        info = await registry._connection.send(registry._tag, "INFO", "clients")
        if info["blocked_clients"] >= count:
            return


@pytest.mark.parametrize("change", list(NOTHING))
def test_it_is_no_news(play, registry, change: str):
    since = settle(play, registry)
    play(NOTHING[change](registry))

    assert play(registry.news(since, 0.0)) == since


def test_time_that_is_over_brings_the_same_position(play, registry):
    since = settle(play, registry)

    assert play(registry.news(since, 0.03)) == since


def test_the_end_of_a_lease_is_news_to_all_who_wait(play, registry, url):
    play(registry.renew(a_member("n1"), LONG))
    play(registry.renew(a_member("n2"), SHORT))

    async def wait_twice() -> list[str]:
        async with connect(url) as connection:
            other = Registry(connection, "lab")
            return await asyncio.gather(registry.news("", LONG), other.news("", LONG))

    one, other = play(wait_twice())

    assert one == other
    assert play(registry.members()) == [a_member("n1")]


def test_a_wait_delays_nobody_on_the_same_connection(play, registry):
    async def wait_beside() -> tuple[str, list[int]]:
        waits = [asyncio.create_task(registry.news("", LONG)) for _ in range(40)]
        await is_waiting(registry, 40)
        numbers = [await registry.next_incarnation("n1") for _ in range(3)]
        assert not any(wait.done() for wait in waits)
        await registry.renew(a_member("n1"), LONG)
        return (await asyncio.gather(*waits))[-1], numbers

    told, numbers = play(wait_beside())

    assert numbers == [1, 2, 3]
    assert told == play(registry.news("", 0.0))


def test_a_wait_that_is_given_up_does_no_harm(play, registry):
    async def give_up() -> None:
        wait = asyncio.create_task(registry.news("", LONG))
        await is_waiting(registry, 1)
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)
        assert wait.cancelled()

    play(give_up())
    play(registry.renew(a_member("n1"), LONG))

    assert play(registry.members()) == [a_member("n1")]


def test_a_server_that_forgot_everything_is_news(play, valkey_server):
    valkey_server.ask("FLUSHALL")
    connection = connect(valkey_server.url)
    registry = Registry(connection, "lab")
    since = settle(play, registry)
    valkey_server.ask("FLUSHALL")

    told = play(registry.news(since, LONG))
    play(connection.close())

    assert told != since


def test_a_server_that_is_restarted_with_nothing_is_told_again(play, tmp_path: Path):
    server = start_server(program_of("any"), tmp_path)
    connection = connect(server.url)
    registry = Registry(connection, "lab")
    since = settle(play, registry)

    async def wait_and_kill() -> None:
        wait = asyncio.create_task(registry.news(since, LONG))
        await is_waiting(registry, 1)
        server.kill()
        with pytest.raises(StoreUnavailable):
            await wait

    play(wait_and_kill())
    with pytest.raises(StoreUnavailable):
        play(registry.members())
    server = start_server(program_of("any"), tmp_path)
    forgotten = play(registry.members()), play(registry.runs())
    since = play(registry.news(since, LONG))
    play(registry.renew(a_member("n1"), LONG))
    told = play(registry.news(since, LONG))
    members = play(registry.members())
    play(connection.close())
    server.kill()

    assert forgotten == ([], [])
    assert told != since
    assert members == [a_member("n1")]


# --- outcomes ------------------------------------------------------------------------------------


def test_outcomes_come_back_in_the_order_asked(play, registry):
    items = {f"{number:064x}": bytes([number % 256]) * number for number in range(2500)}
    play(registry.remember(items, LONG))

    found = play(registry.known(["unknown", *items, "unknown too"]))

    assert found == [None, *items.values(), None]
    assert play(registry.known([])) == []


def test_outcomes_are_spread_over_the_slots(registry):
    slots = {key_slot(f"{registry._outcomes}{number:064x}".encode()) for number in range(100)}

    assert len(slots) > 90


def test_an_outcome_is_kept_for_as_long_again_when_it_is_read(play, registry, connection):
    play(registry.remember({"k": b"v"}, 1000.0))
    name = registry._outcomes + "k"
    play(connection.send(name, "EXPIRE", name, 5))
    before = play(connection.send(name, "TTL", name))

    found = play(registry.known(["k"]))

    assert found == [b"v"]
    assert before <= 5
    assert play(connection.send(name, "TTL", name)) > 990


def test_an_outcome_that_is_remembered_again_is_the_later_one(play, registry):
    play(registry.remember({"k": b"v"}, LONG))
    play(registry.remember({"k": b"w"}, LONG))

    assert play(registry.known(["k"])) == [b"w"]
