"""Tasks that wait here go to other nodes, and are never with nobody."""

from hypothesis import given
from hypothesis import strategies as st

from dataward.model.events import Occasion, TaskPlaced
from dataward.model.operations import Enqueue, LetGo
from dataward.node.handing_over import half, hand_over, take_out
from dataward.node.identity import Holding
from node.fake_world import FakeWorld, a_queue_entry, a_task


def a_world(*tasks: str) -> FakeWorld:
    """Node n0 holds these tasks, which it has taken out of its queue."""
    world = FakeWorld()
    world.hold(*(a_task(task) for task in tasks))
    return world


def let_go(world: FakeWorld) -> list[str]:
    return [t for op in world.state.outbox.take() if isinstance(op, LetGo) for t, _ in op.tasks]


def test_tasks_are_queued_at_the_others_and_let_go_of_here() -> None:
    world = a_world("a", "b")
    by_node = {"n1": [a_queue_entry("a")], "n2": [a_queue_entry("b")]}

    world.do(hand_over(world.state, world.placer, by_node, Occasion.STOLEN))

    assert world.queue_of("n1") + world.queue_of("n2") == ["a", "b"]
    assert [event.occasion for event in world.told(TaskPlaced)] == [Occasion.STOLEN] * 2
    assert let_go(world) == ["a", "b"]


def test_nothing_is_let_go_of_before_it_is_queued() -> None:
    world = a_world("a")
    world.store.answers.clear()

    handing = hand_over(world.state, world.placer, {"n1": [a_queue_entry("a")]}, Occasion.STOLEN)
    fiber = world.start(handing)

    assert world.asked(Enqueue)
    assert not fiber.done()
    assert let_go(world) == []
    world.store.answers.set()
    world.pass_time()
    assert let_go(world) == ["a"]


def test_what_came_back_to_the_next_incarnation_is_not_let_go_of() -> None:
    world = a_world("a")
    world.store.answers.clear()
    handing = hand_over(world.state, world.placer, {"n1": [a_queue_entry("a")]}, Occasion.STOLEN)
    world.start(handing)
    world.state.lose_lease(1)
    world.state.identity.holdings["a"] = Holding(a_queue_entry("a"), 99)

    world.store.answers.set()
    world.pass_time()

    assert "a" in world.state.identity.holdings
    assert let_go(world) == []


def test_only_what_is_in_the_queue_is_taken_out() -> None:
    queue = FakeWorld().state.queue
    queue.put(a_queue_entry("a"))

    taken = take_out(queue, [a_queue_entry("a"), a_queue_entry("b")])

    assert [entry.task for entry in taken] == ["a"]
    assert len(queue) == 0


@given(st.integers(0, 1000))
def test_half_is_at_least_one_and_never_more_than_there_are(tasks: int) -> None:
    assert half(tasks) == (tasks // 2 if tasks > 1 else tasks)
