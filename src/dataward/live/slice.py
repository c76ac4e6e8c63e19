"""The part of this machine that nodes use."""

from dataclasses import dataclass

from dataward.model.ids import NodeId
from dataward.model.platform import Platform, uniform_platform


@dataclass(frozen=True, slots=True)
class Slice:
    """So many nodes, each with so many slots."""

    nodes: int
    slots: int  # of each node

    def platform(self) -> Platform:
        return uniform_platform(self.nodes, cores=self.slots)

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        return tuple(machine.id for machine in self.platform().machines)
