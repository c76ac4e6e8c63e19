"""A node's seeker and inviter: what one tells the other on the same node is heard at once."""

import pytest

from dataward.errors import SettingError
from dataward.model.messages import Ask, Handed, Reserve
from dataward.model.operations import Shelf
from dataward.node.inviting import Inviting
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    def __init__(self, nodes: int) -> None:
        super().__init__(nodes=nodes)
        self.join()
        self.mover = Inviting().at(self.parts)
        for loop in self.mover.loops():
            self.start(loop)

    def keeps(self, task: str) -> None:
        self.hold(a_task(task))
        self.state.put(a_queue_entry(task, shelf=Shelf.POOLED))
        self.pass_time()


def test_a_node_that_is_alone_runs_its_tasks_without_a_message() -> None:
    place = Place(nodes=1)
    place.state.queue.hungry.set()
    place.pass_time()

    place.keeps("a")

    assert "a" in place.state.queue
    assert place.network.sent == []
    assert place.mover.loose_ends() == {"invitations": 0}


def test_messages_from_others_are_heeded() -> None:
    place = Place(nodes=2)
    place.mover.on_message(Ask("n1", 1))
    place.keeps("a")
    assert place.sent(Reserve) == [("n1", Reserve("n0", 1, 1))]

    place.mover.on_message(Ask("n1", 1, batch=1))
    place.mover.on_message(Reserve("n1", 9, 1))
    place.pass_time()

    assert place.queue_of("n1") == ["a"]
    assert place.sent(Handed) == [("n1", Handed("n0", 1, 1))]
    assert ("n1", Ask("n0", 0, batch=9)) in place.sent(Ask)


@pytest.mark.parametrize("name", ["tasks_max", "ask_seconds", "seek_seconds_min"])
def test_settings_that_would_stop_everything_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        Inviting(**{name: 0})
