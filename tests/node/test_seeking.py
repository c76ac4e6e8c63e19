"""A node without work tells keepers, takes up one invitation, and declines the others."""

from dataward.model.messages import Ask, Handed, Reserve
from dataward.node.asking import Asker
from dataward.node.seeking import Seeker, SeekingPauses
from node.fake_world import FakeWorld, a_queue_entry


class Place(FakeWorld):
    """Node n0, of two cores, among so many nodes."""

    def __init__(self, *, nodes: int = 10, tasks_max: int = 1) -> None:
        super().__init__(nodes=nodes, cores=2, staging_ahead=0)
        send = self.network.send
        asker = Asker(self.parts, send, ask_seconds=0.5)
        self.seeker = Seeker(self.parts, send, asker, tasks_max, SeekingPauses(1.0, 4.0))
        self.start(self.seeker.run())

    def has_no_work(self) -> None:
        self.state.queue.hungry.set()
        self.pass_time()

    def gets(self, task: str) -> None:
        self.state.queue.put(a_queue_entry(task))
        self.pass_time()

    def is_invited(self, *invitations: tuple[str, int]) -> None:
        for node, batch in invitations:
            self.seeker.on_invited(Reserve(node, batch, 1))
        self.pass_time()

    def hears(self, node: str, batch: int, tasks: int) -> None:
        self.seeker.on_handed(Handed(node, batch, tasks))
        self.pass_time()

    def told(self) -> list[str]:  # type: ignore[override]
        """Whom the node told that it has no work, since this was last asked."""
        sent, self.network.sent[:] = list(self.network.sent), []
        return [to for to, m in sent if isinstance(m, Ask) and not m.batch]

    def answers(self) -> list[tuple[str, int, int]]:
        """To which invitations the node said what, since this was last asked."""
        sent, self.network.sent[:] = list(self.network.sent), []
        return [(to, m.batch, m.tasks) for to, m in sent if isinstance(m, Ask) and m.batch]


def test_a_node_with_work_tells_nobody() -> None:
    place = Place()

    place.pass_time(100.0)

    assert place.told() == []


def test_a_node_tells_itself_and_two_others_first_then_twice_as_many_until_all_know() -> None:
    place = Place(nodes=10)

    place.has_no_work()
    first = place.told()
    place.pass_time(1.0)
    more = place.told()
    place.pass_time(1.0)
    rest = place.told()

    assert first[0] == "n0"
    assert (len(first), len(more), len(rest)) == (3, 6, 1)
    assert sorted(first + more + rest) == sorted(place.world.nodes)


def test_when_all_know_they_are_told_again_ever_more_rarely() -> None:
    place = Place(nodes=3)
    place.has_no_work()

    told = []
    for _ in range(12):
        told.append(len(place.told()))
        place.pass_time(1.0)

    assert told == [3, 3, 0, 3, 0, 0, 0, 3, 0, 0, 0, 3]


def test_an_invitation_is_taken_up_at_once() -> None:
    place = Place()
    place.has_no_work()

    place.is_invited(("n5", 7))

    assert place.answers() == [("n5", 7, 1)]


def test_one_invitation_is_taken_up_and_the_others_are_declined_when_there_is_work() -> None:
    place = Place()
    place.has_no_work()
    place.is_invited(("n5", 7), ("n6", 1), ("n7", 3))
    assert place.answers() == [("n5", 7, 1)]

    place.hears("n5", 7, 1)
    place.gets("a")

    assert place.answers() == [("n6", 1, 0), ("n7", 3, 0)]
    assert len(place.seeker) == 0


def test_if_who_invited_has_nothing_left_the_next_invitation_is_taken_up() -> None:
    place = Place()
    place.has_no_work()
    place.is_invited(("n5", 7), ("n6", 1))

    place.hears("n5", 7, 0)

    assert place.answers() == [("n5", 7, 1), ("n6", 1, 1)]


def test_if_who_invited_is_dead_the_next_invitation_is_taken_up() -> None:
    place = Place()
    place.has_no_work()
    place.is_invited(("n5", 7), ("n6", 1))

    place.pass_time(0.5)

    assert place.answers() == [("n5", 7, 1), ("n6", 1, 1)]


def test_when_no_invitation_was_good_more_keepers_are_told() -> None:
    place = Place()
    place.has_no_work()
    place.told()
    place.is_invited(("n5", 7))

    place.hears("n5", 7, 0)

    assert len(place.told()) == 6


def test_a_node_with_work_declines() -> None:
    place = Place()

    place.is_invited(("n5", 7))

    assert place.answers() == [("n5", 7, 0)]


def test_a_node_that_drains_declines_and_tells_nobody() -> None:
    place = Place()
    place.state.drain()
    place.has_no_work()
    assert place.told() == []

    place.is_invited(("n5", 7))

    assert place.answers() == [("n5", 7, 0)]


def test_a_node_that_has_work_again_seeks_anew_when_that_has_begun() -> None:
    place = Place()
    place.has_no_work()
    place.is_invited(("n5", 7))
    place.hears("n5", 7, 1)
    place.gets("a")
    place.told()

    place.state.queue.take()
    place.has_no_work()

    assert len(place.told()) == 3


def test_a_node_asks_for_as_many_tasks_as_it_may_take() -> None:
    place = Place(tasks_max=5)
    place.has_no_work()

    place.is_invited(("n5", 7))

    assert place.answers() == [("n5", 7, 2)]
