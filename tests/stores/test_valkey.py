"""The rules on the server against the rules in Python, answer by answer; and what a loss leaves."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valkey.crc import key_slot

from conformance.store_cases import HandClock, a_task, entry
from dataward.errors import SettingError
from dataward.model.answers import Findings
from dataward.model.operations import (
    AddCopies,
    Begin,
    Claim,
    Commit,
    Copy,
    Delivered,
    DropCopies,
    Enqueue,
    Forget,
    Join,
    Look,
    Notify,
    Operation,
    OutputFile,
    Patrol,
    Probe,
    Recounted,
    Submit,
    Tally,
    shard_of,
)
from dataward.stores import valkey
from dataward.stores.connection import Connection, connect
from dataward.stores.server_functions import ServerFunctions
from dataward.stores.shard import Shard
from dataward.stores.valkey import ERASED_MAX, ValkeyStore, library_of, rules, tag_of
from dataward.strategies.registry import STRATEGIES
from dataward.world import StoreUnavailable
from stores.recorded import Log, record_seed
from stores.test_shard import SPECS, of_a_node, of_a_task, of_the_shard, tasks
from valkey_servers import RunningServer, free_ports, program_of, start_server

Run = Callable[[Coroutine[Any, Any, Any]], Any]

SEEDS = int(os.environ.get("DATAWARD_REPLAYED_SEEDS", "4"))


@pytest.fixture
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run
        for connection in CONNECTIONS:
            runner.run(connection.close())
        CONNECTIONS.clear()


CONNECTIONS: list[Connection] = []  # of a test, closed with it


def a_store(server: RunningServer, shards: int = 1, name: str = "dataward") -> ValkeyStore:
    CONNECTIONS.append(connect(server.url))
    return ValkeyStore(CONNECTIONS[-1], name, shards)


def ask(run: Run, store: ValkeyStore, *operations: Operation) -> Any:
    answers = run(store.call(operations))
    return answers[0] if len(answers) == 1 else answers


# --- the same answers ----------------------------------------------------------------------------

forgets = st.builds(Forget, tasks)
submits = st.builds(lambda task, again: Submit(SPECS[task], again), tasks, st.booleans())
anything = st.one_of(of_a_task, of_a_task, of_a_node, of_the_shard, submits, forgets)
calls = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 4.0, 6.0, 60.0]), st.lists(anything, max_size=8)),
    max_size=12,
)


def kept_apart(short_bytes: int) -> ServerFunctions:
    """The rules of a server that keeps less in a task's record."""
    changed = rules()
    for limit in ("HEARD_BYTES_MAX", "OUTPUTS_BYTES_MAX", "SPEC_BYTES_MAX"):
        assert f"local {limit} = 1024" in changed
        changed = changed.replace(f"local {limit} = 1024", f"local {limit} = {short_bytes}")
    return library_of(changed)


@pytest.mark.parametrize("short_bytes", [1024, 300, 0])
@settings(max_examples=int(os.environ.get("DATAWARD_COMPARED_CALLS", "60")))
@given(calls=calls)
def test_any_calls_are_answered_as_the_shard_in_python_answers_them(
    valkey_server: RunningServer, calls: list[tuple[float, list[Operation]]], short_bytes: int
) -> None:
    valkey_server.ask("FLUSHALL")
    clock, shard = HandClock(), Shard(0)
    all_submitted = [Submit(spec) for spec in SPECS.values()]

    async def compare() -> None:
        async with connect(valkey_server.url) as connection:
            store = ValkeyStore(connection, clock=clock)
            for seconds, operations in [(0.0, all_submitted), *calls]:
                clock.move(seconds)
                expected = [shard.apply(op, clock.now) for op in operations]
                assert await store.call(operations) == expected
            assert await store.call([Tally(0)]) == [shard.apply(Tally(0), clock.now)]
            assert await store.loose_ends() == shard.loose_ends()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(valkey, "library", partial(kept_apart, short_bytes))
        asyncio.run(compare())


async def replay(store: ValkeyStore, clock: HandClock, index: int, log: Log) -> None:
    """Compare every answer. Where the shard's epoch grew, the caller says that it knew the last."""
    epoch = 0
    for (now, since), group in groupby(log, key=lambda each: (each.now, each.epoch)):
        applied = list(group)
        clock.now = now
        if since > epoch:
            epoch = since
            store._seen[index] = (epoch - 1, "another run")
        answers = await store.call([each.operation for each in applied])
        for each, answer in zip(applied, answers, strict=True):
            assert answer == each.answer, each.operation


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_simulated_run_asks_is_answered_alike(
    valkey_server: RunningServer, seed: int, record_property: Callable[[str, object], None]
) -> None:
    strategy, faults = list(STRATEGIES)[seed % len(STRATEGIES)], ("chaos", "crashes")[seed % 2]
    shards, logs = record_seed(seed, strategy, faults)
    valkey_server.ask("FLUSHALL")
    clock = HandClock()

    async def replay_all() -> None:
        for index, log in logs.items():
            async with connect(valkey_server.url) as connection:
                store = ValkeyStore(connection, shards=shards, clock=clock)
                await replay(store, clock, index, log)

    asyncio.run(replay_all())

    count = sum(map(len, logs.values()))
    record_property("told", f"seed {seed}, {strategy}, {faults}: {count} operations replayed")
    assert count > 50


# --- losses --------------------------------------------------------------------------------------


def raw_info(server: RunningServer) -> bytes:
    info = server.ask("INFO", "replication")
    return "".join(f"{name}:{value}\n" for name, value in info.items()).encode()


def epoch_of(run: Run, store: ValkeyStore) -> int:
    epoch: int = ask(run, store, Probe("n1")).epoch
    return epoch


def test_a_new_store_begins_with_epoch_0_for_all_who_come(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    for _ in range(2):
        store = a_store(valkey_server)
        assert [epoch_of(run, store) for _ in range(3)] == [0, 0, 0]


def test_a_restarted_server_has_a_new_epoch_and_asks_for_a_recount(run, tmp_path: Path):
    options = ("--appendonly", "yes", "--appendfsync", "always")
    server = start_server(program_of("any"), tmp_path, *options)
    store = a_store(server)
    ask(run, store, Submit(a_task("a")))
    before = ask(run, store, Patrol(0, "n1", 10, 0.0, 0.0))
    server.kill()

    with pytest.raises(StoreUnavailable):
        ask(run, store, Look("a"))
    server = start_server(program_of("any"), tmp_path, *options)
    kept, after = ask(run, store, Look("a"), Patrol(0, "n1", 10, 0.0, 0.0))
    repaired = ask(run, store, Recounted(0, 1))
    server.kill()

    assert (before.epoch, before.recount_due) == (0, False)
    assert not kept.unknown
    assert (after.epoch, after.recount_due) == (1, True)
    assert (repaired.epoch, repaired.recount_due) == (1, False)


def test_a_server_that_forgot_everything_has_a_later_epoch_for_all_who_knew_it(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    one, other = a_store(valkey_server), a_store(valkey_server)
    assert [epoch_of(run, one), epoch_of(run, other)] == [0, 0]
    valkey_server.ask("FLUSHALL")
    newcomer = a_store(valkey_server)

    epochs = [epoch_of(run, store) for store in (one, other, newcomer)]
    assert epochs == [1, 1, 1]


def test_a_replica_that_takes_over_has_a_later_epoch_and_keeps_what_reached_it(run, tmp_path: Path):
    first, second = (tmp_path / name for name in ("1", "2"))
    first.mkdir()
    second.mkdir()
    (port,) = free_ports(1)
    primary = start_server(program_of("any"), first, port=port)
    store = a_store(primary)
    ask(run, store, Submit(a_task("a")))
    replica = start_server(program_of("any"), second, "--replicaof", f"127.0.0.1 {port}")
    while b"master_link_status:up" not in raw_info(replica):
        primary.ask("WAIT", 1, 50)
    ask(run, store, Join("n1", 1, 60.0))
    primary.ask("WAIT", 1, 5000)
    seen = store._seen
    primary.kill()
    replica.ask("REPLICAOF", "NO", "ONE")
    moved = a_store(replica)
    moved._seen = seen

    standing, member = ask(run, moved, Look("a"), Probe("n1"))
    replica.kill()

    assert not standing.unknown
    assert (member.incarnation, member.epoch) == (1, 1)


def test_tickets_and_generations_of_a_later_epoch_come_back_exactly(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    store = a_store(valkey_server)
    store._seen[0] = (8000, "another run")
    ask(run, store, Submit(a_task("a")), Join("n1", 1, 60.0), Enqueue("n1", (entry("a"),)))

    claimed, committed = ask(
        run, store, Claim("n1", 1, 1, 1, 0.0), Commit("a", "n1.1.1", "n1", (), 1)
    )

    assert claimed.tickets == ((8001 << 40) + 1,)
    assert committed.generation == (8001 << 20) + 1


# --- the server ----------------------------------------------------------------------------------


def test_a_store_cannot_be_opened_with_another_number_of_shards(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    store = a_store(valkey_server, 1)
    ask(run, store, Look("a"))
    other = a_store(valkey_server, 1)
    other.shard_count = 2

    with pytest.raises(SettingError, match="has 1 shards"):
        ask(run, other, Probe(first_name_on_shard_0()))


def first_name_on_shard_0() -> str:
    return next(name for name in map(str, range(99)) if shard_of(Probe(name), 2) == 0)


def test_a_forgotten_task_leaves_nothing_on_the_server(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    store = a_store(valkey_server)
    ask(run, store, Look("x"))
    empty = sizes(valkey_server)
    for count in range(3):
        task, attempt = f"t{count}", f"n1.1.{count}"
        ask(
            run,
            store,
            Submit(a_task(task, parents=["p"])),
            Notify(task, "p", 1, False, (Copy("p.out", "n1"),)),
            Begin(task, attempt, "n1"),
            Commit(task, attempt, "n1", (), 1),
            Forget(task),
        )
    left = sizes(valkey_server)

    assert left.pop(b"{dataward.0.0}submitted") == 3
    assert left == empty


def memory_bytes(server: RunningServer) -> int:
    names = server.ask("KEYS", "*")
    return sum(server.ask("MEMORY", "USAGE", name.decode(), "SAMPLES", 0) for name in names)


def test_a_task_takes_less_memory_once_it_is_complete(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    store = a_store(valkey_server)
    names = [f"task_{i:04}" for i in range(1000)]
    parents = ["parent_1", "parent_2"]
    digest = "0123456789abcdef" * 4
    written = [OutputFile(f"{name}.out", 99, digest) for name in names]
    ask(run, store, *(Submit(a_task(name, parents=parents, children=["c"])) for name in names))
    waiting = memory_bytes(valkey_server)
    for parent in parents:
        told = (Copy(f"{parent}.out", "n2", 99, digest),)
        ask(run, store, *(Notify(name, parent, 1, False, told) for name in names))
    ready = memory_bytes(valkey_server)
    attempts = {name: f"n1.1.{i}" for i, name in enumerate(names)}
    ask(run, store, *(Begin(name, attempt, "n1") for name, attempt in attempts.items()))
    commits = zip(attempts.items(), written, strict=True)
    ask(run, store, *(Commit(*each, "n1", (), 1, (output,)) for each, output in commits))
    ask(run, store, *(Delivered(name, 1) for name in names))
    complete = memory_bytes(valkey_server)

    looked = ask(run, store, Look(names[7]))

    assert complete < waiting < ready < 2000 * len(names)
    assert looked.copies == (Copy(f"{names[7]}.out", "n1", 99, digest),)
    assert looked.input_copies == tuple(Copy(f"{parent}.out", "n2") for parent in parents)


def sizes(server: RunningServer) -> dict[bytes, int]:
    """How many fields or members each key has; 1 for the shard's own numbers."""
    return {name: int(size_of(server, name)) for name in sorted(server.ask("KEYS", "*"))}


def size_of(server: RunningServer, name: bytes) -> int:
    sizes = {b"list": "LLEN", b"hash": "HLEN", b"zset": "ZCARD", b"string": "EXISTS"}
    return server.ask(sizes[server.ask("TYPE", name.decode())], name.decode())


def fill(run: Run, store: ValkeyStore, tasks: int) -> None:
    """Tasks in all states, nodes with queues and claims, copies of outputs and of inputs."""
    names = [f"t{i}" for i in range(tasks)]
    ask(run, store, *(Submit(a_task(name, parents=["p", "q"], children=["c"])) for name in names))
    for parent in ("p", "q"):
        told = (Copy(f"{parent}.out", "n1"),)
        ask(run, store, *(Notify(name, parent, 1, False, told) for name in names[::2]))
    ask(run, store, *(Begin(name, f"n1.1.{i}", "n1") for i, name in enumerate(names[::2])))
    ask(run, store, *(Commit(name, "n1.1.7", "n1", (), 1) for name in names[::4]))
    ask(run, store, *(AddCopies(name, (Copy(f"{name}.out", "n2"),)) for name in names[::8]))
    ask(run, store, *(AddCopies(f"input{i}", (Copy(f"input{i}", "n1"),)) for i in range(tasks)))
    ask(run, store, *(DropCopies(f"input{i}", (Copy(f"input{i}", "n1"),)) for i in range(9)))
    for node in ("n1", "n2", "n3"):
        queued = tuple(entry(name) for name in names)
        ask(run, store, Join(node, 1, 60.0), Enqueue(node, queued), Claim(node, 1, 1, 50, 0.0))
        ask(run, store, Enqueue(node, queued[:5]))


@pytest.mark.parametrize("tasks", [0, 1, 3 * ERASED_MAX])
def test_nothing_is_left_of_a_store_that_is_erased(run, valkey_server, tasks: int):
    valkey_server.ask("FLUSHALL")
    kept = a_store(valkey_server, name="kept")
    ask(run, kept, Submit(a_task("a")), Join("n1", 1, 60.0))
    before = valkey_server.ask("DBSIZE")
    store = a_store(valkey_server, 2, name="to be erased")
    fill(run, store, tasks)
    filled = valkey_server.ask("DBSIZE")

    run(store.erase())

    assert filled > before + tasks
    assert valkey_server.ask("DBSIZE") == before
    assert not ask(run, kept, Look("a")).unknown


def test_a_store_that_is_erased_may_be_erased_again_and_begun_anew(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    store = a_store(valkey_server)
    fill(run, store, 3)
    run(store.erase())
    run(store.erase())

    assert valkey_server.ask("DBSIZE") == 0
    assert ask(run, store, Look("t0")).unknown
    assert ask(run, store, Probe("n1")).epoch > 0


def test_stores_of_one_connection_know_nothing_of_each_other(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    one = a_store(valkey_server, 2, name="one")
    other = ValkeyStore(one._connection, "other", 3)
    ask(run, one, Submit(a_task("a")))

    assert ask(run, other, Look("a")).unknown
    assert not ask(run, one, Look("a")).unknown


def test_a_name_that_would_break_the_hash_tag_is_refused():
    with pytest.raises(SettingError, match="brace"):
        tag_of("a}b", 0, 1)


def test_thousands_of_operations_in_one_call_are_answered_in_order(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    store = a_store(valkey_server, 3)
    names = [f"t{i}" for i in range(4000)]

    answers = ask(run, store, *(Submit(a_task(name)) for name in names))
    entries = tuple(entry(name) for name in names)
    ask(run, store, Join("n1", 1, 60.0), Enqueue("n1", entries))
    claimed = ask(run, store, Claim("n1", 1, 1, 5000, 0.0))

    assert [answer.task for answer in answers] == names
    assert [each.task for each in claimed.entries] == sorted(names)


def test_the_servers_own_clock_lets_leases_expire(run, valkey_server):
    valkey_server.ask("FLUSHALL")
    store = a_store(valkey_server)
    ask(run, store, Join("n1", 1, -1.0), Join("n2", 1, 60.0))

    one, other = ask(run, store, Probe("n1"), Probe("n2"))
    found = ask(run, store, Enqueue("n1", (entry("a"),)), Patrol(0, "n2", 9, 0.0, 0.0))[1]

    assert (one.up, other.up) == (False, True)
    assert isinstance(found, Findings)
    assert [orphans.node for orphans in found.orphans] == ["n1"]


@pytest.mark.parametrize("shards", [1, 3, 16, 100])
def test_shards_are_spread_evenly_over_the_slots(shards: int):
    slots = [key_slot(tag_of("a store", i, shards).encode()) for i in range(shards)]

    shares = [range(i * 16384 // shards, (i + 1) * 16384 // shards) for i in range(shards)]
    assert all(slot in share for slot, share in zip(slots, shares, strict=True))
