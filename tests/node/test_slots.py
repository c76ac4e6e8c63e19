"""Slots: first come, first served, and nothing lost when one who waits is cancelled."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.kernel import VirtualKernel
from dataward.kernel.interface import FiberCancelled
from dataward.node.slots import Slots


class Workshop:
    """Fibers that each want some places for some time; notes when each got them."""

    def __init__(self, total: int) -> None:
        self.kernel = VirtualKernel()
        self.slots = Slots(self.kernel, total)
        self.started: list[tuple[str, float]] = []
        self.in_use = 0.0
        self.most_in_use = 0.0

    async def work(self, name: str, amount: int, seconds: float) -> None:
        await self.slots.take(amount)
        try:
            self.started.append((name, self.kernel.now()))
            self.in_use += amount
            self.most_in_use = max(self.most_in_use, self.in_use)
            await self.kernel.sleep(seconds)
        finally:
            self.in_use -= amount
            self.slots.give_back(amount)

    async def at(self, seconds: float, name: str, amount: int, length: float) -> None:
        await self.kernel.sleep(seconds)
        await self.work(name, amount, length)

    def run(
        self, *jobs: tuple[str, int, float], cancel: Sequence[tuple[float, int]] = ()
    ) -> list[tuple[str, float]]:
        """Start all jobs at once; cancel some by number at given times; wait for the rest."""

        async def main() -> None:
            fibers = [self.kernel.spawn(self.work(*job), job[0]) for job in jobs]
            for seconds, number in cancel:
                self.kernel.call_at(seconds, fibers[number].cancel)
            for fiber in fibers:
                try:
                    await fiber.join()
                except FiberCancelled:
                    continue

        self.kernel.run(main())
        return self.started


def test_places_go_round_in_the_order_they_were_asked_for() -> None:
    shop = Workshop(1)

    assert shop.run(("a", 1, 2.0), ("b", 1, 2.0), ("c", 1, 2.0)) == [
        ("a", 0.0),
        ("b", 2.0),
        ("c", 4.0),
    ]
    assert shop.slots.free == 1


def test_nobody_overtakes_one_who_waits_for_many() -> None:
    shop = Workshop(2)

    started = shop.run(("small", 1, 2.0), ("wide", 2, 1.0), ("late", 1, 1.0))

    assert started == [("small", 0.0), ("wide", 2.0), ("late", 3.0)]


def test_one_who_gives_up_waiting_lets_those_behind_pass() -> None:
    shop = Workshop(2)

    started = shop.run(("small", 1, 5.0), ("wide", 2, 1.0), ("late", 1, 1.0), cancel=[(1.0, 1)])

    assert started == [("small", 0.0), ("late", 1.0)]
    assert shop.slots.free == 2


def test_a_place_handed_to_one_cancelled_at_that_moment_is_not_lost() -> None:
    shop = Workshop(1)

    async def main() -> None:
        first = shop.kernel.spawn(shop.work("first", 1, 2.0), "first")
        second = shop.kernel.spawn(shop.work("second", 1, 2.0), "second")
        third = shop.kernel.spawn(shop.work("third", 1, 2.0), "third")
        await first.join()
        second.cancel()  # its turn has come, but it has not run yet
        await third.join()

    shop.kernel.run(main())

    assert [name for name, _ in shop.started][-1] == "third"
    assert shop.slots.free == 1


def test_more_than_there_is_cannot_be_asked_for() -> None:
    kernel = VirtualKernel()

    with pytest.raises(AssertionError, match="for ever"):
        kernel.run(Slots(kernel, 2).take(3))


def test_none_of_nothing_is_free() -> None:
    kernel = VirtualKernel()

    kernel.run(Slots(kernel, 0).take(0))


jobs = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=12)


@given(jobs, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 11)), max_size=6))
def test_no_place_is_lost_or_given_twice(
    wanted: list[tuple[int, int]], cancels: list[tuple[int, int]]
) -> None:
    shop = Workshop(4)
    named = [(str(i), amount, float(length)) for i, (amount, length) in enumerate(wanted)]
    cancel = [(float(at), i) for at, i in cancels if i < len(named)]

    started = [name for name, _ in shop.run(*named, cancel=cancel)]

    assert shop.most_in_use <= 4
    assert shop.slots.free == 4
    assert started == sorted(started, key=int)  # in the order they came
    spared = {str(i) for i in range(len(named))} - {str(i) for _, i in cancel}
    assert spared <= set(started)


# --- debts ---------------------------------------------------------------------------------------


class Lender:
    """Takes places and gives them back, at one moment."""

    def __init__(self, total: int, debt: int) -> None:
        self.kernel = VirtualKernel()
        self.slots = Slots(self.kernel, total)
        self.slots.allow_debt(debt)
        self.had: list[str] = []

    async def take(self, name: str, amount: int = 1) -> None:
        await self.slots.take(amount)
        self.had.append(name)

    def spawn(self, *names: str, amount: int = 1) -> None:
        for name in names:
            self.kernel.spawn(self.take(name, amount), name)

    async def settle(self) -> None:
        await self.kernel.sleep(0)


def test_with_a_debt_allowed_single_places_are_given_before_they_are_free() -> None:
    shop = Lender(2, debt=3)

    async def main() -> None:
        shop.spawn("a", "b", "c", "d", "e", "f")
        await shop.settle()
        assert shop.had == ["a", "b", "c", "d", "e"]
        assert shop.slots.free == -3

        shop.slots.give_back()
        await shop.settle()
        assert shop.had[-1] == "f"

    shop.kernel.run(main())


def test_one_who_needs_several_waits_until_all_debts_are_paid_and_is_not_overtaken() -> None:
    shop = Lender(2, debt=2)

    async def main() -> None:
        shop.spawn("a", "b", "c")
        shop.spawn("wide", amount=2)
        shop.spawn("late")
        await shop.settle()
        for given_back in range(3):
            assert shop.had == ["a", "b", "c"], given_back
            shop.slots.give_back()
            await shop.settle()
        assert shop.had == ["a", "b", "c", "wide", "late"]

    shop.kernel.run(main())


def test_a_debt_allowed_later_serves_those_who_wait() -> None:
    shop = Lender(1, debt=0)

    async def main() -> None:
        shop.spawn("a", "b")
        await shop.settle()
        assert shop.had == ["a"]
        shop.slots.allow_debt(1)
        await shop.settle()
        assert shop.had == ["a", "b"]
        shop.slots.allow_debt(0)
        shop.spawn("c")
        shop.slots.give_back()
        await shop.settle()
        assert shop.had == ["a", "b"], "the debt is paid first"

    shop.kernel.run(main())


def test_the_most_urgent_is_served_first_and_of_equals_the_first_that_came() -> None:
    kernel = VirtualKernel()
    slots = Slots(kernel, 1)
    served: list[str] = []

    async def work(name: str, urgency: float) -> None:
        await slots.take(1, urgency)
        served.append(name)
        await kernel.sleep(1.0)
        slots.give_back()

    async def main() -> None:
        wanted = [("first", 9.0), ("b", 2.0), ("c", 1.0), ("d", 2.0)]
        fibers = [kernel.spawn(work(*each)) for each in wanted]
        for fiber in fibers:
            await fiber.join()

    kernel.run(main())

    assert served == ["first", "c", "b", "d"]
