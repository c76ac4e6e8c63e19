"""Tasks kept for others, and what has changed among them."""

from dataward.kernel import VirtualKernel
from dataward.node.pool import Changes, Pool
from node.fake_world import a_queue_entry

A, B = a_queue_entry("a"), a_queue_entry("b")


def a_pool() -> Pool:
    pool = Pool(VirtualKernel())
    pool.put(A)
    pool.put(B)
    return pool


def test_what_came_is_told_once() -> None:
    pool = a_pool()

    assert pool.changes() == Changes([A, B], [])
    assert pool.changes() == Changes([], [])


def test_what_went_is_told_once_unless_nobody_had_heard_of_it() -> None:
    pool = a_pool()
    pool.take("a")
    assert pool.changes() == Changes([B], [])

    pool.take("b")

    assert pool.changes() == Changes([], ["b"])
    assert pool.changes() == Changes([], [])


def test_a_task_that_went_and_came_back_is_told_as_both() -> None:
    pool = a_pool()
    pool.changes()

    pool.take("a")
    pool.put(A)

    assert pool.changes() == Changes([A], ["a"])


def test_a_pool_has_grown_as_long_as_there_is_a_task_in_it() -> None:
    pool = a_pool()
    assert pool.grown.is_set()

    pool.clear()

    assert not pool.grown.is_set()
    assert len(pool) == 0


def test_a_task_pooled_for_a_later_generation_is_not_removed() -> None:
    pool = Pool(VirtualKernel())
    pool.put(a_queue_entry("a", generation=3))

    assert not pool.remove("a", 2)
    assert not pool.remove("b", 2)
    assert pool.remove("a", 3)
    assert "a" not in pool


def test_a_task_is_pooled_once() -> None:
    pool = a_pool()
    pool.changes()

    pool.put(A)

    assert pool.changes() == Changes([], [])
