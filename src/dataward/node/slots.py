"""A number of places that fibers take and give back: the most urgent fiber is served first."""

from heapq import heapify, heappop, heappush

from dataward.world import Flag, Kernel

Waiting = tuple[float, int, float, Flag]
"""(urgency, number, places wanted, set when they are given): fibers are served in this order"""


class Slots:
    """``total`` places: cores to run on, or transfers under way.

    Of fibers that are equally urgent, the first that came is served first. If a debt is allowed, a
    fiber that needs only one place may have it before it is free. A fiber that needs more waits
    until that many places are free, and less urgent fibers wait behind it.
    """

    def __init__(self, kernel: Kernel, total: float) -> None:
        self._kernel = kernel
        self.total = total
        self.free = total  # below 0: this many were given out before they were free
        self._debt_max = 0
        self._waiting: list[Waiting] = []  # a heap
        self._arrivals = 0

    def allow_debt(self, places: int) -> None:
        if places != self._debt_max:
            self._debt_max = places
            self._serve()

    async def take(self, amount: float = 1, urgency: float = 0.0) -> None:
        """Wait for ``amount`` places at once; lower is more urgent.

        A waiting fiber holds no place, so none can deadlock.
        """
        assert amount <= self.total, "would wait for ever"
        if self._may_have(amount) and not self._waits_before(urgency):
            self.free -= amount
            return
        turn = self._kernel.flag()
        self._arrivals += 1
        place = (urgency, self._arrivals, amount, turn)
        heappush(self._waiting, place)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.give_back(amount)
            else:
                self._waiting.remove(place)
                heapify(self._waiting)
                self._serve()
            raise

    def may_have_at_once(self, amount: float) -> bool:
        """Whether so many places are free, and nobody waits for any."""
        return amount <= self.free and not self._waiting

    def take_at_once(self, amount: float) -> None:
        """Take places even if fewer are free: nobody is given any until they are free again."""
        self.free -= amount

    def give_back(self, amount: float = 1) -> None:
        self.free += amount
        if self._waiting:
            self._serve()

    def _waits_before(self, urgency: float) -> bool:
        """Whether a fiber waits that comes before a new one of this urgency."""
        return bool(self._waiting) and self._waiting[0][0] <= urgency

    def _may_have(self, amount: float) -> bool:
        return amount <= self.free or (amount == 1 and self.free + self._debt_max >= 1)

    def _serve(self) -> None:
        while self._waiting and self._may_have(self._waiting[0][2]):
            _, _, amount, turn = heappop(self._waiting)
            self.free -= amount
            turn.set()
