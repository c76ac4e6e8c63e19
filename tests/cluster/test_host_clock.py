"""How far the store's clock is ahead is measured well also on a machine that is busy."""

import asyncio

from dataward.cluster.host import CLOCK_TRIES, clock_ahead_seconds

AHEAD_SECONDS = 1000.0


class Machine:
    """Its clock begins at 0; the store's answers take so long to come, each in its turn."""

    def __init__(self, *answer_seconds: float) -> None:
        self.now = 0.0
        self.asked = 0
        self._answer_seconds = answer_seconds

    async def store_now(self) -> float:
        takes = self._answer_seconds[min(self.asked, len(self._answer_seconds) - 1)]
        self.asked += 1
        there = self.now + 0.001 + AHEAD_SECONDS
        self.now += 0.001 + takes
        return there

    def measured(self) -> float:
        return asyncio.run(clock_ahead_seconds(self.store_now, lambda: self.now))


def test_a_quick_answer_will_do() -> None:
    machine = Machine(0.001)

    assert abs(machine.measured() - AHEAD_SECONDS) < 0.001
    assert machine.asked == 1


def test_the_quickest_answer_counts_if_others_are_late() -> None:
    machine = Machine(2.0, 0.7, 0.002, 3.0)

    assert abs(machine.measured() - AHEAD_SECONDS) < 0.01


def test_it_is_not_asked_for_ever() -> None:
    machine = Machine(2.0, 0.05, 1.0)

    assert abs(machine.measured() - AHEAD_SECONDS) < 0.05
    assert machine.asked == CLOCK_TRIES
