"""Defines a strategy: a plan made before the run, and the rules that nodes follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.homes import ADAGE_HOME, HomeRule
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan

Planner = Callable[[Workflow, Platform, dict[int, Sequence[int]], int], Plan]
"""(workflow, platform, which nodes hold which input, seed) -> plan"""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to schedule. All nodes and the client use ``home`` to choose a task's node."""

    name: str
    summary: str
    plan: Planner
    settings: NodeSettings = field(default_factory=NodeSettings)
    home: HomeRule = ADAGE_HOME
