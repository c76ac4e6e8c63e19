"""Who gives to whom, what is given, and how long a balancer waits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.events import Occasion, TaskPlaced, WorkGiven
from dataward.model.messages import WorkQueued
from dataward.model.operations import Enqueue, LetGo, Probe, Replicate, ReportLoad, Shelf
from dataward.node.giving import Giving, next_pause
from dataward.node.homes import receiver
from dataward.node.neighbourhood import Neighbourhood, size_of
from node.fake_world import FakeWorld, a_queue_entry, a_task


def test_the_most_loaded_gives_to_the_least_loaded() -> None:
    assert receiver(10.0, {"a": 5.0, "b": 1.0, "c": 3.0}) == "b"


def test_only_the_most_loaded_of_all_gives() -> None:
    assert receiver(10.0, {"a": 11.0, "b": 0.0}) is None


def test_a_neighbour_as_loaded_gets_nothing_and_keeps_this_node_from_giving() -> None:
    assert receiver(10.0, {"a": 10.0}) is None
    assert receiver(10.0, {"a": 10.0, "b": 0.0}) is None


def test_equal_loads_go_to_the_lowest_id() -> None:
    assert receiver(10.0, {"c": 1.0, "b": 1.0, "d": 1.0}) == "b"


def test_one_without_neighbours_keeps_its_work() -> None:
    assert receiver(10.0, {}) is None


@given(
    st.floats(0, 1e6),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e6), max_size=6),
)
def test_work_only_ever_flows_downhill(load: float, neighbours: dict[str, float]) -> None:
    target = receiver(load, neighbours)

    if target is None:
        assert not neighbours or max(neighbours.values()) >= load
    else:
        assert neighbours[target] == min(neighbours.values()) < load


def test_pauses_double_up_to_a_maximum_and_a_gift_resets_them() -> None:
    settings = Giving(pause_seconds_min=1.0, pause_seconds_max=5.0)

    pauses = [1.0]
    for _ in range(4):
        pauses.append(next_pause(pauses[-1], gave=False, settings=settings))

    assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert next_pause(5.0, gave=True, settings=settings) == 1.0


def test_the_papers_pauses_are_the_default() -> None:
    settings = Giving()

    assert next_pause(64.0, gave=True, settings=settings) == pytest.approx(0.001)
    assert next_pause(100.0, gave=False, settings=settings) == 128.0


# --- giving --------------------------------------------------------------------------------------


class Place(FakeWorld):
    """Node n0, whose balancer runs, with n1 and n2 up and idle; all three are its neighbours."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        for node in ("n0", "n1", "n2"):
            self.join(node)
        giving = Giving(**{"neighbours": 3, **settings})
        for loop in giving.at(self.parts).loops():
            self.start(loop)

    def claims(self, *tasks: str, backups_max: int = 2) -> None:
        """These tasks, the first most urgent, come into the ready queue."""
        self.hold(*(a_task(task, backups_max=backups_max) for task in tasks))
        for priority, task in enumerate(tasks):
            self.state.queue.put(a_queue_entry(task, float(priority)))


def test_a_node_with_nothing_to_give_asks_nobody() -> None:
    place = Place()

    place.pass_time(1000.0)

    assert place.store.calls == []


def test_half_of_the_tasks_the_least_urgent_go_to_the_least_loaded() -> None:
    place = Place()
    place.have(ReportLoad("n1", 1.0))

    place.claims("a", "b", "c", "d")
    place.pass_time()

    given = [a_queue_entry("d", 3.0, replica=True, shelf=Shelf.KEPT),
             a_queue_entry("c", 2.0, replica=True, shelf=Shelf.KEPT)]  # fmt: skip
    assert place.asked(Enqueue) == [Enqueue("n2", tuple(given))]
    assert place.sent(WorkQueued) == [("n2", WorkQueued())]
    assert place.told(WorkGiven)[0].tasks == ("d", "c")
    assert dict(place.told(WorkGiven)[0].loads_seconds) == {"n1": 1.0, "n2": 0.0}
    assert {event.occasion for event in place.told(TaskPlaced)} == {Occasion.GIVEN}


def test_a_single_task_is_given_too() -> None:
    place = Place()

    place.claims("a")
    place.pass_time()

    assert [op.task for op in place.asked(Replicate)] == ["a"]


def test_what_is_doubled_stays_here_too_and_is_known_to_be_elsewhere() -> None:
    place = Place()

    place.claims("a", "b")
    place.pass_time()

    assert len(place.state.queue) == 2
    assert place.state.queue.shared() == ["b"]
    assert list(place.state.identity.holdings) == ["a", "b"]


def test_a_task_with_all_its_backups_is_not_offered_again() -> None:
    place = Place()
    place.claims("a", backups_max=1)

    place.pass_time(1000.0)

    assert len(place.asked(Replicate)) == 1
    assert place.state.queue.givable == 0


def test_a_task_that_may_have_no_backup_is_not_given() -> None:
    place = Place()

    place.claims("a", backups_max=0)
    place.pass_time(1000.0)

    assert place.asked(Replicate)
    assert not place.asked(Enqueue)
    assert place.told(WorkGiven) == []
    assert place.state.queue.shared() == []


def test_without_replication_what_is_given_is_moved_and_let_go_of() -> None:
    place = Place(replication=False)

    place.claims("a", "b")
    place.pass_time()

    assert not place.asked(Replicate)
    moved = a_queue_entry("b", 1.0, shelf=Shelf.KEPT)
    assert place.asked(Enqueue)[0].entries == (moved,)
    assert "b" not in place.state.queue
    assert "b" not in place.state.identity.holdings
    (let_go,) = [op for op in place.state.outbox.take() if isinstance(op, LetGo)]
    assert "b" in dict(let_go.tasks)


def test_the_dead_are_given_nothing() -> None:
    place = Place()
    for node in ("n1", "n2"):
        place.join(node, lease_seconds=-1.0)

    place.claims("a", "b")
    place.pass_time(1.0)

    assert place.asked(Probe)
    assert not place.asked(Replicate)


def test_one_less_loaded_than_a_neighbour_gives_nothing() -> None:
    place = Place()
    place.have(ReportLoad("n1", 100.0))

    place.claims("a", "b")
    place.pass_time(1.0)

    assert not place.asked(Replicate)


def test_a_gift_changes_the_load_that_others_are_told_of() -> None:
    place = Place(replication=False)
    place.claims("a", "b")
    place.state.outbox.take()
    due = place.start(place.state.outbox.due())

    place.pass_time(1.0)

    assert due.done()
    assert place.state.outbox.take()[-1] == ReportLoad("n0", place.state.queue.load_seconds)


def test_after_asking_in_vain_a_balancer_waits_twice_as_long() -> None:
    place = Place(pause_seconds_min=1.0, pause_seconds_max=128.0)
    place.have(ReportLoad("n1", 100.0))
    place.claims("a")

    asked = []
    for _ in range(8):
        asked.append(len(place.asked(Probe)))
        place.pass_time(1.0)

    assert asked == [0, 2, 4, 4, 4, 4, 6, 6]  # two at a time, after 0, 2 and 6 seconds


def neighbours_asked(neighbourhood: Neighbourhood) -> set[str]:
    """Whom a node with two neighbours of nineteen asks in many rounds."""
    world = FakeWorld(nodes=20)
    world.hold(a_task("a"))
    world.state.queue.put(a_queue_entry("a"))
    giving = Giving(neighbours=2, neighbourhood=neighbourhood, pause_seconds_max=1.0)
    world.start(giving.at(world.parts).run())
    world.pass_time(50.0)
    return {probe.node for probe in world.asked(Probe)}


def test_a_neighbourhood_is_drawn_once_or_at_every_turn() -> None:
    assert len(neighbours_asked(Neighbourhood.STATIC)) == 2
    assert len(neighbours_asked(Neighbourhood.DYNAMIC)) > 10


def test_by_default_there_are_as_many_neighbours_as_the_root_of_the_cluster() -> None:
    assert size_of(0, 25) == 5
    assert size_of(0, 26) == 5
    assert size_of(0, 1) == 1
    assert size_of(7, 25) == 7
    assert size_of(7, 3) == 3


def test_a_giver_that_would_never_rest_is_refused() -> None:
    with pytest.raises(SettingError, match="pause_seconds_min 0 would never rest"):
        Giving(pause_seconds_min=0.0)
