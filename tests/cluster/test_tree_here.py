"""The deadline tree at hosts of one process: when it is awake, and who is in it."""

import asyncio
from collections.abc import Callable

import pytest

from bench.tree_promises import OneProcess
from dataward.cluster.promise_asking import PromiseAsking, whole_workflow
from dataward.cluster.tree_addresses import address_of
from dataward.cluster.tree_here import AWAKE_SECONDS, TreeHere
from dataward.deadlines.frames import outline_of
from dataward.deadlines.reservations import WantedBytes
from dataward.live.promised_slots import PromisedSlots
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.members import Member
from dataward.model.workflow import Workflow


class Clock:
    """The time that hosts share; it goes on by itself, and can be moved."""

    def __init__(self) -> None:
        self.ahead = 1e6

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


def in_a_tree(hosts: int, work: Callable[[OneProcess, Clock], object]) -> None:
    """Have so many hosts of two slots each, and work with them."""

    async def live() -> None:
        clock, client = Clock(), OneProcess()
        members = [Member(NodeId(f"n{i}"), "", 2, 0, 1) for i in range(hosts)]
        for member in members:
            slots = PromisedSlots(2, clock, place=address_of(member.node, 0), bytes_per_second=1e6)
            tree = TreeHere(member.node, slots, list, client, lambda: None)
            client.trees[member.node] = tree
        for tree in client.trees.values():
            tree.follow(members)
        living = [asyncio.create_task(tree.live()) for tree in client.trees.values()]
        try:
            await work(client, clock)  # type: ignore[misc]
        finally:
            for task in living:
                task.cancel()
            for tree in client.trees.values():
                await tree.close()

    asyncio.run(live())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(300.0):
        while not is_so():
            await asyncio.sleep(0)


def test_hosts_say_nothing_until_somebody_wants_a_promise_and_soon_after() -> None:
    async def work(client: OneProcess, clock: Clock) -> None:
        trees = list(client.trees.values())
        assert not any(tree.is_awake for tree in trees)
        assert client.sent == 0

        trees[0].wake()
        await until(
            lambda: all(p.place.link is not None for tree in trees for p in tree.peers.values())
        )
        assert all(tree.is_awake for tree in trees)

        clock.ahead += AWAKE_SECONDS + 1.0
        await until(lambda: not any(tree.is_awake for tree in trees))
        sent = client.sent
        for tree in trees:
            assert not any(peer.place.groups or peer.place.link for peer in tree.peers.values())
        clock.ahead += 1000.0
        for _ in range(100):
            await asyncio.sleep(0)
        assert client.sent == sent

    in_a_tree(3, work)


def test_a_host_that_leaves_is_asked_for_nothing() -> None:
    outline = outline_of(_bag(6))

    async def work(client: OneProcess, clock: Clock) -> None:
        leaving = client.trees[NodeId("n1")]
        asking = PromiseAsking(client.trees[NodeId("n0")])
        first = await asking.ask(whole_workflow(outline, clock(), clock() + 120.0), {})
        assert first is not None
        assert {one.node for one in first.tasks.values()} == {"n0", "n1", "n2"}

        await leaving.leave()
        gone = [Member(NodeId(f"n{i}"), "", 2, 0, 1, draining=i == 1) for i in range(3)]
        for tree in client.trees.values():
            tree.follow(gone)
        second = await asking.ask(whole_workflow(outline, clock(), clock() + 400.0), {})

        assert second is not None
        assert {one.node for one in second.tasks.values()} <= {"n0", "n2"}
        assert not leaving.is_awake or not any(p.place.groups for p in leaving.peers.values())

    in_a_tree(3, work)


@pytest.mark.parametrize("holder", ["n0", "n1", "n2"])
def test_the_host_that_has_the_data_wins_and_elsewhere_it_takes_longer(holder: str) -> None:
    outline = outline_of(_bag(1))
    held = WantedBytes(20e6, [(address_of(NodeId(holder), 0), 20e6)])

    async def work(client: OneProcess, clock: Clock) -> None:
        asking = PromiseAsking(client.trees[NodeId("n0")])
        nodes, seconds = [], []
        for _ in range(3):  # the holder has two slots, and either serves only one
            found = await asking.ask(whole_workflow(outline, clock(), clock() + 90.0), {0: held})
            assert found is not None
            nodes.append(found.tasks[0].node)
            seconds.append(round(found.tasks[0].seconds))

        assert nodes[:2] == [holder, holder]
        assert nodes[2] != holder
        assert seconds == [50, 50, 70]

    in_a_tree(3, work)


def test_what_was_only_tried_is_given_back() -> None:
    outline = outline_of(_bag(8))

    async def work(client: OneProcess, clock: Clock) -> None:
        asking = PromiseAsking(client.trees[NodeId("n0")])
        question = whole_workflow(outline, clock(), clock() + 30.0)
        assert await asking.ask(question, {}) is None
        seconds, found = await asking.earliest(question, {})
        assert found is not None
        assert seconds == pytest.approx(found.finish - clock(), abs=5.0)

        asking.withdraw(found)
        peers = [peer for tree in client.trees.values() for peer in tree.peers.values()]
        await until(lambda: not any(peer.role.queue for peer in peers))

    in_a_tree(2, work)


def _bag(count: int) -> Workflow:
    builder = WorkflowBuilder()
    for number in range(count):
        builder.task(f"t{number}", runtime_seconds=50.0)
    return builder.build()
