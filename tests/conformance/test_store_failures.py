"""What `Store.call` promises when it fails: whatever became of the call, it may be repeated.

The simulated store loses calls and answers on demand. The one in a directory fails for good, with
its disk; what it had acknowledged is there when it is opened again.
"""

from collections.abc import Sequence
from random import Random

import pytest

from conformance.store_cases import Asker, HandClock, KernelClock, a_task, entry, run_alone, run_on
from dataward.kernel import VirtualKernel
from dataward.model.answers import Answer
from dataward.model.operations import (
    AddCopies,
    Advance,
    Begin,
    Claim,
    Commit,
    Copy,
    Delivered,
    DropCopies,
    Enqueue,
    Fail,
    Forget,
    Join,
    Leave,
    LetGo,
    Look,
    Notify,
    Operation,
    Patrol,
    Postpone,
    Probe,
    Recount,
    Recounted,
    Release,
    Remove,
    Renew,
    Reopen,
    Replicate,
    ReportLoad,
    Restate,
    Seize,
    Submit,
    TakeOver,
    Tally,
)
from dataward.model.platform import StoreModel
from dataward.model.states import TaskState
from dataward.sim.interference import Interference, StoreFate
from dataward.sim.store_service import StoreOf, StoreService
from dataward.stores.embedded import EmbeddedStore
from dataward.stores.memory import MemoryStore
from dataward.stores.shard import Shard
from dataward.world import StoreUnavailable

SHARDS = 3
# One of every operation but `Replicate` and `Patrol`, which may give less the second time.
A_LIFE: tuple[Operation, ...] = (
    Join("n1", 1, 60.0),
    Submit(a_task("parent", children=["child"])),
    Submit(a_task("child", parents=["parent"])),
    Submit(a_task("flaky", retries=1)),
    Enqueue("n1", (entry("parent"), entry("flaky"))),
    Claim("n1", 1, 1, 10, 0.0),
    Begin("parent", "n1.1.1", "n1"),
    Advance("parent", "n1.1.1", TaskState.RUNNING, 1.0),
    Commit("parent", "n1.1.1", "n1", (), 1),
    Notify("child", "parent", 1),
    Delivered("parent", 1),
    AddCopies("parent", (Copy("parent.out", "n2", 10, "digest"),)),
    LetGo("n1", 1, (("parent", 1),)),
    Renew("n1", 1, 2.0),
    Begin("child", "n1.1.2", "n1"),
    DropCopies("parent", (Copy("parent.out", "n1"), Copy("parent.out", "n2"))),
    Reopen("parent", 1),
    Postpone("child", "n1.1.2", "parent", 2),
    Begin("flaky", "n1.1.3", "n1"),
    Fail("flaky", "n1.1.3", "its own error"),
    Begin("flaky", "n1.1.4", "n1"),
    Release("flaky", "n1.1.4", True),
    TakeOver("flaky", "n1", 1),
    Restate("n1", 1, (entry("flaky"),)),
    Remove("flaky"),
    ReportLoad("n1", 3.0),
    Probe("n1"),
    Seize("n1", 1),
    Leave("n1", 1),
    Recount(0, 0, 10),
    Recounted(0, 0),
    Tally(0),
    Look("parent"),
    Forget("parent"),
    Look("child"),
)


class Fates(Interference):
    """What becomes of calls is said by the test, for each shard asked, and then all is well."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.next: list[StoreFate] = []

    def store_fate(self, caller: str, shard: int) -> StoreFate:
        return self.next.pop(0) if self.next else StoreFate.ANSWERED


def a_service(make_shard=Shard, fates: Fates | None = None) -> tuple[Asker, Fates]:
    kernel, fates = VirtualKernel(), fates or Fates()
    model = StoreModel(SHARDS, latency_seconds=0.0, service_seconds=0.0)
    service = StoreService(kernel, model, fates, make_shard)
    return Asker(StoreOf(service, "n1"), KernelClock(kernel), run_on(kernel)), fates


@pytest.fixture
def service() -> tuple[Asker, Fates]:
    return a_service()


def repeated(store: Asker, fates: Fates, operation: Operation, fate: StoreFate) -> Answer:
    """The answer to an operation whose first call fails."""
    fates.next = [fate]
    with pytest.raises(StoreUnavailable):
        store.ask(operation)
    return store.ask(operation)


def undisturbed(operations: Sequence[Operation]) -> list[Answer]:
    """Answers of a store that never fails, asked at the same times: a failure takes a second."""
    clock = HandClock()
    store = Asker(MemoryStore(clock, SHARDS), clock, run_alone)
    answers = []
    for operation in operations:
        clock.move(1.0)
        answers.append(store.ask(operation))
    return answers


def test_the_life_names_every_operation_that_is_answered_the_same_twice():
    repeatable = set(Operation.__args__) - {Replicate, Patrol}

    assert {type(operation) for operation in A_LIFE} == repeatable


def test_calls_that_never_arrived_change_nothing_and_are_answered_when_repeated(service):
    store, fates = service

    answers = [repeated(store, fates, operation, StoreFate.LOST) for operation in A_LIFE]

    assert answers == undisturbed(A_LIFE)


def test_calls_that_took_effect_unanswered_are_answered_the_same_when_repeated(service):
    store, fates = service
    first = _answers_kept(store)

    repeats = [repeated(store, fates, operation, StoreFate.UNANSWERED) for operation in A_LIFE]

    unheard = first[::2]
    assert len(unheard) == len(A_LIFE)
    assert repeats == unheard


def _answers_kept(store: Asker) -> list[Answer]:
    """A list of all answers as the shards give them, also those that nobody hears."""
    kept: list[Answer] = []
    store.store.service.on_applied.append(lambda operation, answer, shard: kept.append(answer))
    return kept


def test_a_call_to_several_shards_of_which_one_fails_may_be_repeated_as_a_whole(service):
    store, fates = service
    names = [f"t{i}" for i in range(10)]
    fates.next = [StoreFate.ANSWERED, StoreFate.LOST, StoreFate.UNANSWERED]
    submissions = [Submit(a_task(name)) for name in names]
    with pytest.raises(StoreUnavailable):
        store.call(*submissions)

    answers = store.call(*submissions)

    assert [answer.task for answer in answers] == names
    assert [answer.state for answer in store.call(*map(Look, names))] == [TaskState.READY] * 10


@pytest.mark.parametrize("fate", [StoreFate.LOST, StoreFate.UNANSWERED])
def test_calls_that_fail_are_counted_and_no_others(service, fate):
    store, fates = service

    repeated(store, fates, Look("parent"), fate)

    assert fates.failed_calls == 1


def test_who_is_cut_off_from_the_store_is_told_so(service):
    store, _ = service
    store.store.service.interference = Interference(Random(0), cuts=[frozenset({"n1"})])

    with pytest.raises(StoreUnavailable):
        store.submit(a_task("t"))

    store.store.service.interference = Interference(Random(0))
    assert store.look("t").unknown


def test_a_store_whose_disk_failed_says_so_and_has_what_it_acknowledged_when_opened_again(tmp_path):
    clock = HandClock()
    with EmbeddedStore(tmp_path, clock, VirtualKernel()) as kept:
        store = Asker(kept, clock, run_alone)
        store.submit(a_task("t"))
        kept._journal._file.close()  # as if its disk had been taken away
        with pytest.raises(StoreUnavailable):
            store.submit(a_task("u"))
        with pytest.raises(StoreUnavailable):
            store.look("t")

    with EmbeddedStore(tmp_path, clock, VirtualKernel()) as reopened:
        store = Asker(reopened, clock, run_alone)
        assert store.state("t") is TaskState.READY
        assert store.submit(a_task("u"))[0].state is TaskState.READY


# --- the suite itself ----------------------------------------------------------------------------


class ForgetsWinners(Shard):
    """Tells whoever commits again that another has won."""

    def apply(self, operation: Operation, now: float) -> Answer:
        if isinstance(operation, Commit):
            attempt = f"{operation.node}.1.{now:g}"
            operation = Commit(operation.task, attempt, operation.node, (), operation.generation)
        return super().apply(operation, now)


class ClaimsAnew(Shard):
    """Answers a repeated claim with what is left to claim."""

    def apply(self, operation: Operation, now: float) -> Answer:
        if isinstance(operation, Claim):
            operation = Claim(operation.node, 1, int(10 * now) + 1, operation.limit, 0.0)
        return super().apply(operation, now)


class NoSilence(Fates):
    """Takes effect and answers, whatever the test says."""

    def store_fate(self, caller: str, shard: int) -> StoreFate:
        return StoreFate.ANSWERED


class NothingIsLost(Fates):
    """Applies what it says was lost."""

    def store_fate(self, caller: str, shard: int) -> StoreFate:
        fate = super().store_fate(caller, shard)
        return StoreFate.UNANSWERED if fate is StoreFate.LOST else fate


@pytest.mark.parametrize("broken", [ForgetsWinners, ClaimsAnew])
def test_the_suite_notices_a_store_that(broken):
    with pytest.raises(AssertionError):
        test_calls_that_took_effect_unanswered_are_answered_the_same_when_repeated(
            a_service(broken)
        )


def test_the_suite_notices_a_store_that_fails_in_silence():
    with pytest.raises(pytest.fail.Exception):
        test_calls_that_never_arrived_change_nothing_and_are_answered_when_repeated(
            a_service(fates=NoSilence())
        )


def test_the_suite_notices_a_store_that_applies_what_it_says_was_lost():
    with pytest.raises(AssertionError):
        test_calls_that_never_arrived_change_nothing_and_are_answered_when_repeated(
            a_service(fates=NothingIsLost())
        )
