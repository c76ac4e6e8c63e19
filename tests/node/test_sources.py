"""Which of several sources a file is fetched from, by what is known of them."""

import pytest

from dataward.model.ids import ORIGIN
from dataward.node.sources import SourceRates
from node.fake_world import FakeWorld


def rates_of(**described: float) -> SourceRates:
    """What is known of sources, as links with these rates were described."""
    network = FakeWorld().network
    network.rates.update(described)
    return SourceRates(network)


def test_where_nothing_is_known_the_order_stays() -> None:
    assert rates_of().quickest_first(["n2", "n1", ORIGIN]) == ["n2", "n1", ORIGIN]


def test_sources_much_slower_than_the_quickest_come_last_the_slowest_at_the_end() -> None:
    rates = rates_of(n1=1.0, n2=100.0, n3=5.0, n4=90.0)

    assert rates.quickest_first(["n1", "n4", "n3", "n2"]) == ["n4", "n2", "n3", "n1"]


def test_an_origin_that_is_much_quicker_comes_first() -> None:
    rates = rates_of(n1=12.0, origin=1200.0)

    assert rates.quickest_first(["n1", ORIGIN]) == [ORIGIN, "n1"]


def test_an_unknown_source_is_as_good_as_the_quickest() -> None:
    assert rates_of(n1=1.0, n3=10.0).quickest_first(["n2", "n1", "n3"]) == ["n2", "n3", "n1"]


def test_what_was_seen_last_counts_more_than_what_was_described() -> None:
    rates = rates_of(n1=100.0, n2=100.0)

    rates.saw("n1", 1000, seconds=100.0)
    assert rates.quickest_first(["n1", "n2"]) == ["n2", "n1"]
    rates.saw("n1", 1000, seconds=10.0)

    assert rates.quickest_first(["n1", "n2"]) == ["n1", "n2"]


def test_a_file_that_took_no_time_says_nothing() -> None:
    rates = rates_of()

    rates.saw("n1", 1000, seconds=0.0)

    assert rates.expected("n1") is None


@pytest.mark.parametrize(
    ("slow", "quick", "is_slower"),
    [(10.0, 100.0, True), (80.0, 100.0, False), (100.0, 10.0, False)],
)
def test_one_source_is_much_slower_than_another(slow: float, quick: float, is_slower: bool) -> None:
    assert rates_of(n1=slow, n2=quick).is_much_slower("n1", "n2") == is_slower
    assert not rates_of(n1=slow).is_much_slower("n1", "n2")
    assert not rates_of(n2=quick).is_much_slower("n1", "n2")
