"""PEFT as published, held to its paper's example and to its definition worked out naively."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.plan.costs import Costs, costs_of
from dataward.plan.heft import placed_in_order, rank_order, upward_ranks
from dataward.plan.peft import mean_costs, optimistic_costs, peft_plan, placed_with_table
from plan.clusters import check_plan, check_schedule, placements, platforms
from plan.dags import dags
from plan.published import PEFT_EXAMPLE


def test_the_papers_example_has_the_papers_table() -> None:
    table = optimistic_costs(PEFT_EXAMPLE)

    assert table.tolist() == [
        [64, 68, 86], [42, 39, 42], [27, 41, 43], [42, 39, 50], [28, 37, 28],
        [42, 39, 44], [13, 16, 22], [13, 16, 33], [13, 16, 20], [0, 0, 0],
    ]  # fmt: skip
    assert mean_costs(PEFT_EXAMPLE, table)[0] == pytest.approx(72.7, abs=0.05)


def test_the_papers_example_has_the_papers_makespans() -> None:
    table = optimistic_costs(PEFT_EXAMPLE)

    peft = placed_with_table(PEFT_EXAMPLE, table, mean_costs(PEFT_EXAMPLE, table))
    order = rank_order(PEFT_EXAMPLE.workflow, upward_ranks(PEFT_EXAMPLE))
    heft = placed_in_order(PEFT_EXAMPLE, order)

    assert peft.makespan_seconds == 122
    assert (peft.nodes + 1).tolist() == [1, 1, 1, 1, 3, 2, 1, 2, 3, 2]
    assert heft.makespan_seconds == 133


def naive_table(costs: Costs) -> list[list[float]]:
    """The table by its definition, for every task and every node."""
    workflow, count = costs.workflow, len(costs.cores)
    bytes_of = {
        (p, t): costs.mean_edge_seconds[workflow.parents.starts[t] + i]
        for t in range(len(workflow))
        for i, p in enumerate(workflow.parents.row(t).tolist())
    }
    table = [[0.0] * count for _ in range(len(workflow))]
    for task in workflow.layers.order[::-1].tolist():
        for node in range(count):
            table[task][node] = max(
                [
                    min(
                        table[child][other]
                        + float(costs.seconds_on(child)[other])
                        + (0.0 if other == node else bytes_of[task, child])
                        for other in range(count)
                        if costs.cores[other] >= workflow.cores[child]
                    )
                    for child in workflow.children.row(task).tolist()
                ],
                default=0.0,
            )
    return table


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_table_by_kinds_of_node_is_the_table_by_nodes(data: st.DataObject) -> None:
    workflow: Workflow = data.draw(dags(files=True, cores_most=3, most=10))
    platform: Platform = data.draw(platforms())
    costs = costs_of(workflow, platform, {})

    table = optimistic_costs(costs)

    naive = np.array(naive_table(costs))
    assert table[:, costs.kinds] == pytest.approx(naive, rel=1e-12)
    assert mean_costs(costs, table) == pytest.approx(naive.mean(axis=1), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_schedule_keeps_order_cores_and_bounds_and_is_the_same_again(data: st.DataObject) -> None:
    workflow = data.draw(dags(files=True, cores_most=3, most=14, whole=False))
    platform = data.draw(platforms())
    located = data.draw(placements(workflow, platform))
    costs = costs_of(workflow, platform, located)

    table = optimistic_costs(costs)
    schedule = placed_with_table(costs, table, mean_costs(costs, table))

    check_schedule(workflow, platform, schedule)
    check_plan(peft_plan(workflow, platform, located), schedule)
