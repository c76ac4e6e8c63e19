"""A node with nothing to run steals half of the tasks of the most loaded of a few neighbours."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.events import Occasion, TaskPlaced, WorkGiven
from dataward.model.messages import Steal, Stolen, WorkQueued
from dataward.model.operations import Enqueue, LetGo, Probe, ReportLoad, Shelf
from dataward.node.ready_queue import LoadMeasure
from dataward.node.state import NodeState
from dataward.node.stealing import Stealing, StealMover, most_loaded, next_poll
from node.fake_world import FakeWorld, a_queue_entry, a_task

# --- whom, and when ------------------------------------------------------------------------------


def test_the_most_loaded_is_robbed() -> None:
    assert most_loaded({"a": 1.0, "b": 5.0, "c": 3.0}) == "b"


def test_of_equals_the_lowest_id_is_robbed() -> None:
    assert most_loaded({"c": 5.0, "b": 5.0, "a": 1.0}) == "b"


def test_who_has_nothing_is_not_robbed() -> None:
    assert most_loaded({"a": 0.0, "b": 0.0}) is None
    assert most_loaded({}) is None


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9).map(float)))
def test_nobody_has_more_than_who_is_robbed(loads: dict[str, float]) -> None:
    victim = most_loaded(loads)

    assert max(loads.values(), default=0.0) == (0.0 if victim is None else loads[victim])


def test_polls_double_from_a_millisecond_until_they_would_hit_fifty_seconds() -> None:
    settings = Stealing()

    polls = [settings.poll_seconds_min]
    while (poll := next_poll(polls[-1], settings)) is not None:
        polls.append(poll)

    assert polls == pytest.approx([0.001 * 2**n for n in range(16)])
    assert 2 * polls[-1] >= 50.0


def test_a_thief_that_would_never_rest_is_refused() -> None:
    with pytest.raises(SettingError, match="poll_seconds_min 0 would never rest"):
        Stealing(poll_seconds_min=0.0)


# --- the thief -----------------------------------------------------------------------------------


class Place(FakeWorld):
    """Node n0, whose mover runs, with n1 and n2 up; all three are its neighbours."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.state = NodeState(self.world, self.settings, load=LoadMeasure.SHARED_TASKS)
        for node in ("n0", "n1", "n2"):
            self.join(node)
        self.mover: StealMover = Stealing(**{"neighbours": 3, **settings}).at(self.parts)
        for loop in self.mover.loops():
            self.start(loop)

    def loaded(self, **loads: float) -> None:
        self.have(*(ReportLoad(node, load) for node, load in loads.items()))

    def is_hungry(self) -> None:
        self.state.queue.hungry.set()
        self.pass_time()

    def hears(self, message: Steal | Stolen) -> None:
        self.mover.on_message(message)
        self.pass_time()

    def claims(self, *tasks: str, shelf: Shelf = Shelf.SHARED) -> None:
        """These tasks, the first most urgent, come into the ready queue."""
        self.hold(*(a_task(task) for task in tasks))
        for priority, task in enumerate(tasks):
            self.state.queue.put(a_queue_entry(task, float(priority), shelf=shelf))

    def stolen(self) -> dict[str, list[str]]:
        return {op.node: [entry.task for entry in op.entries] for op in self.asked(Enqueue)}


def test_a_node_with_work_looks_at_nobody() -> None:
    place = Place()
    place.loaded(n1=5.0)

    place.pass_time(1000.0)

    assert place.store.calls == []


def test_a_hungry_node_asks_the_most_loaded_neighbour() -> None:
    place = Place()
    place.loaded(n1=3.0, n2=5.0)

    place.is_hungry()

    assert place.sent(Steal) == [("n2", Steal("n0", 1))]


def test_what_is_only_queued_for_a_neighbour_cannot_be_stolen_from_it() -> None:
    place = Place()
    place.loaded(n1=1.0)
    place.have(Enqueue("n2", (a_queue_entry("x", seconds=100.0),)))

    place.is_hungry()

    assert place.sent(Steal) == [("n1", Steal("n0", 1))]


def test_the_dead_are_not_asked() -> None:
    place = Place()
    place.loaded(n1=3.0)
    place.join("n1", lease_seconds=-1.0)

    place.is_hungry()

    assert place.asked(Probe)
    assert place.sent(Steal) == []


def test_after_each_failure_a_thief_waits_twice_as_long_and_then_stops() -> None:
    place = Place(poll_seconds_min=1.0, poll_seconds_max=8.0)
    place.is_hungry()

    asked = []
    for _ in range(10):
        asked.append(len(place.asked(Probe)) // 2)
        place.pass_time(1.0)
    place.pass_time(10_000.0)

    assert asked == [1, 2, 2, 3, 3, 3, 3, 3, 3, 3]  # after 0, 1 and 3 seconds; 8 is the bound
    assert len(place.asked(Probe)) // 2 == 3


def test_a_victim_without_tasks_is_a_failure() -> None:
    place = Place(poll_seconds_min=1.0)
    place.loaded(n1=3.0)
    place.is_hungry()

    place.hears(Stolen(1, 0))
    place.pass_time(0.9)
    assert len(place.sent(Steal)) == 1
    place.pass_time(0.2)

    assert len(place.sent(Steal)) == 2


def test_a_lost_message_costs_one_poll() -> None:
    place = Place(poll_seconds_min=1.0, answer_seconds=5.0)
    place.loaded(n1=3.0)
    place.is_hungry()

    place.pass_time(5.9)
    assert len(place.sent(Steal)) == 1
    place.pass_time(0.2)

    assert len(place.sent(Steal)) == 2


def test_the_answer_to_an_earlier_message_is_not_taken_for_this_one() -> None:
    place = Place(poll_seconds_min=1.0, poll_seconds_max=3.0, answer_seconds=5.0)
    place.loaded(n1=3.0)
    place.is_hungry()
    place.pass_time(6.1)  # the first was not answered

    place.hears(Stolen(1, 4))
    place.pass_time(100.0)

    assert len(place.sent(Steal)) == 2  # the second failed as well, and 4 s is above the bound


def test_a_success_sets_the_poll_back() -> None:
    place = Place(poll_seconds_min=1.0, poll_seconds_max=8.0, answer_seconds=0.5)
    place.is_hungry()
    place.pass_time(2.9)  # polls of 1 and 2 s have failed
    place.loaded(n1=3.0)
    place.pass_time(0.1)

    place.hears(Stolen(1, 1))
    place.loaded(n1=0.0)
    place.log.clear()
    place.pass_time(0.5)  # the tasks do not come: it goes on, after 0.5, 1.5 and 3.5 s
    asked = []
    for _ in range(4):
        asked.append(len(place.asked(Probe)) // 2)
        place.pass_time(1.0)

    assert asked == [1, 2, 2, 3]


def test_stolen_tasks_are_waited_for() -> None:
    place = Place(poll_seconds_min=0.001, answer_seconds=1.0)
    place.loaded(n1=3.0)
    place.is_hungry()

    place.hears(Stolen(1, 1))
    place.pass_time(0.9)

    assert len(place.sent(Steal)) == 1


def test_a_node_that_drains_steals_nothing() -> None:
    place = Place()
    place.is_hungry()

    place.state.drain()
    place.loaded(n1=3.0)
    place.pass_time(10.0)

    assert place.sent(Steal) == []


# --- the victim ----------------------------------------------------------------------------------


def test_half_of_the_tasks_the_least_urgent_go_to_the_thief() -> None:
    place = Place()
    place.claims("a", "b", "c", "d")

    place.hears(Steal("n1", 7))

    assert place.stolen() == {"n1": ["d", "c"]}
    assert place.network.sent == [("n1", WorkQueued()), ("n1", Stolen(7, 2))]
    assert place.told(WorkGiven)[0].tasks == ("d", "c")
    assert {event.occasion for event in place.told(TaskPlaced)} == {Occasion.STOLEN}


def test_what_is_stolen_has_left_and_may_be_stolen_again() -> None:
    place = Place()
    place.claims("a", "b")

    place.hears(Steal("n1", 1))

    assert "b" not in place.state.queue
    (let_go,) = [op for op in place.state.outbox.take() if isinstance(op, LetGo)]
    assert [task for task, _ in let_go.tasks] == ["b"]
    assert [entry.shelf for entry in place.asked(Enqueue)[0].entries] == [Shelf.SHARED]


def test_a_single_task_is_stolen_too() -> None:
    place = Place()
    place.claims("a")

    place.hears(Steal("n1", 1))

    assert place.stolen() == {"n1": ["a"]}


def test_tasks_that_only_this_node_may_run_are_not_stolen() -> None:
    place = Place()
    place.claims("a", "b", shelf=Shelf.KEPT)

    place.hears(Steal("n1", 1))

    assert place.stolen() == {}
    assert place.sent(Stolen) == [("n1", Stolen(1, 0))]


def test_thieves_are_answered_one_after_the_other() -> None:
    place = Place()
    place.claims("a", "b", "c", "d")
    place.mover.on_message(Steal("n2", 1))

    place.hears(Steal("n1", 1))

    assert place.stolen() == {"n2": ["d", "c"], "n1": ["b"]}


def test_a_thief_that_asks_twice_before_it_is_answered_is_answered_once() -> None:
    place = Place()
    place.claims("a", "b", "c", "d")
    place.mover.on_message(Steal("n1", 1))

    place.hears(Steal("n1", 2))

    assert place.sent(Stolen) == [("n1", Stolen(2, 2))]
    assert place.mover.loose_ends() == {"thieves without an answer": 0}


def test_a_thief_that_waits_for_its_answer_is_a_loose_end() -> None:
    place = Place()
    place.claims("a")
    place.store.answers.clear()

    place.hears(Steal("n1", 1))
    place.hears(Steal("n2", 1))

    assert place.mover.loose_ends() == {"thieves without an answer": 1}


def test_a_theft_changes_the_load_that_others_are_told_of() -> None:
    place = Place()
    place.claims("a", "b", "c", "d")
    assert ReportLoad("n0", 4.0) in place.state.outbox.take()

    place.hears(Steal("n1", 1))

    assert ReportLoad("n0", 2.0) in place.state.outbox.take()
