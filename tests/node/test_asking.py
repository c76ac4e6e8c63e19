"""One giver is asked at a time, and what it gives is waited for."""

from typing import Any

from dataward.model.messages import Ask, Handed
from dataward.node.asking import Asker
from node.fake_world import FakeWorld, a_queue_entry


class Place(FakeWorld):
    """A node that has asked n1 for two tasks of batch 7."""

    def __init__(self) -> None:
        super().__init__(cores=2, staging_ahead=0)
        self.asker = Asker(self.parts, self.network.send, ask_seconds=5.0)
        self.given: list[bool] = []
        self.start(self.asks())

    async def asks(self) -> None:
        self.given.append(await self.asker.take("n1", 7, 2))

    def hears(self, *message: Any) -> None:
        self.asker.on_handed(Handed(*message))
        self.pass_time()


def test_a_giver_is_asked_for_tasks_of_its_batch() -> None:
    place = Place()

    assert place.network.sent == [("n1", Ask("n0", 2, batch=7))]
    assert place.given == []


def test_what_is_given_is_waited_for() -> None:
    place = Place()
    place.hears("n1", 7, 2)
    assert place.given == []
    assert place.state.queue.wanted.is_set()  # the placer's own hint may be lost

    place.state.queue.put(a_queue_entry("a"))
    place.pass_time()

    assert place.given == [True]


def test_what_came_before_the_answer_and_has_begun_is_not_waited_for() -> None:
    place = Place()
    place.state.queue.put(a_queue_entry("a"))
    place.state.queue.take()

    place.hears("n1", 7, 1)

    assert place.given == [True]


def test_what_never_comes_is_not_waited_for_long() -> None:
    place = Place()
    place.hears("n1", 7, 1)

    place.pass_time(5.0)

    assert place.given == [True]


def test_a_giver_without_tasks_gives_nothing() -> None:
    place = Place()

    place.hears("n1", 7, 0)

    assert place.given == [False]
    assert not place.state.queue.wanted.is_set()


def test_a_giver_that_does_not_answer_gives_nothing() -> None:
    place = Place()
    place.pass_time(4.9)
    assert place.given == []

    place.pass_time(0.1)

    assert place.given == [False]


def test_an_answer_to_another_question_is_none() -> None:
    place = Place()

    place.hears("n2", 7, 1)
    place.hears("n1", 6, 1)

    assert place.given == []
    assert place.state.queue.wanted.is_set()


def test_a_late_answer_does_not_pass_for_the_next_one() -> None:
    place = Place()
    place.pass_time(5.0)
    place.hears("n1", 7, 1)

    place.start(place.asks())

    assert place.given == [False]


def test_a_node_has_room_for_as_many_tasks_as_it_can_begin() -> None:
    place = Place()
    assert place.asker.free == 2

    for name in "ab":
        entry = a_queue_entry(name)
        place.state.attempts.begin(entry, place.kernel.spawn(place.wait_for_ever()))

    assert place.asker.free == 1  # it would not ask if it had none
