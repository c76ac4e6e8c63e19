"""Who is a member, and when each node hears of it."""

from random import Random

from dataward.kernel.virtual import VirtualKernel
from dataward.model.ids import NodeId
from dataward.sim.census import NEWS_SECONDS, Census

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def a_census(kernel: VirtualKernel) -> Census:
    census = Census([A, B, C], kernel, Random(1))
    census.vary()
    return census


def test_as_long_as_nobody_comes_or_goes_all_look_at_one_list() -> None:
    census = Census([A, B, C], VirtualKernel(), Random(1))

    assert census.view_of(A) is census.view_of(B)


def test_each_node_hears_of_a_change_at_its_own_time() -> None:
    kernel = VirtualKernel()
    census = a_census(kernel)
    views = [census.view_of(node) for node in (A, B, C)]
    census.go(C)
    seen = set()

    for step in range(100):
        kernel.run_until(step * NEWS_SECONDS / 100)
        seen.add(tuple(len(view) for view in views))
    kernel.run_until(NEWS_SECONDS)

    assert (3, 3, 3) in seen
    assert len(seen) > 2
    assert all(view == [A, B] for view in views)


def test_who_comes_stands_where_the_platform_has_it() -> None:
    kernel = VirtualKernel()
    census = a_census(kernel)
    census.hold_back(B)
    view = census.view_of(A)
    assert view == [A, C]

    census.come(B)
    kernel.run_until(NEWS_SECONDS)

    assert view == [A, B, C]
    assert view.newcomers == [B]


def test_news_that_comes_after_newer_news_changes_nothing() -> None:
    for seed in range(20):
        kernel = VirtualKernel()
        census = Census([A, B, C], kernel, Random(seed))
        census.vary()
        views = [census.view_of(node) for node in (A, B)]

        census.go(C)
        census.come(C)
        kernel.run_until(NEWS_SECONDS)

        assert all(view == [A, B, C] for view in views)
