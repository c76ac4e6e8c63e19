"""Who is a member of a simulated cluster, and what each node has heard of that so far."""

from collections.abc import Sequence
from random import Random

from dataward.kernel.virtual import VirtualKernel
from dataward.model.ids import NodeId
from dataward.world import Members

NEWS_SECONDS = 2.0  # within which each node hears of a change, one sooner and one later


class Census:
    """As long as nobody comes or goes, all nodes look at one list: a list for each would be too big
    for a million nodes. From the first change on, each node hears by itself.

    Members are in the order of the platform, so that one who comes may stand before others.
    """

    def __init__(self, nodes: Sequence[NodeId], kernel: VirtualKernel, random: Random) -> None:
        self._order = tuple(nodes)
        self._kernel = kernel
        self._random = random
        self._all = Members(nodes)
        self._absent: set[NodeId] = set()
        self._views: dict[NodeId, Members] = {}
        self._heard: dict[NodeId, int] = {}  # the number of the last change that each has heard of
        self._changes = 0
        self._varies = False

    @property
    def present(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self._order if node not in self._absent)

    def __contains__(self, node: NodeId) -> bool:
        return node not in self._absent

    def vary(self) -> None:
        """Expect changes: from now on, each world has a list of its own."""
        self._varies = True

    def hold_back(self, node: NodeId) -> None:
        """Let a node be no member when the run begins."""
        self.vary()
        self._absent.add(node)

    def view_of(self, node: NodeId) -> Members:
        """The members as the world of a node that starts now sees them, now and later."""
        if not self._varies:
            return self._all
        self._views[node] = Members(self.present)
        self._heard[node] = self._changes
        return self._views[node]

    def come(self, node: NodeId) -> None:
        if node in self._absent:
            self._absent.remove(node)
            self._spread()

    def go(self, node: NodeId) -> None:
        if node not in self._absent:
            self._absent.add(node)
            self._spread()

    def _spread(self) -> None:
        assert self._varies, "somebody came or went, which was not expected"
        self._changes += 1
        for node in list(self._views):
            at = self._kernel.now() + NEWS_SECONDS * self._random.random()
            self._kernel.call_at(at, self._hear, node, self._changes, self.present)

    def _hear(self, node: NodeId, change: int, present: tuple[NodeId, ...]) -> None:
        if change > self._heard[node]:  # else it knows better
            self._heard[node] = change
            self._views[node].become(present)
