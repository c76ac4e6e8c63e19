"""What a node holds, and how it lets all of it go when its lease is lost."""

from dataward.model.operations import LetGo, OutputFile
from node.fake_world import FakeWorld, a_queue_entry, a_task


def attempt(world: FakeWorld, task: str) -> None:
    """An attempt that waits until it is cancelled."""

    async def wait() -> None:
        try:
            await world.kernel.flag().wait()
        finally:
            world.state.attempts.end(task)

    world.state.attempts.begin(a_queue_entry(task), world.kernel.spawn(wait()))
    world.pass_time()


def busy() -> FakeWorld:
    """A node with a task that waits, one that runs, a commit and a failure on their way."""
    world = FakeWorld()
    world.hold(a_task("waits"), a_task("runs"), a_task("done"), a_task("failed"))
    world.state.queue.put(a_queue_entry("waits"))
    attempt(world, "runs")
    outbox = world.state.outbox
    outbox.commit("done", "n0.1.1", 1, (OutputFile("f", 10),), awaited=True)
    outbox.fail("failed", "n0.1.2", "it broke")
    outbox.let_go("waits")
    return world


def test_a_node_knows_what_waits_runs_or_is_on_its_way_to_the_store() -> None:
    state = busy().state

    known = [task for task in ("waits", "runs", "done", "failed", "other") if state.knows(task)]

    assert known == ["waits", "runs", "done", "failed"]


def test_a_node_is_idle_when_nothing_runs_and_nothing_is_on_its_way() -> None:
    world = FakeWorld()
    state = world.state
    state.queue.put(a_queue_entry("waits"))
    assert state.is_idle

    attempt(world, "runs")
    assert not state.is_idle
    state.attempts.cancel_all()
    world.pass_time()
    assert state.is_idle
    state.outbox.fail("failed", "n0.1.2", "it broke")
    assert not state.is_idle
    state.outbox.arrived("n0.1.2")

    assert state.is_idle


def test_a_lost_lease_leaves_nothing_running_waiting_or_to_be_said() -> None:
    world = busy()

    world.state.lose_lease(1)
    world.pass_time()

    assert not world.state.attempts
    assert not world.state.queue
    assert not world.state.outbox.is_busy
    assert world.state.outbox.take() == []
    assert not world.state.identity.holdings


def test_a_node_that_lost_its_lease_goes_on_as_the_next_incarnation_which_has_not_joined() -> None:
    state = busy().state

    state.lose_lease(1)

    assert state.identity.incarnation == 2
    assert not state.identity.joined
    assert state.lease_lost.is_set()


def test_the_commits_on_their_way_are_handed_over_once_when_the_lease_is_lost() -> None:
    state = busy().state

    state.lose_lease(1)

    assert [commit.task for commit in state.take_abandoned()] == ["done"]
    assert state.take_abandoned() == []


def test_commits_abandoned_by_two_incarnations_are_all_handed_over() -> None:
    state = busy().state
    state.lose_lease(1)
    state.identity.joined = True
    state.outbox.commit("more", "n0.2.3", 1, (), awaited=True)

    state.lose_lease(2)

    assert [commit.task for commit in state.take_abandoned()] == ["done", "more"]


def test_a_lease_that_an_earlier_incarnation_lost_is_not_lost_again() -> None:
    state = busy().state
    state.lose_lease(1)
    state.identity.joined = True
    state.lease_lost.clear()
    state.queue.put(a_queue_entry("new"))

    state.lose_lease(1)

    assert state.identity.incarnation == 2
    assert "new" in state.queue
    assert not state.lease_lost.is_set()


def test_one_that_has_not_joined_has_no_lease_to_lose() -> None:
    world = FakeWorld()

    world.state.lose_lease(1)

    assert world.state.identity.incarnation == 1
    assert not world.state.lease_lost.is_set()


def test_a_draining_node_cancels_what_has_not_started_and_lets_the_rest_end() -> None:
    world = FakeWorld()
    for task in ("runs", "stages"):
        attempt(world, task)
    world.state.attempts.start("runs")
    assert not world.state.is_draining

    world.state.drain()
    world.pass_time()

    assert world.state.is_draining
    assert "runs" in world.state.attempts
    assert "stages" not in world.state.attempts


def test_an_attempt_that_a_drain_cancels_before_its_first_turn_lets_go_of_its_task() -> None:
    world = FakeWorld()
    world.hold(a_task())
    fiber = world.kernel.spawn(world.wait_for_ever())
    world.state.attempts.begin(a_queue_entry(), fiber)

    world.state.drain()

    assert not world.state.identity.holdings
    assert [type(op) for op in world.state.outbox.take()] == [LetGo]
