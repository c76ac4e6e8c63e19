"""Fetching: how many files come at a time, in what order, and how a node asks for large ones."""

from math import inf
from typing import Any

import pytest

from dataward.kernel.fibers import VirtualFiber
from dataward.model.ids import ORIGIN
from dataward.model.messages import FetchOver, HoldOn, MayFetch, WantFile
from dataward.model.operations import AddCopies, Begin, Commit, Copy, InputFile, Submit
from dataward.node.fetching import Fetcher
from dataward.world import DiskFull, InputLost
from node.fake_world import FakeWorld, a_task

LARGE, MIDDLING, SMALL = 1000, 100, 10


class Place(FakeWorld):
    """Node n0: files are asked for from 50 bytes on, and are large from 200 bytes on."""

    def __init__(self, **settings: Any) -> None:
        plain = {"uploads_max": 1, "asked_bytes": 50, "large_bytes": 200, "fetch_rounds": 1}
        super().__init__(**{**plain, **settings})
        self.fetcher = Fetcher(self.world, self.settings, self.client)

    def fetch(self, size_bytes: int = LARGE, sources: tuple[str, ...] = ("n1",)) -> VirtualFiber:
        file = InputFile("f", size_bytes, "p")
        return self.start(self.fetcher.fetch(0.0, file, list(sources)))

    def answer(self, message: MayFetch | HoldOn) -> None:
        self.fetcher.on_message(message)
        self.pass_time()

    def numbers(self) -> list[tuple[str, int]]:
        return [(node, want.number) for node, want in self.sent(WantFile)]

    def ends(self) -> list[tuple[str, bool]]:
        return [(node, over.arrived) for node, over in self.sent(FetchOver)]


# --- where from ----------------------------------------------------------------------------------


def test_the_store_is_asked_who_has_each_file_and_a_file_that_nobody_has_is_nowhere() -> None:
    place = Place()
    place.have(
        Submit(a_task("p", writes=["f", "g", "h"])),
        Begin("p", "n1.1.1", "n1"),
        Commit("p", "n1.1.1", "n1", (), 1, absent=("h",)),
        AddCopies("p", (Copy("g", "n2"),)),
    )
    files, found = [InputFile(name, SMALL, "p") for name in "fgh"], []

    async def ask() -> None:
        found.append(await place.fetcher.sources(files, ()))

    place.start(ask())

    assert found == [{"f": ["n1"], "g": ["n1", "n2"], "h": []}]


# --- asking --------------------------------------------------------------------------------------


def test_a_small_file_is_fetched_unasked() -> None:
    place = Place()

    place.fetch(SMALL)

    assert place.network.fetched == [("f", "n1")]
    assert place.network.sent == []


@pytest.mark.parametrize(("size_bytes", "is_large"), [(LARGE, True), (MIDDLING, False)])
def test_a_node_that_asks_for_a_file_says_whether_the_file_is_large(
    size_bytes: int, is_large: bool
) -> None:
    place = Place()

    place.fetch(size_bytes)

    assert [want.is_large for _, want in place.sent(WantFile)] == [is_large]


def test_nobody_is_asked_where_any_number_may_fetch() -> None:
    place = Place(uploads_max=0)

    place.fetch()

    assert place.network.fetched == [("f", "n1")]
    assert place.network.sent == []


def test_the_origin_which_is_no_node_is_not_asked() -> None:
    place = Place()

    fiber = place.start(place.fetcher.fetch(0.0, InputFile("f", LARGE, ""), []))

    assert place.network.fetched == [("f", ORIGIN)]
    assert place.network.sent == []
    assert fiber.done()


def test_a_node_that_is_to_have_an_input_first_is_asked_before_the_origin() -> None:
    place = Place()
    file = InputFile("f", LARGE, "", relay="n1")

    fiber = place.start(place.fetcher.fetch(0.0, file, []))
    place.answer(HoldOn(1))
    assert place.network.fetched == []
    place.answer(MayFetch(1, "n1"))

    assert place.network.fetched == [("f", "n1")]
    assert fiber.done()


def test_an_input_comes_from_the_origin_if_the_node_that_is_to_have_it_first_has_it_not() -> None:
    place = Place()
    place.network.silent.add("n1")
    file = InputFile("f", LARGE, "", relay="n1")

    fiber = place.start(place.fetcher.fetch(0.0, file, []))
    place.answer(MayFetch(1, "n1"))

    assert place.network.fetched[-1] == ("f", ORIGIN)
    assert fiber.done()


def test_a_node_that_is_known_to_have_an_input_is_asked_and_no_relay() -> None:
    place = Place()

    place.start(place.fetcher.fetch(0.0, InputFile("f", LARGE, "", relay="n1"), ["n2"]))

    assert place.numbers() == [("n2", 1)]


def test_a_file_is_on_its_way_here_only_while_it_is_being_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place()

    async def takes_time(file: InputFile, source: str) -> None:
        await place.world.kernel.sleep(1.0)

    monkeypatch.setattr(place.network, "fetch", takes_time)
    place.fetch()
    before = place.fetcher.relays.is_coming("f")
    place.answer(MayFetch(1, "n1"))
    meanwhile = place.fetcher.relays.is_coming("f")
    place.pass_time(1.0)

    assert (before, meanwhile) == (False, True)
    assert not place.fetcher.relays.is_coming("f")


def test_a_large_file_is_fetched_when_its_holder_says_so() -> None:
    place = Place()

    fiber = place.fetch()
    assert place.network.fetched == []
    place.answer(MayFetch(1, "n1"))

    assert place.network.fetched == [("f", "n1")]
    assert place.ends() == [("n1", True)]
    assert fiber.done()


def test_a_node_that_was_named_is_asked_in_its_turn_and_both_are_told_of_the_end() -> None:
    place = Place()

    place.fetch()
    place.answer(MayFetch(1, "n2"))
    assert place.numbers() == [("n1", 1), ("n2", 2)]
    assert place.network.fetched == []
    place.answer(MayFetch(2, "n2"))

    assert place.network.fetched == [("f", "n2")]
    assert place.ends() == [("n2", True), ("n1", True)]


def test_a_node_that_is_much_slower_than_the_one_that_names_it_is_declined() -> None:
    place = Place(quickest_source=True)
    place.network.rates.update(n1=100.0, n2=10.0, n3=90.0)

    place.fetch()
    place.answer(MayFetch(1, "n2"))
    assert place.numbers() == [("n1", 1), ("n1", 2)]
    assert place.ends() == [("n1", False)]
    place.answer(MayFetch(2, "n3"))
    place.answer(MayFetch(3, "n3"))

    assert place.network.fetched == [("f", "n3")]
    assert place.ends() == [("n1", False), ("n3", True), ("n1", True)]
    assert place.fetcher.loose_ends()["questions for files"] == 0


@pytest.mark.parametrize("source", ["n1", ORIGIN])
def test_a_quick_source_is_tried_before_slow_ones_even_if_it_is_the_origin(source: str) -> None:
    place = Place(quickest_source=True)
    place.network.rates.update({"n1": 10.0, "n2": 10.0, ORIGIN: 10.0, source: 1000.0})

    place.start(place.fetcher.fetch(0.0, InputFile("in", SMALL, ""), ["n1", "n2"]))

    assert place.network.fetched == [("in", source)]


@pytest.mark.parametrize(("size_bytes", "heeded"), [(LARGE, True), (MIDDLING, False)])
def test_how_long_large_files_took_decides_the_next_time(
    monkeypatch: pytest.MonkeyPatch, size_bytes: int, heeded: bool
) -> None:
    place = Place(quickest_source=True, uploads_max=0)
    seconds = {"n1": 100.0, "n2": 1.0}
    tried: list[str] = []

    async def takes_time(file: InputFile, source: str) -> None:
        tried.append(source)
        await place.world.kernel.sleep(seconds[source])

    monkeypatch.setattr(place.network, "fetch", takes_time)
    for source in ("n1", "n2"):
        place.fetch(size_bytes, (source,))
        place.pass_time(100.0)

    for _ in range(10):
        place.fetch(sources=("n1", "n2"))
        place.pass_time(100.0)

    assert (tried[2:] == ["n2"] * 10) is heeded


def test_who_must_hold_on_asks_again_and_waits_as_long_as_it_is_answered() -> None:
    place = Place(ask_again_seconds=10.0)

    fiber = place.fetch()
    for _ in range(5):
        place.answer(HoldOn(1))
        place.pass_time(10.0)

    assert not fiber.done()
    assert place.numbers() == [("n1", 1)] * 6


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_file_is_fetched_unasked_from_a_node_that_says_nothing(rounds: int) -> None:
    place = Place(silent_seconds=2.0, ask_again_seconds=10.0)
    fiber = place.fetch()
    for _ in range(rounds):
        place.answer(HoldOn(1))
        place.pass_time(10.0)

    place.pass_time(1.9)
    assert place.network.fetched == []
    place.pass_time(0.1)

    assert place.network.fetched == [("f", "n1")]
    assert place.ends() == [("n1", True)]
    assert fiber.done()


def test_a_dead_holder_is_given_up_soon() -> None:
    place = Place(silent_seconds=2.0)
    place.network.silent.add("n1")
    ended: list[str] = []

    async def fetch() -> None:
        with pytest.raises(InputLost):
            await place.fetcher.fetch(0.0, InputFile("f", LARGE, "p"), ["n1"])
        ended.append("lost")

    place.start(fetch())
    place.pass_time(2.0)

    assert ended == ["lost"]
    assert place.ends() == [("n1", False)]
    assert place.fetcher.loose_ends()["questions for files"] == 0


def test_while_a_file_comes_all_who_sent_us_on_hear_again_that_we_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(ask_again_seconds=10.0)

    async def never_ends(file: InputFile, source: str) -> None:
        await place.wait_for_ever()

    monkeypatch.setattr(place.network, "fetch", never_ends)
    place.fetch()
    place.answer(MayFetch(1, "n2"))
    place.answer(MayFetch(2, "n2"))
    assert place.numbers() == [("n1", 1), ("n2", 2)]

    place.pass_time(10.0)

    assert place.numbers()[2:] == [("n1", 1), ("n2", 2)]


def test_of_two_holders_the_second_is_asked_if_the_first_does_not_serve() -> None:
    place = Place()
    first_asked = place.fetch(sources=("n1", "n2")) and place.numbers()[0][0]
    other = "n2" if first_asked == "n1" else "n1"
    place.network.silent.add(first_asked)

    place.answer(MayFetch(1, first_asked))
    place.answer(MayFetch(2, other))

    assert place.network.fetched == [("f", other)]
    assert place.ends() == [(first_asked, False), (other, True)]


def test_an_answer_to_an_earlier_question_changes_nothing() -> None:
    place = Place()

    place.fetch()
    place.answer(MayFetch(7, "n2"))

    assert place.network.fetched == []
    assert place.numbers() == [("n1", 1)]


# --- how many at a time --------------------------------------------------------------------------


def turns(place: Place, *sizes: int, urgencies: tuple[float, ...] = ()) -> list[VirtualFiber]:
    urgent = urgencies or (0.0,) * len(sizes)
    return [
        place.start(place.fetcher.turn(urgency, InputFile(f"f{i}", size, "p")))
        for i, (size, urgency) in enumerate(zip(sizes, urgent, strict=True))
    ]


def test_large_files_come_together_as_long_as_they_fit_the_window() -> None:
    waiting = turns(Place(window_bytes=1000), 400, 400, 400)

    assert [fiber.done() for fiber in waiting] == [True, True, False]


@pytest.mark.parametrize("size_bytes", [SMALL, MIDDLING])
def test_a_file_that_is_not_large_waits_for_no_large_one(size_bytes: int) -> None:
    waiting = turns(Place(window_bytes=1000), 5000, size_bytes)

    assert [fiber.done() for fiber in waiting] == [True, True]


def test_a_file_larger_than_the_window_comes_alone_among_large_ones() -> None:
    place = Place(window_bytes=1000)
    waiting = turns(place, 5000, 200)
    assert [fiber.done() for fiber in waiting] == [True, False]

    place.fetcher.over(0.0, InputFile("f0", 5000, "p"))
    place.pass_time()

    assert waiting[1].done()


def test_a_large_file_that_is_more_urgent_than_all_on_their_way_waits_for_none() -> None:
    place = Place(window_bytes=1000)
    waiting = turns(place, 5000, 5000, 5000, urgencies=(2.0, 1.0, 1.5))
    assert [fiber.done() for fiber in waiting] == [True, True, False]

    place.fetcher.over(1.0, InputFile("f1", 5000, "p"))
    place.pass_time()
    assert not waiting[2].done()
    place.fetcher.over(2.0, InputFile("f0", 5000, "p"))
    place.pass_time()

    assert waiting[2].done()


def test_a_large_file_waits_for_none_that_comes_ahead_of_its_time() -> None:
    place = Place(window_bytes=1000)
    waiting = turns(place, 5000, 600, 600, urgencies=(inf, 0.0, 0.0))
    assert [fiber.done() for fiber in waiting] == [True, True, False]

    place.fetcher.over(inf, InputFile("f0", 5000, "p"))
    place.pass_time()
    assert not waiting[2].done()
    place.fetcher.over(0.0, InputFile("f1", 600, "p"))
    place.pass_time()

    assert waiting[2].done()


def test_the_most_urgent_file_is_next() -> None:
    place = Place(transfers_max=1)
    waiting = turns(place, 1, 1, 1, urgencies=(0.0, 5.0, 2.0))

    place.fetcher.over(0.0, InputFile("f0", 1, "p"))
    place.pass_time()

    assert [fiber.done() for fiber in waiting] == [True, False, True]


def test_one_cancelled_while_it_waits_for_a_transfer_has_no_turn_and_no_share_of_the_window() -> (
    None
):
    place = Place(window_bytes=1000, transfers_max=1)
    turns(place, 400)
    had_their_turns = []

    async def wait_and_fetch() -> None:
        await place.fetcher.turn(0.0, InputFile("f", 600, "p"))
        had_their_turns.append("f")

    waiting = place.start(wait_and_fetch())
    waiting.cancel()
    place.pass_time()

    assert had_their_turns == []
    place.fetcher.over(0.0, InputFile("f0", 400, "p"))
    assert [fiber.done() for fiber in turns(place, 1000)] == [True]


def test_files_that_travel_together_take_no_turns() -> None:
    place = Place(transfers_max=1)
    place.network.together_bytes = 50

    waiting = turns(place, 49, 49, 50, 50, 49)

    assert [fiber.done() for fiber in waiting] == [True, True, True, False, True]
    place.fetcher.over(0.0, InputFile("f0", 49, "p"))
    assert place.fetcher.loose_ends()["transfers under way"] == 1


def test_a_node_that_could_not_be_reached_is_asked_last_and_alone_if_it_has_the_only_copy() -> None:
    for number in range(1, 5):
        place = Place()
        place.network.doubted = {f"n{other}" for other in range(1, 5)} - {f"n{number}"}
        place.fetch(SMALL, ("n1", "n2", "n3", "n4"))

        assert place.network.fetched == [("f", f"n{number}")]
    place = Place()
    place.network.doubted = {"n1"}
    place.fetch(SMALL, ("n1",))
    assert place.network.fetched == [("f", "n1")]


@pytest.mark.parametrize("size_bytes", [SMALL, LARGE])
def test_a_full_disk_is_told_at_once_and_no_other_source_is_asked(size_bytes: int) -> None:
    place, ended = Place(fetch_rounds=3), []
    place.disk.is_full = True

    async def fetch() -> None:
        with pytest.raises(DiskFull):
            await place.fetcher.fetch(0.0, InputFile("f", size_bytes, "p"), ["n1", "n2"])
        ended.append("full")

    place.start(fetch())
    for asked, want in place.sent(WantFile):
        place.answer(MayFetch(want.number, asked))

    assert ended == ["full"]
    assert len(place.sent(WantFile)) == (size_bytes == LARGE)
