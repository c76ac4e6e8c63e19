"""Requests on their way through the tree, and which classes of holes would serve each of them."""

import numpy as np
from numpy.typing import NDArray

from dataward.deadlines.promising import SequenceRequest, pieces_of
from dataward.deadlines.reference_points import ReferencePoints
from dataward.deadlines.reservations import WantedSlots
from dataward.deadlines.routing import FALLS
from dataward.deadlines.search import NONE, cut_in_two, serving_classes
from dataward.deadlines.submission import AskKey, cut_key


class FlyingRequest:
    """A request on its way through the tree; its masks are rows of a table."""

    __slots__ = (
        "falls", "has_fallen", "hops", "is_down", "is_sure", "key", "owner", "pieces", "router",
        "row", "wanted",
    )  # fmt: skip

    def __init__(self, key: AskKey, owner: int, wanted: WantedSlots) -> None:
        self.key = key
        self.owner = owner
        self.wanted = wanted
        self.router = NONE
        self.row = NONE
        self.is_sure = True
        self.is_down = False
        self.falls = FALLS
        self.has_fallen = False
        self.hops = 0
        self.pieces: list[FlyingRequest] = []


class MaskTable:
    """Which classes serve each request, surely and possibly, in rows that are used again."""

    def __init__(self) -> None:
        self.surely = np.zeros((0, 0), dtype=bool)
        self.possibly = np.zeros((0, 0), dtype=bool)
        self._free: list[int] = []

    def add(self, asks: list[FlyingRequest], now: float, points: ReferencePoints) -> None:
        """Work out which classes serve these requests, and their pieces if they are cut."""
        every = list(asks)
        for ask in asks:
            ask.pieces = _pieces(ask, points)
            every += ask.pieces
        frames = np.array([ask.wanted.frame for ask in every])
        work = np.array([sum(ask.wanted.work) for ask in every])
        starts = np.maximum(frames[:, 0], now)
        serving = serving_classes(starts, frames[:, 1], work, now, points)
        for ask, row in zip(every, self._put(*serving), strict=True):
            ask.row = row

    def free(self, ask: FlyingRequest) -> None:
        """A request's own row can be used again; its pieces keep theirs."""
        self._free.append(ask.row)

    def forget(self, ask: FlyingRequest) -> None:
        """The request has come to an end: its rows can be used again."""
        self.free(ask)
        for piece in ask.pieces:
            self.free(piece)

    def _put(self, surely: NDArray[np.bool_], possibly: NDArray[np.bool_]) -> list[int]:
        count = len(surely)
        if len(self._free) < count:
            self._grow(count, surely.shape[1])
        rows = [self._free.pop() for _ in range(count)]
        self.surely[rows], self.possibly[rows] = surely, possibly
        return rows

    def _grow(self, count: int, width: int) -> None:
        old = len(self.surely)
        more = max(old, count, 1024)
        empty = np.zeros((more, width), dtype=bool)
        self.surely = np.vstack([self.surely.reshape(old, width), empty])
        self.possibly = np.vstack([self.possibly.reshape(old, width), empty])
        self._free += range(old + more - 1, old - 1, -1)


def _pieces(ask: FlyingRequest, points: ReferencePoints) -> list[FlyingRequest]:
    """The two requests that this one becomes if it is cut; none if it cannot be."""
    wanted = ask.wanted
    cut = cut_in_two(wanted.frame, wanted.work, points)
    if cut is None:
        return []
    count, first, second = cut
    whole = SequenceRequest(range(len(wanted.work)), wanted.frame, wanted.awaited, wanted.pace)
    pieces = []
    for key, part in zip(
        cut_key(ask.key, count), pieces_of(whole, count, first, second), strict=True
    ):
        work = [wanted.work[place] for place in part.tasks]
        slots = WantedSlots(work, part.frame, part.awaited, part.pace)
        pieces.append(FlyingRequest(key, ask.owner, slots))
    return pieces
