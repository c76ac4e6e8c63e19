"""What the trees of small clusters promise, under a virtual clock."""

from collections.abc import Callable, Sequence

import pytest

from bench.tree_promises import (
    APPLICATIONS,
    OneProcess,
    central_seconds,
    first_accepted,
    in_a_tree,
    reserved_outline,
)
from dataward import generate
from dataward.cluster.promise_asking import PromiseAsking, whole_workflow
from dataward.model.ids import NodeId


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


@pytest.mark.parametrize("hosts", [[1], [2], [1, 1], [3], [2, 2]], ids=str)
@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_tree_accepts_nearly_what_a_plan_with_all_schedules_at_hand_does(
    name: str, hosts: Sequence[int]
) -> None:
    outline = reserved_outline(generate(name, 60, seed=0))

    ratio = first_accepted(outline, hosts, central_seconds(outline, sum(hosts)))

    assert ratio <= 1.05
