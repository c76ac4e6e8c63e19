"""Pulling by data: a keeper gives each node the task that suits the files it has."""

from dataclasses import dataclass

from dataward.errors import SettingError
from dataward.node.choosers import Chooser
from dataward.node.data_choosers import BestSuited, MostCached
from dataward.node.mover import NodeParts
from dataward.node.pulling import Pulling
from dataward.node.weights import Metric


@dataclass(frozen=True, slots=True)
class SuitedPulling(Pulling):
    """Worker-centric scheduling: ``choose`` is the paper's n, of which 1 and 2 are worth using."""

    metric: Metric = Metric.REST
    choose: int = 1

    def __post_init__(self) -> None:
        Pulling.__post_init__(self)
        if self.choose < 1:
            raise SettingError("choose=0 would choose no task; give at least 1")

    def chooser(self, parts: NodeParts) -> Chooser:
        return BestSuited(parts.store, self.metric, self.choose, parts.world.random)


@dataclass(frozen=True, slots=True)
class CachedPulling(Pulling):
    """Data diffusion: tasks go to where their inputs are cached."""

    window: int = 3200  # ours: tasks at the front of the queue that are compared

    def __post_init__(self) -> None:
        Pulling.__post_init__(self)
        if self.window < 1:
            raise SettingError("a window of 0 tasks would have none to give; give at least 1")

    def chooser(self, parts: NodeParts) -> Chooser:
        return MostCached(parts.store, self.window)
