"""Static strategies: a plan made before the run, which nodes follow and nobody changes.

A node takes its tasks in the order of their planned starts, as they become ready. Nothing is given
away and nothing runs twice, so what the plan did not foresee is waited out; only the tasks of a
node that is lost go elsewhere (`AdageHome`).
"""

from collections.abc import Sequence

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan, random_plan
from dataward.plan.heft import heft_plan
from dataward.plan.heft_links import heft_links_plan
from dataward.plan.peft import peft_plan
from dataward.strategies.strategy import Strategy

STATIC = NodeSettings(backups_max=0)


def heft(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    return heft_plan(workflow, platform, located)


def heft_links(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    return heft_links_plan(workflow, platform, located)


def peft(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    return peft_plan(workflow, platform, located)


def random(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    cores = [machine.cores for machine in platform.machines]
    return random_plan(workflow, len(cores), seed, cores)


HEFT_PAPER = "Topcuoglu, Hariri, Wu: IEEE TPDS 13(3), 2002"
PEFT_PAPER = "Arabnejad, Barbosa: IEEE TPDS 25(3), 2014"

ALL = (
    Strategy(
        "heft",
        "HEFT's plan: upward rank, earliest finish, links unshared",
        heft,
        HEFT_PAPER,
        settings=STATIC,
    ),
    Strategy(
        "heft-links",
        "HEFT with every file planned onto links, and moved once",
        heft_links,
        settings=STATIC,
    ),
    Strategy(
        "peft",
        "PEFT's plan: HEFT that looks ahead by optimistic costs",
        peft,
        PEFT_PAPER,
        settings=STATIC,
    ),
    Strategy("random", "a random node for each task, level by level", random, settings=STATIC),
)
