"""Movers: how work gets from one node to another after it was placed.

A mover is a value, a field of every strategy, and its fields are its settings. Each node makes its
own component from it. The movers are in files of their own: `giving`, `stealing`, `pulling` and so
on.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol

from dataward.model.messages import MoverMessage
from dataward.node.capacity import Capacity
from dataward.node.depot import Depot
from dataward.node.placer import Placer
from dataward.node.state import NodeState
from dataward.node.store_client import StoreClient
from dataward.world import World


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What a mover may use of its node."""

    world: World
    store: StoreClient
    state: NodeState
    placer: Placer
    depot: Depot
    capacity: Capacity


class Moving(Protocol):
    """The mover of one node, at work."""

    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        """What the node runs for the mover, until it is cancelled."""
        ...

    def on_message(self, message: MoverMessage) -> None:
        """Heed a message from another node's mover; return at once."""
        ...

    def loose_ends(self) -> dict[str, int]:
        """How much of each kind is kept for other nodes; all 0 when there is no work left."""
        ...


class Mover(Protocol):
    """A way to move work; its fields are its settings."""

    def at(self, parts: NodeParts) -> Moving:
        """This mover, at work for one node."""
        ...


@dataclass(frozen=True, slots=True)
class Staying:
    """No mover: tasks run where they were placed."""

    def at(self, parts: NodeParts) -> Moving:
        return _Still()


class _Still:
    def loops(self) -> Sequence[Coroutine[None, None, None]]:
        return ()

    def on_message(self, message: MoverMessage) -> None:
        """Nodes of a cluster follow one strategy, so no message comes."""

    def loose_ends(self) -> dict[str, int]:
        return {}
