"""What is left after a task: never more than there is, and it tells nodes apart by their links."""

import numpy as np
from hypothesis import given, settings

from dataward.model.builder import WorkflowBuilder
from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.plan.costs import costs_of
from dataward.plan.heft import upward_ranks
from dataward.plan.kinds import kinds_of
from dataward.plan.onward import onward_seconds
from dataward.plan.quick_links import placed_quickly
from plan.clusters import a_platform, check_schedule, platforms
from plan.dags import dags


@settings(max_examples=100)
@given(dags(), platforms())
def test_no_schedule_ends_sooner_after_a_task_than_the_table_says(
    workflow: Workflow, platform: Platform
) -> None:
    costs, kinds = costs_of(workflow, platform, {}), kinds_of(platform)
    table = onward_seconds(costs, platform, kinds)

    for onward in (None, table):
        schedule = placed_quickly(costs, platform, upward_ranks(costs), onward=onward)

        check_schedule(workflow, platform, schedule)
        left = table[np.arange(len(workflow)), np.array(kinds)[schedule.nodes]]
        ends = schedule.ends + left
        written = schedule.ends + [
            size / platform.machines[node].disk_bytes_per_second
            for size, node in zip(workflow.output_bytes(), schedule.nodes, strict=True)
        ]
        assert (ends <= written.max() * (1 + 1e-9)).all()


def test_a_large_output_makes_a_fast_node_with_a_slow_link_dear() -> None:
    builder = WorkflowBuilder("two")
    builder.file("big", 1000)
    builder.task("makes", outputs=["big"], runtime_seconds=10.0)
    builder.task("reads", inputs=["big"], runtime_seconds=10.0, cores=2)
    workflow = builder.build()
    platform = a_platform((1, 10.0), (2, 1.0), bandwidth=1.0)
    costs = costs_of(workflow, platform, {})

    table = onward_seconds(costs, platform, kinds_of(platform))
    blind = placed_quickly(costs, platform, upward_ranks(costs))
    ahead = placed_quickly(costs, platform, upward_ranks(costs), onward=table)

    assert table[0].round(6).tolist() == [1010.0, 10.0]
    assert (blind.nodes.tolist(), round(blind.makespan_seconds)) == ([0, 1], 1011)
    assert (ahead.nodes.tolist(), round(ahead.makespan_seconds)) == ([1, 1], 20)
