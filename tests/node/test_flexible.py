"""Tasks that only this node may run are shared when they would wait for longer than tt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.messages import Steal
from dataward.model.operations import Probe, ReportLoad, Shelf
from dataward.node.flexible import TT_SECONDS_MIN, FlexibleStealing, TimeThreshold, tasks_to_share
from dataward.node.ready_queue import LoadMeasure, TakeOrder
from dataward.node.state import NodeState
from node.fake_world import FakeWorld, a_queue_entry, a_task

# --- how many ------------------------------------------------------------------------------------


def test_the_papers_example_shares_2000_of_5000() -> None:
    assert tasks_to_share(5000, 1000, 10.0, tt_seconds=30.0) == 2000


def test_up_to_tt_nothing_is_shared() -> None:
    assert tasks_to_share(3000, 1000, 10.0, tt_seconds=30.0) == 0


@given(
    st.integers(1, 10_000), st.integers(1, 1000), st.floats(0.001, 1e4), st.floats(0.001, 1000.0)
)
def test_what_is_left_takes_no_longer_than_tt_and_one_task(
    kept: int, done: int, seconds: float, tt_seconds: float
) -> None:
    shared = tasks_to_share(kept, done, seconds, tt_seconds)

    assert 0 <= shared <= kept
    assert (kept - shared - 1) * seconds / done <= tt_seconds * (1 + 1e-9)


# --- tt ------------------------------------------------------------------------------------------


def test_tt_doubles_and_halves_and_is_small_from_some_point_on() -> None:
    tt = TimeThreshold(FakeWorld().parts, FlexibleStealing(tt_seconds=10.0, tt_seconds_small=3.0))

    tt.double()
    assert tt.seconds == 20.0
    for _ in range(2):
        tt.halve()
        assert not tt.is_small.is_set()
    tt.halve()
    assert tt.seconds == 2.5
    assert tt.is_small.is_set()
    tt.double()
    assert not tt.is_small.is_set()


def test_tt_never_reaches_zero() -> None:
    tt = TimeThreshold(FakeWorld().parts, FlexibleStealing())

    for _ in range(100):
        tt.halve()

    assert tt.seconds == TT_SECONDS_MIN


def test_a_tt_that_is_small_from_the_start_is_known_to_be() -> None:
    assert TimeThreshold(FakeWorld().parts, FlexibleStealing(tt_seconds=0.5)).is_small.is_set()


@pytest.mark.parametrize("name", ["poll_seconds_min", "look_seconds"])
def test_a_node_that_would_never_rest_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} 0 would never rest"):
        FlexibleStealing(**{name: 0.0})


# --- sharing -------------------------------------------------------------------------------------


class Place(FakeWorld):
    """Node n0, whose mover runs, with n1 up."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nodes=2)
        self.state = NodeState(
            self.world, self.settings, TakeOrder.KEPT_FIRST, LoadMeasure.SHARED_TASKS
        )
        self.join("n0")
        self.join("n1")
        mover = FlexibleStealing(**{"neighbours": 2, "look_seconds": 1.0, **settings})
        for loop in mover.at(self.parts).loops():
            self.start(loop)

    def keeps(self, *tasks: str) -> None:
        """These tasks, the first most urgent, come into the ready queue, for this node only."""
        self.hold(*(a_task(task) for task in tasks))
        for priority, task in enumerate(tasks):
            self.state.queue.put(a_queue_entry(task, float(priority), shelf=Shelf.KEPT))
        self.pass_time()

    def ran(self, tasks: int) -> None:
        for _ in range(tasks):
            self.state.learned.ran(0.1)


def test_a_node_that_keeps_nothing_does_not_look() -> None:
    place = Place()
    step = place.kernel.step

    place.pass_time(1000.0)

    assert not step()


def test_the_least_urgent_of_too_many_tasks_are_shared() -> None:
    place = Place(tt_seconds=2.0)
    place.keeps("a", "b", "c", "d")

    place.ran(1)
    place.pass_time(1.0)  # one a second: four take 4 s, twice as long as tt

    assert place.state.queue.kept == 2
    assert [entry.task for entry in place.state.queue.least_urgent(9)] == ["d", "c"]


def test_others_are_told_that_there_is_something_to_steal() -> None:
    place = Place(tt_seconds=2.0)
    place.keeps("a", "b", "c", "d")
    due = place.start(place.state.outbox.due())
    place.pass_time(0.9)
    assert not due.done()

    place.pass_time(0.2)

    assert due.done()
    assert place.state.outbox.take() == [ReportLoad("n0", 2.0)]


def test_after_sharing_tt_is_doubled() -> None:
    place = Place(tt_seconds=2.0)
    place.keeps("a", "b", "c", "d", "e", "f", "g", "h")

    place.ran(1)
    place.pass_time(1.0)  # 8 s are above 2: three quarters are shared
    assert place.state.queue.kept == 2
    place.pass_time(1.0)  # one in 2 s: 4 s are not above 4
    assert place.state.queue.kept == 2
    place.pass_time(1.0)  # one in 3 s: 6 s are above 4: a third would be 0.67 of a task
    place.pass_time(1.0)  # one in 4 s: 8 s are above 4

    assert place.state.queue.kept == 1


def test_tasks_under_way_count_as_done() -> None:
    place = Place(tt_seconds=2.0)
    place.state.attempts.begin(a_queue_entry("x"), place.kernel.spawn(place.wait_for_ever()))
    place.state.attempts.begin(a_queue_entry("y"), place.kernel.spawn(place.wait_for_ever()))
    place.keeps("a", "b", "c", "d")

    place.pass_time(1.0)  # two a second at best: four take 2 s
    assert place.state.queue.kept == 4
    place.pass_time(1.0)

    assert place.state.queue.kept == 2


def test_a_node_whose_policy_forbids_it_shares_nothing() -> None:
    place = Place(tt_seconds=2.0)
    place.state.learned.tolerate(0.0, may_share=False)
    place.keeps("a", "b", "c", "d")

    place.pass_time(100.0)

    assert place.state.queue.kept == 4


def test_the_rate_is_that_since_the_first_kept_task_came() -> None:
    place = Place(tt_seconds=2.0)
    place.ran(1000)
    place.pass_time(1000.0)

    place.keeps("a", "b", "c", "d")
    place.ran(1)
    place.pass_time(1.0)  # one a second, not a thousand and one

    assert place.state.queue.kept == 2


# --- going on stealing ---------------------------------------------------------------------------


def polls(place: Place, seconds: int) -> list[int]:
    """How often neighbours had been looked at after each second."""
    place.state.queue.hungry.set()
    seen = []
    for _ in range(seconds):
        place.pass_time(1.0)
        seen.append(len(place.asked(Probe)))
    return seen


def test_a_failure_halves_tt_until_a_stopped_thief_goes_on() -> None:
    place = Place(poll_seconds_min=1.0, poll_seconds_max=8.0, tt_seconds=7.0, tt_seconds_small=1.0)

    # After 0, 1 and 3 s; at 7 s it has stopped, with a tt below 1, and begins again.
    assert polls(place, 12) == [2, 2, 3, 3, 3, 3, 4, 5, 5, 6, 6, 6]


def test_a_thief_that_stopped_with_a_large_tt_stays_stopped() -> None:
    place = Place(poll_seconds_min=1.0, poll_seconds_max=8.0, tt_seconds=9.0, tt_seconds_small=1.0)

    assert polls(place, 30)[-1] == 3


def test_a_thief_that_has_stopped_goes_on_when_tt_has_become_small() -> None:
    world = FakeWorld(nodes=2)
    world.join("n1")
    world.have(ReportLoad("n1", 1.0))
    settings = FlexibleStealing(neighbours=2, poll_seconds_max=0.001, answer_seconds=0.1)
    tt = TimeThreshold(world.parts, settings)
    world.state.queue.hungry.set()
    world.start(settings.thief(world.parts, lambda: None, tt.is_small).run())
    world.pass_time(100.0)
    assert len(world.sent(Steal)) == 1

    for _ in range(4):
        tt.halve()
    world.pass_time(0.05)

    assert len(world.sent(Steal)) == 2
