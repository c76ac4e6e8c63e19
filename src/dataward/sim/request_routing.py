"""The routing role of many nodes: requests climb the tree until a hole is known, and go down to it.

The decisions are those of `deadlines/search.py`, on the rows of `StaticTree`, for all requests that
arrive in one tick together.
"""

from collections.abc import Callable

import numpy as np

from dataward.deadlines.search import NONE
from dataward.sim.deadline_gauges import DeadlineGauges
from dataward.sim.deadline_post import HEADER_BYTES, DeadlinePost, request_bytes
from dataward.sim.flying_request import FlyingRequest, MaskTable
from dataward.sim.static_tree import StaticTree
from dataward.sim.tick_calendar import TickHandler


class RequestRouting:
    """Passes requests on.

    ``on_ask`` gets a request and the leaf at which it has come down, ``on_refused`` a request for
    which there is no hole, at its owner.
    """

    def __init__(
        self,
        tree: StaticTree,
        post: DeadlinePost,
        masks: MaskTable,
        gauges: DeadlineGauges,
        on_ask: TickHandler,
        on_refused: TickHandler,
    ) -> None:
        self._tree = tree
        self._post = post
        self._masks = masks
        self._gauges = gauges
        self._on_ask = on_ask
        self._on_refused = on_refused

    def climb_from_leaf(self, ask: FlyingRequest, leaf: int) -> None:
        """Have a request begin at the leaf's parent."""
        ask.is_down, ask.is_sure = False, True
        self._pass_to_router(ask, leaf, int(self._tree.leaf_parent[leaf]))

    def fall_back(self, ask: FlyingRequest, leaf: int) -> None:
        """A leaf had no hole for the request: it climbs again, unless it has fallen too often."""
        if self._has_fallen(ask, leaf):
            self.climb_from_leaf(ask, leaf)

    def route(self, asks: list[FlyingRequest]) -> None:
        """Pass requests on that have come to routing nodes in this tick."""
        fallen = [ask for ask in asks if ask.has_fallen and ask.pieces]
        whole = [ask for ask in asks if not (ask.has_fallen and ask.pieces)]
        self._try(whole, self._in_two)
        self._cut(fallen, self._try_whole)

    def _try(
        self, asks: list[FlyingRequest], otherwise: Callable[[list[FlyingRequest]], None]
    ) -> None:
        """Send requests down to a child with a hole; the others go the other way."""
        left = []
        for is_sure in (True, False):
            group = [ask for ask in asks if ask.is_sure == is_sure]
            if not group:
                continue
            children, numbers = self._chosen(group, is_sure)
            for ask, child, number in zip(group, children, numbers, strict=True):
                if number == NONE:
                    left.append(ask)
                else:
                    self._down(ask, child, number)
        if left:
            otherwise(left)

    def _chosen(self, asks: list[FlyingRequest], is_sure: bool) -> tuple[list[int], list[int]]:
        rows = [ask.row for ask in asks]
        routers = np.array([ask.router for ask in asks])
        table = self._masks.surely if is_sure else self._masks.possibly
        children, numbers = self._tree.chosen(routers, table[rows], is_sure=is_sure)
        return children.tolist(), numbers.tolist()

    def _in_two(self, asks: list[FlyingRequest]) -> None:
        """Cut requests that no hole holds, where both pieces find one; the others climb."""
        self._cut([ask for ask in asks if ask.pieces], self._up)
        self._up([ask for ask in asks if not ask.pieces])

    def _try_whole(self, asks: list[FlyingRequest]) -> None:
        """Requests that have come down in vain are cut first, and sent whole only then."""
        self._try(asks, self._up)

    def _cut(
        self, asks: list[FlyingRequest], otherwise: Callable[[list[FlyingRequest]], None]
    ) -> None:
        if not asks:
            return
        pieces = [piece for ask in asks for piece in ask.pieces]
        for ask in asks:
            for piece in ask.pieces:
                piece.router, piece.is_sure, piece.hops = ask.router, ask.is_sure, ask.hops
                piece.falls, piece.has_fallen = ask.falls, ask.has_fallen
        found: dict[int, tuple[int, int]] = {}
        for is_sure in (True, False):
            group = [piece for piece in pieces if piece.is_sure == is_sure]
            if group:
                children, numbers = self._chosen(group, is_sure)
                for piece, child, number in zip(group, children, numbers, strict=True):
                    found[id(piece)] = (child, number)
        left = []
        for ask in asks:
            if any(found[id(piece)][1] == NONE for piece in ask.pieces):
                left.append(ask)
                continue
            self._gauges.cuts += 1
            self._masks.free(ask)
            for piece in ask.pieces:
                self._down(piece, *found[id(piece)])
        if left:
            otherwise(left)

    def _up(self, asks: list[FlyingRequest]) -> None:
        for ask in asks:
            router = ask.router
            source = int(self._tree.host[router])
            if ask.is_down and not self._has_fallen(ask, source):
                continue
            parent = int(self._tree.parent[router])
            if parent != NONE:
                self._pass_to_router(ask, source, parent)
            elif ask.is_sure:
                ask.is_sure = False
                self.route([ask])
            else:
                self._refuse(ask, source)

    def _has_fallen(self, ask: FlyingRequest, source: int) -> bool:
        """Count a way down in vain. False if it was the last: the request goes to its owner."""
        self._gauges.falls += 1
        if ask.falls == 0:
            self._refuse(ask, source)
            return False
        ask.falls -= 1
        ask.is_down, ask.is_sure, ask.has_fallen = False, True, True
        return True

    def _refuse(self, ask: FlyingRequest, source: int) -> None:
        self._masks.forget(ask)
        self._post.send(source, ask.owner, HEADER_BYTES, self._on_refused, ask)

    def _down(self, ask: FlyingRequest, child: int, number: int) -> None:
        router = ask.router
        source = int(self._tree.host[router])
        self._tree.take_hole(router, child, number)
        ask.is_down = True
        if self._tree.level[router] > 1:
            self._pass_to_router(ask, source, child)
            return
        ask.hops += 1
        self._post.send(source, child, request_bytes(ask), self._on_ask, (ask, child))

    def _pass_to_router(self, ask: FlyingRequest, source: int, router: int) -> None:
        ask.router = router
        ask.hops += 1
        self._post.pass_to_router(ask, source, int(self._tree.host[router]))
