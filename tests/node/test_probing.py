"""A node's scheduler and its line: what one tells the other on the same node is heard at once."""

import pytest

from dataward.errors import SettingError
from dataward.model.messages import Ask, Handed, Reserve
from dataward.model.operations import Shelf
from dataward.node.probing import Probing
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    def __init__(self, nodes: int) -> None:
        super().__init__(nodes=nodes)
        self.join()
        self.mover = Probing().at(self.parts)
        for loop in self.mover.loops():
            self.start(loop)

    def has(self, task: str) -> None:
        self.hold(a_task(task))
        self.state.put(a_queue_entry(task, shelf=Shelf.POOLED))
        self.pass_time()


def test_a_node_that_is_alone_runs_its_tasks_without_a_message() -> None:
    place = Place(nodes=1)
    place.state.queue.hungry.set()

    place.has("a")

    assert "a" in place.state.queue
    assert place.network.sent == []
    assert not any(place.mover.loose_ends().values())


def test_what_is_kept_for_others_is_told() -> None:
    place = Place(nodes=1)

    place.has("a")

    assert place.mover.loose_ends() == {"batches": 1, "reservations": 1}


def test_messages_from_others_are_heeded() -> None:
    place = Place(nodes=2)
    place.mover.on_message(Reserve("n1", 1, 1))
    place.state.queue.hungry.set()
    place.pass_time()
    assert place.sent(Ask) == [("n1", Ask("n0", 1, batch=1))]

    place.mover.on_message(Handed("n1", 1, 0))
    place.mover.on_message(Ask("n1", 1, batch=5))
    place.pass_time()

    assert place.sent(Handed) == [("n1", Handed("n0", 5, 0))]


@pytest.mark.parametrize("name", ["probe_ratio", "ask_seconds", "probe_seconds_min"])
def test_settings_that_would_stop_everything_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        Probing(**{name: 0})
