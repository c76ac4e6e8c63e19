"""A scheduler reserves places for its batches, and gives tasks to those who come for them."""

from collections import Counter

from dataward.model.messages import Ask, Handed, MoverMessage, Reserve
from dataward.model.operations import Enqueue, Shelf
from dataward.node.batches import BatchScheduler
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """Node n0, which is a scheduler; what it tells itself is heard too."""

    def __init__(self, *, nodes: int = 10, ratio: float = 2.0) -> None:
        super().__init__(nodes=nodes)
        for node in self.world.nodes:
            self.join(node)
        self.said: list[tuple[str, MoverMessage]] = []
        tell = lambda node, message: self.said.append((node, message))  # noqa: E731
        self.scheduler = BatchScheduler(self.parts, tell, ratio, (1.0, 4.0))
        self.start(self.scheduler.reserve())
        self.start(self.scheduler.answer())

    def has(self, *tasks: str) -> None:
        """These tasks, the first most urgent, come into the pool together."""
        self.hold(*(a_task(task) for task in tasks))
        for priority, task in enumerate(tasks):
            self.state.put(a_queue_entry(task, float(priority), shelf=Shelf.POOLED))
        self.pass_time()

    def is_asked(self, *questions: tuple[str, int, int]) -> None:
        for node, batch, tasks in questions:
            self.scheduler.on_ask(Ask(node, tasks, batch=batch))
        self.pass_time()

    def reserved(self) -> list[tuple[str, int, int]]:
        """Reservations since this was last asked."""
        found = [(n, m.batch, m.tasks) for n, m in self.said if isinstance(m, Reserve)]
        self.said = [(n, m) for n, m in self.said if not isinstance(m, Reserve)]
        return found

    def handed(self) -> list[tuple[str, int, int]]:
        return [(n, m.batch, m.tasks) for n, m in self.said if isinstance(m, Handed)]

    def given(self) -> dict[str, list[str]]:
        return {op.node: [entry.task for entry in op.entries] for op in self.asked(Enqueue)}


def test_twice_as_many_places_are_reserved_as_there_are_tasks() -> None:
    place = Place(nodes=10, ratio=2.0)

    place.has("a", "b", "c")

    reserved = place.reserved()
    assert [(batch, tasks) for _, batch, tasks in reserved] == [(1, 1)] * 6
    assert len({node for node, _, _ in reserved}) == 6


def test_a_ratio_is_rounded_up() -> None:
    place = Place(nodes=10, ratio=1.05)

    place.has("a", "b", "c")

    assert len(place.reserved()) == 4


def test_more_places_than_nodes_are_spread_evenly() -> None:
    place = Place(nodes=3, ratio=2.0)

    place.has("a", "b", "c", "d")

    places = {node: tasks for node, _, tasks in place.reserved()}
    assert Counter(places.values()) == {3: 2, 2: 1}


def test_other_nodes_are_drawn_for_the_next_batch() -> None:
    place = Place(nodes=10)
    drawn = []
    for task in "abcdefgh":
        place.has(task)
        drawn.append([node for node, _, _ in place.reserved()])

    assert len({tuple(nodes) for nodes in drawn}) > 4


def test_who_asks_first_is_given_the_most_urgent_task_of_the_batch() -> None:
    place = Place()
    place.has("a", "b", "c")
    place.has("d")

    place.is_asked(("n2", 1, 2), ("n1", 2, 1))

    assert place.given() == {"n2": ["a", "b"], "n1": ["d"]}
    assert [said for said in place.handed() if said[2]] == [("n2", 1, 2), ("n1", 2, 1)]
    assert list(place.state.pool.tasks()) == ["c"]


def test_when_the_last_task_is_out_those_with_reservations_are_told() -> None:
    place = Place(nodes=10)
    place.has("a")
    first, second = (node for node, _, _ in place.reserved())

    place.is_asked((first, 1, 1))

    assert sorted(place.handed()) == sorted([(first, 1, 1), (second, 1, 0)])
    assert len(place.scheduler) == 0


def test_who_asks_too_late_hears_that_none_is_left() -> None:
    place = Place()
    place.has("a")
    place.is_asked(("n1", 1, 1))
    place.said.clear()

    place.is_asked(("n2", 1, 1), ("n3", 9, 1))

    assert place.handed() == [("n2", 1, 0), ("n3", 9, 0)]
    assert place.given() == {"n1": ["a"]}


def test_a_task_that_has_left_the_pool_is_not_given() -> None:
    place = Place()
    place.has("a", "b")
    place.state.remove("a", 1)

    place.is_asked(("n1", 1, 2))

    assert place.given() == {"n1": ["b"]}
    assert len(place.scheduler) == 0


def test_if_nobody_asks_places_are_reserved_again_ever_more_rarely() -> None:
    place = Place(nodes=10)
    place.has("a")
    place.reserved()

    times = []
    for second in range(1, 13):
        place.pass_time(1.0)
        if reserved := place.reserved():
            times.append(second)
            assert [(batch, tasks) for _, batch, tasks in reserved] == [(1, 1), (1, 1)]

    assert times == [1, 3, 7, 11]


def test_while_nodes_come_for_tasks_no_more_places_are_reserved() -> None:
    place = Place(nodes=10)
    place.has("a", "b", "c")
    place.reserved()

    place.is_asked(("n1", 1, 1))
    place.pass_time(1.0)
    assert place.reserved() == []

    place.pass_time(2.0)  # nobody came since
    assert len(place.reserved()) == 4  # for the two that are left


def test_a_batch_whose_tasks_went_elsewhere_is_forgotten() -> None:
    place = Place(nodes=10)
    place.has("a")
    nodes = sorted(node for node, _, _ in place.reserved())
    place.state.remove("a", 1)

    place.pass_time(1.0)

    assert len(place.scheduler) == 0
    assert sorted(node for node, _, _ in place.handed()) == nodes


def test_this_nodes_own_task_is_put_straight_into_its_queue() -> None:
    place = Place()
    place.has("a")

    place.is_asked(("n0", 1, 1))

    assert place.given() == {}
    assert "a" in place.state.queue
    assert ("n0", 1, 1) in place.handed()
