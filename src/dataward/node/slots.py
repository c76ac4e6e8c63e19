"""A number of places that fibers take and give back, first come, first served."""

from collections import deque

from dataward.world import Flag, Kernel


class Slots:
    """``total`` places: cores to run on, or transfers under way.

    If a debt is allowed, a fiber that needs only one place may have it before it is free. A fiber
    that needs more waits until that many places are free.
    """

    def __init__(self, kernel: Kernel, total: float) -> None:
        self._kernel = kernel
        self.total = total
        self.free = total  # below 0: this many were given out before they were free
        self._debt_max = 0
        self._waiting: deque[tuple[float, Flag]] = deque()

    def allow_debt(self, places: int) -> None:
        if places != self._debt_max:
            self._debt_max = places
            self._serve()

    async def take(self, amount: float = 1) -> None:
        """Wait for ``amount`` places at once. A waiting fiber holds none, so none can deadlock."""
        assert amount <= self.total, "would wait for ever"
        if not self._waiting and self._may_have(amount):
            self.free -= amount
            return
        turn = self._kernel.flag()
        place = (amount, turn)
        self._waiting.append(place)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.give_back(amount)
            else:
                self._waiting.remove(place)
                self._serve()
            raise

    def give_back(self, amount: float = 1) -> None:
        self.free += amount
        self._serve()

    def _may_have(self, amount: float) -> bool:
        return amount <= self.free or (amount == 1 and self.free + self._debt_max >= 1)

    def _serve(self) -> None:
        while self._waiting and self._may_have(self._waiting[0][0]):
            amount, turn = self._waiting.popleft()
            self.free -= amount
            turn.set()
