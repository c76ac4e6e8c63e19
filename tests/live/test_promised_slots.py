"""Which order starts where slots of a host have promised tasks by a deadline."""

import asyncio
from collections.abc import Iterator

import pytest

from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.reservations import WantedSlots
from dataward.live.orders import Limits, Order
from dataward.live.promised_slots import PromisedSlots, SlotPromise
from dataward.live.runner_connection import PendingOrder
from dataward.model.workflow import TaskId

NOW = 1000.0


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def slots() -> PromisedSlots:
    return PromisedSlots(1, lambda: NOW)


class Orders:
    """Orders that wait, by run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.waiting: dict[str, list[PendingOrder]] = {}

    def add(self, run: str, task: str, seconds: float = 0.0, cores: int = 1) -> PendingOrder:
        order = Order(task, ("true",), False, (), (), "", "", cores, Limits())
        future = self._loop.create_future()
        pending = PendingOrder(1, order, lambda at: None, future, run, seconds=seconds)
        self.waiting.setdefault(run, []).append(pending)
        return pending


@pytest.fixture
def orders(loop: asyncio.AbstractEventLoop) -> Orders:
    return Orders(loop)


def promise(
    slots: PromisedSlots, run: str, *promised: tuple[str, int, float, float], begun: str = ""
) -> None:
    """Promises of a run: (task, slot, deadline, seconds), times after now."""
    found = [SlotPromise(TaskId(t), s, NOW + d, length) for t, s, d, length in promised]
    deadlines = {one.task: one.deadline for one in found}
    slots.adopt(run, found, deadlines, [TaskId(begun)] if begun else [])


def test_nothing_is_promised_at_first(slots: PromisedSlots) -> None:
    assert not slots


def test_the_tighter_promise_goes_first_though_it_came_second(
    slots: PromisedSlots, orders: Orders
) -> None:
    promise(slots, "loose", ("l", 0, 100.0, 10.0))
    promise(slots, "tight", ("t", 0, 50.0, 10.0))
    orders.add("loose", "l")
    tight = orders.add("tight", "t")

    start = slots.next_start(orders.waiting, [0])

    assert start is not None
    assert start.pending is tight


def test_a_task_that_would_make_one_late_that_is_still_to_come_waits(
    slots: PromisedSlots, orders: Orders
) -> None:
    promise(slots, "a", ("soon", 0, 50.0, 20.0), ("later", 0, 200.0, 31.0))
    orders.add("a", "later")

    assert slots.next_start(orders.waiting, [0]) is None
    assert slots.look_again_seconds() == 30.0  # then the other one is late, and holds up nobody


@pytest.mark.parametrize(("seconds", "starts"), [(29.0, True), (31.0, False), (0.0, False)])
def test_what_has_no_promise_starts_only_where_it_makes_no_promise_late(
    seconds: float, starts: bool, slots: PromisedSlots, orders: Orders
) -> None:
    promise(slots, "a", ("soon", 0, 50.0, 20.0))
    orders.add("other", "x", seconds)

    assert (slots.next_start(orders.waiting, [0]) is not None) is starts


def test_a_slot_without_promises_takes_anything(orders: Orders) -> None:
    slots = PromisedSlots(2, lambda: NOW)
    promise(slots, "a", ("soon", 0, 50.0, 20.0))
    orders.add("other", "x")

    start = slots.next_start(orders.waiting, [0, 1])

    assert start is not None
    assert start.slots == (1,)


def test_a_promised_task_whose_slot_is_taken_starts_in_another(orders: Orders) -> None:
    slots = PromisedSlots(2, lambda: NOW)
    promise(slots, "a", ("one", 0, 50.0, 20.0))
    one = orders.add("a", "one")

    start = slots.next_start(orders.waiting, [1])
    assert start is not None
    slots.started(start)

    assert (one.slots, one.seconds) == ((1,), 20.0)
    assert not any(role.queue for role in slots.roles)


def test_wide_orders_take_several_slots(orders: Orders) -> None:
    slots = PromisedSlots(3, lambda: NOW)
    promise(slots, "a", ("soon", 0, 50.0, 20.0))
    orders.add("other", "x", 1000.0, cores=2)

    assert slots.next_start(orders.waiting, [0, 1]) is None
    start = slots.next_start(orders.waiting, [0, 1, 2])
    assert start is not None
    assert start.slots == (1, 2)


def test_a_wide_task_starts_in_all_of_its_slots_when_they_are_free(orders: Orders) -> None:
    slots = PromisedSlots(3, lambda: NOW)
    promise(slots, "a", ("wide", 0, 90.0, 20.0), ("wide", 2, 90.0, 20.0))
    wide = orders.add("a", "wide", cores=2)

    start = slots.next_start(orders.waiting, [0, 1, 2])

    assert start is not None
    assert (start.pending, start.slots) == (wide, (0, 2))
    slots.started(start)
    assert not any(role.queue for role in slots.roles)


def test_a_wide_task_waits_for_all_of_its_slots_and_shorter_ones_go_before_it(
    orders: Orders,
) -> None:
    slots = PromisedSlots(2, lambda: NOW)
    promise(slots, "a", ("wide", 0, 90.0, 20.0), ("wide", 1, 90.0, 20.0))
    promise(slots, "b", ("short", 0, 200.0, 70.0), ("long", 0, 300.0, 71.0))
    orders.add("a", "wide", cores=2)
    orders.add("b", "long")

    assert slots.next_start(orders.waiting, [0]) is None  # it would still run at 70
    short = orders.add("b", "short")
    start = slots.next_start(orders.waiting, [0])

    assert start is not None
    assert start.pending is short


def test_a_wide_task_does_not_go_before_a_tighter_one_of_either_slot(orders: Orders) -> None:
    slots = PromisedSlots(2, lambda: NOW)
    promise(slots, "a", ("wide", 0, 90.0, 20.0), ("wide", 1, 90.0, 20.0))
    promise(slots, "b", ("tight", 1, 50.0, 45.0))
    orders.add("a", "wide", cores=2)

    assert slots.next_start(orders.waiting, [0, 1]) is None  # "tight" must start within 5 s
    tight = orders.add("b", "tight")
    start = slots.next_start(orders.waiting, [0, 1])

    assert start is not None
    assert (start.pending, start.slots) == (tight, (1,))


def test_slots_of_a_late_wide_task_are_kept_free_for_it(orders: Orders) -> None:
    slots = PromisedSlots(2, lambda: NOW)
    promise(slots, "a", ("wide", 0, 10.0, 20.0), ("wide", 1, 10.0, 20.0))
    promise(slots, "b", ("later", 0, 500.0, 5.0), ("tighter", 0, 5.0, 20.0))
    wide = orders.add("a", "wide", cores=2)
    orders.add("b", "later")
    orders.add("other", "x", 1.0)

    assert slots.next_start(orders.waiting, [0]) is None
    start = slots.next_start(orders.waiting, [0, 1])
    assert start is not None
    assert start.pending is wide
    tighter = orders.add("b", "tighter")
    start = slots.next_start(orders.waiting, [0])
    assert start is not None
    assert start.pending is tighter


def test_a_wide_task_of_which_a_slot_is_no_more_takes_others(orders: Orders) -> None:
    slots = PromisedSlots(2, lambda: NOW)
    promise(slots, "a", ("wide", 1, 90.0, 20.0), ("wide", 2, 90.0, 20.0))
    orders.add("a", "wide", 20.0, cores=2)

    assert slots.next_start(orders.waiting, [1]) is None
    start = slots.next_start(orders.waiting, [0, 1])

    assert start is not None
    assert sorted(start.slots) == [0, 1]


def test_a_booking_of_several_slots_makes_way_for_the_promises_of_its_run(orders: Orders) -> None:
    slots = PromisedSlots(2, lambda: NOW)
    wanted = WantedSlots([20.0], Frame(NOW, NOW + 90.0), [False], cores=[2])
    assert slots.roles[1].reserve("booked", wanted, NOW) is not None
    orders.add("other", "x", 80.0)
    assert slots.next_start(orders.waiting, [0, 1]) is None

    slots.release(lambda booker: booker == "booked")
    promise(slots, "a", ("wide", 0, 90.0, 20.0), ("wide", 1, 90.0, 20.0))

    assert [len(role.queue) for role in slots.roles] == [1, 1]


def test_what_has_begun_here_is_not_queued_again(slots: PromisedSlots, orders: Orders) -> None:
    promise(slots, "a", ("one", 0, 50.0, 20.0), ("two", 0, 90.0, 20.0))
    orders.add("a", "one")
    start = slots.next_start(orders.waiting, [0])
    assert start is not None
    slots.started(start)

    promise(slots, "a", ("one", 0, 50.0, 20.0), ("two", 0, 80.0, 20.0), ("x", 0, 9, 1), begun="x")

    (role,) = slots.roles
    assert [(slot.deadline, slot.task) for slot in role.queue] == [(NOW + 80.0, ("a", "two"))]


def test_a_run_that_is_over_has_no_promises(slots: PromisedSlots) -> None:
    promise(slots, "a", ("one", 0, 50.0, 20.0))

    slots.forget("a")

    assert not slots


def test_roles_know_how_long_what_runs_still_takes(
    slots: PromisedSlots, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 500.0)
    known, unknown = orders.add("other", "x", 30.0), orders.add("other", "y")
    known.begin(490.0)
    unknown.begin(440.0)

    assert slots.note_running([known]) == []
    assert slots.roles[0].free_from == NOW + 20.0
    known.take(())
    assert slots.note_running([unknown]) == []
    assert slots.roles[0].free_from == NOW + 60.0  # as long again as it has run
