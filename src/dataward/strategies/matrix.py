"""MATRIX: data-aware work stealing in its four policies, and choosing among them at run time."""

from collections.abc import Sequence
from math import inf

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.node.flexible import FlexibleStealing
from dataward.node.matrix_homes import MatrixHome
from dataward.node.mover import Mover
from dataward.node.ready_queue import LoadMeasure, TakeOrder
from dataward.node.settings import NodeSettings
from dataward.node.stealing import Stealing
from dataward.node.switching import SwitchingStealing
from dataward.plan.adage import Plan
from dataward.plan.by_data import by_data_size_plan
from dataward.strategies.strategy import Strategy

_PAPER = "Wang, Qiao, Sadooghi, Zhou, Li, Lang, Raicu: CCPE 28, 2016"


def by_data_size(
    workflow: Workflow, platform: Platform, located: dict[int, Sequence[int]], seed: int
) -> Plan:
    return by_data_size_plan(workflow, len(platform.machines))


def _policy(name: str, summary: str, threshold: float, mover: Mover) -> Strategy:
    return Strategy(
        name,
        summary,
        by_data_size,
        _PAPER,
        settings=NodeSettings(backups_max=0, staging_ahead=0),  # a thread fetches, then runs
        home=MatrixHome(threshold),
        order=TakeOrder.KEPT_FIRST,
        mover=mover,
        load=LoadMeasure.SHARED_TASKS,
    )


ALL = (
    _policy("matrix-mlb", "MATRIX for balance only: any task is stolen", inf, Stealing()),
    _policy("matrix-mdl", "MATRIX for data only: tasks stay with it", 0.0, Stealing()),
    _policy("matrix-rlds", "MATRIX: tasks with little data are stolen", 0.5, Stealing()),
    _policy("matrix-flds", "matrix-rlds, and tasks that wait too long", 0.5, FlexibleStealing()),
    _policy("matrix", "matrix-flds, mlb or mdl, as data is moved", 0.5, SwitchingStealing()),
)
