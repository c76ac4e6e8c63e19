"""Homes for tasks that the node on which they become ready schedules itself, as in Sparrow."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dataward.errors import SettingError
from dataward.model.answers import Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Shelf
from dataward.node.homes import Home, View, any_other_node


@dataclass(frozen=True, slots=True)
class SchedulerHome:
    """The pool of the node that finds a task ready, orphaned or reopened.

    A client draws one of the first few nodes for each task that it submits.
    """

    schedulers: int = 10  # nodes that tasks are submitted to; so many did Sparrow's authors use

    asks: ClassVar[frozenset[Occasion]] = frozenset()
    needs_inputs: ClassVar = False

    def __post_init__(self) -> None:
        if self.schedulers < 1:
            raise SettingError(
                "tasks must be submitted to some node; give at least 1 for schedulers"
            )

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return ()

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        if occasion is Occasion.NO_ROOM:
            return Home(any_other_node(view))
        if view.is_client or view.here not in view.nodes:  # a node that leaves keeps no task
            return Home(view.random.choice(view.nodes[: self.schedulers]), shelf=Shelf.POOLED)
        return Home(view.here, shelf=Shelf.POOLED)
