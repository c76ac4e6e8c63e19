"""What the embedded store adds to what every store promises: it survives."""

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.store_cases import Asker, HandClock, a_task, run_alone
from dataward.errors import FormatError, SettingError
from dataward.kernel import AsyncioKernel, VirtualKernel
from dataward.model.operations import (
    Begin,
    Commit,
    Fail,
    Join,
    Look,
    Patrol,
    Probe,
    Recount,
    Remove,
    Renew,
    Submit,
    Tally,
)
from dataward.model.states import TaskState
from dataward.stores import embedded
from dataward.stores.embedded import (
    EmbeddedSettings,
    EmbeddedStore,
    ShardState,
    shard_from,
    state_of,
)
from dataward.stores.journal import DirectoryInUse
from dataward.stores.memory import MemoryStore
from dataward.stores.shard import Shard
from dataward.world import StoreUnavailable
from stores.test_shard import SPECS, of_a_node, of_a_task, of_the_shard

KILLS = 20
TASKS_IN_A_CALL = 3


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch):
    """Disks are slow, and nothing here pulls the plug; killing a process loses no write."""
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda file: None, raising=False)


class HandDisk:
    """Writes when told to, and fails when told to."""

    def __init__(self) -> None:
        self.asked = []
        self.writes = 0

    def __call__(self, work, done) -> None:
        assert not self.asked, "two writes at a time"
        self.asked.append((work, done))

    def finish(self, error: Exception | None = None) -> None:
        work, done = self.asked.pop()
        self.writes += 1
        if error is None:
            work()
        done(error)


class Run:
    """A store under virtual time, whose calls can be watched while they wait."""

    def __init__(self, directory: Path, off_loop=None, **settings) -> None:
        self.disk = off_loop or HandDisk()
        self.kernel = VirtualKernel()
        self.store = EmbeddedStore(
            directory, HandClock(), self.kernel, 1, self.disk, EmbeddedSettings(**settings)
        )

    def start(self, *operations):
        """The outcome-to-be of a call: a list that fills up."""
        outcome = []

        async def call() -> None:
            try:
                outcome.extend(await self.store.call(operations))
            except StoreUnavailable as error:
                outcome.append(error)

        fiber = self.kernel.spawn(call())
        self.settle()
        return outcome, fiber

    def call(self, *operations):
        outcome, _ = self.start(*operations)
        return outcome

    def settle(self) -> None:
        self.kernel.run_until(self.kernel.now())

    def finish(self, error: Exception | None = None) -> None:
        self.disk.finish(error)
        self.settle()

    def close(self) -> None:
        self.store.close()
        self.settle()
        self.kernel.close()


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path)
    yield run
    run.close()


def an_open_store(directory: Path, clock=None, shards: int = 1, **settings) -> EmbeddedStore:
    given = EmbeddedSettings(**settings)
    return EmbeddedStore(directory, clock or HandClock(), VirtualKernel(), shards, settings=given)


def ask(store: EmbeddedStore | MemoryStore, *operations):
    return VirtualKernel().run(store.call(operations))


def known(directory: Path, *tasks: str) -> list[bool]:
    """Which of these tasks are there when the store is opened anew."""
    with an_open_store(directory) as store:
        return [not standing.unknown for standing in ask(store, *map(Look, tasks))]


def submit(task: str) -> Submit:
    return Submit(a_task(task))


def state(store: EmbeddedStore | MemoryStore) -> bytes:
    return msgspec.msgpack.encode([state_of(shard) for shard in store._shards])


# --- opened again --------------------------------------------------------------------------------

submits = st.sampled_from([Submit(spec) for spec in SPECS.values()])
batches = st.tuples(
    st.sampled_from([0.0, 0.5, 6.0, 60.0]),
    st.lists(st.one_of(submits, of_a_task, of_a_node, of_the_shard), max_size=12),
    st.booleans(),
)


@pytest.mark.parametrize("compact_bytes_min", [0, 2000, 1 << 20])
@settings(max_examples=60, deadline=None)
@given(st.lists(batches, max_size=12), st.sampled_from([1, 3]))
def test_a_store_opened_again_and_again_answers_as_one_that_never_closed(
    compact_bytes_min, batches, shards
):
    given = {"compact_bytes_min": compact_bytes_min, "compact_ratio": 1.5}
    clock = HandClock()
    referee = MemoryStore(clock, shards)
    with TemporaryDirectory() as directory:
        store = an_open_store(Path(directory), clock, shards, **given)
        for seconds, operations, is_reopened in batches:
            clock.move(seconds)
            assert ask(store, *operations) == ask(referee, *operations)
            if is_reopened:
                store.close()
                store = an_open_store(Path(directory), clock, shards, **given)
            assert state(store) == state(referee)
        store.close()


def test_a_snapshot_has_everything_a_shard_remembers():
    """If a shard learns to remember something more, so must `ShardState`."""
    shard = Shard(0)

    remembered = vars(shard).keys() - {"_rules", "outboxes"} | vars(shard.outboxes).keys()

    counted = {"complete", "failed", "removed"}
    assert remembered - {"counts"} == set(ShardState.__struct_fields__) - counted


def test_a_shard_from_a_snapshot_has_as_many_tasks_in_each_state():
    shard = Shard(0)
    for task in ("a", "b", "c"):
        shard.apply(Submit(a_task(task)), 0.0)
    shard.apply(Begin("a", "n1.1.1", "n1"), 1.0)
    shard.apply(Commit("b", "n1.1.2", "n1", (), 1), 1.0)
    before = shard.apply(Tally(0), 2.0)

    restored = shard_from(msgspec.convert(msgspec.to_builtins(state_of(shard)), ShardState))

    assert restored.apply(Tally(0), 3.0) == before
    assert before.counts[TaskState.COMPLETE] == before.counts[TaskState.STAGE_IN] == 1


def test_a_snapshot_from_before_tasks_could_be_forgotten_or_removed_counts_none_of_them():
    older = msgspec.to_builtins(state_of(Shard(0)))[:-2]

    shard = shard_from(msgspec.convert(older, ShardState))

    assert (shard._forgotten, shard.removed) == (0, 0)


@pytest.mark.parametrize("compact_bytes", [1 << 20, 0], ids=["from operations", "from a snapshot"])
def test_a_store_opened_again_knows_which_tasks_did_not_run(tmp_path, compact_bytes):
    settings = EmbeddedSettings(compact_bytes_min=compact_bytes, compact_ratio=0.0)
    with EmbeddedStore(tmp_path, HandClock(), VirtualKernel(), settings=settings) as store:
        asker = Asker(store, HandClock(), run_alone)
        asker.submit(a_task("ran"), a_task("recalled"))
        for task in ("ran", "recalled"):
            asker.begin(task, "n1.1.1")
            asker.ask(Commit(task, "n1.1.1", "n1", (), 1, recalled=task == "recalled"))

    with EmbeddedStore(tmp_path, HandClock(), VirtualKernel()) as store:
        recalled = {task.spec.id: task.was_recalled for task in store.committed()}

    assert recalled == {"ran": False, "recalled": True}


def test_time_goes_on_where_it_was_when_the_clock_starts_anew(tmp_path):
    with an_open_store(tmp_path, HandClock(1000.0)) as store:
        ask(store, Join("n1", 1, 60.0))
    clock = HandClock(5.0)

    with an_open_store(tmp_path, clock) as store:
        clock.move(50.0)
        (within,) = ask(store, Probe("n1"))
        clock.move(50.0)
        (after,) = ask(store, Probe("n1"))

    assert (within.up, after.up) == (True, False)


def test_a_clock_that_is_set_back_does_not_take_the_store_with_it(tmp_path):
    clock = HandClock(1000.0)
    with an_open_store(tmp_path, clock) as store:
        ask(store, Join("n1", 1, 60.0))
        clock.move(-500.0)
        ask(store, Renew("n1", 1, 0.0))

        assert store._shards[0].nodes["n1"].lease_until == 1060.0


def test_what_a_crash_left_unfinished_is_cut_off_and_reported(tmp_path):
    with an_open_store(tmp_path) as store:
        ask(store, submit("a"))
        kept = store._journal.size_bytes
        ask(store, submit("b"))
    os.truncate(tmp_path / "journal", kept + 40)

    with an_open_store(tmp_path) as store:
        assert store.cut_bytes == 40
        ask(store, submit("c"))

    assert known(tmp_path, "a", "b", "c") == [True, False, True]


def test_a_damaged_journal_is_not_opened_and_the_directory_is_free_again(tmp_path):
    with an_open_store(tmp_path) as store:
        ask(store, submit("a"))
        ask(store, submit("b"))
    content = bytearray((tmp_path / "journal").read_bytes())
    content[70] ^= 1
    (tmp_path / "journal").write_bytes(content)

    for _ in range(2):
        with pytest.raises(FormatError, match="damaged"):
            an_open_store(tmp_path)


def test_a_journal_that_says_what_is_not_known_is_not_opened(tmp_path):
    with an_open_store(tmp_path) as store:
        store._journal.append(msgspec.msgpack.encode([["batch", 0.0, [{"type": "Juggle"}]]]))

    with pytest.raises(FormatError, match=r"does not know.*Juggle"):
        an_open_store(tmp_path)


def test_a_directory_is_made_with_its_parents_each_to_last(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/dev/fd/{file}")))

    an_open_store(tmp_path / "new" / "store").close()

    assert synced[:2] == [str(tmp_path), str(tmp_path / "new")]
    assert synced[-1] == str(tmp_path / "new" / "store")


def test_a_directory_is_open_once(tmp_path):
    with (
        an_open_store(tmp_path),
        pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"),
    ):
        an_open_store(tmp_path)


def test_the_number_of_shards_stays_what_it_was(tmp_path):
    an_open_store(tmp_path, shards=2).close()

    with pytest.raises(SettingError, match="has 2 shards, so it cannot be opened with 3"):
        an_open_store(tmp_path, shards=3)


# --- group commit --------------------------------------------------------------------------------


def test_a_call_returns_when_its_record_is_written_and_not_before(run):
    answers = run.call(submit("a"))
    before = list(answers)

    run.finish()

    assert before == []
    assert [answer.task for answer in answers] == ["a"]


def test_callers_that_share_its_fate_wait_for_outcomes_only(tmp_path):
    run = Run(tmp_path, shares_fate=True)

    begun = run.call(submit("a"), Begin("a", "n1.1.1", "n1"))

    assert len(begun) == 2
    assert not run.disk.asked, "nobody waits for it"
    committed = run.call(Commit("a", "n1.1.1", "n1", generation=1))
    assert not committed
    run.finish()
    assert committed
    run.close()
    assert known(tmp_path, "a") == [True], "what went before is written with it"


@pytest.mark.parametrize(
    "outcome",
    [
        Commit("a", "n1.1.1", "n1", generation=1),
        Fail("a", "n1.1.1", "its own error"),
        Remove("a"),
    ],
)
def test_every_end_of_a_task_waits_for_the_disk_also_if_callers_share_the_stores_fate(
    tmp_path, outcome
):
    run = Run(tmp_path, shares_fate=True)
    run.call(submit("a"), Begin("a", "n1.1.1", "n1"))

    ended = run.call(outcome)

    assert not ended
    run.finish()
    assert ended
    run.close()


def test_what_nobody_waits_for_is_written_when_it_is_a_lot(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "RECORDS_UNAWAITED_MAX", 2)
    run = Run(tmp_path, shares_fate=True)

    for task in ("a", "b"):
        run.call(submit(task))

    assert not run.disk.asked
    run.call(submit("c"))
    assert run.disk.asked
    run.finish()
    run.close()


def test_calls_that_come_during_a_write_share_the_next_one(run, tmp_path):
    first = run.call(submit("first"))
    others = [run.call(submit(f"t{i}")) for i in range(10)]

    run.finish()
    after_one = (len(first), sum(map(len, others)))
    run.finish()

    assert after_one == (1, 0)
    assert sum(map(len, others)) == 10
    assert run.disk.writes == 2
    assert not run.disk.asked


def test_a_question_is_answered_when_what_the_answer_tells_is_written(run):
    run.call(submit("a"))
    answer = run.call(Look("a"))
    before = list(answer)

    run.finish()

    assert before == []
    assert not answer[0].unknown


def test_a_question_about_what_waits_for_the_next_write_waits_for_that(run):
    run.call(submit("a"))
    run.call(submit("b"))
    answer = run.call(Look("b"))

    run.finish()
    after_one = list(answer)
    run.finish()

    assert after_one == []
    assert not answer[0].unknown


def test_questions_alone_write_nothing(run):
    answers = run.call(Look("a"), Probe("n1"), Recount(0, 0, 10))

    assert len(answers) == 3
    assert not run.disk.asked


def test_a_call_that_is_given_up_is_written_all_the_same(run, tmp_path):
    _, fiber = run.start(submit("a"))
    fiber.cancel()
    run.settle()
    other = run.call(submit("b"))

    run.finish()
    run.finish()
    run.close()

    assert len(other) == 1
    assert known(tmp_path, "a", "b") == [True, True]


def test_many_calls_at_once_take_few_writes_under_real_time(tmp_path):
    kernel, writes = AsyncioKernel(), []
    with ThreadPoolExecutor(1) as pool:

        def in_a_thread(work, done) -> None:
            future = asyncio.get_running_loop().run_in_executor(pool, work)
            future.add_done_callback(lambda future: done(future.exception()))
            writes.append(work)

        async def main(store) -> None:
            calls = [kernel.spawn(store.call([submit(f"t{i}")])) for i in range(200)]
            for call in calls:
                await call.join()

        with EmbeddedStore(tmp_path, kernel.now, kernel, 2, in_a_thread) as store:
            kernel.run(main(store))

    assert len(writes) == 2
    with an_open_store(tmp_path, shards=2) as store:
        assert not any(standing.unknown for standing in ask(store, Look("t0"), Look("t199")))


# --- when something fails ------------------------------------------------------------------------

NO_ROOM = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_after_a_write_that_failed_nothing_is_acknowledged_until_it_is_opened_anew(run, tmp_path):
    kept = run.call(submit("kept"))
    run.finish()
    failing = [run.call(submit("a")), run.call(submit("b")), run.call(Look("a"))]

    run.finish(NO_ROOM)
    later = [run.call(submit("c")), run.call(Look("kept"))]
    run.close()

    assert kept[0].task == "kept"
    for (outcome,) in [*failing, *later]:
        assert isinstance(outcome, StoreUnavailable)
        assert "No space left on device" in str(outcome)
        assert "open the store again" in str(outcome)
    assert known(tmp_path, "kept", "a", "b", "c") == [True, False, False, False]


def test_a_disk_that_really_fails_stops_the_store(tmp_path, monkeypatch):
    def fails(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = an_open_store(tmp_path)
    ask(store, submit("kept"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        with pytest.raises(StoreUnavailable, match="Input/output error"):
            ask(store, submit("a"))

    with pytest.raises(StoreUnavailable, match="Input/output error"):
        ask(store, Look("kept"))
    assert "Input/output error" in store.failure
    store.close()
    assert known(tmp_path, "kept", "a") == [True, False]


@pytest.mark.parametrize(
    ("error", "passed_on"), [(OSError("full"), False), (KeyboardInterrupt(), True)]
)
def test_work_done_at_once_tells_of_its_error_and_passes_on_only_an_interruption(error, passed_on):
    told = []

    def work():
        raise error

    with pytest.raises(KeyboardInterrupt) if passed_on else nullcontext():
        embedded.at_once(work, told.append)

    assert told == [error]


def test_those_waiting_when_a_store_is_closed_are_told(run):
    outcomes = [run.call(submit("a")), run.call(submit("b"))]

    run.close()

    assert all(isinstance(outcome, StoreUnavailable) for (outcome,) in outcomes)
    assert "it is closed" in str(outcomes[0][0])


@pytest.mark.parametrize(
    ("operation", "error"),
    [(Fail("a", "n1.1.1", "\ud800"), UnicodeEncodeError), (Patrol(7, "n1", 1, 1, 1), IndexError)],
    ids=["no text", "no such shard"],
)
def test_a_call_that_cannot_be_written_or_placed_changes_nothing(tmp_path, operation, error):
    with an_open_store(tmp_path) as store:
        ask(store, submit("a"))
        before = state(store)

        with pytest.raises(error):
            ask(store, submit("b"), operation)

        assert state(store) == before
        ask(store, submit("c"))


def test_a_rule_that_fails_stops_the_store_as_it_was_before_the_call(tmp_path):
    with an_open_store(tmp_path) as store:
        ask(store, submit("a"))
        with pytest.raises(ValueError, match="unpack"):
            ask(store, submit("b"), Begin("a", "not an attempt", "n1"))
        with pytest.raises(StoreUnavailable, match="a rule of the store failed"):
            ask(store, Look("a"))

    assert known(tmp_path, "a", "b") == [True, False]


# --- compaction ----------------------------------------------------------------------------------


def test_a_store_that_does_much_and_keeps_little_has_a_short_journal(tmp_path):
    with an_open_store(tmp_path, compact_bytes_min=10_000) as store:
        ask(store, Join("n1", 1, 60.0), submit("a"))
        lengths = []
        for i in range(1000):
            ask(store, Renew("n1", 1, float(i)))
            lengths.append((tmp_path / "journal").stat().st_size)
        before = state(store)

    assert max(lengths) < 11_000
    assert len([i for i in range(999) if lengths[i + 1] < lengths[i]]) in range(3, 30)
    with an_open_store(tmp_path) as store:
        assert state(store) == before


def test_a_store_that_keeps_much_is_not_written_anew_each_time(tmp_path):
    with an_open_store(tmp_path, compact_bytes_min=100, compact_ratio=3.0) as store:
        ask(store, *(submit(f"t{i}") for i in range(300)))
        files = []
        for i in range(300):
            ask(store, Begin(f"t{i}", "n1.1.1", "n1"))
            files.append((tmp_path / "journal").stat().st_ino)

    assert len([i for i in range(299) if files[i + 1] != files[i]]) <= 1


def test_a_shard_from_a_snapshot_is_made_of_the_same_things():
    """A plain dict would keep the order too, but take ever longer to find its oldest entry."""
    shard = Shard(3)

    written = msgspec.msgpack.encode(state_of(shard))
    again = shard_from(msgspec.msgpack.decode(written, type=ShardState))

    kinds = [{name: type(value) for name, value in vars(one).items()} for one in (shard, again)]
    assert kinds[0] == kinds[1]


def test_what_comes_while_the_journal_is_written_anew_comes_after_it(tmp_path):
    run = Run(tmp_path, compact_bytes_min=0, compact_ratio=0)
    outcomes = [run.call(submit("a")), run.call(submit("b")), run.call(submit("c"))]

    run.finish()
    run.finish()
    run.close()

    assert [len(outcome) for outcome in outcomes] == [1, 1, 1]
    assert known(tmp_path, "a", "b", "c") == [True, True, True]


def test_a_journal_that_could_not_be_written_anew_is_still_good(tmp_path, monkeypatch):
    def fails(source, target) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with an_open_store(tmp_path) as store:
        ask(store, submit("kept"))
    store = an_open_store(tmp_path, compact_bytes_min=0, compact_ratio=0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        with pytest.raises(StoreUnavailable, match="No space"):
            ask(store, submit("a"))
    store.close()

    assert known(tmp_path, "kept", "a") == [True, False]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["journal", "lock"]


def test_a_snapshot_that_finds_no_memory_stops_the_store_and_keeps_nobody_waiting(
    tmp_path, monkeypatch
):
    def fails(shard) -> None:
        raise MemoryError("none left")

    store = an_open_store(tmp_path, compact_bytes_min=0, compact_ratio=0)
    ask(store, submit("kept"))
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "state_of", fails)
        with pytest.raises(StoreUnavailable, match="none left"):
            ask(store, submit("a"))
    store.close()

    assert known(tmp_path, "kept", "a") == [True, False]


def test_a_successor_whose_writer_was_killed_is_swept_away(tmp_path):
    with an_open_store(tmp_path) as store:
        ask(store, submit("a"))
    (tmp_path / "journal.new").write_bytes(b"half of it")

    assert known(tmp_path, "a") == [True]
    assert not (tmp_path / "journal.new").exists()


# --- kill -9 -------------------------------------------------------------------------------------

CHILD = f"""
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from conformance.store_cases import a_task
from dataward.kernel import AsyncioKernel
from dataward.model.operations import Begin, Commit, Submit
from dataward.stores.embedded import EmbeddedSettings, EmbeddedStore

kernel, pool = AsyncioKernel(), ThreadPoolExecutor(1)

def in_a_thread(work, done):
    future = asyncio.get_running_loop().run_in_executor(pool, work)
    future.add_done_callback(lambda future: done(future.exception()))

async def work(store, fiber):
    for i in range(10**9):
        name = f"{{sys.argv[2]}}-{{fiber}}-{{i}}"
        operations = []
        for k in range({TASKS_IN_A_CALL}):
            task = f"{{name}}-{{k}}"
            operations += [
                Submit(a_task(task)), Begin(task, "n1.1.1", "n1"),
                Commit(task, "n1.1.1", "n1", (), 1),
            ]
        await store.call(operations)
        print(name, flush=True)

async def main():
    settings = EmbeddedSettings(compact_bytes_min=30_000, compact_ratio=1.3)
    store = EmbeddedStore(Path(sys.argv[1]), kernel.now, kernel, 3, in_a_thread, settings)
    for fiber in range(8):
        kernel.spawn(work(store, fiber))
    await kernel.flag().wait()

kernel.run(main())
"""


def test_a_killed_process_keeps_all_it_acknowledged_and_no_call_by_half(tmp_path):
    rng = random.Random(9)
    acknowledged: set[str] = set()
    for life in range(KILLS):
        acknowledged |= _told_before_its_end(tmp_path, life, rng.randrange(60))

        with an_open_store(tmp_path, shards=3) as store:
            found = _completed_by_call(store)

        assert acknowledged <= found.keys()
        assert set(found.values()) <= {TASKS_IN_A_CALL}
    assert len(acknowledged) > 10 * KILLS


def _told_before_its_end(directory: Path, life: int, lines: int) -> set[str]:
    """Start the child, kill it after so many lines, and give back all that it said."""
    command = [sys.executable, "-c", CHILD, str(directory), str(life)]
    path = os.pathsep.join(["src", "tests"])
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": path},
    ) as child:
        told = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        told += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    return {line.strip() for line in told if line.endswith("\n")}


def _completed_by_call(store: EmbeddedStore) -> dict[str, int]:
    found: dict[str, int] = {}
    for shard in store._shards:
        for task, record in shard.tasks.items():
            assert record.state is TaskState.COMPLETE
            name = task.rpartition("-")[0]
            found[name] = found.get(name, 0) + 1
    return found


def test_the_child_that_is_killed_says_only_what_is_there(tmp_path):
    """The commits by name, so that the test above cannot pass by finding nothing."""
    (first, *_) = sorted(_told_before_its_end(tmp_path, 0, 1))

    with an_open_store(tmp_path, shards=3) as store:
        answers = ask(store, *(Commit(f"{first}-{k}", "n1.1.1", "n1", (), 1) for k in range(3)))

    assert [answer.generation for answer in answers] == [1, 1, 1]
