"""Whose order is next where several runs share a host's processes."""

import asyncio
from collections.abc import Iterator

import pytest

from dataward.live.orders import Limits, Order
from dataward.live.runner_connection import PendingOrder
from dataward.live.waiting_orders import WaitingOrders


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def order_of(run: str, number: int, loop: asyncio.AbstractEventLoop) -> PendingOrder:
    order = Order(f"{run}-{number}", ("true",), False, (), (), "", "", 1, Limits())
    return PendingOrder(number, order, lambda at: None, loop.create_future(), run)


def test_within_a_run_the_first_that_came_is_next(loop: asyncio.AbstractEventLoop) -> None:
    waiting = WaitingOrders()
    first, second = order_of("a", 1, loop), order_of("a", 2, loop)
    waiting.add(first)
    waiting.add(second)

    assert waiting.next_one({"a": 5}) is first


def test_an_order_that_comes_back_is_first_again(loop: asyncio.AbstractEventLoop) -> None:
    waiting = WaitingOrders()
    first, second = order_of("a", 1, loop), order_of("a", 2, loop)
    waiting.add(second)
    waiting.put_back(first)

    assert waiting.next_one({}) is first


def test_a_huge_run_does_not_starve_a_small_one(loop: asyncio.AbstractEventLoop) -> None:
    waiting, cores = WaitingOrders(), {"huge": 2, "small": 0}
    for number in range(1000):
        waiting.add(order_of("huge", number, loop))
    small = order_of("small", 1000, loop)
    waiting.add(small)

    assert waiting.next_one(cores) is small


def test_equal_cores_go_by_the_time_used(loop: asyncio.AbstractEventLoop) -> None:
    waiting = WaitingOrders()
    waiting.add(order_of("a", 1, loop))
    waiting.add(order_of("b", 2, loop))
    waiting.used("a", 10.0)
    waiting.used("b", 12.0)

    assert waiting.next_one({"a": 1, "b": 1}).run == "a"


def test_a_newcomer_is_not_given_all_that_it_has_missed(loop: asyncio.AbstractEventLoop) -> None:
    waiting = WaitingOrders()
    waiting.used("a", 1000.0)
    for number in range(100):
        waiting.add(order_of("a", number, loop))
        waiting.add(order_of("new", 100 + number, loop))

    turns = []
    for _ in range(100):
        one = waiting.next_one({})
        waiting.remove(one)
        waiting.used(one.run, 1.0)
        turns.append(one.run)

    assert turns.count("new") == 50


def test_what_is_removed_is_not_there(loop: asyncio.AbstractEventLoop) -> None:
    waiting, one = WaitingOrders(), order_of("a", 1, loop)
    waiting.add(one)
    assert one in waiting

    waiting.remove(one)

    assert one not in waiting
    assert not waiting


def test_a_process_is_held_for_the_run_whose_turn_it_is(loop: asyncio.AbstractEventLoop) -> None:
    waiting = WaitingOrders()
    waiting.used("short", 1.0)
    waiting.used("long", 10.0)
    waiting.add(order_of("long", 1, loop))

    waiting.expect("short", until=5.0)

    assert waiting.held_until({}, now=4.0) == 5.0
    assert waiting.held_until({}, now=6.0) is None  # it did not come


def test_no_process_is_held_for_a_run_that_has_used_more_or_has_more_cores(
    loop: asyncio.AbstractEventLoop,
) -> None:
    waiting = WaitingOrders()
    waiting.used("short", 1.0)
    waiting.used("long", 10.0)
    waiting.add(order_of("short", 1, loop))
    waiting.expect("long", until=5.0)

    assert waiting.held_until({}, now=4.0) is None
    assert waiting.held_until({"short": 1}, now=4.0) == 5.0  # now it has fewer cores


def test_nothing_is_expected_of_a_run_that_gave_an_order_or_is_over(
    loop: asyncio.AbstractEventLoop,
) -> None:
    waiting = WaitingOrders()
    for run in ("short", "brief"):
        waiting.used(run, 1.0)
        waiting.expect(run, until=5.0)
    waiting.used("long", 10.0)
    waiting.add(order_of("long", 1, loop))

    waiting.add(order_of("short", 2, loop))
    waiting.forget("brief")

    assert waiting.held_until({}, now=4.0) is None
