"""A free node asks the scheduler of its oldest reservation."""

from dataward.model.messages import Ask, Handed, Reserve
from dataward.node.asking import Asker
from dataward.node.reservations import ReservationLine
from node.fake_world import FakeWorld, a_queue_entry


class Place(FakeWorld):
    """Node n0, which can begin two tasks at once."""

    def __init__(self) -> None:
        super().__init__(cores=2, staging_ahead=0)
        asker = Asker(self.parts, self.network.send, ask_seconds=5.0)
        self.line = ReservationLine(self.parts, asker)
        self.start(self.line.run())

    def is_reserved(self, *reservations: tuple[str, int, int]) -> None:
        for reservation in reservations:
            self.line.on_reserve(Reserve(*reservation))
        self.pass_time()

    def is_free(self) -> None:
        self.state.queue.hungry.set()
        self.pass_time()

    def hears(self, *message: object) -> None:
        self.line.on_handed(Handed(*message))  # type: ignore[arg-type]
        self.pass_time()

    def questions(self) -> list[tuple[str, int, int]]:
        return [(node, ask.batch, ask.tasks) for node, ask in self.sent(Ask)]


def test_a_busy_node_asks_nobody() -> None:
    place = Place()

    place.is_reserved(("n1", 1, 1))
    place.pass_time(100.0)

    assert place.questions() == []
    assert len(place.line) == 1


def test_a_free_node_asks_the_scheduler_of_its_oldest_reservation() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1), ("n2", 1, 1))

    place.is_free()

    assert place.questions() == [("n1", 1, 1)]


def test_a_free_node_without_reservations_waits_for_one() -> None:
    place = Place()
    place.is_free()
    assert place.questions() == []

    place.is_reserved(("n1", 1, 1))

    assert place.questions() == [("n1", 1, 1)]


def test_if_a_scheduler_has_none_left_the_next_is_asked() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1), ("n2", 1, 1))
    place.is_free()

    place.hears("n1", 1, 0)

    assert place.questions() == [("n1", 1, 1), ("n2", 1, 1)]


def test_if_a_scheduler_is_dead_the_next_is_asked_after_a_while() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1), ("n2", 1, 1))
    place.is_free()

    place.pass_time(5.0)

    assert place.questions() == [("n1", 1, 1), ("n2", 1, 1)]


def test_a_node_that_was_given_a_task_asks_no_more_until_it_is_free_again() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1), ("n2", 1, 1))
    place.is_free()

    place.hears("n1", 1, 1)
    place.state.queue.put(a_queue_entry("a"))
    place.pass_time(100.0)
    assert len(place.questions()) == 1

    place.state.queue.take()
    place.is_free()
    assert len(place.questions()) == 2


def test_no_more_tasks_are_asked_for_than_are_reserved_for_or_can_begin() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 5), ("n2", 1, 1))

    place.is_free()
    place.pass_time(20.0)

    assert place.questions() == [("n1", 1, 2), ("n1", 1, 2), ("n1", 1, 1), ("n2", 1, 1)]


def test_a_cancelled_reservation_is_not_used() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1), ("n1", 2, 1))

    place.hears("n1", 1, 0)
    place.is_free()

    assert place.questions() == [("n1", 2, 1)]


def test_a_node_whose_reservations_were_all_cancelled_waits() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1))

    place.hears("n1", 1, 0)
    place.is_free()

    assert place.questions() == []
    assert len(place.line) == 0


def test_a_repeated_reservation_keeps_its_place_and_is_no_second_one() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1), ("n2", 1, 1), ("n1", 1, 1))

    place.is_free()
    place.pass_time(100.0)

    assert place.questions() == [("n1", 1, 1), ("n2", 1, 1)]


def test_a_node_that_drains_asks_nobody() -> None:
    place = Place()
    place.is_reserved(("n1", 1, 1))

    place.state.drain()
    place.is_free()

    assert place.questions() == []
