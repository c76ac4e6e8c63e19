"""A node whose machine becomes slow: how it notices, and what it does then."""

from dataward.model.messages import Bid
from dataward.model.operations import Replicate
from node.test_offering import Place, an_offer


def a_place() -> Place:
    """A place where ``runs`` has run for some seconds, of a hundred, and the machine is slow."""
    place = Place()
    place.runs(spread=0.0, seconds=100.0)
    place.moves()
    place.pass_time(5.0)
    place.runner.slowness = 5.0
    return place


def test_trials_are_made_every_ten_seconds() -> None:
    place = Place()
    place.moves()

    place.pass_time(25.0)

    assert place.runner.trials == [0.0, 10.0, 20.0]


def test_a_trial_that_takes_long_is_made_once_more_soon() -> None:
    place = a_place()

    place.pass_time(20.0)

    assert place.runner.trials == [0.0, 10.0, 11.0, 21.0]
    assert place.state.pace.slowness == 5.0


def test_a_node_without_company_makes_no_trials() -> None:
    place = Place(nodes=1)
    place.moves()

    place.pass_time(50.0)

    assert place.runner.trials == []


def test_what_runs_on_a_slow_node_is_backed_up_where_it_would_end_first() -> None:
    place = a_place()
    place.pass_time(5.9)
    assert place.offered() == []

    place.pass_time(0.2)
    assert place.offered() == [("runs",)]
    place.bid("n1", 0.0, 100.0)

    assert place.asked(Replicate) == [Replicate("runs", "n0", "n1")]


def test_it_is_not_backed_up_where_it_would_end_later_than_here() -> None:
    place = a_place()
    place.pass_time(6.1)

    place.bid("n1", 0.0, 450.0)  # here, 89 seconds take 445

    assert place.asked(Replicate) == []


def test_it_is_not_backed_up_where_it_would_start_later_than_soon() -> None:
    place = a_place()
    place.pass_time(6.1)

    place.bid("n1", 11.0, 111.0)

    assert place.asked(Replicate) == []


def test_what_starts_on_a_slow_node_is_offered_at_once() -> None:
    place = Place(cores=2)
    place.moves()
    place.pass_time(5.0)
    place.runner.slowness = 5.0
    place.pass_time(10.0)

    place.runs("late", spread=0.0, seconds=100.0)
    place.pass_time(0.6)

    assert place.offered() == [("late",)]


def test_a_slow_node_bids_as_if_it_started_later_by_what_it_would_lose() -> None:
    place = Place()
    place.moves()
    place.pass_time(5.0)
    place.runner.slowness = 5.0
    place.pass_time(10.0)

    place.mover.on_message(an_offer())
    place.pass_time()

    ((_, bid),) = place.sent(Bid)
    assert bid.times == ((40.0, 50.0),)
