"""The decision maker: what is queued for this node in the store comes into its ready queue."""

from typing import Any

from dataward.model.answers import Claimed
from dataward.model.operations import Claim, Enqueue, ReportLoad, Seize
from dataward.node.decision_maker import DecisionMaker
from dataward.node.identity import Holding
from node.fake_world import FakeWorld, a_queue_entry


class Place(FakeWorld):
    """A node that has joined, and whose decision maker runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.join()
        self.start(DecisionMaker(self.world, self.settings, self.client, self.state).run())

    def queued(self, *tasks: str) -> None:
        self.have(Enqueue("n0", tuple(a_queue_entry(task) for task in tasks)))

    def look(self) -> None:
        self.state.queue.wanted.set()
        self.pass_time()


def test_nothing_is_claimed_until_somebody_wants_more() -> None:
    place = Place()
    place.queued("a")
    place.pass_time(1000.0)
    assert not place.asked(Claim)

    place.look()

    assert len(place.asked(Claim)) == 1
    assert "a" in place.state.queue


def test_what_is_claimed_is_held_with_its_ticket() -> None:
    place = Place()
    place.queued("a", "b")

    place.look()

    assert place.held_by("n0") == ["a", "b"]
    tickets = [holding.ticket for holding in place.state.identity.holdings.values()]
    assert len(set(tickets)) == 2
    assert place.state.identity.holdings["a"] == Holding(a_queue_entry("a"), tickets[0])


def test_a_claim_is_repeated_until_nothing_is_left() -> None:
    place = Place(claim_max=2)
    place.queued("a", "b", "c", "d", "e")

    place.look()

    assert len(place.state.queue) == 5
    assert [claim.limit for claim in place.asked(Claim)] == [2, 2, 2]


def test_claims_are_numbered_and_say_who_asks_and_how_much_waits_here() -> None:
    place = Place()
    place.queued("a")
    place.look()
    place.look()

    first, second = place.asked(Claim)
    assert first == Claim("n0", 1, 1, 1024, 0.0)
    assert second == Claim("n0", 1, 2, 1024, 1.0)


def test_a_claim_whose_answer_was_lost_is_asked_again_under_the_same_number() -> None:
    place = Place()
    place.queued("a")
    place.store.failures_left = 1

    place.look()
    place.pass_time(10.0)

    assert [claim.request for claim in place.asked(Claim)] == [1, 1]
    assert "a" in place.state.queue


def test_a_task_that_is_under_way_here_is_held_but_not_queued() -> None:
    place = Place()
    fiber = place.start(place.wait_for_ever())
    place.state.attempts.begin(a_queue_entry("a"), fiber)
    place.queued("a", "b")

    place.look()

    assert "a" not in place.state.queue
    assert "b" in place.state.queue
    assert list(place.state.identity.holdings) == ["a", "b"]


def test_one_that_is_no_longer_current_has_lost_its_lease() -> None:
    place = Place()
    place.join(lease_seconds=1.0)
    place.pass_time(2.0)
    place.have(Seize("n0", 1))
    place.queued("a")

    place.look()

    assert place.state.identity.incarnation == 2
    assert place.state.lease_lost.is_set()
    assert not place.state.queue


def test_what_an_earlier_incarnation_claimed_is_not_this_ones() -> None:
    place = Place()
    place.queued("a")
    place.store.will_answer(Claim, Claimed("n0", True, (a_queue_entry("a"),), (7,), 1))
    place.store.answers.clear()
    place.look()

    place.state.lose_lease(1)
    place.store.answers.set()
    place.pass_time()

    assert not place.state.queue
    assert not place.state.identity.holdings
    assert len(place.asked(Claim)) == 1  # nor does it ask for the rest


def test_a_hint_that_comes_during_a_claim_makes_for_another() -> None:
    place = Place()
    place.store.answers.clear()
    place.look()

    place.state.queue.wanted.set()
    place.queued("late")
    place.store.answers.set()
    place.pass_time()

    assert "late" in place.state.queue


def test_the_load_of_what_was_claimed_is_to_be_told_though_nothing_else_happens() -> None:
    place = Place()
    place.queued("a", "b")

    place.look()
    place.do(place.state.outbox.due())

    assert place.state.outbox.take() == [ReportLoad("n0", place.state.queue.load_seconds)]
