"""Attempts that cannot go on: lost inputs, places out of reach, a full disk."""

from collections.abc import Coroutine
from typing import Any

import pytest

from dataward.model.answers import Begun
from dataward.model.events import AttemptEnded, Occasion, TaskFinished, TaskPlaced, TaskReopened
from dataward.model.ids import AttemptId
from dataward.model.operations import (
    Begin,
    Commit,
    Copy,
    Delivered,
    Enqueue,
    Fail,
    Notify,
    Postpone,
    Release,
    Remove,
    Reopen,
    Submit,
    TaskSpec,
)
from dataward.model.states import AttemptOutcome, FailureCause, TaskState
from dataward.node.identity import Holding
from dataward.world import InputLost
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """A node that has begun task t."""

    def __init__(self, spec: TaskSpec, **settings: Any) -> None:
        super().__init__(**settings)
        for parent in spec.parents:
            self.have(Submit(a_task(parent, preferred="n1", children=(spec.id,))))
            self.complete(parent, "n1")
        self.have(Submit(spec))
        for parent in spec.parents:
            self.have(Notify(spec.id, parent, 1, False, (Copy(f"{parent}.out", "n1"),)))
        for node in self.world.nodes:
            self.join(node)
        self.spec = spec
        self.attempt: AttemptId
        self.begun: Begun
        self.attempt, self.begun = self.begin(spec)
        self.start(self.herald.run())

    def complete(self, task: str, node: str) -> None:
        name = f"{node}.1.1"
        self.have(Begin(task, name, node), Commit(task, name, node, (), 1))

    def lose_inputs(self) -> None:
        lost = InputLost(self.spec.inputs)
        self.do(self.setbacks.on_input_lost(self.begun, self.attempt, lost))
        self.pass_time()

    def outcomes(self) -> list[tuple[str, AttemptOutcome]]:
        return [(event.attempt, event.outcome) for event in self.told(AttemptEnded)]

    def is_held(self) -> bool:
        return self.spec.id in self.state.identity.holdings


# --- inputs that nobody has any more -------------------------------------------------------------

READS_P = a_task(reads=["p.out"], made_by="p")


def test_the_producer_of_a_lost_input_runs_again_and_the_task_waits_for_it() -> None:
    place = Place(READS_P)

    place.lose_inputs()

    assert place.asked(Reopen) == [Reopen("p", 1)]
    assert place.asked(Postpone) == [Postpone("t", place.attempt, "p", 1)]
    assert place.known("p").state is TaskState.READY
    assert place.known("t").state is TaskState.WAITING
    assert place.told(TaskReopened) == [TaskReopened(0.0, "p", 1)]
    assert place.outcomes() == [(place.attempt, AttemptOutcome.POSTPONED)]
    assert not place.is_held()


def test_the_producer_is_placed_for_good_but_not_where_the_lost_files_were() -> None:
    place = Place(READS_P)

    place.lose_inputs()

    (placed,) = place.told(TaskPlaced)
    assert (placed.task, placed.occasion) == ("p", Occasion.REOPENED)
    assert placed.node != "n1"  # which it prefers, and which had the file
    assert place.asked(Delivered) == [Delivered("p", 1, 1)]


def test_all_producers_of_lost_inputs_are_reopened_in_one_call() -> None:
    reads = tuple(a_task(reads=[f"{p}.out"], made_by=p).inputs[0] for p in ("p", "q"))
    place = Place(a_task(parents=("p", "q"), inputs=reads))

    place.lose_inputs()

    reopening = [call for call in place.store.calls if isinstance(call[0], Reopen)]
    assert [len(call) for call in reopening] == [2]
    assert [op.parent for op in place.asked(Postpone)] == ["p", "q"]


@pytest.mark.parametrize(("heard", "generation"), [({"p": 7}, 7), ({}, 1)])
def test_producers_are_reopened_at_the_completion_that_the_attempt_began_with_or_the_first(
    heard: dict[str, int], generation: int
) -> None:
    place = Place(READS_P)
    begun = Begun(place.spec, 1, (), heard)

    place.do(place.setbacks.on_input_lost(begun, place.attempt, InputLost(place.spec.inputs)))

    assert place.asked(Reopen) == [Reopen("p", generation)]
    assert place.asked(Postpone) == [Postpone("t", place.attempt, "p", generation)]


def test_if_the_task_has_ended_elsewhere_its_inputs_are_not_made_again() -> None:
    place = Place(a_task(reads=["p.out"], made_by="p", backups_max=1))
    place.complete("t", "n2")

    place.lose_inputs()

    assert not place.asked(Reopen)
    assert place.outcomes() == [(place.attempt, AttemptOutcome.LOST)]
    assert not place.is_held()


def test_a_producer_that_another_consumer_reopened_is_not_placed_once_more() -> None:
    place = Place(READS_P)
    place.have(Reopen("p", 1), Begin("p", "n2.1.1", "n2"))

    place.lose_inputs()

    assert not place.asked(Enqueue)
    assert place.known("t").state is TaskState.WAITING


def test_a_producer_that_has_run_again_since_tells_the_task_which_is_tried_again_here() -> None:
    place = Place(READS_P)
    place.have(Reopen("p", 1), Begin("p", "n2.1.1", "n2"), Commit("p", "n2.1.1", "n2", (), 2))

    place.lose_inputs()

    assert [(n.parent, n.generation) for n in place.asked(Notify)] == [("p", 2)]
    assert place.told(TaskReopened) == []
    assert place.state.queue.take() == a_queue_entry("t")
    assert place.is_held()
    assert [op.task for op in place.asked(Delivered)] == ["t"]


def test_a_task_whose_parent_failed_while_it_ran_fails_when_it_would_have_to_wait() -> None:
    place = Place(a_task(reads=["p.out"], made_by="p", children=("c",)))
    place.have(Submit(a_task("c", made_by="t")), Notify("t", "p", 2, True))

    place.lose_inputs()

    assert place.known("t").state is TaskState.FAILED
    assert [(n.task, n.failed) for n in place.asked(Notify)] == [("c", True)]
    assert [event.task for event in place.told(TaskFinished)] == ["t", "c"]
    assert not place.is_held()


@pytest.mark.parametrize("end", [TaskState.FAILED, TaskState.REMOVED])
def test_a_task_that_must_wait_for_what_will_never_run_again_ends_even_if_that_was_forgotten(
    end: TaskState,
) -> None:
    place = Place(READS_P)
    place.have(Reopen("p", 1))
    if end is TaskState.FAILED:
        place.have(Begin("p", "n2.1.1", "n2"), Fail("p", "n2.1.1", "it broke"))
    else:
        place.have(Remove("p"))

    place.lose_inputs()

    assert place.known("t").state is end
    assert [(event.task, event.state) for event in place.told(TaskFinished)] == [("t", end)]
    assert not place.is_held()


# --- a place that cannot be reached --------------------------------------------------------------


def failing(place: Place) -> Coroutine[Any, Any, None]:
    return place.setbacks.on_transfer_failed(place.spec, place.attempt, "out of reach")


def test_a_task_whose_input_is_out_of_reach_is_kept_and_tried_again_after_a_while() -> None:
    place = Place(a_task(), retry_seconds_max=10.0)

    place.start(failing(place))

    assert place.asked(Release) == [Release("t", place.attempt, keep=True)]
    assert place.outcomes() == [(place.attempt, AttemptOutcome.RELEASED)]
    assert place.told(AttemptEnded)[0].reason == "out of reach"
    place.pass_time(9.0)
    assert "t" not in place.state.queue
    place.pass_time(1.0)
    assert place.state.queue.take() == a_queue_entry("t")
    assert place.is_held()


def test_it_is_let_go_of_if_a_rival_has_it() -> None:
    place = Place(a_task(backups_max=1))
    place.have(Begin("t", "n2.1.1", "n2"))

    place.do(failing(place))

    assert "t" not in place.state.queue
    assert not place.is_held()


# --- a disk that is full -------------------------------------------------------------------------


def fill(place: Place) -> None:
    place.do(place.setbacks.on_disk_full(place.spec, place.attempt, "no room"))


def test_a_task_for_which_there_is_no_room_goes_to_another_node() -> None:
    place = Place(a_task())

    fill(place)

    assert place.asked(Release) == [Release("t", place.attempt)]
    (placed,) = place.told(TaskPlaced)
    assert placed.node != "n0"
    assert placed.occasion is Occasion.NO_ROOM
    assert place.asked(Delivered) == [Delivered("t", 0, 1)]
    assert place.outcomes() == [(place.attempt, AttemptOutcome.RELEASED)]
    assert not place.is_held()


def test_it_goes_nowhere_if_a_rival_has_it() -> None:
    place = Place(a_task(backups_max=1))
    place.have(Begin("t", "n2.1.1", "n2"))

    fill(place)

    assert not place.asked(Enqueue)
    assert not place.is_held()


def test_a_node_that_is_alone_waits_for_room_a_few_times_and_then_the_task_fails() -> None:
    place = Place(a_task(), nodes=1, full_disk_tries=2)

    for _ in range(2):
        fill(place)
        assert place.state.queue.take() is not None
        place.attempt = place.state.identity.next_attempt()
        place.have(Begin("t", place.attempt, "n0"))
    fill(place)

    assert not place.state.queue
    (said,) = place.state.outbox.take()
    assert isinstance(said, Fail)
    assert said.reason.startswith("task 't' waits for room: no room. Give nodes more room")
    outcomes = [outcome for _, outcome in place.outcomes()]
    assert outcomes == [AttemptOutcome.RELEASED] * 2 + [AttemptOutcome.FAILED]


def come_back(place: Place) -> None:
    """Another node has sent the task here again."""
    place.attempt = place.state.identity.next_attempt()
    place.hold(place.spec)
    place.have(Begin("t", place.attempt, "n0"))


def test_a_task_that_comes_back_to_a_node_without_room_waits_before_it_goes_elsewhere() -> None:
    place = Place(a_task(), retry_seconds_max=10.0)
    fill(place)
    sent_at = place.kernel.now()
    come_back(place)

    fill(place)

    assert sent_at == 0.0
    assert place.kernel.now() == 10.0
    assert [event.occasion for event in place.told(TaskPlaced)] == [Occasion.NO_ROOM] * 2
    assert not place.is_held()


def test_a_task_that_no_node_has_room_for_fails_in_the_end_and_says_what_it_needs() -> None:
    place = Place(a_task(writes=["big"], size_bytes=5_000_000), nodes=3, full_disk_tries=12)

    for _ in range(4):
        fill(place)
        come_back(place)
    assert not any(isinstance(said, Fail) for said in place.state.outbox.take())
    fill(place)

    (said,) = [one for one in place.state.outbox.take() if isinstance(one, Fail)]
    assert "it needs 5.00 MB in all at one node" in said.reason
    assert "--capacity" in said.reason
    assert place.told(AttemptEnded)[-1].cause is FailureCause.DISK


def test_a_task_that_found_no_room_long_ago_begins_anew() -> None:
    place = Place(a_task(), nodes=3, full_disk_tries=3, retry_seconds_max=1.0)
    for _ in range(3):
        fill(place)
        come_back(place)
    place.pass_time(61.0)

    fill(place)

    assert AttemptOutcome.FAILED not in [outcome for _, outcome in place.outcomes()]


def test_a_node_says_for_a_while_that_a_task_waits_for_room() -> None:
    place = Place(a_task(), lease_seconds=10.0, validation_seconds=5.0)
    assert place.room.said == ""

    fill(place)

    assert place.room.said == "task 't' waits for room: no room"
    place.pass_time(30.0)
    assert place.room.said == ""


def test_every_task_may_wait_for_room_as_often_whatever_others_did() -> None:
    place = Place(a_task(), nodes=1, full_disk_tries=1)
    fill(place)
    spec = a_task("u")
    attempt, _ = place.begin(spec)

    place.do(place.setbacks.on_disk_full(spec, attempt, "no room"))

    assert "u" in place.state.queue


def test_a_task_whose_outputs_could_not_be_synced_waits_here_if_it_stays() -> None:
    place = Place(a_task(), nodes=1, retry_seconds_max=10.0)
    (standing,) = place.have(Release("t", place.attempt, keep=True))

    place.setbacks.on_unsynced(standing, stays=True)
    place.pass_time(9.0)
    assert "t" not in place.state.queue
    place.pass_time(1.0)

    assert place.state.queue.take() == a_queue_entry("t")
    assert place.is_held()


def test_it_is_not_queued_by_a_node_that_has_lost_its_lease_meanwhile() -> None:
    place = Place(a_task(), nodes=1, retry_seconds_max=10.0)
    (standing,) = place.have(Release("t", place.attempt, keep=True))
    place.setbacks.on_unsynced(standing, stays=True)

    place.state.lose_lease(1)
    place.pass_time(10.0)

    assert not place.state.queue


def test_it_is_not_queued_if_the_node_has_let_go_of_it_meanwhile() -> None:
    place = Place(a_task(), nodes=1, retry_seconds_max=10.0)
    (standing,) = place.have(Release("t", place.attempt, keep=True))
    place.setbacks.on_unsynced(standing, stays=True)

    place.state.outbox.let_go("t")
    place.pass_time(10.0)

    assert not place.state.queue


@pytest.mark.parametrize("stays", [True, False])
def test_it_is_let_go_of_and_sent_nowhere_if_a_rival_has_it(stays: bool) -> None:
    place = Place(a_task(backups_max=1))
    place.have(Begin("t", "n2.1.1", "n2"))
    (standing,) = place.have(Release("t", place.attempt, stays))

    place.setbacks.on_unsynced(standing, stays=stays)
    place.pass_time(10.0)

    assert not place.asked(Enqueue)
    assert not place.state.queue
    assert not place.is_held()


# --- attempts that are cancelled while the store does not answer ---------------------------------


@pytest.mark.parametrize("setback", ["input lost", "out of reach", "no room"])
def test_an_attempt_that_is_cancelled_before_the_store_has_heard_of_its_setback_has_an_end(
    setback: str,
) -> None:
    place = Place(READS_P)
    happen = {
        "input lost": lambda: place.setbacks.on_input_lost(
            place.begun, place.attempt, InputLost(place.spec.inputs)
        ),
        "out of reach": lambda: failing(place),
        "no room": lambda: place.setbacks.on_disk_full(place.spec, place.attempt, "no room"),
    }
    place.store.answers.clear()
    fiber = place.start(happen[setback]())

    fiber.cancel()
    place.pass_time()

    assert place.outcomes() == [(place.attempt, AttemptOutcome.CANCELLED)]


# --- replicas ------------------------------------------------------------------------------------


def a_place_of_a_replica(spec: TaskSpec) -> Place:
    place = Place(spec)
    holding = place.state.identity.holdings[spec.id]
    entry = a_queue_entry(spec.id, replica=True)
    place.state.identity.holdings[spec.id] = Holding(entry, holding.ticket)
    return place


def test_a_replica_for_which_there_is_no_room_is_a_replica_elsewhere() -> None:
    place = a_place_of_a_replica(a_task())

    fill(place)

    assert [[e.replica for e in op.entries] for op in place.asked(Enqueue)] == [[True]]


def test_a_replica_that_is_tried_again_is_a_replica_still() -> None:
    place = a_place_of_a_replica(a_task())

    place.do(failing(place))

    assert place.state.queue.take() == a_queue_entry("t", replica=True)


def test_a_replica_whose_inputs_were_made_again_is_a_replica_still() -> None:
    place = a_place_of_a_replica(READS_P)
    place.have(Reopen("p", 1), Begin("p", "n2.1.1", "n2"), Commit("p", "n2.1.1", "n2", (), 2))

    place.lose_inputs()

    assert place.state.queue.take() == a_queue_entry("t", replica=True)
