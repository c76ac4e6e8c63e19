"""CPFL: shared inputs are placed beforehand, and tasks go where their files are, by path."""

from collections.abc import Sequence

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.settings import NodeSettings
from dataward.plan.adage import Plan
from dataward.plan.cpfl import cpfl_plan
from dataward.strategies.strategy import Strategy


def critical_path_file_location(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    return cpfl_plan(workflow, platform, located)


CPFL = Strategy(
    "cpfl",
    "shared inputs placed ahead, tasks by path to their files",
    critical_path_file_location,
    "Acevedo, Hernández, Espinosa, Méndez: FGCS 74, 2017",
    settings=NodeSettings(backups_max=0),
)
