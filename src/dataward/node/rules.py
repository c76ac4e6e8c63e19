"""The parts of a strategy that nodes follow. `Strategy` adds a name and the plan."""

from dataclasses import dataclass, field

from dataward.node.binding import Binding
from dataward.node.homes import AdageHome, HomeRule
from dataward.node.mover import Mover, Staying
from dataward.node.ready_queue import LoadMeasure, TakeOrder
from dataward.node.settings import NodeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A node's settings, and one value for each question in which strategies differ.

    ``home`` says which node a task goes to, ``order`` in what order a node takes its tasks, and
    ``mover`` how work gets from one node to another after that; ``load`` is what nodes report of
    themselves, for homes and movers to compare. ``binding`` says when it is settled which node runs
    a task.
    """

    settings: NodeSettings = field(default_factory=NodeSettings)
    home: HomeRule = field(default_factory=AdageHome)
    order: TakeOrder = TakeOrder.URGENCY
    mover: Mover = field(default_factory=Staying)
    load: LoadMeasure = LoadMeasure.SECONDS
    binding: Binding = Binding.EARLY
