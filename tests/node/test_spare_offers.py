"""Which tasks are run at other nodes too, as spares, and where."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.events import WorkGiven
from dataward.model.messages import Ask, Bid, KeepSpare, Offer, OfferedTask
from dataward.model.operations import Begin, Enqueue, Replicate, Shelf
from dataward.node.spare_offers import STAGING_SHARE, quickest
from node.test_offering import Place, a_bid

# --- decisions -----------------------------------------------------------------------------------


def test_a_task_is_run_where_it_would_end_first() -> None:
    assert quickest(["t"], [a_bid("n1", (1.0, 31.0)), a_bid("n2", (0.0, 20.0))]) == {"t": "n2"}


def test_the_first_of_the_tasks_choose_first() -> None:
    bids = [a_bid("n1", (0.0, 10.0), (0.0, 10.0)), a_bid("n2", (0.0, 20.0), (0.0, 20.0))]

    assert quickest(["a", "b"], bids) == {"a": "n1", "b": "n2"}


def test_equal_ends_go_to_the_lowest_id() -> None:
    assert quickest(["t"], [a_bid("n2", (0.0, 20.0)), a_bid("n1", (0.0, 20.0))]) == {"t": "n1"}


@pytest.mark.parametrize(("start", "runs"), [(10.0, True), (10.1, False), (inf, False)])
def test_inputs_may_take_a_tenth_of_the_run_time_to_come(start: float, runs: bool) -> None:
    assert bool(quickest(["t"], [a_bid("n1", (start, start + 100.0))])) is runs


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 50), st.floats(0.1, 100)), max_size=4
    ),
    st.integers(0, 5),
)  # fmt: skip
def test_no_node_is_given_more_than_it_has_places_for(
    nodes: list[tuple[int, float, float]], tasks: int
) -> None:
    bids = [
        a_bid(f"n{i}", *[(start, start + run)] * tasks, places=places)
        for i, (places, start, run) in enumerate(nodes)
    ]

    chosen = quickest([f"t{i}" for i in range(tasks)], bids)

    for bid in bids:
        times = [t for t, node in chosen.items() if node == bid.node]
        assert len(times) <= bid.places
        assert not times or bid.times[0][0] <= STAGING_SHARE * (bid.times[0][1] - bid.times[0][0])


# --- the node's part -----------------------------------------------------------------------------


def a_place(seconds: float = 100.0) -> Place:
    """A place where ``runs`` runs for so long, as the store knows, and n2 has an idle core."""
    place = Place()
    place.runs(spread=0.0, seconds=seconds)
    place.have(Begin("runs", "n0.1.1", "n0"))
    place.moves()
    return place


def bid(place: Place, node: str, start: float, end: float) -> None:
    (offer,) = {offer.number for _, offer in place.sent(Offer)}
    place.mover.on_message(Bid(node, offer, 1, ((start, end),), (0,)))
    place.pass_time(0.5)


def is_idle(place: Place, node: str = "n2") -> None:
    place.mover.on_message(Ask(node, 1))
    place.pass_time()


def test_what_runs_for_long_is_offered_as_a_spare_to_who_is_idle() -> None:
    place = a_place()
    assert place.sent(Offer) == []

    is_idle(place)

    offers = dict(place.sent(Offer))
    assert offers["n2"].spare
    assert [task.task for task in offers["n2"].tasks] == ["runs"]


def test_it_is_run_too_where_it_would_end_first() -> None:
    place = a_place()
    is_idle(place)

    bid(place, "n2", 0.0, 100.0)

    assert place.asked(Replicate) == [Replicate("runs", "n0", "n2", True)]
    (queued,) = place.asked(Enqueue)
    assert (queued.node, [e.shelf for e in queued.entries]) == ("n2", [Shelf.SPARE])
    assert [given.target for given in place.told(WorkGiven)] == ["n2"]


def test_what_runs_elsewhere_too_is_not_offered() -> None:
    place = a_place()
    place.have(Begin("runs", "n3.1.1", "n3"))

    is_idle(place)

    assert place.sent(Offer) == []


def test_what_is_nearly_over_is_not_offered() -> None:
    place = a_place()
    place.pass_time(91.0)

    is_idle(place)

    assert place.sent(Offer) == []


def test_a_spare_that_is_left_alone_is_an_attempt_like_any_other_and_offered() -> None:
    place = a_place()
    attempts = place.state.attempts
    spare = attempts._under_way.pop("runs")
    attempts._spares["runs"] = spare

    is_idle(place)

    assert not attempts.is_spare("runs")
    assert [task.task for task in dict(place.sent(Offer))["n2"].tasks] == ["runs"]


def test_without_the_setting_nothing_is_run_twice() -> None:
    place = Place(spare_seconds=inf)
    place.runs(spread=0.0, seconds=100.0)
    place.have(Begin("runs", "n0.1.1", "n0"))
    place.moves()

    is_idle(place)

    assert place.sent(Offer) == []


def test_a_task_that_is_late_is_kept_by_who_runs_it_as_a_spare() -> None:
    place = a_place()
    is_idle(place)
    bid(place, "n2", 0.0, 100.0)
    place.have(Begin("runs", "n2.1.1", "n2"))
    place.pass_time(119.6)
    number = max(offer.number for _, offer in place.sent(Offer))

    place.mover.on_message(Bid("n2", number, 1, ((0.0, 10.0),), (0,)))
    place.pass_time(1.0)

    assert len(place.asked(Replicate)) == 1
    assert place.sent(KeepSpare) == [("n2", KeepSpare("runs"))]


def test_a_spare_that_is_to_be_kept_is_an_attempt_like_any_other() -> None:
    place = Place()
    place.runs()
    place.state.attempts._spares["runs"] = place.state.attempts._under_way.pop("runs")

    for task in ("runs", "another"):
        place.mover.on_message(KeepSpare(task))

    assert [attempt.entry.task for attempt in place.state.attempts.under_way()] == ["runs"]


# --- bids ----------------------------------------------------------------------------------------


def an_offer_of(seconds: float, *, spare: bool) -> Offer:
    return Offer("n1", 1, (OfferedTask("t", 1.0, seconds, 0.0, "", ()),), spare)


def the_bid(place: Place, offer: Offer) -> Bid:
    place.mover.on_message(offer)
    ((_, bid),) = place.sent(Bid)
    return bid


def test_a_node_with_an_idle_core_bids_for_a_spare() -> None:
    bid = the_bid(Place(), an_offer_of(100.0, spare=True))

    assert (bid.places, bid.times) == (1, ((0.0, 100.0),))


def test_a_node_whose_cores_run_tasks_or_spares_does_not() -> None:
    busy, spared = Place(), Place()
    busy.runs(spread=0.0, seconds=1.0)
    spared.runs(spread=0.0, seconds=1.0)
    spare = spared.state.attempts._under_way.pop("runs")
    spared.state.attempts._spares["runs"] = spare

    for place in (busy, spared):
        bid = the_bid(place, an_offer_of(100.0, spare=True))
        assert (bid.places, bid.times) == (0, ((inf, inf),))


def test_to_all_others_a_core_with_a_spare_is_idle() -> None:
    place = Place()
    place.runs(spread=0.0, seconds=50.0)
    place.state.attempts._spares["runs"] = place.state.attempts._under_way.pop("runs")

    bid = the_bid(place, an_offer_of(100.0, spare=False))

    assert (bid.places, bid.times) == (1, ((0.0, 100.0),))


def test_who_runs_a_task_as_a_spare_says_when_that_run_ends() -> None:
    place = Place()
    place.runs("t", spread=0.0, seconds=50.0)
    place.state.attempts._spares["t"] = place.state.attempts._under_way.pop("t")
    place.pass_time(20.0)

    bid = the_bid(place, an_offer_of(100.0, spare=False))

    assert bid.times == ((0.0, 30.0),)
