"""Albatross: tasks come from a distributed queue and are bound to a node as late as can be."""

from collections.abc import Sequence
from dataclasses import replace

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.albatross_home import AlbatrossHome
from dataward.node.binding import Binding
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan, level_order_plan
from dataward.plan.by_data import hashed_nodes
from dataward.strategies.strategy import Strategy


def from_distributed_queue(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    """First come, first served, from a queue that a hash of the ids spreads over all nodes."""
    nodes = len(platform.machines)
    return replace(level_order_plan(workflow, nodes), preferred=hashed_nodes(workflow, nodes))


ALBATROSS = Strategy(
    "albatross",
    "late binding: to the data when ready, and when taken",
    from_distributed_queue,
    "Sadooghi, Kumar, Wang, Zhao, Li, Raicu: IEEE e-Science 2016",
    settings=NodeSettings(backups_max=0, staging_ahead=0),
    home=AlbatrossHome(),
    binding=Binding.LATE,
)
