"""Which other nodes a mover looks at: a few, drawn at random."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import isqrt
from random import Random

from dataward.model.answers import Membership
from dataward.model.ids import NodeId
from dataward.model.operations import Probe
from dataward.node.store_client import StoreClient
from dataward.world import Members


class Neighbourhood(Enum):
    STATIC = "static"  # drawn once, and again when nodes have come or gone
    DYNAMIC = "dynamic"  # drawn again each time, as MATRIX does


def size_of(neighbours: int, nodes: int) -> int:
    """How many nodes to draw: as many as were set, or the square root of all if that is 0."""
    return min(neighbours or max(isqrt(nodes), 1), nodes)


@dataclass
class Neighbours:
    """The neighbours of the node ``here``, and their loads; ``size`` as in `size_of`."""

    here: NodeId
    nodes: Members
    random: Random
    store: StoreClient
    kind: Neighbourhood = Neighbourhood.DYNAMIC
    size: int = 0
    _drawn: list[NodeId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes.watch(self._forget)

    def _forget(self) -> None:
        self._drawn = []

    def draw(self) -> Sequence[NodeId]:
        """The neighbours to look at now; this node itself may be drawn, and is left out."""
        if self.kind is Neighbourhood.DYNAMIC or not self._drawn:
            drawn = self.random.sample(self.nodes, size_of(self.size, len(self.nodes)))
            self._drawn = [node for node in drawn if node != self.here]
        return self._drawn

    async def loads(self) -> dict[NodeId, float]:
        """The loads of neighbours that are up, with what is queued for them but not claimed."""
        return {answer.node: answer.load_seconds for answer in await self._up()}

    async def told_loads(self) -> dict[NodeId, float]:
        """The loads that neighbours that are up have reported: of tasks that they have claimed."""
        return {answer.node: answer.told_seconds for answer in await self._up()}

    async def _up(self) -> list[Membership]:
        """The neighbours that are up, asked of the store in one call."""
        probes = [Probe(node) for node in self.draw()]
        answers = await self.store.call(probes) if probes else []
        return [answer for answer in answers if isinstance(answer, Membership) and answer.up]
