"""A keeper invites nodes without work, and gives its tasks to those who come."""

from dataward.model.messages import Ask, Handed, MoverMessage, Reserve
from dataward.model.operations import Enqueue, Shelf
from dataward.node.choosers import FirstCome
from dataward.node.inviter import Inviter
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """Node n0, a keeper."""

    def __init__(self) -> None:
        super().__init__(nodes=5)
        for node in self.world.nodes:
            self.join(node)
        self.said: list[tuple[str, MoverMessage]] = []
        tell = lambda node, message: self.said.append((node, message))  # noqa: E731
        self.inviter = Inviter(
            self.parts, tell, FirstCome(), patience_seconds=40.0, answer_seconds=0.5
        )
        self.start(self.inviter.invite())
        self.start(self.inviter.answer())

    def keeps(self, *tasks: str) -> None:
        self.hold(*(a_task(task) for task in tasks))
        for priority, task in enumerate(tasks):
            self.state.put(a_queue_entry(task, float(priority), shelf=Shelf.POOLED))
        self.pass_time()

    def hears(self, *questions: Ask) -> None:
        for question in questions:
            self.inviter.on_ask(question)
        self.pass_time()

    def invited(self) -> list[tuple[str, int]]:
        return [(node, m.batch) for node, m in self.said if isinstance(m, Reserve)]

    def handed(self) -> list[tuple[str, int, int]]:
        return [(node, m.batch, m.tasks) for node, m in self.said if isinstance(m, Handed)]

    def given(self) -> dict[str, list[str]]:
        return {op.node: [entry.task for entry in op.entries] for op in self.asked(Enqueue)}


def test_a_node_without_work_is_invited_if_there_is_a_task() -> None:
    place = Place()
    place.keeps("a")

    place.hears(Ask("n1", 1))

    assert place.said == [("n1", Reserve("n0", 1, 1))]
    assert place.given() == {}  # it is not bound to anybody yet


def test_a_node_without_work_is_invited_as_soon_as_a_task_comes() -> None:
    place = Place()
    place.hears(Ask("n2", 1), Ask("n1", 1))
    place.pass_time(39.0)
    assert place.invited() == []

    place.keeps("a")

    assert place.invited() == [("n2", 1)]


def test_a_node_is_not_remembered_for_ever() -> None:
    place = Place()
    place.hears(Ask("n1", 1))
    place.pass_time(40.0)

    place.keeps("a")

    assert place.invited() == []


def test_as_many_are_invited_as_there_are_tasks() -> None:
    place = Place()
    place.hears(Ask("n1", 1), Ask("n2", 1), Ask("n3", 1))

    place.keeps("a", "b")

    assert place.invited() == [("n1", 1), ("n2", 2)]


def test_who_takes_an_invitation_up_is_given_the_most_urgent_task() -> None:
    place = Place()
    place.keeps("a", "b")
    place.hears(Ask("n1", 1), Ask("n2", 1))

    place.hears(Ask("n2", 1, batch=2), Ask("n1", 1, batch=1))

    assert place.given() == {"n2": ["a"], "n1": ["b"]}
    assert place.handed() == [("n2", 2, 1), ("n1", 1, 1)]
    assert len(place.state.pool) == 0


def test_who_comes_when_nothing_is_left_is_told_so() -> None:
    place = Place()
    place.keeps("a")
    place.hears(Ask("n1", 1))
    place.state.remove("a", 1)

    place.hears(Ask("n1", 1, batch=1))

    assert place.handed() == [("n1", 1, 0)]
    assert place.given() == {}


def test_if_a_node_declines_the_next_one_is_invited() -> None:
    place = Place()
    place.hears(Ask("n1", 1), Ask("n2", 1))
    place.keeps("a")

    place.hears(Ask("n1", 0, batch=1))

    assert place.invited() == [("n1", 1), ("n2", 2)]
    assert place.handed() == []


def test_if_a_node_does_not_answer_the_next_one_is_invited() -> None:
    place = Place()
    place.hears(Ask("n1", 1), Ask("n2", 1))
    place.keeps("a")
    place.pass_time(0.4)
    assert place.invited() == [("n1", 1)]

    place.pass_time(0.1)

    assert place.invited() == [("n1", 1), ("n2", 2)]


def test_a_task_that_was_given_is_no_reason_to_invite_another_node() -> None:
    place = Place()
    place.hears(*(Ask(f"n{i}", 1) for i in (1, 2, 3, 4)))
    place.keeps("a", "b")

    place.hears(Ask("n1", 1, batch=1))

    assert place.given() == {"n1": ["a"]}
    assert place.invited() == [("n1", 1), ("n2", 2)]  # n2 may come for the one that is left


def test_a_node_that_tells_twice_is_invited_once() -> None:
    place = Place()
    place.hears(Ask("n1", 1), Ask("n1", 2))

    place.keeps("a", "b")

    assert place.said == [("n1", Reserve("n0", 1, 2))]


def test_a_node_may_take_several_tasks_at_once() -> None:
    place = Place()
    place.keeps("a", "b", "c")
    place.hears(Ask("n1", 2))

    place.hears(Ask("n1", 2, batch=1))

    assert place.given() == {"n1": ["a", "b"]}
