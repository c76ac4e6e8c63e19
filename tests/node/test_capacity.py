"""Cores and memory: a task waits for both, and gives both back."""

from dataward.node.capacity import Capacity
from dataward.node.settings import Precedence
from node.fake_world import FakeWorld, a_task


def test_a_task_waits_until_there_are_cores_for_it() -> None:
    world = FakeWorld(cores=2)
    capacity = Capacity(world.world, world.settings)
    one, two = a_task("one"), a_task("two", cores=2)

    world.do(capacity.take(one))
    waiting = world.start(capacity.take(two))
    assert not waiting.done()
    capacity.give_back(one)
    world.pass_time()

    assert waiting.done()


def test_a_task_waits_until_there_is_memory_for_it() -> None:
    world = FakeWorld(cores=2)  # and 100 bytes
    capacity = Capacity(world.world, world.settings)
    small, big = a_task("small", memory_bytes=40), a_task("big", memory_bytes=61)

    world.do(capacity.take(small))
    waiting = world.start(capacity.take(big))
    assert not waiting.done()
    capacity.give_back(small)
    world.pass_time()

    assert waiting.done()


def test_a_task_that_asks_for_more_than_there_is_gets_all_of_it() -> None:
    world = FakeWorld(cores=2)
    capacity = Capacity(world.world, world.settings)
    huge, small = a_task("huge", cores=99, memory_bytes=10**6), a_task("small")

    world.do(capacity.take(huge))
    waiting = world.start(capacity.take(small))
    assert not waiting.done()
    capacity.give_back(huge)
    world.pass_time()

    assert waiting.done()
    capacity.give_back(small)
    world.do(capacity.take(huge))  # all of it is there again, and no more


def test_one_cancelled_while_it_waits_for_memory_gives_its_cores_back() -> None:
    world = FakeWorld(cores=2)
    capacity = Capacity(world.world, world.settings)
    holder = a_task("holder", memory_bytes=100)
    went_on = []

    async def run() -> None:
        await capacity.take(a_task("waits", memory_bytes=1))
        went_on.append("waits")

    world.do(capacity.take(holder))
    waiting = world.start(run())

    waiting.cancel()
    world.pass_time()

    assert went_on == []
    world.do(capacity.take(a_task("no memory needed")))
    capacity.give_back(holder)


def test_a_few_more_attempts_than_cores_may_be_under_way() -> None:
    world = FakeWorld(cores=4, staging_ahead=3)

    assert Capacity(world.world, world.settings).attempts_max == 7


def test_while_tasks_are_short_more_are_given_to_the_runner_than_there_are_cores() -> None:
    world = FakeWorld(cores=1, staging_ahead=1, lead_seconds=1.0)
    capacity = Capacity(world.world, world.settings)
    world.do(capacity.take(a_task("runs")))
    waiting = world.start(capacity.take(a_task("in line")))
    assert not waiting.done()

    capacity.learn(0.5)
    world.pass_time()

    assert waiting.done()
    assert capacity.attempts_max == 1 + 1 + 2
    capacity.learn(60.0)
    assert capacity.attempts_max == 1 + 1


def test_while_cores_are_idle_for_want_of_inputs_more_tasks_may_begin() -> None:
    world = FakeWorld(cores=2, staging_ahead=1, idle_staging=4)
    capacity = Capacity(world.world, world.settings)

    assert capacity.may_begin(under_way=2, staged=2)
    assert not capacity.may_begin(under_way=3, staged=2)
    assert capacity.may_begin(under_way=3, staged=1)
    assert capacity.may_begin(under_way=6, staged=0)
    assert not capacity.may_begin(under_way=7, staged=0)


def test_a_free_core_goes_to_the_most_urgent_task_if_that_is_set() -> None:
    world = FakeWorld(cores=1, precedence=Precedence.URGENCY)
    capacity = Capacity(world.world, world.settings)
    runs, later, sooner = a_task("runs"), a_task("later", priority=5.0), a_task("s", priority=2.0)
    world.do(capacity.take(runs))
    waiting = [world.start(capacity.take(later)), world.start(capacity.take(sooner))]

    capacity.give_back(runs)
    world.pass_time()

    assert [fiber.done() for fiber in waiting] == [False, True]
