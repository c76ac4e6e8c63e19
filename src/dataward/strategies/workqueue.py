"""The plain work queue: a node that is free takes the next task, whatever its data."""

from collections.abc import Sequence

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.keeper_homes import KeeperHome
from dataward.node.pulling import Pulling
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan, level_order_plan
from dataward.strategies.strategy import Strategy


def in_order(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    return level_order_plan(workflow, len(platform.machines))


WORKQUEUE = Strategy(
    "workqueue",
    "one queue for all; a free node takes the first task",
    in_order,
    "Cirne et al.: Grid Computing for Bag of Tasks Applications, I3E 2003",
    settings=NodeSettings(backups_max=0, staging_ahead=0),
    home=KeeperHome(),
    mover=Pulling(),
)
