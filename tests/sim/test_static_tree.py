"""The arrays of a million nodes decide as the peers of a small tree do."""

import numpy as np
import pytest

from dataward.deadlines.group import ChildRecord, HostedGroup
from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.reference_points import reference_points
from dataward.deadlines.reservations import WantedSlots
from dataward.deadlines.routing import chosen_child
from dataward.deadlines.search import NONE, serving_classes
from dataward.deadlines.summary import CLASSES, summary_of
from dataward.deadlines.tree_messages import BranchChild, HoleRequest, Stamp
from dataward.sim.static_tree import COUNT_MAX, HOLES_TOLD, StaticTree


@pytest.mark.parametrize("leaves", [1, 2, 3, 4, 5, 7, 10, 100, 1023, 1025])
def test_the_tree_is_balanced_and_complete(leaves: int) -> None:
    tree = StaticTree(leaves)
    parents = tree.leaf_parent.copy()
    depth = 1
    while (parents != tree.root).any():
        parents = tree.parent[parents]
        depth += 1

    assert depth == tree.levels == max(int(np.log2(leaves)), 1)
    assert tree.child_count.sum() == leaves + tree.routers - 1
    assert tree.parent[tree.root] == NONE
    assert leaves == 1 or tree.child_count.min() >= 2


@pytest.mark.parametrize("leaves", [2, 3, 5, 100, 1023])
def test_no_peer_plays_two_routing_roles(leaves: int) -> None:
    tree = StaticTree(leaves)

    assert len(set(tree.host.tolist())) == tree.routers


def a_filled_tree(leaves: int, seed: int) -> tuple[StaticTree, np.ndarray]:
    random = np.random.default_rng(seed)
    classes = random.integers(-1, CLASSES, (leaves, HOLES_TOLD)).astype(np.int16)
    tree = StaticTree(leaves)
    tree.fill(classes)
    return tree, classes


@pytest.mark.parametrize("leaves", [2, 3, 9, 64, 301])
def test_every_routing_node_knows_the_sum_of_its_leaves(leaves: int) -> None:
    tree, classes = a_filled_tree(leaves, leaves)
    below = {r: [] for r in range(tree.routers)}
    for leaf in range(leaves):
        router = tree.leaf_parent[leaf]
        while router != NONE:
            below[router].append(leaf)
            router = tree.parent[router]

    found = tree.summaries(np.arange(tree.routers))

    for router, members in below.items():
        told = [c for leaf in members for c in classes[leaf].tolist() if c >= 0]
        assert (found[router] == np.minimum(summary_of(told), COUNT_MAX)).all()
        if router != tree.root:
            assert (tree.known[router] == found[router]).all()


@pytest.mark.parametrize("is_sure", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_request_goes_where_a_single_routing_node_would_send_it(seed: int, is_sure: bool) -> None:
    tree, classes = a_filled_tree(61, seed)
    random = np.random.default_rng(seed)
    now = 4000.0
    for router in range(tree.routers):
        start, wide, work = (
            random.uniform(0, 9000),
            random.uniform(600, 9000),
            random.uniform(60, 9000),
        )
        wanted = WantedSlots([work], Frame(now + start, now + start + wide), [False])
        first, count = int(tree.first_child[router]), int(tree.child_count[router])
        is_low = tree.level[router] == 1
        records = [
            ChildRecord(
                BranchChild(child, child, child), now, Stamp(1, 1),
                summary=summary_of([c for c in classes[child].tolist() if c >= 0])
                if is_low else tree.known[child].astype(np.int32),
            )
            for child in range(first, first + count)
        ]  # fmt: skip
        ask = HoleRequest((1, 1), 1, wanted, None, router, is_sure, falls=0)
        level = int(tree.level[router])
        group = HostedGroup(router, level, 1, 1, records, False, now, new_id=lambda: 0)
        expected = chosen_child(group, ask, now)
        serving = serving_classes(
            np.array([now + start]), np.array([now + start + wide]), np.array([work]),
            now, reference_points(now),
        )  # fmt: skip

        child, number = tree.chosen(
            np.array([router]), serving.surely if is_sure else serving.possibly, is_sure=is_sure
        )

        if expected is None:
            assert number[0] == NONE
        else:
            assert number[0] == expected.number
            if not is_low:  # of two equal holes of a leaf, the array counts one
                assert child[0] == expected.record.child.key


def test_a_hole_that_a_request_was_sent_after_is_not_offered_again() -> None:
    tree = StaticTree(4)
    classes = np.full((4, HOLES_TOLD), NONE, dtype=np.int16)
    classes[2, 0] = 700
    tree.fill(classes)
    mask = np.ones((1, CLASSES), dtype=bool)
    root = np.array([tree.root])
    child, number = tree.chosen(root, mask, is_sure=True)
    assert number[0] == 700

    tree.take_hole(tree.root, int(child[0]), 700)

    assert tree.chosen(root, mask, is_sure=True)[1][0] == NONE


def test_what_is_known_moves_to_new_points() -> None:
    tree, _ = a_filled_tree(50, 1)
    before = tree.known.sum()

    tree.move_to_new_points((0.0, reference_points(1.0)), (300.0, reference_points(301.0)))

    assert 0 < tree.known.sum() <= before
