"""MATRIX: what its policies have in common, and what each is for."""

from dataclasses import replace
from math import inf

import pytest

from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptBegan, Occasion, PolicyChanged, TaskPlaced
from dataward.model.platform import Placement, uniform_platform
from dataward.model.workflow import Workflow
from dataward.node.flexible import FlexibleStealing
from dataward.node.ready_queue import LoadMeasure, TakeOrder
from dataward.node.switching import SwitchingStealing
from dataward.strategies.choosing import changed_strategy
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import MB, Run, equal_tasks, simulate

MATRIX = [name for name in STRATEGIES if name.startswith("matrix")]
FOUR = uniform_platform(4, cores=1)


def nodes_of(run: Run) -> set[str]:
    """The nodes that began a task."""
    return {event.node for event in run.all(AttemptBegan)}


def stolen(run: Run) -> int:
    return sum(event.occasion is Occasion.STOLEN for event in run.all(TaskPlaced))


def a_fan(children: int, size_bytes: int, seconds: float) -> Workflow:
    """One task writes a file that many read."""
    wf = WorkflowBuilder("fan")
    wf.file("big", size_bytes)
    wf.task("first", outputs=["big"], runtime_seconds=1.0)
    for child in range(children):
        wf.task(f"child{child}", inputs=["big"], runtime_seconds=seconds)
    return wf.build()


@pytest.mark.parametrize("name", MATRIX)
def test_nodes_take_kept_tasks_first_and_report_how_many_can_be_stolen(name: str) -> None:
    strategy = STRATEGIES[name]

    assert strategy.order is TakeOrder.KEPT_FIRST
    assert strategy.load is LoadMeasure.SHARED_TASKS
    assert strategy.settings.backups_max == 0


def test_the_policies_differ_in_threshold_and_flexibility() -> None:
    thresholds = {name: STRATEGIES[name].home.threshold for name in MATRIX}
    flexible = [n for n in MATRIX if isinstance(STRATEGIES[n].mover, FlexibleStealing)]

    assert thresholds == {
        "matrix-mlb": inf, "matrix-mdl": 0.0, "matrix-rlds": 0.5, "matrix-flds": 0.5, "matrix": 0.5,
    }  # fmt: skip
    assert flexible == ["matrix-flds", "matrix"]
    assert isinstance(STRATEGIES["matrix"].mover, SwitchingStealing)


@pytest.mark.parametrize("name", MATRIX)
def test_tasks_that_all_wait_at_one_node_are_stolen_by_the_others(name: str) -> None:
    worst = changed_strategy(STRATEGIES[name], ["submission=worst"])

    run = simulate(equal_tasks(40, 10.0), FOUR, worst)

    assert nodes_of(run) == {"n0", "n1", "n2", "n3"}
    assert stolen(run) > 0
    assert run.makespan < 130.0  # 100 s if none ever waited, 400 s for one node


def test_for_data_only_fewer_bytes_are_moved_than_for_balance_only() -> None:
    spread = replace(FOUR, placement=Placement.SPREAD)
    workflow = generate("montage", 60, seed=1)

    moved = {
        name: simulate(workflow, spread, STRATEGIES[name]).summary.bytes_moved
        for name in ("matrix-mlb", "matrix-mdl")
    }

    assert moved["matrix-mdl"] < 0.8 * moved["matrix-mlb"]


def test_children_of_one_large_file_stay_with_it_unless_the_policy_is_flexible() -> None:
    fan = a_fan(40, 2000 * MB, 10.0)  # 16 s to move: more than half of 10 s

    rigid, flexible = (simulate(fan, FOUR, STRATEGIES[n]) for n in ("matrix-rlds", "matrix-flds"))

    assert len(nodes_of(rigid)) == 1
    assert len(nodes_of(flexible)) == 4
    assert flexible.makespan < 0.6 * rigid.makespan


def test_a_node_whose_tasks_move_much_or_little_switches_its_policy() -> None:
    little, much = a_fan(100, 1, 1.0), a_fan(100, 200 * MB, 1.0)
    hasty = changed_strategy(STRATEGIES["matrix"], ["switch_tasks=4", "threshold=inf"])
    no_cache = changed_strategy(hasty, ["caching=off"])

    assert {e.policy for e in simulate(little, FOUR, hasty).all(PolicyChanged)} == {"mlb"}
    assert "mdl" in {e.policy for e in simulate(much, FOUR, no_cache).all(PolicyChanged)}
