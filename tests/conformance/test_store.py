"""What `Store` promises, held against every store.

Only `Store.call` and the clock are used, so that a store is free to keep its state as it likes.
"""

import asyncio
import os
from collections.abc import Callable
from math import inf
from pathlib import Path
from random import Random

import pytest

from conformance.store_cases import (
    HOLD,
    LEASE,
    STALE,
    Asker,
    HandClock,
    KernelClock,
    a_task,
    entry,
    run_alone,
    run_on,
)
from dataward.cluster.store_server import StoreServer
from dataward.kernel import VirtualKernel
from dataward.model.answers import (
    Begun,
    Committed,
    Failing,
    Findings,
    Membership,
    Refusal,
    Refused,
    Standing,
)
from dataward.model.estimate import UNKNOWN_SECONDS
from dataward.model.operations import (
    AddCopies,
    Begin,
    Commit,
    Copy,
    DropCopies,
    Fail,
    Forget,
    Leave,
    Look,
    OutputFile,
    QueueEntry,
    Recounted,
    ReportLoad,
    Restate,
    Seize,
    Submit,
    shard_of,
)
from dataward.model.platform import StoreModel
from dataward.model.states import TaskState
from dataward.sim.interference import Interference
from dataward.sim.store_service import StoreOf, StoreService
from dataward.stores.connection import connect
from dataward.stores.embedded import EmbeddedSettings, EmbeddedStore
from dataward.stores.memory import MemoryStore
from dataward.stores.valkey import ValkeyStore
from valkey_servers import RunningServer


def a_memory_store(shards: int) -> Asker:
    clock = HandClock()
    return Asker(MemoryStore(clock, shards), clock, run_alone)


def a_directory(request: pytest.FixtureRequest) -> Path:
    """Whose files are never synced: no test here pulls the plug, and disks are slow."""
    for sync in ("fsync", "fdatasync"):
        request.getfixturevalue("monkeypatch").setattr(os, sync, lambda file: None, raising=False)
    return request.getfixturevalue("tmp_path")


def an_embedded_store(request: pytest.FixtureRequest, shards: int) -> Asker:
    directory, clock = a_directory(request), HandClock()
    store = EmbeddedStore(directory, clock, VirtualKernel(), shards)
    request.addfinalizer(store.close)
    return Asker(store, clock, run_alone)


class ReopenedStore:
    """An embedded store opened for every call: what it knows, it has read from its file."""

    def __init__(self, directory, clock, shards: int, **settings) -> None:
        self.shard_count = shards
        self._settings = EmbeddedSettings(**settings)
        self._given = (directory, clock, VirtualKernel(), shards)

    async def call(self, operations):
        with EmbeddedStore(*self._given, settings=self._settings) as store:
            return await store.call(operations)


def a_reopened_store(request: pytest.FixtureRequest, shards: int, **settings) -> Asker:
    directory, clock = a_directory(request), HandClock()
    return Asker(ReopenedStore(directory, clock, shards, **settings), clock, run_alone)


def a_simulated_store(shards: int) -> Asker:
    """Servers under virtual time, as one node reaches them when nothing interferes.

    They answer at once, so that the clock moves only when a test moves it.
    """
    kernel = VirtualKernel()
    model = StoreModel(shards, latency_seconds=0.0, service_seconds=0.0)
    service = StoreService(kernel, model, Interference(Random(0)))
    return Asker(StoreOf(service, "n1"), KernelClock(kernel), run_on(kernel))


def an_asker_of(request: pytest.FixtureRequest, url: str, shards: int) -> Asker:
    """Asks from an event loop of its own."""
    runner, clock, connection = asyncio.Runner(), HandClock(), connect(url)
    store = ValkeyStore(connection, shards=shards, clock=clock)
    request.addfinalizer(runner.close)
    request.addfinalizer(lambda: runner.run(connection.close()))
    return Asker(store, clock, runner.run)


def a_valkey_store(request: pytest.FixtureRequest, fixture: str, shards: int) -> Asker:
    server: RunningServer = request.getfixturevalue(fixture)
    server.ask("FLUSHALL")
    return an_asker_of(request, server.url, shards)


def a_valkey_cluster(request: pytest.FixtureRequest, shards: int) -> Asker:
    servers: list[StoreServer] = request.getfixturevalue("valkey_cluster")
    for server in servers:
        server.ask("FLUSHALL")
    return an_asker_of(request, servers[0].url, shards)


STORES: dict[str, Callable[[pytest.FixtureRequest], Asker]] = {
    "memory": lambda _: a_memory_store(1),
    "memory, in shards": lambda _: a_memory_store(5),
    "embedded, in shards": lambda request: an_embedded_store(request, 5),
    "embedded, reopened": lambda request: a_reopened_store(request, 1),
    "embedded, compacted": lambda request: a_reopened_store(
        request, 2, compact_bytes_min=0, compact_ratio=0
    ),
    "simulated": lambda _: a_simulated_store(5),
    "valkey": lambda request: a_valkey_store(request, "valkey_server", 1),
    "valkey, in shards": lambda request: a_valkey_store(request, "valkey_server", 5),
    "valkey, a cluster": lambda request: a_valkey_cluster(request, 5),
    "redis": lambda request: a_valkey_store(request, "redis_server", 5),
}

WAITING, READY, STAGE_IN, RUNNING, STAGE_OUT, COMPLETE, FAILED, REMOVED = TaskState


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest) -> Asker:
    return STORES[request.param](request)


def a_chain(store: Asker, **of_the_child: int) -> None:
    """parent -> child, both submitted."""
    store.submit(
        a_task("parent", children=["child"]), a_task("child", parents=["parent"], **of_the_child)
    )


def a_child_under_way(store: Asker) -> None:
    """parent has completed on n1 and child runs on n2."""
    a_chain(store)
    store.complete("parent", "n1.1.1")
    store.notify("child", "parent")
    store.begin("child", "n2.1.1")


def names_on_one_shard(store: Asker, count: int) -> list[str]:
    """In order. The limits of a patrol are each shard's."""
    shards = store.store.shard_count
    names = (f"t{i:03}" for i in range(1000))
    return [name for name in names if shard_of(Look(name), shards) == 0][:count]


def reasons(*answers: object) -> list[str]:
    return [
        answer.reason.value if isinstance(answer, Refused) else "not refused" for answer in answers
    ]


# --- batches -----------------------------------------------------------------------------------


def test_a_batch_is_answered_in_the_order_asked(store):
    names = [f"t{i}" for i in range(20)]
    store.submit(*map(a_task, names))

    answers = store.call(*map(Look, reversed(names)))

    assert [answer.task for answer in answers] == names[::-1]


def test_an_operation_sees_what_came_before_it_in_its_batch(store):
    before, _, after = store.call(Look("a"), Submit(a_task("a")), Look("a"))

    assert before.unknown
    assert not after.unknown


def test_an_empty_batch_is_answered_with_nothing(store):
    assert store.call() == []


def test_a_store_has_at_least_one_shard(store):
    assert store.store.shard_count >= 1


def test_what_is_said_of_an_unknown_task_leaves_it_unknown(store):
    answers = [
        store.advance("a", "n1.1.1", RUNNING),
        store.release("a", "n1.1.1"),
        store.notify("a", "parent"),
        store.notify("a", "parent", failed=True),
        store.delivered("a"),
        store.replicate("a", "n1", "n2"),
        store.take_over("a", "n1"),
        store.reopen("a"),
        store.postpone("a", "n1.1.1", "parent"),
        store.ask(DropCopies("a", (Copy("a.out", "n1"),))),
        store.look("a"),
    ]

    assert all(answer.unknown for answer in answers)


def test_an_unknown_task_can_neither_begin_nor_end(store):
    refusals = [
        store.begin("a", "n1.1.1"),
        store.commit("a", "n1.1.1"),
        store.fail("a", "n1.1.1"),
    ]

    assert reasons(*refusals) == ["unknown"] * 3


# --- submit ------------------------------------------------------------------------------------


def test_a_task_without_parents_is_ready_and_one_with_parents_waits(store):
    parent, child = store.submit(
        a_task("parent", children=["child"]), a_task("child", parents=["parent"])
    )

    assert (parent.state, child.state) == (READY, WAITING)


def test_a_standing_says_of_what_type_a_task_is_and_how_good_its_estimate(store):
    store.submit(a_task("a", seconds=8.0, spread=0.5))
    store.submit(a_task("b", seconds=0.0, spread=0.0))

    rough, unknown = store.look("a"), store.look("b")

    assert (rough.task_type, rough.seconds, rough.spread) == ("a type", 8.0, 0.5)
    assert (unknown.seconds, unknown.spread) == (UNKNOWN_SECONDS, inf)


def test_a_standing_says_where_the_task_belongs_and_how_urgent_and_long_it_is(store):
    store.submit(a_task("a", preferred="n7", priority=2.5, seconds=8.0))

    standing = store.look("a")

    assert (standing.preferred, standing.priority, standing.seconds) == ("n7", 2.5, 8.0)


def test_a_task_submitted_again_stays_as_it_is(store):
    store.submit(a_task("a", priority=1.0))
    store.begin("a", "n1.1.1")

    (answer,) = store.submit(a_task("a", priority=9.0))

    assert (answer.state, answer.priority, answer.live_attempts) == (STAGE_IN, 1.0, 1)


# --- begin -------------------------------------------------------------------------------------


def test_an_attempt_is_given_all_it_needs_to_go_on(store):
    a_chain(store)
    copies = [Copy("parent.out", "n5")]
    store.notify("child", "parent", copies=copies)

    begun = store.begin("child", "n1.1.1")

    assert isinstance(begun, Begun)
    assert begun.spec == a_task("child", parents=["parent"])
    assert begun.generation == 1
    assert begun.parents == {"parent": 1}
    assert list(begun.copies) == copies


def test_a_task_that_has_begun_brings_its_inputs_in(store):
    store.submit(a_task("a"))

    store.begin("a", "n1.1.1")

    assert store.state("a") is STAGE_IN
    assert store.look("a").live_attempts == 1


def test_begin_repeated_is_answered_alike_and_starts_nothing_more(store):
    store.submit(a_task("a"))

    first = store.begin("a", "n1.1.1")
    second = store.begin("a", "n1.1.1")

    assert first == second
    assert store.look("a").live_attempts == 1


def test_a_waiting_task_does_not_begin(store):
    a_chain(store)

    assert reasons(store.begin("child", "n1.1.1")) == ["waiting"]


def test_a_finished_task_does_not_begin(store):
    store.submit(a_task("good"), a_task("bad"))
    store.complete("good")
    store.begin("bad", "n1.1.1")
    store.fail("bad", "n1.1.1")

    refusals = [store.begin("good", "n2.1.1"), store.begin("bad", "n2.1.1")]

    assert reasons(*refusals) == ["finished"] * 2
    assert [refusal.state for refusal in refusals] == [COMPLETE, FAILED]


def test_a_node_does_not_begin_twice_what_is_under_way_there(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    assert reasons(store.begin("a", "n1.1.2")) == ["under way here"]
    assert store.look("a").live_attempts == 1


def test_no_more_attempts_begin_than_the_task_and_its_backups(store):
    store.submit(a_task("a", backups_max=2))

    answers = [store.begin("a", f"n{i}.1.1") for i in range(4)]

    assert reasons(*answers) == ["not refused"] * 3 + ["enough replicas"]


def test_a_node_that_came_back_begins_anew_and_its_past_life_is_void(store):
    store.submit(a_task("a", backups_max=0))
    store.begin("a", "n1.1.1")

    again = store.begin("a", "n1.2.1")

    assert isinstance(again, Begun)
    assert store.look("a").live_attempts == 1
    assert reasons(store.commit("a", "n1.1.1")) == ["fenced"]
    assert isinstance(store.commit("a", "n1.2.1"), Committed)


@pytest.mark.parametrize("begun", ["n2.1.1", "n1.2.9"], ids=["elsewhere", "here"])
def test_to_begin_voids_no_commit_that_the_store_forgot(store, begun):
    store.submit(a_task("a"))
    store.begin("a", begun)

    store.begin("a", "n1.2.10")

    assert isinstance(store.commit("a", "n1.1.1"), Committed)


def test_a_fenced_incarnation_does_not_begin_but_the_next_one_does(store):
    store.submit(a_task("a"))
    store.take_over("a", "n1", incarnation=2)

    refusals = [store.begin("a", "n1.2.5"), store.begin("a", "n1.1.9")]

    assert reasons(*refusals) == ["fenced"] * 2
    assert isinstance(store.begin("a", "n1.3.1"), Begun)


@pytest.mark.parametrize(
    "end",
    [
        lambda store: store.release("a", "n1.1.7"),
        lambda store: store.release("a", "n1.1.7", keep=True),
        lambda store: store.fail("a", "n1.1.7"),
        lambda store: store.postpone("a", "n1.1.7", "elsewhere", 0),
    ],
    ids=["released", "kept", "failed", "postponed"],
)
def test_an_attempt_that_is_over_does_not_begin_again_when_its_call_comes_late(store, end):
    store.submit(a_task("a", retries=5))
    store.begin("a", "n1.1.7")
    end(store)

    late = store.begin("a", "n1.1.7")

    assert reasons(late) == ["over"]
    assert store.look("a").live_attempts == 0
    assert isinstance(store.begin("a", "n1.1.8"), Begun)


def test_node_names_may_contain_dots(store):
    store.submit(a_task("a"))
    store.begin("a", "rack.3.node.7.1.1")

    store.take_over("a", "rack.3.node.7", incarnation=1)

    assert reasons(store.commit("a", "rack.3.node.7.1.1")) == ["fenced"]


# --- advance -----------------------------------------------------------------------------------


def test_a_task_advances_with_its_attempt_and_never_goes_backwards(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    states = [
        store.advance("a", "n1.1.1", state).state
        for state in (RUNNING, STAGE_IN, STAGE_OUT, RUNNING, READY)
    ]

    assert states == [RUNNING, RUNNING, STAGE_OUT, STAGE_OUT, STAGE_OUT]


def test_a_task_is_where_its_furthest_attempt_is(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    store.advance("a", "n1.1.1", STAGE_OUT)
    with_both = store.advance("a", "n2.1.1", RUNNING).state
    with_one = store.release("a", "n1.1.1").state

    assert (with_both, with_one) == (STAGE_OUT, RUNNING)


def test_a_task_is_where_its_furthest_attempt_is_whichever_began_first(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    states = [store.advance("a", attempt, RUNNING).state for attempt in ("n2.1.1", "n1.1.1")]

    assert states == [RUNNING, RUNNING]


def test_an_attempt_the_store_does_not_know_advances_nothing(store):
    store.submit(a_task("a"))

    answer = store.advance("a", "n1.1.1", RUNNING)

    assert (answer.state, answer.live_attempts) == (READY, 0)


def test_an_attempt_does_not_advance_to_a_state_that_is_not_its_own_to_reach(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    states = {store.advance("a", "n1.1.1", state).state for state in (WAITING, COMPLETE, FAILED)}

    assert states == {STAGE_IN}


# --- commit ------------------------------------------------------------------------------------


def test_a_commit_completes_the_task_and_says_whom_to_tell(store):
    store.submit(a_task("a", children=["b", "c"], outputs=["x", "y"]))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    committed = store.commit("a", "n1.1.1")

    assert isinstance(committed, Committed)
    assert committed.generation == 1
    assert committed.children == ("b", "c")
    assert committed.copies == (Copy("x", "n1"), Copy("y", "n1"))
    assert committed.rivals == ("n2",)
    assert store.state("a") is COMPLETE
    assert store.look("a").live_attempts == 0


def test_a_commit_says_how_the_files_were_written_and_all_are_told(store):
    store.submit(a_task("a", children=["b"], outputs=["x", "y"]))
    written = OutputFile("x", 7, "its digest")

    committed = store.ask(Commit("a", "n1.1.1", "n1", (), 1, (written,)))

    copies = (Copy("x", "n1", 7, "its digest"), Copy("y", "n1"))
    assert committed.copies == copies
    assert store.look("a").copies == copies
    store.clock.move(STALE)
    (found,) = store.patrol().undelivered
    assert (found.copies, found.winner) == (copies, "n1.1.1")


def test_the_first_commit_wins_and_later_ones_are_told_so(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    store.commit("a", "n2.1.1")
    late = store.commit("a", "n1.1.1")

    assert reasons(late) == ["finished"]
    assert late.state is COMPLETE
    assert store.look("a").copies == (Copy("a.out", "n2"),)


def test_a_commit_repeated_by_the_winner_is_answered_alike(store):
    store.submit(a_task("a", children=["b"]))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    first = store.commit("a", "n1.1.1")
    store.commit("a", "n2.1.1")
    second = store.commit("a", "n1.1.1")

    assert isinstance(first, Committed)
    assert first == second


def test_two_commits_in_one_batch_have_one_winner(store):
    store.submit(a_task("a"))

    answers = store.call(
        Commit("a", "n1.1.1", "n1", (), 1),
        Commit("a", "n2.1.1", "n2", (), 1),
    )

    assert [type(answer) for answer in answers] == [Committed, Refused]


def test_an_attempt_whose_lease_was_taken_over_does_not_commit(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.take_over("a", "n1", incarnation=1)

    assert reasons(store.commit("a", "n1.1.1")) == ["fenced"]
    assert store.state("a") is READY


def test_a_fence_holds_for_earlier_incarnations_too(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    taken = store.take_over("a", "n1", incarnation=3)

    assert taken.live_attempts == 0
    assert reasons(store.commit("a", "n1.1.1")) == ["fenced"]


def test_an_earlier_fence_that_comes_late_does_not_lift_a_later_one(store):
    store.submit(a_task("a"))
    store.take_over("a", "n1", incarnation=3)

    store.take_over("a", "n1", incarnation=1)

    assert reasons(store.begin("a", "n1.3.1"), store.commit("a", "n1.2.1")) == ["fenced"] * 2


def test_a_fence_that_comes_late_spares_the_incarnation_after_it(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.2.1")

    store.take_over("a", "n1", incarnation=1)

    assert store.look("a").live_attempts == 1
    assert isinstance(store.commit("a", "n1.2.1"), Committed)


def test_a_node_that_is_back_at_work_is_still_a_rival_after_its_past_life_was_fenced(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.2.1")
    store.begin("a", "n2.1.1")

    store.take_over("a", "n1", incarnation=1)

    assert store.commit("a", "n2.1.1").rivals == ("n1",)


def test_a_commit_of_a_generation_that_was_committed_is_refused(store):
    store.submit(a_task("a"))
    store.complete("a", "n1.1.1", 1)
    store.reopen("a", 1)
    store.begin("a", "n2.1.1")

    refusals = [store.commit("a", "n2.1.1", generation) for generation in (0, 1)]

    assert reasons(*refusals) == ["outdated"] * 2
    assert isinstance(store.commit("a", "n2.1.1", 2), Committed)


def test_the_winner_of_an_earlier_generation_is_outdated_once_the_task_is_open_again(store):
    store.submit(a_task("a"))
    store.complete("a", "n1.1.1")
    store.reopen("a")

    assert reasons(store.commit("a", "n1.1.1")) == ["outdated"]


def test_a_commit_the_store_forgot_is_accepted_when_it_is_reported_again(store):
    store.submit(a_task("parent", children=["child"]), a_task("child", parents=["parent"]))

    answers = [store.commit("child", "n1.1.7"), store.commit("parent", "n2.1.3")]

    assert [type(answer) for answer in answers] == [Committed, Committed]
    assert store.state("child") is COMPLETE


def test_a_commit_whose_begin_was_forgotten_ends_the_attempts_of_others(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    committed = store.commit("a", "n2.1.7")

    assert committed.rivals == ("n1",)
    assert store.look("a").live_attempts == 0
    assert reasons(store.commit("a", "n1.1.1")) == ["finished"]


def test_a_task_whose_begin_was_forgotten_has_heard_of_its_parents_once_it_is_committed(store):
    a_chain(store)
    store.commit("child", "n1.1.7")

    reopened = store.reopen("child")

    assert reopened.state is READY
    assert store.begin("child", "n2.1.1").parents == {"parent": 1}


def test_a_commit_claims_to_know_of_no_generation_of_a_parent_that_was_not_heard_of(store):
    a_chain(store)
    store.notify("child", "parent", 3)
    store.begin("child", "n1.1.1")
    store.begin("child", "n2.1.1")
    store.postpone("child", "n1.1.1", "parent", 3)
    store.commit("child", "n2.1.1")
    store.reopen("child")

    assert store.begin("child", "n3.1.1").parents == {"parent": 3}


def test_a_failed_task_is_not_committed(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")
    store.fail("a", "n1.1.1")

    assert reasons(store.commit("a", "n2.1.1")) == ["finished"]


def test_an_attempt_that_was_released_does_not_commit(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.release("a", "n1.1.1")

    assert reasons(store.commit("a", "n1.1.1")) == ["over"]


# --- fail and release --------------------------------------------------------------------------


def test_a_task_fails_for_good_when_its_retries_are_used_up(store):
    store.submit(a_task("a", children=["b"], retries=2))

    verdicts = []
    for count in range(3):
        store.begin("a", f"n1.1.{count}")
        verdicts.append(store.fail("a", f"n1.1.{count}"))

    assert [verdict.final for verdict in verdicts] == [False, False, True]
    assert [verdict.children for verdict in verdicts] == [(), (), ("b",)]
    assert store.state("a") is FAILED


def test_a_failure_with_retries_left_makes_the_task_ready_again(store):
    store.submit(a_task("a", retries=1))
    store.begin("a", "n1.1.1")

    store.fail("a", "n1.1.1")

    assert store.state("a") is READY
    assert isinstance(store.begin("a", "n1.1.2"), Begun)


def test_a_failure_with_retries_left_stops_nobody(store):
    store.submit(a_task("a", retries=1))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    assert store.fail("a", "n1.1.1").rivals == ()


def test_a_final_failure_is_an_end_and_counted_like_one(store):
    store.submit(a_task("new"), a_task("reopened"))
    store.begin("new", "n1.1.1")
    store.complete("reopened")
    store.reopen("reopened")
    store.begin("reopened", "n1.1.2")

    failures = [store.fail("new", "n1.1.1"), store.fail("reopened", "n1.1.2")]

    assert [failing.generation for failing in failures] == [1, 2]


def test_a_final_failure_ends_every_attempt(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    store.fail("a", "n1.1.1")

    assert store.look("a").live_attempts == 0


def test_a_failure_repeated_is_answered_alike_and_counts_once(store):
    store.submit(a_task("a", retries=1))
    store.begin("a", "n1.1.1")

    first, second = store.call(*[Fail("a", "n1.1.1", "its own error")] * 2)

    assert isinstance(first, Failing)
    assert first == second
    store.begin("a", "n1.1.2")
    assert store.fail("a", "n1.1.2") == store.fail("a", "n1.1.2")


def test_a_failure_leaves_a_replica_going_while_there_are_retries(store):
    store.submit(a_task("a", retries=1))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    store.fail("a", "n1.1.1")

    assert store.state("a") is STAGE_IN
    assert isinstance(store.commit("a", "n2.1.1"), Committed)


def test_a_final_failure_names_the_replicas_to_stop(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    assert "n2" in store.fail("a", "n1.1.1").rivals


def test_a_failure_of_a_fenced_attempt_does_not_count(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.take_over("a", "n1")

    assert reasons(store.fail("a", "n1.1.1")) == ["fenced"]
    assert store.state("a") is READY


def test_a_failure_that_comes_after_another_attempt_won_is_refused(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.complete("a", "n2.1.1")

    assert reasons(store.fail("a", "n1.1.1")) == ["finished"]
    assert store.state("a") is COMPLETE


def test_a_released_task_is_ready_again_and_that_is_no_failure(store):
    store.submit(a_task("a", retries=0))
    store.begin("a", "n1.1.1")

    first = store.release("a", "n1.1.1")
    second = store.release("a", "n1.1.1")

    assert first.state is READY
    assert first == second


# --- notices -----------------------------------------------------------------------------------


def test_a_task_is_ready_once_every_parent_has_told_it(store):
    store.submit(a_task("join", parents=["a", "b", "c"]))

    states = [store.notify("join", parent).state for parent in "bca"]

    assert states == [WAITING, WAITING, READY]


def test_a_notice_told_many_times_counts_once(store):
    store.submit(a_task("join", parents=["a", "b"]))

    states = {store.notify("join", "a").state for _ in range(5)}

    assert states == {WAITING}
    assert store.notify("join", "b").state is READY


def test_a_notice_of_an_earlier_generation_does_not_stand_for_another_parent(store):
    store.submit(a_task("join", parents=["a", "b"]))

    states = {store.notify("join", "a", generation).state for generation in (2, 1, 3, 1)}

    assert states == {WAITING}


def test_a_notice_repeated_to_a_task_that_went_on_changes_nothing(store):
    a_child_under_way(store)

    while_under_way = store.notify("child", "parent")
    store.commit("child", "n2.1.1")
    afterwards = store.notify("child", "parent")

    assert (while_under_way.state, while_under_way.live_attempts) == (STAGE_IN, 1)
    assert afterwards.state is COMPLETE


def test_a_notice_repeated_with_other_places_is_believed(store):
    a_chain(store)
    store.notify("child", "parent", copies=[Copy("parent.out", "old")])

    store.notify("child", "parent", copies=[Copy("parent.out", "new")])

    assert store.begin("child", "n1.1.1").copies == (Copy("parent.out", "new"),)


def test_a_notice_says_where_the_files_are_and_the_latest_generation_is_believed(store):
    a_chain(store)
    store.notify("child", "parent", 2, copies=[Copy("parent.out", "new")])

    store.notify("child", "parent", 1, copies=[Copy("parent.out", "old")])

    begun = store.begin("child", "n1.1.1")
    assert begun.copies == (Copy("parent.out", "new"),)
    assert begun.parents == {"parent": 2}


# --- failures passed on ------------------------------------------------------------------------


@pytest.mark.parametrize("ready", [False, True], ids=["waiting", "ready"])
def test_a_child_fails_with_its_parent(store, ready):
    store.submit(a_task("child", parents=["parent"], children=["grandchild"]))
    if ready:
        store.notify("child", "parent")

    told = store.notify("child", "parent", failed=True)

    assert (told.state, told.granted, told.children) == (FAILED, True, ("grandchild",))


def test_the_one_who_failed_a_child_is_answered_alike_when_it_asks_again(store):
    store.submit(a_task("child", parents=["a", "b"]))

    first = store.notify("child", "a", failed=True)
    second = store.notify("child", "a", failed=True)

    assert first == second


def test_a_child_fails_once_however_many_parents_do(store):
    store.submit(a_task("child", parents=["a", "b"]))
    store.notify("child", "a", failed=True)

    assert not store.notify("child", "b", failed=True).granted


def test_a_child_under_way_fails_with_the_first_of_its_parents_that_did(store):
    store.submit(a_task("child", parents=["a", "b"]))
    for parent in "ab":
        store.notify("child", parent)
    store.begin("child", "n1.1.1")
    for parent in "ab":
        store.notify("child", parent, failed=True)
    store.postpone("child", "n1.1.1", "a")

    granted = [store.notify("child", parent, failed=True).granted for parent in "ab"]

    assert granted == [True, False]


def test_a_task_that_failed_by_itself_is_not_failed_again_by_a_parent(store):
    a_child_under_way(store)
    store.fail("child", "n2.1.1")

    assert not store.notify("child", "parent", failed=True).granted


def test_a_task_that_failed_by_itself_after_its_parent_did_failed_by_itself(store):
    a_child_under_way(store)
    store.notify("child", "parent", failed=True)
    store.fail("child", "n2.1.1")

    assert not store.notify("child", "parent", failed=True).granted


def test_an_attempt_under_way_may_succeed_though_a_parent_failed_meanwhile(store):
    a_child_under_way(store)

    told = store.notify("child", "parent", failed=True)

    assert (told.state, told.granted) == (STAGE_IN, False)
    assert isinstance(store.commit("child", "n2.1.1"), Committed)


def test_a_task_that_would_have_to_wait_for_a_failed_parent_fails(store):
    a_child_under_way(store)
    store.notify("child", "parent", failed=True)

    postponed = store.postpone("child", "n2.1.1", "parent")

    assert (postponed.state, postponed.granted) == (FAILED, True)
    store.clock.move(STALE)
    assert "child" in store.patrol().untold()


def test_a_postponement_fails_a_task_only_if_it_waits_in_vain(store):
    a_child_under_way(store)
    store.begin("child", "n3.1.1")
    store.notify("child", "parent", failed=True)

    with_a_replica = store.postpone("child", "n2.1.1", "parent")
    store.fail("child", "n3.1.1")
    by_itself = store.postpone("child", "n3.1.1", "parent")

    assert (with_a_replica.state, with_a_replica.granted) == (STAGE_IN, False)
    assert (by_itself.state, by_itself.granted) == (FAILED, False)


def test_a_task_that_waits_for_a_failed_parent_fails_with_its_last_replica(store):
    a_child_under_way(store)
    store.begin("child", "n3.1.1")
    store.notify("child", "parent", failed=True)
    store.postpone("child", "n2.1.1", "parent")

    lost = store.take_over("child", "n3")

    assert lost.state is FAILED


def test_a_failed_parent_fails_a_completed_child_that_must_run_again_without_it(store):
    a_child_under_way(store)
    store.commit("child", "n2.1.1")
    store.notify("child", "parent", failed=True)
    store.reopen("child")
    store.begin("child", "n3.1.1")

    assert store.postpone("child", "n3.1.1", "parent").state is FAILED


# --- removal -----------------------------------------------------------------------------------


def standing_at(store: Asker, state: TaskState) -> None:
    """Task a, with child b, in this state; if it has an attempt, that is n2.1.1."""
    parents = ["parent"] if state is WAITING else []
    store.submit(a_task("a", parents=parents, children=["b"], preferred="n1"))
    if state in (WAITING, READY):
        return
    store.begin("a", "n2.1.1")
    if state in (RUNNING, STAGE_OUT):
        store.advance("a", "n2.1.1", state)


UNFINISHED = [WAITING, READY, STAGE_IN, RUNNING, STAGE_OUT]


@pytest.mark.parametrize("state", UNFINISHED, ids=lambda state: state.value)
def test_a_task_that_has_not_finished_is_removed(store, state):
    standing_at(store, state)

    removed = store.remove("a")

    assert (removed.state, removed.granted, removed.children) == (REMOVED, True, ("b",))
    assert store.look("a").state is REMOVED
    assert store.look("a").live_attempts == 0


def test_the_answer_names_the_nodes_that_may_have_the_removed_task(store):
    for task in ("waits", "is ready", "runs"):
        parents = ["parent"] if task == "waits" else []
        store.submit(a_task(task, parents=parents, preferred="n1"))
    store.begin("runs", "n2.1.1")
    store.replicate("runs", "n2", "n3")

    holders = {task: store.remove(task).holders for task in ("waits", "is ready", "runs")}

    assert holders == {"waits": (), "is ready": ("n1",), "runs": ("n2", "n3", "n1")}


def test_only_of_a_removed_task_are_holders_named(store):
    store.submit(a_task("a"))
    store.begin("a", "n2.1.1")

    assert store.look("a").holders == ()


def test_removing_twice_is_answered_alike(store):
    standing_at(store, RUNNING)

    assert store.remove("a") == store.remove("a")


def test_a_task_that_nobody_submitted_cannot_be_removed(store):
    answer = store.remove("a")

    assert (answer.unknown, answer.granted) == (True, False)


def test_a_complete_task_is_not_removed_nor_is_what_depends_on_it(store):
    a_child_under_way(store)

    answer = store.remove("parent")

    assert (answer.state, answer.granted, answer.children) == (COMPLETE, False, ())
    assert store.state("child") is STAGE_IN


def test_a_failed_task_is_not_removed(store):
    standing_at(store, RUNNING)
    store.fail("a", "n2.1.1")

    answer = store.remove("a")

    assert (answer.state, answer.granted) == (FAILED, False)


def test_nothing_a_removed_tasks_attempt_does_has_any_effect(store):
    standing_at(store, RUNNING)
    store.remove("a")

    commit, fail = store.commit("a", "n2.1.1"), store.fail("a", "n2.1.1")

    assert isinstance(commit, Refused)
    assert [commit.reason, fail.reason] == [Refusal.FINISHED] * 2
    assert [commit.state, fail.state] == [REMOVED] * 2
    assert store.advance("a", "n2.1.1", STAGE_OUT).state is REMOVED
    assert store.release("a", "n2.1.1").state is REMOVED
    postponed = store.postpone("a", "n2.1.1", "parent")
    assert (postponed.state, postponed.granted) == (REMOVED, False)
    assert store.take_over("a", "n2").state is REMOVED


def test_a_removed_task_never_completes(store):
    standing_at(store, RUNNING)
    store.remove("a")

    store.commit("a", "n2.1.1")

    assert store.state("a") is REMOVED


def test_a_child_that_waits_is_removed_when_it_hears_of_its_parents_removal(store):
    store.submit(a_task("child", parents=["a"]))

    assert store.notify("child", "a", removed=True).state is REMOVED


def test_a_removed_task_is_not_begun_replicated_or_run_again(store):
    standing_at(store, READY)
    generation = store.remove("a").generation

    assert store.begin("a", "n2.1.1").reason is Refusal.FINISHED
    assert not store.replicate("a", "n1", "n2").granted
    assert not store.reopen("a", generation).granted


def test_a_removed_task_hears_of_its_parents_in_vain(store):
    standing_at(store, WAITING)
    store.remove("a")

    assert store.notify("a", "parent").state is REMOVED


def test_submitting_a_removed_task_again_leaves_it_removed(store):
    standing_at(store, READY)
    store.remove("a")

    (answer,) = store.submit(a_task("a", children=["b"]))

    assert answer.state is REMOVED
    assert not answer.needs_node


def test_whom_a_removed_task_must_tell_is_found_once_that_is_stale(store):
    standing_at(store, READY)
    removed = store.remove("a")

    store.clock.move(STALE)
    (found,) = store.patrol().undelivered

    assert (found.state, found.children, found.placement) == (REMOVED, ("b",), 0)
    assert (found.generation, found.winner) == (removed.generation, "")
    store.delivered("a", removed.generation)
    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_a_removed_task_that_had_become_ready_again_is_not_placed(store):
    standing_at(store, STAGE_IN)
    store.release("a", "n2.1.1")

    store.remove("a")

    store.clock.move(STALE)
    found = store.patrol()
    assert (found.untold(), found.unplaced()) == (["a"], [])


@pytest.mark.parametrize("state", UNFINISHED, ids=lambda state: state.value)
def test_a_child_that_has_not_finished_is_removed_with_its_parent(store, state):
    if state is WAITING:
        store.submit(a_task("child", parents=["parent"], children=["grandchild"]))
    else:
        a_child_under_way(store)
    if state is READY:
        store.release("child", "n2.1.1")
    if state in (RUNNING, STAGE_OUT):
        store.advance("child", "n2.1.1", state)

    told = store.notify("child", "parent", 2, removed=True)

    assert (told.state, told.granted) == (REMOVED, True)
    assert told.children == (("grandchild",) if state is WAITING else ())
    assert told.holders == (() if state is WAITING else ("n2", "n1"))


def test_the_one_who_removed_a_child_is_answered_alike_when_it_asks_again(store):
    store.submit(a_task("child", parents=["a", "b"]))

    first = store.notify("child", "a", removed=True)
    second = store.notify("child", "a", removed=True)

    assert first.granted
    assert first == second


def test_a_child_is_removed_once_however_many_parents_are(store):
    store.submit(a_task("child", parents=["a", "b"]))
    granted = [store.notify("child", parent, removed=True).granted for parent in "ab"]

    assert granted == [True, False]


@pytest.mark.parametrize("ends", [("failed", "removed"), ("removed", "failed")], ids=" then ".join)
def test_a_child_of_a_failed_and_a_removed_parent_ends_as_the_first_it_hears_of(store, ends):
    store.submit(a_task("child", parents=["a", "b"]))

    first = store.notify("child", "a", **{ends[0]: True})
    second = store.notify("child", "b", **{ends[1]: True})

    assert first.state.value == second.state.value == ends[0]
    assert (first.granted, second.granted) == (True, False)


def test_a_complete_child_outlives_its_parents_removal(store):
    a_child_under_way(store)
    store.commit("child", "n2.1.1")

    told = store.notify("child", "parent", 2, removed=True)

    assert (told.state, told.granted) == (COMPLETE, False)
    late = store.postpone("child", "n3.1.1", "parent")
    assert (late.state, late.granted) == (COMPLETE, False)


def test_a_removed_parent_removes_a_completed_child_that_must_run_again_without_it(store):
    a_child_under_way(store)
    store.commit("child", "n2.1.1")
    store.notify("child", "parent", 2, removed=True)
    store.reopen("child")
    store.begin("child", "n3.1.1")

    postponed = store.postpone("child", "n3.1.1", "parent")

    assert (postponed.state, postponed.granted) == (REMOVED, True)
    store.clock.move(STALE)
    assert "child" in store.patrol().untold()


def test_a_removed_task_can_be_forgotten(store):
    standing_at(store, READY)
    store.remove("a")

    assert store.forget("a").unknown


def test_a_removed_task_is_not_counted_among_the_unfinished(store):
    standing_at(store, READY)
    store.submit(a_task("b", parents=["a"]))
    store.remove("a")

    assert [unfinished.task for unfinished in store.recount(10)] == ["b"]


# --- outboxes ----------------------------------------------------------------------------------


def test_whom_a_finished_task_must_tell_is_found_once_that_is_stale(store):
    store.submit(a_task("good", children=["x", "y"]), a_task("bad", children=["z"]))
    store.complete("good")
    store.begin("bad", "n1.1.1")
    store.fail("bad", "n1.1.1")

    fresh = store.patrol()
    store.clock.move(STALE)
    stale = {found.task: found for found in store.patrol().undelivered}

    assert not fresh.undelivered
    assert stale["good"].children == ("x", "y")
    assert stale["good"].copies == (Copy("good.out", "n1"),)
    assert [stale[task].state for task in ("good", "bad")] == [COMPLETE, FAILED]


def test_an_outbox_that_was_emptied_is_not_found(store):
    store.submit(a_task("a", children=["b"]))
    committed = store.complete("a")

    store.delivered("a", committed.generation)

    store.clock.move(2 * STALE)
    assert not store.patrol().undelivered


def test_a_patrol_has_what_it_finds_to_itself_for_a_short_while(store):
    store.submit(a_task("a", children=["b"]))
    store.complete("a")
    store.clock.move(STALE)

    first = store.patrol(node="one")
    meanwhile = store.patrol(node="other")
    store.clock.move(HOLD)
    later = store.patrol(node="other")

    assert [found.untold() for found in (first, meanwhile, later)] == [["a"], [], ["a"]]


def test_an_outbox_emptied_by_the_one_who_found_it_is_not_found_again(store):
    store.submit(a_task("a", children=["b"]))
    store.complete("a")
    store.clock.move(STALE)
    (found,) = store.patrol().undelivered

    store.delivered(found.task, found.generation, found.placement)

    store.clock.move(2 * STALE)
    assert not store.patrol().undelivered


def test_a_patrol_finds_no_more_than_its_limit_and_the_oldest_first(store):
    first, second, third = names_on_one_shard(store, 3)
    for name in (first, second, third):
        store.submit(a_task(name, children=["z"]))
        store.complete(name)
        store.clock.move(1.0)
    store.clock.move(STALE)

    assert store.patrol(limit=2).untold() == [first, second]
    assert store.patrol(limit=2).untold() == [third]


def test_an_outbox_that_nobody_can_empty_does_not_keep_others_from_being_found(store):
    hopeless, other = names_on_one_shard(store, 2)
    store.submit(a_task(hopeless, children=["z"]), a_task(other, children=["z"]))
    store.complete(hopeless)
    store.clock.move(STALE)
    store.complete(other)

    found = []
    for _ in range(4):
        found += store.patrol(limit=1).untold()
        store.clock.move(STALE)

    assert {hopeless, other} <= set(found)


def test_what_comes_into_an_outbox_anew_goes_behind_what_was_there(store):
    again, other = names_on_one_shard(store, 2)
    store.submit(a_task(again, children=["c"]), a_task(other, children=["c"]))
    store.begin(again, "n1.1.1")
    store.take_over(again, "n1")
    store.clock.move(1.0)
    store.complete(other)
    store.clock.move(1.0)
    store.commit(again, "n2.1.1")

    store.clock.move(STALE - 1.0)
    first = store.patrol().untold()
    store.clock.move(1.0)

    assert first == [other]
    assert store.patrol().untold() == [again]


def test_an_end_that_comes_while_a_patrol_has_the_task_is_stale_no_sooner_than_others(store):
    store.submit(a_task("a", children=["b"]))
    store.begin("a", "n1.1.1")
    store.take_over("a", "n1")
    store.clock.move(STALE)
    store.patrol()
    store.commit("a", "n2.1.1")

    store.clock.move(HOLD)
    after_the_hold = store.patrol()
    store.clock.move(STALE - HOLD)

    assert not after_the_hold.undelivered
    assert store.patrol().untold() == ["a"]


def test_a_task_without_children_leaves_the_outbox_when_it_is_complete(store):
    """There is nobody to be told."""
    store.submit(a_task("a"), a_task("b"))
    store.complete("a")
    store.begin("b", "n1.1.1")
    store.take_over("b", "n1")  # ready again, and in no queue
    store.commit("b", "n2.1.1")

    store.clock.move(STALE)

    assert not store.patrol().undelivered


def test_word_that_an_earlier_generation_was_told_does_not_empty_the_outbox(store):
    store.submit(a_task("a", children=["b"]))
    store.complete("a", "n1.1.1", 1)
    store.reopen("a", 1)
    store.complete("a", "n2.1.1", 2)

    store.delivered("a", 1)

    store.clock.move(STALE)
    assert store.patrol().untold() == ["a"]


def test_word_that_a_completion_was_told_does_not_hide_the_failure_after_it(store):
    store.submit(a_task("a", children=["b"]))
    first = store.complete("a", "n1.1.1")
    store.reopen("a")
    store.begin("a", "n2.1.1")
    failing = store.fail("a", "n2.1.1")

    store.delivered("a", first.generation)

    store.clock.move(STALE)
    (found,) = store.patrol().undelivered
    assert (found.state, found.generation) == (FAILED, failing.generation)
    store.delivered("a", failing.generation)
    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_a_cascaded_failure_can_be_told_on_and_its_outbox_emptied(store):
    store.submit(a_task("child", parents=["parent"], children=["grandchild"]))
    told = store.notify("child", "parent", failed=True)

    store.delivered("child", told.generation)

    store.clock.move(STALE)
    assert not store.patrol().undelivered


# --- tasks that nobody has ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "orphan",
    [
        lambda store: store.take_over("child", "n2"),
        lambda store: store.release("child", "n2.1.1"),
        lambda store: store.postpone("child", "n2.1.1", "parent", 0),
    ],
    ids=["taken over", "released", "postponed in vain"],
)
def test_a_task_that_became_ready_again_is_found_until_it_is_placed(store, orphan):
    a_child_under_way(store)
    store.delivered("parent")

    standing = orphan(store)

    store.clock.move(STALE)
    (found,) = store.patrol().undelivered
    assert (found.task, found.placement) == ("child", standing.placement)
    store.delivered("child", standing.generation, standing.placement)
    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_a_reopened_task_is_found_until_it_is_placed(store):
    store.submit(a_task("a"))
    store.complete("a")
    store.delivered("a")

    standing = store.reopen("a")

    store.clock.move(STALE)
    assert store.patrol().unplaced() == ["a"]
    store.delivered("a", standing.generation, standing.placement)
    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_a_task_reopened_before_its_end_was_told_is_found_until_it_is_placed(store):
    store.submit(a_task("a", children=["b"]))
    store.complete("a")
    store.clock.move(STALE)

    standing = store.reopen("a")

    assert not store.patrol().undelivered
    store.clock.move(STALE)
    (found,) = store.patrol().undelivered
    assert (found.task, found.placement, found.winner) == ("a", standing.placement, "")
    store.delivered("a", standing.generation, standing.placement)
    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_it_is_counted_how_often_a_task_became_ready_again(store):
    store.submit(a_task("a"))
    placements = [store.look("a").placement]
    for node in ("n1", "n2"):
        store.begin("a", f"{node}.1.1")
        placements.append(store.take_over("a", node).placement)

    assert placements == [0, 1, 2]


def test_a_take_over_repeated_while_a_patrol_has_the_task_is_answered_alike(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    first = store.take_over("a", "n1")
    store.clock.move(STALE)
    store.patrol()

    assert store.take_over("a", "n1") == first


def test_a_task_that_begins_is_placed(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.take_over("a", "n1")

    store.begin("a", "n2.1.1")

    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_a_task_its_node_keeps_needs_no_placing(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    store.release("a", "n1.1.1", keep=True)

    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_a_task_that_waits_again_needs_no_placing(store):
    store.submit(a_task("join", parents=["a", "b"]))
    store.notify("join", "a", 2)
    store.notify("join", "b", 1)
    store.begin("join", "n1.1.1")

    states = [store.postpone("join", "n1.1.1", parent, 1).state for parent in "ab"]

    assert states == [READY, WAITING]
    store.clock.move(STALE)
    assert not store.patrol().undelivered


def test_word_of_an_earlier_placing_does_not_hide_that_a_task_is_nobodys_again(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    first = store.take_over("a", "n1")
    store.begin("a", "n2.1.1")
    store.take_over("a", "n2")

    store.delivered("a", first.generation, first.placement)

    store.clock.move(STALE)
    assert store.patrol().unplaced() == ["a"]


# --- replicas ----------------------------------------------------------------------------------


def test_a_task_has_no_more_replicas_than_its_backups(store):
    store.submit(a_task("a", backups_max=2))

    granted = [store.replicate("a", "n1", f"n{i}").granted for i in range(2, 6)]

    assert granted == [True, True, False, False]


def test_a_node_is_never_given_a_replica_of_what_it_has(store):
    store.submit(a_task("a"))
    store.begin("a", "n2.1.1")
    store.replicate("a", "n1", "n3")

    granted = [store.replicate("a", "n1", node).granted for node in ("n1", "n2", "n3")]

    assert granted == [False] * 3


def test_a_replica_asked_for_twice_takes_one_backup(store):
    store.submit(a_task("a", backups_max=2))

    store.replicate("a", "n1", "n2")
    store.replicate("a", "n1", "n2")

    assert store.replicate("a", "n1", "n3").granted


def test_a_spare_is_granted_while_the_task_has_one_attempt_at_another_node(store):
    store.submit(a_task("a"))
    assert not store.replicate("a", "n1", "n2", spare=True).granted

    store.begin("a", "n1.1.1")
    assert not store.replicate("a", "n1", "n1", spare=True).granted
    assert store.replicate("a", "n1", "n2", spare=True).granted

    store.begin("a", "n2.1.1")
    assert not store.replicate("a", "n1", "n3", spare=True).granted


def test_a_task_that_may_have_no_backups_has_no_spares(store):
    store.submit(a_task("a", backups_max=0))
    store.begin("a", "n1.1.1")

    assert not store.replicate("a", "n1", "n2", spare=True).granted


def test_a_spare_that_has_ended_may_be_followed_by_another_even_at_the_same_node(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    for count in (1, 2):
        assert store.replicate("a", "n1", "n2", spare=True).granted
        store.begin("a", f"n2.1.{count}")
        store.release("a", f"n2.1.{count}")


def test_a_spare_counts_as_no_backup(store):
    store.submit(a_task("a", backups_max=1))
    store.begin("a", "n1.1.1")

    assert store.replicate("a", "n1", "n2", spare=True).more_backups
    assert store.replicate("a", "n1", "n3").granted


def test_who_may_run_a_spare_hears_of_a_removal(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.replicate("a", "n1", "n2", spare=True)

    assert "n2" in store.remove("a").holders


def test_a_finished_task_has_no_replicas(store):
    store.submit(a_task("a"))
    store.complete("a")

    assert not store.replicate("a", "n1", "n2").granted
    assert not store.replicate("a", "n1", "n2", spare=True).granted


def test_a_standing_says_whether_the_task_may_have_more_backups(store):
    store.submit(a_task("a", backups_max=2))

    more = [store.look("a").more_backups]
    more += [store.replicate("a", "n1", node).more_backups for node in ("n2", "n3")]

    assert more == [True, True, False]


def test_a_node_that_runs_its_replica_is_told_to_stop_once(store):
    store.submit(a_task("a"))
    store.replicate("a", "n1", "n2")
    store.begin("a", "n2.1.1")
    store.begin("a", "n1.1.1")

    assert store.commit("a", "n1.1.1").rivals == ("n2",)


def test_those_who_were_given_a_replica_are_told_to_stop_when_another_wins(store):
    store.submit(a_task("a"))
    store.replicate("a", "n1", "n2")
    store.begin("a", "n1.1.1")

    assert store.commit("a", "n1.1.1").rivals == ("n2",)


# --- take-over ---------------------------------------------------------------------------------


def test_a_take_over_makes_the_task_ready_and_says_where_its_inputs_are(store):
    a_chain(store)
    copies = [Copy("parent.out", "n1")]
    store.notify("child", "parent", copies=copies)
    store.begin("child", "n2.1.1")

    taken = store.take_over("child", "n2")

    assert (taken.state, taken.live_attempts) == (READY, 0)
    assert taken.inputs == a_task("child", parents=["parent"]).inputs
    assert list(taken.input_copies) == copies


def test_a_take_over_repeated_is_answered_alike(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    assert store.take_over("a", "n1") == store.take_over("a", "n1")


def test_a_take_over_leaves_other_nodes_attempts_alone(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")
    store.advance("a", "n1.1.1", RUNNING)

    taken = store.take_over("a", "n1")

    assert (taken.state, taken.live_attempts) == (STAGE_IN, 1)
    assert isinstance(store.commit("a", "n2.1.1"), Committed)


def test_a_node_that_was_taken_over_is_no_rival_of_those_that_go_on(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")

    store.take_over("a", "n1")

    assert store.commit("a", "n2.1.1").rivals == ()


def test_a_take_over_does_not_undo_a_commit(store):
    store.submit(a_task("a"))
    store.complete("a", "n1.1.1")

    assert store.take_over("a", "n1").state is COMPLETE


def test_a_node_whose_replica_was_taken_over_may_have_another(store):
    store.submit(a_task("a"))
    store.replicate("a", "n1", "n2")
    store.take_over("a", "n2")

    assert store.replicate("a", "n1", "n2").granted


# --- lost outputs ------------------------------------------------------------------------------


def test_a_task_whose_output_was_lost_is_ready_again_and_has_no_copies(store):
    store.submit(a_task("a"))
    store.complete("a")

    reopened = store.reopen("a")

    assert (reopened.state, reopened.granted) == (READY, True)
    assert store.look("a").copies == ()


def test_a_reopened_task_says_where_its_inputs_are(store):
    a_chain(store)
    copies = [Copy("parent.out", "n1")]
    store.notify("child", "parent", copies=copies)
    store.complete("child")

    reopened = store.reopen("child")

    assert reopened.inputs == a_task("child", parents=["parent"]).inputs
    assert list(reopened.input_copies) == copies


def test_a_task_that_has_ended_knows_no_more_of_its_inputs_than_where_they_were(store):
    a_chain(store)
    store.notify("child", "parent", copies=[Copy("parent.out", "n1", 7, "a digest")])
    store.complete("child")
    after_its_end = store.look("child").input_copies
    store.notify("child", "parent", generation=2, copies=[Copy("parent.out", "n2", 8, "another")])

    reopened = store.reopen("child")
    store.notify("child", "parent", generation=3, copies=[Copy("parent.out", "n3", 9, "the last")])

    assert list(after_its_end) == [Copy("parent.out", "n1")]
    assert list(reopened.input_copies) == [Copy("parent.out", "n2")]
    assert list(store.look("child").input_copies) == [Copy("parent.out", "n3", 9, "the last")]


def test_a_reopened_task_runs_as_the_next_generation(store):
    store.submit(a_task("a"))
    store.complete("a", "n1.1.1", 1)
    store.reopen("a", 1)

    begun = store.begin("a", "n1.1.2")
    committed = store.commit("a", "n1.1.2", 2)

    assert (begun.generation, committed.generation) == (2, 2)


def test_a_reopened_task_may_have_replicas_again_anywhere(store):
    store.submit(a_task("a", backups_max=1))
    store.replicate("a", "n1", "n2")
    store.complete("a", "n1.1.1")
    store.reopen("a")

    assert store.replicate("a", "n3", "n2").granted


def test_those_who_ran_an_earlier_generation_are_not_rivals_in_the_next(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.complete("a", "n2.1.1")
    store.reopen("a")

    assert store.complete("a", "n3.1.1", 2).rivals == ()


def test_a_generation_is_reopened_once_and_asking_again_is_answered_alike(store):
    store.submit(a_task("a"))
    store.complete("a")

    assert store.reopen("a") == store.reopen("a")
    store.begin("a", "n2.1.1")
    assert store.reopen("a").state is STAGE_IN


def test_only_the_present_generation_can_be_reopened(store):
    store.submit(a_task("a"))
    store.complete("a", "n1.1.1", 1)
    store.reopen("a", 1)
    store.complete("a", "n2.1.1", 2)

    answers = [store.reopen("a", generation) for generation in (0, 1, 3)]

    assert [answer.granted for answer in answers] == [False] * 3
    assert store.state("a") is COMPLETE


def test_a_task_that_never_completed_or_failed_cannot_be_reopened(store):
    store.submit(a_task("new"), a_task("bad"))
    store.begin("bad", "n1.1.1")
    failing = store.fail("bad", "n1.1.1")

    answers = [store.reopen("new", 0), store.reopen("bad", failing.generation)]

    assert [(answer.state, answer.granted) for answer in answers] == [
        (READY, False),
        (FAILED, False),
    ]


def test_an_attempt_that_began_before_its_task_was_reopened_does_not_count(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.complete("a", "n2.1.1")
    store.reopen("a")

    assert reasons(store.commit("a", "n1.1.1", 1)) == ["outdated"]


def test_a_begin_repeated_after_its_task_was_reopened_is_of_the_new_generation(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.complete("a", "n2.1.1")
    store.reopen("a")

    assert store.begin("a", "n1.1.1").generation == 2


def test_a_postponed_task_waits_for_the_next_generation_of_its_parent(store):
    a_child_under_way(store)

    postponed = store.postpone("child", "n2.1.1", "parent")
    old = store.notify("child", "parent", 1)
    new = store.notify("child", "parent", 2)

    assert [answer.state for answer in (postponed, old, new)] == [WAITING, WAITING, READY]


def test_a_task_postponed_after_the_new_notice_came_does_not_wait(store):
    a_child_under_way(store)
    store.notify("child", "parent", 2)

    postponed = store.postpone("child", "n2.1.1", "parent", 1)

    assert (postponed.state, postponed.live_attempts) == (READY, 0)


@pytest.mark.parametrize("reopened_first", [True, False])
def test_a_lost_output_comes_back_in_whatever_order_its_loss_is_told(store, reopened_first):
    a_child_under_way(store)
    if reopened_first:
        store.reopen("parent")
        store.complete("parent", "n3.1.1", 2)
        store.postpone("child", "n2.1.1", "parent")
    else:
        store.postpone("child", "n2.1.1", "parent")
        store.reopen("parent")
        store.complete("parent", "n3.1.1", 2)

    store.notify("child", "parent", 2, copies=[Copy("parent.out", "n3")])

    begun = store.begin("child", "n2.1.2")
    assert begun.parents == {"parent": 2}
    assert begun.copies == (Copy("parent.out", "n3"),)


def test_a_postponement_repeated_is_answered_alike(store):
    a_child_under_way(store)

    first = store.postpone("child", "n2.1.1", "parent")
    second = store.postpone("child", "n2.1.1", "parent")

    assert first == second
    assert store.notify("child", "parent", 2).state is READY


def test_a_postponement_of_a_task_that_still_waits_counts_its_parent_once(store):
    a_chain(store)

    store.postpone("child", "n2.1.1", "parent", 1)
    states = [store.notify("child", "parent", generation).state for generation in (1, 2)]

    assert states == [WAITING, READY]


def test_a_postponement_that_comes_late_does_not_lower_what_the_task_waits_for(store):
    a_chain(store)
    store.notify("child", "parent", 2)
    store.begin("child", "n2.1.1")
    store.begin("child", "n3.1.1")
    store.postpone("child", "n2.1.1", "parent", 2)

    late = store.postpone("child", "n3.1.1", "parent", 1)
    states = [store.notify("child", "parent", generation).state for generation in (2, 3)]

    assert [late.state, *states] == [WAITING, WAITING, READY]


def test_two_attempts_that_miss_the_same_file_wait_once(store):
    a_child_under_way(store)
    store.begin("child", "n3.1.1")

    store.postpone("child", "n2.1.1", "parent")
    store.postpone("child", "n3.1.1", "parent")

    assert store.state("child") is WAITING
    assert store.notify("child", "parent", 2).state is READY


def test_a_task_that_lost_two_inputs_waits_for_both(store):
    store.submit(a_task("join", parents=["a", "b"]))
    store.notify("join", "a")
    store.notify("join", "b")
    store.begin("join", "n1.1.1")
    store.begin("join", "n2.1.1")

    store.postpone("join", "n1.1.1", "a")
    store.postpone("join", "n2.1.1", "b")

    assert [store.notify("join", parent, 2).state for parent in "ab"] == [WAITING, READY]


def test_a_replica_that_has_its_inputs_wins_though_another_was_postponed(store):
    a_child_under_way(store)
    store.begin("child", "n3.1.1")

    postponed = store.postpone("child", "n2.1.1", "parent")

    assert (postponed.state, postponed.live_attempts) == (STAGE_IN, 1)
    assert isinstance(store.commit("child", "n3.1.1"), Committed)


def test_a_task_waits_when_its_last_replica_is_lost_after_another_was_postponed(store):
    a_child_under_way(store)
    store.begin("child", "n3.1.1")
    store.postpone("child", "n2.1.1", "parent")

    assert store.take_over("child", "n3").state is WAITING


def test_a_task_completed_while_its_parent_ran_again_can_itself_run_again(store):
    a_child_under_way(store)
    store.begin("child", "n3.1.1")
    store.reopen("parent")
    store.postpone("child", "n2.1.1", "parent")
    store.commit("child", "n3.1.1")

    store.reopen("child")
    begun = store.begin("child", "n4.1.1")
    postponed = store.postpone("child", "n4.1.1", "parent", begun.parents["parent"])
    store.complete("parent", "n5.1.1", 2)

    assert postponed.state is WAITING
    assert store.notify("child", "parent", 2).state is READY


def test_a_postponement_of_a_finished_task_changes_nothing(store):
    a_child_under_way(store)
    store.commit("child", "n2.1.1")

    assert store.postpone("child", "n2.1.1", "parent").state is COMPLETE


def test_a_postponement_of_a_finished_task_does_not_count_when_it_runs_again(store):
    a_child_under_way(store)
    store.commit("child", "n2.1.1")
    store.postpone("child", "n2.1.1", "parent")

    assert store.reopen("child").state is READY


# --- copies ------------------------------------------------------------------------------------


def test_copies_are_added_once_and_dropped(store):
    store.submit(a_task("a"))
    store.complete("a", "n1.1.1")
    here, there = Copy("a.out", "n1"), Copy("a.out", "n2")

    store.ask(AddCopies("a", (there,)))
    store.ask(AddCopies("a", (there,)))
    both = store.look("a").copies
    store.ask(DropCopies("a", (here,)))
    store.ask(DropCopies("a", (here,)))

    assert both == (here, there)
    assert store.look("a").copies == (there,)


def test_an_input_of_the_workflow_has_copies_under_its_own_name(store):
    store.ask(AddCopies("input.fits", (Copy("input.fits", "n1"), Copy("input.fits", "n2"))))
    store.ask(DropCopies("input.fits", (Copy("input.fits", "n1"),)))

    found = store.look("input.fits")

    assert not found.unknown
    assert found.copies == (Copy("input.fits", "n2"),)


def test_an_input_without_copies_is_forgotten(store):
    copy = Copy("input.fits", "n1")
    store.ask(AddCopies("input.fits", (copy,)))

    dropped = store.ask(DropCopies("input.fits", (copy,)))

    assert dropped.unknown
    assert store.look("input.fits").unknown


def test_files_are_named_only_to_those_who_ask_for_them(store):
    store.submit(a_task("a"))
    store.complete("a", "n1.1.1")

    added = store.ask(AddCopies("a", (Copy("a.out", "n2"),)))

    assert isinstance(added, Standing)
    assert added.copies == ()


def test_what_is_long_is_in_an_answer_only_where_it_is_asked_for(store):
    a_chain(store)
    store.notify("child", "parent", copies=[Copy("parent.out", "n1")])
    store.begin("child", "n2.1.1")
    store.commit("child", "n2.1.1")
    there = (Copy("child.out", "n3"), Copy("child.out", "n4"))
    place = (Copy("input.fits", "n1"),)

    answers = [
        *store.submit(a_task("child", parents=["parent"])),
        store.notify("child", "parent"),
        store.delivered("child"),
        store.ask(AddCopies("child", there)),
        store.ask(DropCopies("child", there[:1])),
        store.ask(AddCopies("input.fits", place)),
        store.ask(DropCopies("input.fits", (Copy("input.fits", "n9"),))),
    ]

    for answer in answers:
        assert (answer.copies, answer.inputs, answer.input_copies) == ((), (), ())
        assert not answer.granted


def test_only_a_failed_task_names_its_children(store):
    store.submit(*(a_task(name, children=["z"]) for name in ("ready", "complete", "failed")))
    store.complete("complete")
    store.begin("failed", "n1.1.1")
    store.fail("failed", "n1.1.1")

    children = [store.look(name).children for name in ("ready", "complete", "failed")]

    assert children == [(), (), ("z",)]


def test_what_never_ended_is_of_no_generation(store):
    store.submit(a_task("a"))
    store.ask(AddCopies("input.fits", (Copy("input.fits", "n1"),)))

    assert [store.look(name).generation for name in ("a", "input.fits", "unknown")] == [0, 0, 0]


# --- leases ------------------------------------------------------------------------------------


def test_a_node_nobody_has_heard_of_is_not_up(store):
    queued_for = store.enqueue("stranger", entry("a"))

    assert not store.probe("nobody").up
    assert not queued_for.up
    assert not store.probe("stranger").up


def test_a_probe_says_who_the_node_is_and_what_waits_for_it(store):
    store.join("n1", incarnation=3)
    store.enqueue("n1", entry("a", seconds=2.0))

    assert store.probe("n1") == Membership("n1", True, True, 3, 1, 2.0, 0)
    assert store.probe("nobody") == Membership("nobody", False, False, -1, 0, 0.0, 0)


def test_a_node_is_up_from_joining_until_its_lease_expires(store):
    store.clock.move(100.0)
    joined = store.join("n1")
    store.clock.move(LEASE)
    last = store.probe("n1")
    store.clock.move(0.001)

    assert (joined.current, joined.up, last.up) == (True, True, True)
    assert not store.probe("n1").up


def test_a_renewal_keeps_the_lease_for_as_long_again(store):
    store.join("n1")
    for _ in range(3):
        store.clock.move(0.9 * LEASE)
        assert store.renew("n1").current

    assert store.probe("n1").up


def test_a_renewal_reports_the_load_and_says_so(store):
    store.join("n1")

    answer = store.renew("n1", load=7.0)

    assert answer.load_seconds == 7.0
    assert store.renew("n1", load=7.0) == answer


def test_a_lease_that_expired_unnoticed_can_be_renewed(store):
    store.join("n1")
    store.clock.move(2 * LEASE)

    renewed = store.renew("n1")

    assert (renewed.current, renewed.up) == (True, True)


def test_a_node_that_never_joined_has_no_lease_to_renew(store):
    assert not store.renew("n1").current


def test_joining_twice_is_answered_alike(store):
    assert store.join("n1") == store.join("n1")


def test_joining_again_renews_the_lease_and_leaves_all_else_as_it_is(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    store.claim("n1")
    store.ask(ReportLoad("n1", 5.0))
    store.clock.move(0.9 * LEASE)

    store.join("n1")

    store.clock.move(0.9 * LEASE)
    assert store.probe("n1") == Membership("n1", True, True, 1, 0, 5.0, 0, told_seconds=5.0)
    assert store.claimed("n1") == []


def test_a_node_that_comes_back_has_nothing_waiting_at_it_yet(store):
    store.join("n1", incarnation=1)
    store.ask(ReportLoad("n1", 5.0))

    assert store.join("n1", incarnation=2).load_seconds == 0.0


def test_an_outdated_renewal_neither_lengthens_the_lease_nor_reports_a_load(store):
    store.join("n1", incarnation=2)
    store.clock.move(0.9 * LEASE)

    store.renew("n1", incarnation=1, load=9.0)

    assert store.probe("n1").load_seconds == 0.0
    store.clock.move(0.2 * LEASE)
    assert not store.probe("n1").up


def test_an_outdated_incarnation_can_neither_join_nor_renew_nor_claim(store):
    store.join("n1", incarnation=2)
    store.enqueue("n1", entry("a"))

    answers = [store.join("n1", 1), store.renew("n1", 1), store.claim("n1", 1)]

    assert [answer.current for answer in answers] == [False] * 3
    assert answers[0].incarnation == 2
    assert store.claimed("n1", incarnation=2) == ["a"]


def test_a_node_whose_tasks_are_being_taken_over_must_come_back_as_another(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    store.clock.move(2 * LEASE)
    store.patrol()

    answers = [store.renew("n1"), store.claim("n1"), store.join("n1", 1)]

    assert [answer.current for answer in answers] == [False] * 3
    assert not store.probe("n1").up
    assert store.join("n1", incarnation=2).current
    assert store.probe("n1").up


def test_a_node_that_is_being_taken_over_does_not_delay_it_by_joining_again(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    store.clock.move(2 * LEASE)
    store.patrol()

    store.join("n1")

    store.clock.move(2 * HOLD)
    assert store.patrol().orphaned("n1") == ["a"]


def test_the_load_of_a_node_counts_what_is_queued_for_it(store):
    store.join("n1")
    store.ask(ReportLoad("n1", 5.0))

    store.enqueue("n1", entry("a", seconds=2.0), entry("b", seconds=4.0))
    queued = store.probe("n1").load_seconds
    store.claim("n1", limit=1)

    assert queued == 11.0
    assert store.probe("n1").load_seconds == 4.0


def test_what_a_node_said_of_its_load_is_told_apart_from_what_is_queued_for_it(store):
    store.join("n1")
    store.ask(ReportLoad("n1", 5.0))

    store.enqueue("n1", entry("a", seconds=2.0))

    assert store.probe("n1").told_seconds == 5.0
    assert store.renew("n1", load=6.0).told_seconds == 6.0


def test_a_queue_that_is_empty_is_no_load_at_all(store):
    store.join("n1")
    store.enqueue("n1", entry("a", seconds=0.1), entry("b", seconds=0.2))

    store.claim("n1")

    assert store.probe("n1").load_seconds == 0.0


def test_a_node_is_not_declared_dead_at_the_very_end_of_its_lease(store):
    store.join("n1")
    store.clock.move(LEASE)

    assert store.ask(Seize("n1", 1)).current
    assert store.renew("n1").current


def test_a_node_is_declared_dead_only_once_its_lease_has_expired(store):
    store.join("n1")

    in_time = store.ask(Seize("n1", 1))
    renewed = store.renew("n1")
    store.clock.move(2 * LEASE)
    late = store.ask(Seize("n1", 1))

    assert in_time.current
    assert renewed.current
    assert not late.current
    assert late == store.ask(Seize("n1", 1))
    assert not store.renew("n1").current


def test_a_node_that_came_back_is_not_declared_dead_for_its_past_life(store):
    store.join("n1", incarnation=1)
    store.join("n1", incarnation=2)

    seized = store.ask(Seize("n1", 1))

    assert not seized.current
    assert store.renew("n1", incarnation=2).current


def test_a_node_late_in_its_present_life_is_not_declared_dead_for_its_past_one(store):
    store.join("n1", incarnation=1)
    store.join("n1", incarnation=2)
    store.clock.move(2 * LEASE)

    store.ask(Seize("n1", 1))

    assert store.renew("n1", incarnation=2).current


def test_what_a_node_declared_dead_had_is_orphaned(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    store.clock.move(2 * LEASE)

    store.ask(Seize("n1", 1))

    assert store.patrol().orphaned("n1") == ["a"]


# --- leaving -----------------------------------------------------------------------------------


def test_a_node_that_has_left_is_down_at_once_and_current_no_more(store):
    store.join("n1")

    left = store.ask(Leave("n1", 1))

    assert not left.current
    assert not store.probe("n1").up
    assert not store.renew("n1").current
    assert left == store.ask(Leave("n1", 1))


def test_what_a_node_that_has_left_had_is_orphaned_without_waiting_for_its_lease(store):
    store.join("n1")
    store.enqueue("n1", entry("a"), entry("b"))
    store.claim("n1", limit=1)

    store.ask(Leave("n1", 1))
    store.clock.move(1.0)

    assert sorted(store.patrol().orphaned("n1")) == ["a", "b"]


def test_what_is_queued_for_a_node_that_has_left_is_found_by_the_next_patrol(store):
    store.join("n1")
    store.ask(Leave("n1", 1))
    store.clock.move(1.0)
    assert store.patrol().orphaned("n1") == []

    store.enqueue("n1", entry("late"))
    store.clock.move(10.0)

    assert store.patrol().orphaned("n1") == ["late"]


def test_a_node_that_has_left_may_come_back_as_its_next_incarnation_only(store):
    store.join("n1", incarnation=1)
    store.ask(Leave("n1", 1))

    assert not store.join("n1", incarnation=1).current
    assert store.join("n1", incarnation=2).current
    assert store.probe("n1").up


def test_a_late_word_that_a_past_life_has_left_changes_nothing(store):
    store.join("n1", incarnation=1)
    store.join("n1", incarnation=2)

    assert not store.ask(Leave("n1", 1)).current
    assert store.renew("n1", incarnation=2).current


def test_who_looks_may_ask_for_the_children(store):
    store.submit(a_task("parent", children=["a", "b"]))

    assert store.ask(Look("parent")).children == ()
    assert store.ask(Look("parent", children=True)).children == ("a", "b")
    assert store.ask(Look("nobody knows", children=True)).children == ()


# --- queues ------------------------------------------------------------------------------------


def test_tasks_are_claimed_by_urgency_then_by_name(store):
    store.join("n1")
    store.enqueue("n1", entry("d", 2.0), entry("b", 1.0), entry("c", 2.0))
    store.enqueue("n1", entry("a", 3.0))

    assert store.claimed("n1") == ["b", "c", "d", "a"]


def test_a_claim_takes_no_more_than_its_limit_and_says_how_many_are_left(store):
    store.join("n1")
    store.enqueue("n1", *map(entry, "abc"))

    first = store.claim("n1", limit=2)
    rest = store.claim("n1", limit=2)

    assert ([e.task for e in first.entries], first.left) == (["a", "b"], 1)
    assert ([e.task for e in rest.entries], rest.left) == (["c"], 0)


def test_a_claim_repeated_is_answered_alike_and_takes_nothing_more(store):
    store.join("n1")
    store.enqueue("n1", *map(entry, "abcd"))

    first = store.claim("n1", limit=2, request=1)
    store.enqueue("n1", entry("0"))
    second = store.claim("n1", limit=2, request=1)

    assert first == second
    assert store.probe("n1").queued == 3


def test_a_claim_that_comes_after_a_later_one_takes_nothing(store):
    store.join("n1")
    store.enqueue("n1", *map(entry, "abc"))
    store.claim("n1", limit=1, request=1)
    store.claim("n1", limit=1, request=2)

    late = store.claim("n1", limit=1, request=1)

    assert late.entries == ()
    assert store.probe("n1").queued == 1


def test_a_node_that_came_back_numbers_its_claims_anew(store):
    store.join("n1", incarnation=1)
    store.claim("n1", request=7)
    store.join("n1", incarnation=2)
    store.enqueue("n1", entry("a"))

    claimed = store.claim("n1", incarnation=2, request=1)

    assert [e.task for e in claimed.entries] == ["a"]


def test_a_task_queued_twice_is_claimed_once(store):
    store.join("n1")
    store.enqueue("n1", entry("a"), entry("a"))
    store.enqueue("n1", entry("a"))

    queued = store.probe("n1")
    assert (queued.queued, queued.load_seconds) == (1, 3.0)
    assert store.claimed("n1") == ["a"]
    assert store.claimed("n1") == []


def test_a_task_queued_again_is_as_urgent_as_was_said_last(store):
    store.join("n1")
    store.enqueue("n1", entry("a", 1.0), entry("b", 2.0))

    store.enqueue("n1", entry("a", 3.0))

    assert store.claimed("n1") == ["b", "a"]


def test_a_task_queued_while_it_is_held_is_not_claimed_until_it_is_let_go(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    (ticket,) = store.claim("n1").tickets
    store.enqueue("n1", entry("a"))

    while_held = store.claimed("n1")
    store.let_go("n1", ("a", ticket))

    assert while_held == []
    assert store.claimed("n1") == ["a"]


def test_a_task_that_was_let_go_is_gone(store):
    store.join("n1")
    store.enqueue("n1", entry("a"), entry("b"))
    first = store.claim("n1", limit=1)

    store.let_go("n1", ("a", first.tickets[0]))

    store.clock.move(2 * LEASE)
    assert store.patrol().orphaned("n1") == ["b"]


def test_letting_go_twice_does_not_let_go_of_what_was_queued_anew(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    (ticket,) = store.claim("n1").tickets
    store.let_go("n1", ("a", ticket))
    store.enqueue("n1", entry("a"))

    store.let_go("n1", ("a", ticket))
    queued = store.probe("n1").queued
    store.claim("n1")
    store.let_go("n1", ("a", ticket))

    assert queued == 1
    store.clock.move(2 * LEASE)
    assert store.patrol().orphaned("n1") == ["a"]


def test_letting_go_without_a_ticket_drops_whatever_there_is(store):
    store.join("n1")
    store.enqueue("n1", entry("held"), entry("queued", 2.0))
    store.claim("n1", limit=1)
    store.enqueue("n1", entry("held"))

    answer = store.let_go("n1", ("held", -1), ("queued", -1))

    assert isinstance(answer, Membership)
    assert answer.queued == 0
    store.clock.move(2 * LEASE)
    assert not store.patrol().orphans


def test_letting_go_without_a_ticket_leaves_other_tasks_where_they_are(store):
    store.join("n1")
    store.enqueue("n1", entry("held"), entry("other", 2.0), entry("queued", 3.0))
    store.claim("n1", limit=2)

    store.let_go("n1", ("held", -1))

    store.clock.move(2 * LEASE)
    assert store.patrol().orphaned("n1") == ["other", "queued"]


def test_an_outdated_incarnation_lets_go_of_nothing(store):
    store.join("n1", incarnation=1)
    store.enqueue("n1", entry("a"))
    (ticket,) = store.claim("n1").tickets
    store.join("n1", incarnation=2)

    store.let_go("n1", ("a", ticket), ("a", -1), incarnation=1)

    assert store.claimed("n1", incarnation=2) == ["a"]


def test_a_node_that_comes_back_finds_in_its_queue_what_it_held(store):
    store.join("n1", incarnation=1)
    store.enqueue("n1", entry("a", 2.0), entry("b", 1.0), entry("c", 3.0))
    store.claim("n1", limit=2)

    store.join("n1", incarnation=2)

    assert store.probe("n1").queued == 3
    assert store.claimed("n1", incarnation=2) == ["b", "a", "c"]


def test_a_node_that_comes_back_has_one_of_each_task(store):
    store.join("n1", incarnation=1)
    store.enqueue("n1", entry("a"))
    (old,) = store.claim("n1").tickets
    store.enqueue("n1", entry("a"))

    store.join("n1", incarnation=2)
    claim = store.claim("n1", incarnation=2)

    assert [e.task for e in claim.entries] == ["a"]
    assert claim.tickets != (old,)


def test_a_node_that_restates_what_it_holds_holds_that_and_the_rest_is_queued(store):
    store.join("n1")
    store.enqueue("n1", entry("a"), entry("b"))
    store.claim("n1")

    stated = store.ask(Restate("n1", 1, (entry("b"), entry("forgotten"))))

    assert stated.current
    assert [e.task for e in stated.entries] == ["b", "forgotten"]
    assert store.claimed("n1") == ["a"]
    store.let_go("n1", *zip(("b", "forgotten"), stated.tickets, strict=True))
    store.clock.move(2 * LEASE)
    assert store.patrol().orphaned("n1") == ["a"]


def test_what_was_held_besides_is_queued_as_it_was_said_last(store):
    store.join("n1")
    store.enqueue("n1", entry("a"), entry("b"))
    store.claim("n1")
    store.enqueue("n1", entry("a", 5.0), entry("c", 4.0))

    store.ask(Restate("n1", 1, (entry("b"),)))
    claimed = store.claim("n1")

    assert [(e.task, e.priority) for e in claimed.entries] == [("c", 4.0), ("a", 5.0)]
    assert store.claimed("n1") == []


def test_a_task_restated_that_was_queued_again_is_held_once_with_the_newer_ticket(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    (old,) = store.claim("n1").tickets
    store.enqueue("n1", entry("a"))

    stated = store.ask(Restate("n1", 1, (entry("a"),)))

    assert [e.task for e in stated.entries] == ["a"]
    assert stated.tickets > (old,)
    assert store.claimed("n1") == []
    store.let_go("n1", ("a", old))
    store.let_go("n1", ("a", stated.tickets[0]))
    store.clock.move(2 * LEASE)
    assert not store.patrol().orphans


def test_a_restatement_repeated_is_answered_alike(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))

    restatement = Restate("n1", 1, (entry("a"), entry("b")))

    assert store.ask(restatement) == store.ask(restatement)


def test_what_a_node_restates_after_its_lease_ran_out_unnoticed_is_looked_after(store):
    store.join("n1")
    store.clock.move(2 * LEASE)
    store.patrol()

    store.ask(Restate("n1", 1, (entry("a"),)))

    assert store.patrol().orphaned("n1") == ["a"]


def test_an_outdated_incarnation_restates_nothing(store):
    store.join("n1", incarnation=2)

    assert not store.ask(Restate("n1", 1, (entry("a"),))).current
    store.clock.move(2 * LEASE)
    assert not store.patrol().orphans


# --- orphans -----------------------------------------------------------------------------------


def test_tasks_are_orphans_only_after_their_nodes_lease_has_expired(store):
    store.join("n1")
    store.enqueue("n1", entry("held"), entry("queued", 2.0))
    store.claim("n1", limit=1)

    in_time = store.patrol()
    store.clock.move(LEASE)
    at_the_end = store.patrol()
    store.clock.move(0.001)
    late = store.patrol()

    assert not in_time.orphans
    assert not at_the_end.orphans
    assert late.orphaned("n1") == ["held", "queued"]
    assert late.orphans[0].incarnation == 1


def test_one_renewal_keeps_everything_a_node_holds(store):
    store.join("n1")
    store.enqueue("n1", *(entry(f"t{i}") for i in range(50)))
    store.claim("n1", limit=25)

    store.clock.move(LEASE)
    store.renew("n1")
    store.clock.move(LEASE)

    assert not store.patrol().orphans


def test_a_lease_shorter_than_the_last_one_expires_sooner(store):
    store.join("n1", incarnation=1, lease=1000.0)
    store.join("n1", incarnation=2, lease=10.0)
    store.enqueue("n1", entry("a"))

    store.clock.move(11.0)

    assert store.patrol().orphaned("n1") == ["a"]


def test_tasks_queued_for_a_node_that_is_dead_or_was_never_seen_are_orphans(store):
    store.enqueue("stranger", entry("a"))
    store.join("dead")
    store.clock.move(2 * LEASE)
    store.patrol()
    store.clock.move(HOLD)
    store.enqueue("dead", entry("b"))
    store.clock.move(HOLD)

    found = store.patrol()

    assert found.orphaned("stranger") == ["a"]
    assert found.orphaned("dead") == ["b"]


def test_a_patrol_has_orphans_to_itself_for_a_short_while(store):
    store.enqueue("stranger", entry("a"))
    store.clock.move(1.0)

    first = store.patrol(node="one")
    meanwhile = store.patrol(node="other")
    store.clock.move(2 * HOLD)
    later = store.patrol(node="other")

    tasks = [found.orphaned("stranger") for found in (first, meanwhile, later)]
    assert tasks == [["a"], [], ["a"]]


def test_a_patrol_finds_no_more_orphans_than_its_limit(store):
    store.enqueue("stranger", *(entry(f"t{i}") for i in range(5)))
    store.clock.move(1.0)

    found = store.patrol(limit=2)

    assert len(found.orphaned("stranger")) == 2


@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_of_a_patrol_is_for_all_the_dead_together_and_the_rest_can_be_found_at_once(
    store, limit
):
    dead = names_on_one_shard(store, 3)
    for node in dead:
        store.enqueue(node, entry("a"), entry("b"))
    store.clock.move(1.0)

    first = [e.task for o in store.patrol(limit=limit).orphans for e in o.entries]
    rest = store.patrol()

    assert len(first) == limit
    assert all(orphans.entries for orphans in rest.orphans)
    untouched = 3 - (limit + 1) // 2
    assert len(rest.orphans) == untouched


def test_a_lease_that_was_shortened_is_not_looked_for_at_its_old_end(store):
    store.join("n1", incarnation=1, lease=1000.0)
    store.join("n1", incarnation=2, lease=10.0)
    store.clock.move(11.0)
    store.patrol()

    store.clock.move(1000.0)

    assert not store.patrol().orphans


def test_orphans_that_found_a_home_are_not_found_again_and_the_rest_are(store):
    store.enqueue("stranger", *map(entry, "abc"))
    store.clock.move(1.0)
    (orphans,) = store.patrol(limit=2).orphans

    store.drop_orphans(orphans)

    store.clock.move(2 * HOLD)
    left = {"a", "b", "c"} - {e.task for e in orphans.entries}
    assert set(store.patrol().orphaned("stranger")) == left


def test_a_task_both_held_and_queued_again_is_taken_over_whole(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    store.claim("n1")
    store.enqueue("n1", entry("a"))
    store.clock.move(2 * LEASE)
    (orphans,) = store.patrol().orphans

    store.drop_orphans(orphans)

    store.clock.move(2 * HOLD)
    assert not store.patrol().orphans


def test_one_who_takes_orphans_over_does_not_drop_what_was_queued_meanwhile(store):
    store.join("n1")
    store.enqueue("n1", entry("held"), entry("queued", 2.0))
    store.claim("n1", limit=1)
    store.clock.move(2 * LEASE)
    (orphans,) = store.patrol().orphans

    store.enqueue("n1", entry("held"), entry("queued"))
    store.drop_orphans(orphans)
    store.drop_orphans(orphans)

    store.clock.move(2 * HOLD)
    assert sorted(store.patrol().orphaned("n1")) == ["held", "queued"]


def test_a_node_that_came_back_keeps_its_tasks_from_one_who_took_them_over(store):
    store.join("n1")
    store.enqueue("n1", entry("a"))
    store.clock.move(2 * LEASE)
    (orphans,) = store.patrol().orphans

    store.join("n1", incarnation=2)
    store.drop_orphans(orphans)

    assert store.claimed("n1", incarnation=2) == ["a"]


def test_a_node_that_dies_again_is_found_again(store):
    store.join("n1", incarnation=1)
    store.enqueue("n1", entry("a"))
    store.clock.move(2 * LEASE)
    store.patrol()
    store.join("n1", incarnation=2, lease=1.0)

    store.clock.move(2.0)

    (orphans,) = store.patrol().orphans
    assert orphans.incarnation == 2


# --- suspects ----------------------------------------------------------------------------------


def test_an_attempt_long_under_way_is_asked_after_now_and_then(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    early = store.patrol(suspect=100.0)
    store.clock.move(100.0)
    due = store.patrol(suspect=100.0)
    again = store.patrol(suspect=100.0)
    store.clock.move(100.0)

    assert not early.suspects
    assert [(s.task, s.attempt, s.node, s.incarnation) for s in due.suspects] == [
        ("a", "n1.1.1", "n1", 1)
    ]
    assert not again.suspects
    assert store.patrol(suspect=100.0).suspects == due.suspects


@pytest.mark.parametrize(
    "end",
    [
        lambda store: store.commit("a", "n1.1.1"),
        lambda store: store.commit("a", "n2.1.1"),
        lambda store: store.fail("a", "n1.1.1"),
        lambda store: store.release("a", "n1.1.1"),
        lambda store: store.take_over("a", "n1"),
        lambda store: store.postpone("a", "n1.1.1", "parent"),
    ],
    ids=["committed", "beaten", "failed", "released", "taken over", "postponed"],
)
def test_an_attempt_that_is_over_is_not_asked_after(store, end):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")

    end(store)

    store.clock.move(100.0)
    assert not store.patrol(suspect=10.0).suspects


# --- forgetting --------------------------------------------------------------------------------


def test_a_finished_task_can_be_forgotten(store):
    store.submit(a_task("a", children=["b"]), a_task("b", parents=["a"]))
    store.complete("a")

    assert store.forget("a").unknown
    assert store.look("a").unknown
    assert store.forget("a").unknown, "said twice it is as if said once"
    store.clock.move(1000.0)
    assert not store.patrol().undelivered
    assert [task.task for task in store.recount(10)] == ["b"]


def test_a_task_that_failed_can_be_forgotten(store):
    store.submit(a_task("a"))
    store.begin("a", "n1.1.1")
    store.fail("a", "n1.1.1")

    assert store.forget("a").unknown


@pytest.mark.parametrize("begun", [False, True])
def test_a_task_that_has_not_finished_is_not_forgotten(store, begun):
    store.submit(a_task("a"))
    if begun:
        store.begin("a", "n1.1.1")

    assert not store.forget("a").unknown
    assert not store.look("a").unknown


def test_a_patrol_passes_over_the_attempts_of_what_is_forgotten(store):
    store.submit(a_task("a", backups_max=1))
    store.begin("a", "n1.1.1")
    store.begin("a", "n2.1.1")
    store.commit("a", "n1.1.1")
    store.forget("a")

    store.clock.move(1000.0)

    assert not store.patrol(suspect=10.0).suspects


def test_a_recount_finds_the_rest_of_many_that_were_forgotten(store):
    names = [f"t{i}" for i in range(1500)]
    gone, left = names[:1300], names[1300:]
    store.submit(*map(a_task, names))
    store.call(*(Begin(name, "n1.1.1", "n1") for name in gone))
    store.call(*(Commit(name, "n1.1.1", "n1", (), 1) for name in gone))
    store.call(*(Forget(name) for name in gone))

    assert sorted(task.task for task in store.recount(100)) == sorted(left)


# --- tally -------------------------------------------------------------------------------------


def counted(store: Asker) -> dict[str, int]:
    """The states that some task is in, each with the number of tasks."""
    return {state.value: count for state, count in store.tally().items() if count}


def test_a_new_store_has_no_task_in_any_state(store):
    assert counted(store) == {}


def test_a_tally_follows_each_task_through_its_states(store):
    store.submit(*(a_task(f"t{i}") for i in range(5)), a_task("child", parents=["t0"]))
    submitted = counted(store)
    for i in range(4):
        store.begin(f"t{i}", "n1.1.1")
    store.advance("t0", "n1.1.1", TaskState.RUNNING)
    store.advance("t1", "n1.1.1", TaskState.STAGE_OUT)
    under_way = counted(store)
    store.commit("t0", "n1.1.1")
    store.fail("t1", "n1.1.1")
    store.remove("t2")
    store.release("t3", "n1.1.1")
    store.notify("child", "t0")

    assert submitted == {"ready": 5, "waiting": 1}
    assert under_way == {"waiting": 1, "ready": 1, "stage-in": 2, "running": 1, "stage-out": 1}
    assert counted(store) == {"complete": 1, "failed": 1, "removed": 1, "ready": 3}


def test_a_tally_counts_a_task_once_however_often_it_is_submitted_or_committed(store):
    for _ in range(2):
        store.submit(a_task("a"))
        store.complete("a")
        store.commit("a", "n2.1.1")

    assert counted(store) == {"complete": 1}


def test_a_tally_takes_back_a_task_that_is_reopened_and_one_that_is_postponed(store):
    store.submit(a_task("a", children=["b"]), a_task("b", parents=["a"]))
    store.complete("a")
    store.notify("b", "a")
    store.begin("b", "n1.1.2")
    store.reopen("a")
    store.postpone("b", "n1.1.2", "a")

    assert counted(store) == {"ready": 1, "waiting": 1}


def test_a_tally_counts_those_that_fail_or_are_removed_with_a_parent(store):
    store.submit(*(a_task(child, parents=["gone"]) for child in ("a", "b", "c")))
    store.notify("a", "gone", failed=True)
    store.notify("b", "gone", removed=True)

    assert counted(store) == {"waiting": 1, "failed": 1, "removed": 1}


def test_a_tally_leaves_out_what_is_forgotten(store):
    store.submit(a_task("a"), a_task("b"))
    store.complete("a")
    store.forget("a")
    store.forget("b")

    assert counted(store) == {"ready": 1}


# --- recount -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_a_recount_pages_through_every_unfinished_task_once(store, limit):
    names = [f"t{i}" for i in range(10)]
    store.submit(*map(a_task, names))
    store.complete("t3")
    store.begin("t4", "n1.1.1")
    store.fail("t4", "n1.1.1")
    store.begin("t5", "n1.1.1")

    found = [task.task for task in store.recount(limit)]

    assert sorted(found) == [name for name in names if name not in ("t3", "t4")]


def test_a_recount_says_which_ends_of_which_parents_a_task_still_waits_for(store):
    store.submit(a_task("join", parents=["a", "b", "c"]))
    store.notify("join", "b")
    before = store.recount(10)
    store.notify("join", "a")
    store.notify("join", "c")
    store.begin("join", "n1.1.1")
    store.postpone("join", "n1.1.1", "b")

    after = store.recount(10)

    assert [task.missing for task in before] == [{"a": 1, "c": 1}]
    assert [task.missing for task in after] == [{"b": 2}]


def test_a_store_that_lost_nothing_needs_no_recount(store):
    answers = store.call(*(Recounted(i, 0) for i in range(store.store.shard_count)))

    assert all(isinstance(answer, Findings) for answer in answers)
    assert {(answer.epoch, answer.recount_due) for answer in answers} == {(0, False)}


def test_queue_entries_come_back_as_they_were_queued(store):
    store.join("n1")
    queued = QueueEntry(0.5, "a", True, 12.0)
    store.enqueue("n1", queued)

    assert store.claim("n1").entries == (queued,)
