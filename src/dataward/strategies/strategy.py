"""Defines a strategy: a plan made before the run, and the rules that nodes follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.rules import Rules
from dataward.plan.adage import Plan

Planner = Callable[[Workflow, Platform, dict[int, Sequence[int]], int], Plan]
"""(workflow, platform, which nodes hold which input, seed) -> plan"""


@dataclass(frozen=True, slots=True)
class Strategy(Rules):
    """One way to schedule: a row of parts. The client and all nodes of a cluster follow it."""

    name: str
    summary: str
    plan: Planner
    paper: str = ""  # where it was published; "": nowhere
