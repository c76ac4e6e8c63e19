"""ADAGE (IEEE Access 2021): critical-path plan, work giving, task replication.

A task goes to the node that the plan prefers (`AdageHome`), and waits there by urgency. The most
loaded node gives tasks to the least loaded of its neighbours (`Giving`): as replicas, so that they
stay at home as well, and the first of two runs counts.

Besides the full strategy, there are variants that each leave one part out, so that an ablation can
show what each part contributes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.giving import Giving
from dataward.node.homes import AdageHome
from dataward.node.mover import Staying
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan, adage_plan, level_order_plan, lone_node_plan, random_plan
from dataward.strategies.strategy import Strategy


def critical_path_plan(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    machines = platform.machines
    if len(machines) == 1:
        return lone_node_plan(workflow, machines[0].cores)
    return adage_plan(
        workflow,
        len(machines),
        bandwidth_bytes_per_second=[m.down_bytes_per_second for m in machines],
        cores=[m.cores for m in machines],
        speed=[m.speed for m in machines],
        located=located,
        queue_transfers=True,  # "the time its transfers are done": a node has one link
    )


def submission_order(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    """ADAGE's preferred nodes, with priorities by level."""
    plan = critical_path_plan(workflow, platform, located, seed)
    order = level_order_plan(workflow, len(platform.machines))
    return replace(plan, priority=order.priority)


def data_blind(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    """ADAGE's priorities, with random nodes: shows what the plan gains by knowing the data."""
    plan = critical_path_plan(workflow, platform, located, seed)
    anywhere = random_plan(workflow, len(platform.machines), seed)
    return replace(plan, preferred=anywhere.preferred.astype(np.int32))


def wholly_random(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    return random_plan(workflow, len(platform.machines), seed)


_PAPER = "Giampà, Belcastro, Marozzo, Talia, Trunfio: IEEE Access 9, 2021"
_MOVED = Giving(replication=False)

ALL = (
    Strategy(
        "adage",
        "critical-path plan, work giving, replication",
        critical_path_plan,
        _PAPER,
        home=AdageHome(),
        mover=Giving(),
    ),
    Strategy(
        "adage-no-order",
        "ADAGE without critical-path order: level by level",
        submission_order,
        home=AdageHome(),
        mover=Giving(),
    ),
    Strategy(
        "adage-no-data",
        "ADAGE without data-aware preference: nodes at random",
        data_blind,
        home=AdageHome(),
        mover=Giving(),
    ),
    Strategy(
        "adage-no-giving",
        "ADAGE without work giving",
        critical_path_plan,
        home=AdageHome(),
        mover=Staying(),
    ),
    Strategy(
        "adage-no-replication",
        "ADAGE without replicas: a given task moves",
        critical_path_plan,
        home=AdageHome(),
        settings=NodeSettings(backups_max=0),
        mover=_MOVED,
    ),
    Strategy(
        "adage-random",
        "ADAGE's nodes with a random plan",
        wholly_random,
        home=AdageHome(),
        mover=Giving(),
    ),
)
