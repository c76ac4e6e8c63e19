"""The placer: entries are in a node's queue before that node is told to look."""

import pytest

from dataward.model.answers import Standing
from dataward.model.events import Occasion, TaskPlaced
from dataward.model.messages import WorkQueued
from dataward.model.operations import (
    Begin,
    Copy,
    Delivered,
    Enqueue,
    Join,
    LetGo,
    Look,
    Release,
    Submit,
)
from dataward.model.states import TaskState
from node.fake_world import FakeWorld, a_queue_entry, a_task


def ready(task: str, preferred: str = "n1", **fields: object) -> Standing:
    plain = {"priority": 1.0, "seconds": 1.0, "spread": 0.0, **fields}
    return Standing(task, TaskState.READY, 0, preferred, **plain)  # type: ignore[arg-type]


def test_tasks_are_queued_in_one_call_and_each_node_is_told_once() -> None:
    world = FakeWorld()
    tasks = [ready("a", "n1"), ready("b", "n2"), ready("c", "n1")]

    world.do(world.placer.place(tasks, Occasion.READY))

    assert world.store.calls == [
        [
            Enqueue("n1", (a_queue_entry("a"), a_queue_entry("c"))),
            Enqueue("n2", (a_queue_entry("b"),)),
        ]
    ]
    assert world.network.sent == [("n1", WorkQueued()), ("n2", WorkQueued())]


def test_an_entry_says_how_urgent_and_how_long_a_task_is_and_which_completion_it_is_for() -> None:
    world = FakeWorld()
    task = Standing("t", TaskState.READY, 4, "n1", priority=0.5, seconds=9.0, spread=0.5)

    world.do(world.placer.place([task], Occasion.READY))

    entry = a_queue_entry("t", 0.5, seconds=9.0, generation=5, spread=0.5)
    assert world.asked(Enqueue) == [Enqueue("n1", (entry,))]


@pytest.mark.parametrize("occasion", [Occasion.ORPHANED, Occasion.REOPENED, Occasion.NO_ROOM])
def test_a_task_that_is_not_queued_as_planned_is_displaced(occasion: Occasion) -> None:
    world = FakeWorld()

    world.do(world.placer.place([ready("t")], occasion))

    assert [entry.displaced for op in world.asked(Enqueue) for entry in op.entries] == [True]


def test_nobody_is_told_to_look_before_the_store_has_the_entries() -> None:
    world = FakeWorld()
    world.store.answers.clear()

    placing = world.start(world.placer.place([ready("t")], Occasion.READY))

    assert world.network.sent == []
    assert world.told(TaskPlaced) == []
    world.store.answers.set()
    world.pass_time()
    assert placing.done()
    assert world.network.sent == [("n1", WorkQueued())]


def test_a_task_named_twice_is_queued_once_as_it_stood_last() -> None:
    world = FakeWorld()

    world.do(world.placer.place([ready("t", "n1"), ready("t", "n2")], Occasion.READY))

    assert world.asked(Enqueue) == [Enqueue("n2", (a_queue_entry("t"),))]


def test_with_nothing_to_place_the_store_is_not_asked() -> None:
    world = FakeWorld()

    world.do(world.placer.place([], Occasion.ORPHANED))
    world.do(world.placer.place_for_good([], Occasion.ORPHANED))
    world.do(world.placer.send({}, Occasion.GIVEN))

    assert world.store.calls == []


def test_what_was_weighed_is_told() -> None:
    world = FakeWorld(nodes=3)
    world.have(Join("n1", 1, 1e9))
    lost = ready("t", "n2", input_copies=(Copy("f", "n1"),))

    world.do(world.placer.place([lost], Occasion.ORPHANED))

    (placed,) = world.told(TaskPlaced)
    assert placed.occasion is Occasion.ORPHANED
    assert dict(placed.candidates) == {"n0": 0.0, "n1": 0.0}


def test_what_is_sent_without_asking_has_no_candidates() -> None:
    world = FakeWorld()

    world.do(world.placer.send({"n1": [a_queue_entry("t")]}, Occasion.GIVEN))

    assert world.told(TaskPlaced) == [TaskPlaced(0.0, "t", "n1", Occasion.GIVEN)]
    assert world.network.sent == [("n1", WorkQueued())]


def test_what_is_placed_for_good_is_queued_first_and_then_off_the_stores_mind() -> None:
    world = FakeWorld()
    task = ready("t", placement=3)

    world.do(world.placer.place_for_good([task], Occasion.READY))

    assert [type(op) for op in world.log] == [Enqueue, Delivered]
    assert world.asked(Delivered) == [Delivered("t", 0, 3)]


def test_what_is_only_placed_stays_on_the_stores_mind() -> None:
    world = FakeWorld()

    world.do(world.placer.place([ready("t")], Occasion.READY))

    assert not world.asked(Delivered)


def test_a_task_that_nobody_may_have_is_queued_again_for_good() -> None:
    world = FakeWorld()
    world.have(
        Submit(a_task("t", preferred="n2")),
        Begin("t", "n1.1.1", "n1"), Release("t", "n1.1.1"),
    )  # fmt: skip

    world.do(world.placer.place_again("t"))

    assert world.queue_of("n2") == ["t"]
    assert world.asked(Delivered) == [Delivered("t", 0, 1)]


def test_a_task_that_somebody_has_begun_meanwhile_is_not_queued_again() -> None:
    world = FakeWorld()
    world.have(Submit(a_task("t")), Begin("t", "n1.1.1", "n1"))

    world.do(world.placer.place_again("t"))

    assert world.log == [Look("t")]


def test_nodes_to_avoid_get_nothing() -> None:
    world = FakeWorld()
    for node in ("n1", "n2"):
        world.have(Join(node, 1, 1e9))

    world.do(world.placer.place_for_good([ready("t", "n1")], Occasion.REOPENED, {"n1"}))

    (enqueue,) = world.asked(Enqueue)
    assert enqueue.node != "n1"


# --- a node that is dead -------------------------------------------------------------------------


def with_a_dead_node(*, shuns_dead: bool) -> FakeWorld:
    """n1's lease has run out, and nobody has taken over its tasks yet; n0 and n2 are up."""
    world = FakeWorld(shuns_dead=shuns_dead)
    world.have(Join("n0", 1, 1e9), Join("n1", 7, 5.0), Join("n2", 1, 1e9))
    world.have(Enqueue("n1", (a_queue_entry("old"),)))
    world.pass_time(6.0)
    return world


def test_what_becomes_ready_does_not_wait_at_a_dead_node() -> None:
    world = with_a_dead_node(shuns_dead=True)

    world.do(world.placer.place([ready("t", "n1"), ready("u", "n2")], Occasion.READY))

    assert world.queue_of("n1") == ["old"]
    assert [*world.queue_of("n0"), *world.queue_of("n2")].count("t") == 1
    assert "u" in world.queue_of("n2")
    moved = [placed for placed in world.told(TaskPlaced) if placed.task == "t"]
    assert [placed.occasion for placed in moved] == [Occasion.READY, Occasion.ORPHANED]


def test_it_is_in_a_living_nodes_queue_before_it_leaves_the_dead_ones() -> None:
    world = with_a_dead_node(shuns_dead=True)

    world.do(world.placer.place([ready("t", "n1")], Occasion.READY))

    told = [op for op in world.log if isinstance(op, Enqueue | LetGo)]
    assert [type(op) for op in told] == [Enqueue, Enqueue, LetGo]
    assert told[-1] == LetGo("n1", 7, (("t", -1),))


def test_if_all_others_are_dead_it_waits_for_a_patrol() -> None:
    world = FakeWorld(nodes=2, shuns_dead=True)
    world.have(Join("n1", 7, 5.0))
    world.pass_time(6.0)
    world.world.nodes.become(["n1"])  # this node leaves

    world.do(world.placer.place([ready("t", "n1")], Occasion.READY))

    assert world.queue_of("n1") == ["t"]
    assert not world.asked(LetGo)


@pytest.mark.parametrize("joined", [True, False])
def test_other_strategies_and_nodes_that_have_not_joined_get_it_all_the_same(joined: bool) -> None:
    world = with_a_dead_node(shuns_dead=False) if joined else FakeWorld(shuns_dead=True)

    world.do(world.placer.place([ready("t", "n1")], Occasion.READY))

    assert "t" in world.queue_of("n1")
