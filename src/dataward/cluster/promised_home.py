"""Where tasks of a promised run go: to the host that has promised them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.workflow import TaskId
from dataward.node.homes import AdageHome, Home, View


@dataclass(frozen=True, slots=True)
class PromisedHome:
    """The host that has promised a task; if it is gone, as ADAGE's rule says.

    ``nodes`` is read anew for each task: promises change when a host is lost.
    """

    nodes: Mapping[TaskId, NodeId]

    asks: ClassVar = AdageHome.asks
    needs_inputs: ClassVar = False

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return (self.nodes.get(task.task, task.preferred),)

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        promised = self.nodes.get(task.task)
        if promised in view.nodes and occasion is not Occasion.NO_ROOM:
            assert promised is not None
            return Home(promised)
        return AdageHome().choose(task, occasion, view)
