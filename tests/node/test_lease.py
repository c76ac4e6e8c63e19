"""The lease: joined, renewed, restated to a store that forgot, and joined again when lost."""

from typing import Any

from dataward.model.answers import Claimed
from dataward.model.events import AttemptEnded, NodeJoined
from dataward.model.operations import Enqueue, Join, LetGo, Renew, Restate, Seize
from dataward.model.states import AttemptOutcome
from dataward.node.identity import Holding
from dataward.node.lease import Lease
from node.fake_world import FakeWorld, a_membership, a_queue_entry, a_task


class Place(FakeWorld):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"lease_seconds": 20.0, "validation_seconds": 10.0, **settings})
        self.lease = Lease(self.world, self.settings, self.client, self.state, self.depot)

    def loses_lease(self) -> None:
        """Others have found the lease expired, and take over what the node holds."""
        self.join(lease_seconds=-1.0)
        self.have(Seize("n0", 1))


# --- joining -------------------------------------------------------------------------------------


def test_a_node_that_joined_is_a_member_says_so_and_asks_for_work() -> None:
    place = Place()

    place.do(place.lease.join())

    assert place.asked(Join) == [Join("n0", 1, 20.0)]
    assert place.told(NodeJoined) == [NodeJoined(0.0, "n0", 1)]
    assert place.state.identity.joined
    assert place.state.queue.wanted.is_set()


def test_a_node_that_forgot_who_it_was_becomes_the_one_after_the_last_that_is_known() -> None:
    place = Place()
    place.have(Join("n0", 7, 1e9))

    place.do(place.lease.join())

    assert [join.incarnation for join in place.asked(Join)] == [1, 8]
    assert place.state.identity.incarnation == 8
    assert [event.incarnation for event in place.told(NodeJoined)] == [8]


# --- renewing ------------------------------------------------------------------------------------


def test_the_lease_is_renewed_again_and_again_with_the_load_of_the_queue() -> None:
    place = Place()
    place.join()
    place.start(place.lease.keep())
    place.state.queue.put(a_queue_entry(seconds=3.0))

    place.pass_time(9.0)
    assert not place.asked(Renew)
    place.pass_time(1.0)
    assert place.asked(Renew) == [Renew("n0", 1, 3.0)]
    place.state.queue.put(a_queue_entry("more", seconds=4.0))
    place.pass_time(10.0)

    assert [renew.load_seconds for renew in place.asked(Renew)] == [3.0, 7.0]


def test_an_answer_that_tells_of_queued_work_has_the_node_look() -> None:
    place = Place()
    place.join()
    place.start(place.lease.keep())
    place.pass_time(10.0)
    assert not place.state.queue.wanted.is_set()

    place.have(Enqueue("n0", (a_queue_entry(),)))
    place.pass_time(10.0)

    assert place.state.queue.wanted.is_set()


def test_a_lease_that_was_seized_is_lost() -> None:
    place = Place()
    place.start(place.lease.keep())
    place.loses_lease()
    place.state.queue.put(a_queue_entry())

    place.pass_time(10.0)

    assert place.state.identity.incarnation == 2
    assert place.state.lease_lost.is_set()
    assert not place.state.queue


def test_nothing_more_is_heeded_of_an_answer_that_says_the_lease_is_lost() -> None:
    place = Place()
    place.join()
    place.store.will_answer(Renew, a_membership(current=False, queued=1, epoch=1))
    place.start(place.lease.keep())

    place.pass_time(10.0)

    assert not place.asked(Restate)
    assert not place.state.queue.wanted.is_set()


def test_what_is_said_of_an_earlier_incarnation_does_not_cost_the_present_ones_lease() -> None:
    place = Place()
    place.join()
    place.store.will_answer(Renew, a_membership(current=False))
    place.store.answers.clear()
    place.start(place.lease.keep())
    place.pass_time(10.0)
    place.state.lose_lease(1)
    place.state.identity.joined = True

    place.store.answers.set()
    place.pass_time()

    assert place.state.identity.incarnation == 2


# --- joining again -------------------------------------------------------------------------------


def test_a_lost_lease_is_followed_by_the_next_incarnations_joining_once() -> None:
    place = Place()
    place.start(place.lease.rejoin())
    place.loses_lease()

    place.state.lose_lease(1)
    place.state.lose_lease(1)
    place.pass_time(100.0)

    assert [join.incarnation for join in place.asked(Join)] == [2]
    assert place.state.identity.joined
    assert not place.state.lease_lost.is_set()


def test_a_lease_may_be_lost_more_than_once() -> None:
    place = Place()
    place.start(place.lease.rejoin())
    place.loses_lease()
    for incarnation in (1, 2):
        place.state.lose_lease(incarnation)
        place.pass_time()

    assert [event.incarnation for event in place.told(NodeJoined)] == [2, 3]


def test_outputs_whose_commit_was_abandoned_are_discarded_and_their_attempts_told_lost() -> None:
    place = Place()
    spec = a_task(writes=["f"])
    attempt, _ = place.begin(spec)
    outputs = place.do(place.depot.store_outputs(spec))
    place.state.outbox.commit("t", attempt, 1, outputs, awaited=True)
    place.start(place.lease.rejoin())

    place.state.lose_lease(1)
    place.pass_time()

    assert "f" not in place.disk.stored
    assert place.depot.used_bytes == 0
    (ended,) = place.told(AttemptEnded)
    assert (ended.attempt, ended.outcome) == (attempt, AttemptOutcome.LOST)
    assert ended.reason == "the node's lease had expired"


# --- a store that forgot -------------------------------------------------------------------------


def restating(*held: str) -> Place:
    """A node that holds these tasks, and whose shard says that it lost writes."""
    place = Place()
    place.hold(*(a_task(task) for task in held))
    place.store.lose_writes()
    place.start(place.lease.keep())
    return place


def test_a_store_that_lost_writes_is_told_once_what_the_node_holds() -> None:
    place = restating("a", "b")

    place.pass_time(30.0)

    assert len(place.asked(Renew)) == 3
    assert place.asked(Restate) == [Restate("n0", 1, (a_queue_entry("a"), a_queue_entry("b")))]


def test_it_is_told_again_after_the_next_loss() -> None:
    place = restating("a")
    place.pass_time(10.0)

    place.store.lose_writes()
    place.pass_time(10.0)

    assert len(place.asked(Restate)) == 2


def test_the_tickets_it_answers_with_are_those_that_count() -> None:
    place = restating("a")
    before = place.state.identity.holdings["a"].ticket
    place.have(LetGo("n0", 1, (("a", before),)))  # this is what it forgot

    place.pass_time(10.0)

    after = place.state.identity.holdings["a"].ticket
    assert after != before
    place.have(LetGo("n0", 1, (("a", after),)))
    assert place.held_by("n0") == []


def test_what_the_store_thought_the_node_held_besides_is_queued_and_the_node_looks() -> None:
    place = restating("a", "b")
    del place.state.identity.holdings["b"]

    place.pass_time(10.0)

    assert place.held_by("n0") == ["a"]
    assert place.queue_of("n0") == ["b"]
    assert place.state.queue.wanted.is_set()


def test_a_task_let_go_of_while_the_question_was_asked_is_let_go_of_with_its_new_ticket() -> None:
    place = restating("a", "b")
    place.pass_time(9.0)
    place.store.answers.clear()
    place.pass_time(1.0)  # the lease is renewed; its answer is on its way
    place.store.answers.set()
    place.store.will_answer(
        Restate, Claimed("n0", True, (a_queue_entry("a"), a_queue_entry("b")), (70, 71), 0)
    )
    place.store.answers.clear()
    place.pass_time()
    assert place.asked(Restate)

    place.state.outbox.let_go("a")
    place.store.answers.set()
    place.pass_time()

    assert place.asked(LetGo) == [LetGo("n0", 1, (("a", 70),))]
    assert place.state.identity.holdings == {"b": Holding(a_queue_entry("b"), 71)}


def test_if_nothing_was_let_go_of_meanwhile_nothing_is() -> None:
    place = restating("a")

    place.pass_time(10.0)

    assert not place.asked(LetGo)


def test_a_store_that_forgot_the_incarnation_itself_costs_the_lease() -> None:
    place = restating("a")
    place.store.will_answer(Restate, Claimed("n0", False, (), (), 0))

    place.pass_time(10.0)

    assert place.state.identity.incarnation == 2
    assert not place.asked(LetGo)


def test_a_restatement_of_an_earlier_incarnation_is_not_heeded() -> None:
    place = restating("a")
    place.store.will_answer(Restate, Claimed("n0", True, (a_queue_entry("a"),), (70,), 0))
    place.pass_time(9.0)
    place.store.answers.clear()
    place.pass_time(1.0)
    place.store.answers.set()
    place.store.answers.clear()
    place.pass_time()
    assert place.asked(Restate)

    place.state.lose_lease(1)
    place.store.answers.set()
    place.pass_time()

    assert not place.state.identity.holdings
    assert not place.asked(LetGo)
