"""What the trees of small clusters promise, under a virtual clock."""

import asyncio
from collections.abc import Callable, Sequence
from math import inf

import pytest

from bench.tree_promises import (
    APPLICATIONS,
    OneProcess,
    VirtualLoop,
    central_seconds,
    first_accepted,
    in_a_tree,
    refused,
    reserved_outline,
)
from dataward import generate
from dataward.cluster.promise_asking import PromiseAsking, whole_workflow
from dataward.deadlines.frames import outline_of
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.members import Member
from dataward.model.workflow import Workflow


@pytest.mark.parametrize("hosts", [[1], [2], [1, 1]], ids=str)
def test_a_wide_stage_is_promised_on_few_slots(hosts: Sequence[int]) -> None:
    outline = reserved_outline(generate("montage", 60, seed=0))
    assert max(map(len, outline.stages)) == 28  # sequences that are asked for in one stage

    async def work(client: OneProcess, clock: Callable[[], float]) -> None:
        asking, began = PromiseAsking(client.trees[NodeId("n0")]), clock()
        promised = await asking.ask(whole_workflow(outline, began, began + 1200.0), {})

        assert promised is not None
        assert sorted(promised.tasks) == list(range(60))
        assert promised.finish <= began + 1200.0
        for tree in client.trees.values():
            for peer in tree.peers.values():
                peer.role.check_invariants(began)

    in_a_tree(hosts, work)


def test_tasks_of_two_cores_are_promised_in_two_slots_of_one_host() -> None:
    outline = outline_of(a_bag(3, cores=2))

    async def work(client: OneProcess, clock: Callable[[], float]) -> None:
        asking = PromiseAsking(client.trees[NodeId("n0")])
        peers = [peer for tree in client.trees.values() for peer in tree.peers.values()]
        found = await asking.ask(whole_workflow(outline, clock(), clock() + 130.0), {})

        assert found is not None
        assert {one.node for one in found.tasks.values()} == {"n0", "n1"}
        assert all(sorted((one.slot, *one.beside)) == [0, 1] for one in found.tasks.values())
        assert sum(len(peer.role.queue) for peer in peers) == 6
        for peer in peers:
            peer.role.check_invariants(clock())
        assert await asking.ask(whole_workflow(outline, clock(), clock() + 130.0), {}) is None
        asking.withdraw(found)
        await asyncio.sleep(5.0)
        assert not any(peer.role.queue or peer.role.lent for peer in peers)

    in_a_tree([2, 2, 1], work)


def test_a_task_of_more_cores_than_any_host_has_is_never_promised() -> None:
    outline = outline_of(a_bag(1, cores=3))

    async def work(client: OneProcess, clock: Callable[[], float]) -> None:
        asking = PromiseAsking(client.trees[NodeId("n0")])
        question = whole_workflow(outline, clock(), clock() + 1000.0)

        assert await asking.ask(question, {}) is None
        assert await asking.earliest(question, {}) == (inf, None)

    in_a_tree([2, 2], work)


def a_bag(count: int, cores: int) -> Workflow:
    builder = WorkflowBuilder()
    for number in range(count):
        builder.task(f"t{number}", runtime_seconds=50.0, cores=cores)
    return builder.build()


@pytest.mark.parametrize("hosts", [[1], [2], [1, 1], [3], [2, 2]], ids=str)
@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_tree_accepts_nearly_what_a_plan_with_all_schedules_at_hand_does(
    name: str, hosts: Sequence[int]
) -> None:
    outline = reserved_outline(generate(name, 60, seed=0))

    ratio = first_accepted(outline, hosts, central_seconds(outline, sum(hosts)))

    assert ratio <= 1.05


@pytest.mark.parametrize("hosts", [[1], [1, 1], [2, 2]], ids=str)
@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_refusal_is_quick_and_what_it_tells_is_accepted(name: str, hosts: Sequence[int]) -> None:
    outline = reserved_outline(generate(name, 40, seed=0))
    central = central_seconds(outline, sum(hosts))

    async def work(client: OneProcess, clock: Callable[[], float]) -> None:
        asking = PromiseAsking(client.trees[NodeId("n0")])
        for share in (0.01, 0.6):  # shorter than the critical path, or too short
            began = clock()
            finish = await refused(asking, clock, outline, share * central)
            assert clock() - began < 3.0
            assert finish < began + 1.3 * central

            await asyncio.sleep(0.5)
            again = await asking.ask(whole_workflow(outline, clock(), finish), {})
            assert again is not None
            assert again.finish <= finish
            asking.withdraw(again)

    in_a_tree(hosts, work)


def test_what_others_were_promised_counts_when_the_earliest_finish_is_told() -> None:
    outline = reserved_outline(generate("montage", 30, seed=0))
    central = central_seconds(outline, 2)

    async def work(client: OneProcess, clock: Callable[[], float]) -> None:
        asking = PromiseAsking(client.trees[NodeId("n0")])
        first = await asking.ask(whole_workflow(outline, clock(), clock() + 1.1 * central), {})
        assert first is not None

        finish = await refused(asking, clock, outline, 1.1 * central)
        assert finish > clock() + 1.3 * central
        second = await asking.ask(whole_workflow(outline, clock(), finish), {})
        assert second is not None

    in_a_tree([1, 1], work)


@pytest.mark.parametrize("stopped_seconds", [0.0, 3.0, 8.0])
@pytest.mark.parametrize("victim", ["n0", "n1"])
@pytest.mark.parametrize("hosts", [[1, 1], [1, 1, 1], [2, 2]], ids=str)
def test_hosts_that_were_stopped_when_one_was_lost_still_promise(
    hosts: Sequence[int], victim: str, stopped_seconds: float
) -> None:
    """They have heard nobody meanwhile, not even themselves."""
    outline = reserved_outline(generate("montage", 25, seed=0))

    async def work(client: OneProcess, clock: Callable[[], float]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        names = list(client.trees)
        asking = PromiseAsking(client.trees[names[0]])
        before = await asking.ask(whole_workflow(outline, clock(), clock() + 1200.0), {})
        assert before is not None
        asking.withdraw(before)
        await asyncio.sleep(5.0)

        client.lose(NodeId(victim))
        loop.jump(stopped_seconds)
        members = [
            Member(name, "", slots, 0, 1)
            for name, slots in zip(names, hosts, strict=True)
            if name != victim
        ]
        for tree in client.trees.values():
            tree.follow(members)
        await asyncio.sleep(4.0)
        loop.jump(stopped_seconds)  # once more, while the tree still heals
        began = clock()
        asking = PromiseAsking(client.trees[members[0].node])
        promised = await asking.ask(whole_workflow(outline, began, began + 2400.0), {})

        assert promised is not None
        assert clock() < began + 20.0
        assert victim not in {one.node for one in promised.tasks.values()}

    in_a_tree(hosts, work)
