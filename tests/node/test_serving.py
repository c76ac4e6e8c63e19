"""A node serves files to others in turn, and names those that have a file by now to others."""

from typing import Any

from dataward.model.messages import FetchOver, HoldOn, MayFetch, WantFile
from dataward.node.serving import SILENT_ROUNDS, Serving
from dataward.node.settings import NodeSettings
from node.fake_world import FakeWorld


class Place(FakeWorld):
    """Node n0, which lets one node at a time fetch from it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nodes=9)
        self.settings_here = NodeSettings(**{"uploads_max": 1, **settings})
        self.serving = Serving(self.world, self.settings_here)

    def wants(
        self,
        node: str,
        file: str = "f",
        urgency: float = 0.0,
        number: int = 1,
        *,
        is_large: bool = True,
    ) -> None:
        self.serving.on_want(WantFile(node, number, file, urgency, is_large))

    def has(self, node: str, number: int = 1, *, arrived: bool = True) -> None:
        self.serving.on_over(FetchOver(node, number, arrived))

    def told(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """Who was told to fetch, and from whom, in order."""
        return [(node, message.source) for node, message in self.sent(MayFetch)]

    def held_off(self) -> list[str]:
        return [node for node, _ in self.sent(HoldOn)]


def test_a_node_that_asks_first_may_fetch_at_once() -> None:
    place = Place()

    place.wants("n1")

    assert place.told() == [("n1", "n0")]
    assert place.held_off() == []


def test_the_next_node_holds_on_until_the_first_has_its_file() -> None:
    place = Place()

    place.wants("n1", "f")
    place.wants("n2", "g")
    assert place.told() == [("n1", "n0")]
    assert place.held_off() == ["n2"]
    place.has("n1")

    assert place.told() == [("n1", "n0"), ("n2", "n0")]


def test_two_at_a_time_are_served_if_that_is_set() -> None:
    place = Place(uploads_max=2)

    for node in ("n1", "n2", "n3"):
        place.wants(node, f"for {node}")

    assert place.told() == [("n1", "n0"), ("n2", "n0")]


def test_a_file_that_is_not_large_waits_for_another_of_its_kind_and_for_no_large_one() -> None:
    place = Place()

    place.wants("n1", "large")
    place.wants("n2", "f", is_large=False)
    place.wants("n3", "g", is_large=False)
    assert place.told() == [("n1", "n0"), ("n2", "n0")]
    place.has("n2")

    assert place.told() == [("n1", "n0"), ("n2", "n0"), ("n3", "n0")]


def test_the_most_urgent_of_those_that_wait_is_next() -> None:
    place = Place()

    place.wants("n1", "f")
    place.wants("n2", "g", urgency=5.0)
    place.wants("n3", "h", urgency=1.0)
    place.has("n1")

    assert place.told()[1:] == [("n3", "n0")]


def test_who_has_the_file_sends_it_on_beside_this_node() -> None:
    place = Place()

    for node in ("n1", "n2", "n3"):
        place.wants(node)
    place.has("n1")

    assert sorted(place.told()[1:]) == [("n2", "n1"), ("n3", "n0")]


def test_a_node_that_has_sent_the_file_on_sends_it_to_the_next() -> None:
    place = Place()

    for node in ("n1", "n2", "n3", "n4", "n5", "n6"):
        place.wants(node)
    place.has("n1")
    before = len(place.told())
    place.has("n2")  # from n1: both can send now

    assert len(place.told()) == before + 2
    assert {source for _, source in place.told()[before:]} == {"n1", "n2"}


def test_holders_double_with_every_transfer() -> None:
    place = Place()
    nodes = [f"n{i}" for i in range(1, 9)]
    for node in nodes:
        place.wants(node)

    rounds = []
    seen = 0
    while seen < len(nodes):
        ready = place.told()[seen:]
        rounds.append(len(ready))
        seen += len(ready)
        for node, _ in ready:
            place.has(node)

    assert rounds == [1, 2, 4, 1]


def test_a_node_that_gave_up_is_named_to_nobody() -> None:
    place = Place()

    place.wants("n1")
    place.wants("n2")
    place.has("n1", arrived=False)

    assert place.told()[1:] == [("n2", "n0")]


def test_a_source_that_failed_somebody_is_not_named_again() -> None:
    place = Place(uploads_max=1)
    for node in ("n1", "n2", "n3", "n4"):
        place.wants(node)
    place.has("n1")
    (sent_on,) = [node for node, source in place.told() if source == "n1"]

    place.has(sent_on, arrived=False)

    assert [source for _, source in place.told()].count("n1") == 1


def test_one_who_asks_again_is_told_again_and_keeps_its_place() -> None:
    place = Place()

    place.wants("n1")
    place.wants("n1")
    place.wants("n2")
    place.wants("n2")
    place.has("n1")

    assert place.told() == [("n1", "n0"), ("n1", "n0"), ("n2", "n1")]
    assert place.serving.loose_ends() == {"nodes that want files": 1}


def test_a_node_that_says_nothing_for_long_is_forgotten() -> None:
    place = Place()
    place.wants("n1")
    place.wants("n2", "g")

    for _ in range(SILENT_ROUNDS + 1):
        place.pass_time(place.settings_here.ask_again_seconds)
        place.wants("n2", "g")

    assert place.told()[1] == ("n2", "n0")
    assert place.serving.loose_ends() == {"nodes that want files": 1}


def test_an_end_of_which_nothing_is_known_changes_nothing() -> None:
    place = Place()

    place.has("n7")

    assert place.told() == []
    assert place.serving.loose_ends() == {"nodes that want files": 0}


def test_equally_urgent_nodes_are_served_in_the_order_in_which_they_asked() -> None:
    place = Place()

    place.wants("n1", "f")
    place.wants("n3", "g")
    place.wants("n2", "h")
    place.has("n1")

    assert place.told()[1:] == [("n3", "n0")]


def test_who_had_a_file_is_not_named_any_more_once_nobody_wanted_it() -> None:
    place = Place()

    place.wants("n1")
    place.has("n1")
    place.wants("n2")

    assert place.told() == [("n1", "n0"), ("n2", "n0")]


def test_a_node_that_was_silent_for_long_is_no_loose_end() -> None:
    place = Place()
    place.wants("n1")

    place.pass_time(SILENT_ROUNDS * place.settings_here.ask_again_seconds)

    assert place.serving.loose_ends() == {"nodes that want files": 0}
