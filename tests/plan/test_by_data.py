"""Tasks with most data come first, at nodes drawn by a hash of their names."""

from hypothesis import given
from hypothesis import strategies as st

from builders import a_diamond, workflows
from dataward.generate import generate
from dataward.model.workflow import Workflow
from dataward.plan.by_data import by_data_size_plan


def test_who_reads_more_is_more_urgent() -> None:
    plan = by_data_size_plan(a_diamond(), 4)

    urgency = dict(zip(a_diamond().task_ids, plan.priority.tolist(), strict=True))
    assert urgency == {"split": -5.0, "left": -10.0, "right": -20.0, "join": -70.0}


@given(workflows(), st.integers(1, 9))
def test_every_task_has_a_node(workflow: Workflow, nodes: int) -> None:
    plan = by_data_size_plan(workflow, nodes)

    assert all(0 <= node < nodes for node in plan.preferred.tolist())


def test_tasks_are_spread_over_all_nodes() -> None:
    plan = by_data_size_plan(generate("montage", 1000, seed=1), 10)

    counts = [plan.preferred.tolist().count(node) for node in range(10)]
    assert min(counts) > 50
