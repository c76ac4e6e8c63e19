"""HEFT as published, held to its paper's example and to its definition worked out naively."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.builder import WorkflowBuilder
from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.plan.costs import costs_of
from dataward.plan.heft import heft_plan, placed_in_order, rank_order, upward_ranks
from dataward.plan.schedule import Schedule
from plan.clusters import a_platform, check_plan, check_schedule, placements, platforms
from plan.dags import a_workflow, dags
from plan.published import HEFT_EXAMPLE

Located = Mapping[int, Sequence[int]]


def heft_schedule(workflow: Workflow, platform: Platform, located: Located) -> Schedule:
    costs = costs_of(workflow, platform, located)
    return placed_in_order(costs, rank_order(workflow, upward_ranks(costs)))


def test_the_papers_example_has_the_papers_ranks() -> None:
    ranks = upward_ranks(HEFT_EXAMPLE)

    printed = [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert ranks.tolist() == pytest.approx(printed, abs=5e-4)


def test_the_papers_example_has_the_papers_schedule() -> None:
    order = rank_order(HEFT_EXAMPLE.workflow, upward_ranks(HEFT_EXAMPLE))

    schedule = placed_in_order(HEFT_EXAMPLE, order)

    assert (order + 1).tolist() == [1, 3, 4, 2, 5, 6, 9, 7, 8, 10]
    assert schedule.makespan_seconds == 80
    assert (schedule.nodes + 1).tolist() == [3, 1, 3, 2, 3, 2, 3, 1, 2, 2]


# --- by definition -------------------------------------------------------------------------------


def rate(platform: Platform, source: int, target: int) -> float:
    """``source`` -1 is the origin."""
    to = platform.machines[target]
    if source < 0:
        up, site = platform.origin_bytes_per_second, platform.origin_site
    else:
        up, site = platform.machines[source].up_bytes_per_second, platform.machines[source].site
    between = float("inf") if site == to.site else platform.site_bytes_per_second
    return min(up, to.down_bytes_per_second, between)


def naive_ready(
    workflow: Workflow,
    platform: Platform,
    located: Located,
    task: int,
    node: int,
    nodes: dict[int, int],
    ends: dict[int, float],
) -> float:
    """When the task's data can be on the node, edge by edge."""
    reads = workflow.inputs.row(task).tolist()
    ready = 0.0
    for parent in workflow.parents.row(task).tolist():
        writes = set(workflow.outputs.row(parent).tolist())
        size = sum(int(workflow.size_bytes[f]) for f in reads if f in writes)
        away = size and nodes[parent] != node
        ready = max(
            ready, ends[parent] + (size / rate(platform, nodes[parent], node) if away else 0)
        )
    sent: dict[int, int] = {}
    for file in reads:
        holders = located.get(file, [])
        if len(workflow.producers.row(file)) or node in holders:
            continue
        up = [(-platform.machines[h].up_bytes_per_second, h) for h in holders]
        source = min(up)[1] if up else -1
        sent[source] = sent.get(source, 0) + int(workflow.size_bytes[file])
    return max([ready, *(size / rate(platform, s, node) for s, size in sent.items())])


def naive_heft(workflow: Workflow, platform: Platform, located: Located) -> Schedule:
    """Every start that could be the earliest is tried on every node.

    It counts the cores in use at a moment, and so cannot place tasks without duration: those may
    start at the very moment at which one task hands its core to another.
    """
    machines = platform.machines
    costs = costs_of(workflow, platform, located)
    nodes: dict[int, int] = {}
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for task in rank_order(workflow, upward_ranks(costs)).tolist():
        width = int(workflow.cores[task])
        found = []
        for node, machine in enumerate(machines):
            if machine.cores < width:
                continue
            seconds = float(workflow.runtime_seconds[task]) / machine.speed
            ready = naive_ready(workflow, platform, located, task, node, nodes, ends)
            here = [t for t in nodes if nodes[t] == node]

            def free(at: float, here: list[int] = here, cores: int = machine.cores) -> int:
                busy = [t for t in here if starts[t] <= at < ends[t]]
                return cores - sum(int(workflow.cores[t]) for t in busy)

            for start in sorted({ready, *(ends[t] for t in here if ends[t] > ready)}):
                inside = [starts[t] for t in here if start <= starts[t] < start + seconds]
                if all(free(at) >= width for at in (start, *inside)):
                    found.append((start + seconds, node, start))
                    break
        ends[task], nodes[task], starts[task] = min(found)
    tasks = range(len(workflow))
    return Schedule(
        np.array([nodes[t] for t in tasks], dtype=np.int32),
        np.array([starts[t] for t in tasks]),
        np.array([ends[t] for t in tasks]),
    )


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_task_is_where_and_when_the_definition_says(data: st.DataObject) -> None:
    workflow = data.draw(dags(files=True, cores_most=3, most=12, seconds_least=1))
    platform = data.draw(platforms())
    located = data.draw(placements(workflow, platform))

    schedule = heft_schedule(workflow, platform, located)

    expected = naive_heft(workflow, platform, located)
    assert schedule.nodes.tolist() == expected.nodes.tolist()
    assert schedule.starts.tolist() == pytest.approx(expected.starts.tolist(), rel=1e-12)
    assert schedule.ends.tolist() == pytest.approx(expected.ends.tolist(), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_schedule_keeps_order_cores_and_bounds_and_is_the_same_again(data: st.DataObject) -> None:
    workflow = data.draw(dags(files=True, cores_most=3, most=14, whole=False))
    platform = data.draw(platforms())
    located = data.draw(placements(workflow, platform))

    schedule = heft_schedule(workflow, platform, located)
    plan = heft_plan(workflow, platform, located)

    check_schedule(workflow, platform, schedule)
    check_plan(plan, schedule)


# --- by hand -------------------------------------------------------------------------------------


def test_a_task_is_put_into_a_gap_before_a_task_planned_earlier() -> None:
    builder = WorkflowBuilder()
    builder.file("large", 100)
    builder.task("late", inputs=["large"], runtime_seconds=20)
    builder.task("short", runtime_seconds=5)

    schedule = heft_schedule(builder.build(), a_platform((1, 1.0)), {})

    assert schedule.starts.tolist() == [100, 0]
    assert schedule.makespan_seconds == 120


def test_a_file_read_twice_is_paid_for_twice() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 10)
    builder.task("a", outputs=["x"], runtime_seconds=50)
    builder.task("b", runtime_seconds=100)
    builder.task("c", inputs=["x"], runtime_seconds=100)
    builder.task("d", inputs=["x"], runtime_seconds=30)
    platform = a_platform((2, 1.0), (2, 1.0))

    schedule = heft_schedule(builder.build(), platform, {0: []})

    # As published, d's copy of x comes to node 1 in ten seconds of its own.
    assert schedule.nodes.tolist() == [0, 0, 0, 1]
    assert schedule.starts.tolist() == [0, 0, 50, 60]


def test_an_input_comes_from_the_origin_or_from_the_fastest_node_that_has_it() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 100)
    builder.task("t", inputs=["x"], runtime_seconds=1)
    workflow = builder.build()
    platform = a_platform((1, 1.0), (1, 1.0), (1, 50.0), bandwidth=[2.0, 5.0, 50.0], origin=10.0)

    def start(located: Located) -> tuple[list[int], float]:
        schedule = heft_schedule(workflow, platform, located)
        return schedule.nodes.tolist(), float(schedule.starts[0])

    assert start({}) == ([2], 10.0)
    assert start({0: [0]}) == ([0], 0.0)
    costs = costs_of(workflow, platform, {0: [0, 1]})
    assert costs.ready(0, [], []).tolist() == [0.0, 0.0, 20.0]


def test_links_between_sites_slow_an_edge_down() -> None:
    platform = a_platform((1, 1.0), (1, 1.0), (1, 1.0), bandwidth=10.0)
    machines = (*platform.machines[:2], replace(platform.machines[2], site="far"))
    two_sites = replace(platform, machines=machines, site_bytes_per_second=1.0)

    costs = costs_of(a_workflow(("a", 1, "")), two_sites, {})

    assert costs.rates.from_node(0)[1:].tolist() == [10.0, 1.0]
    assert costs.rates.from_origin.tolist() == [1.0, 1.0, 1.0]  # outside all sites
    assert costs.rates.mean() == pytest.approx((2 * 10 + 4 * 1) / 6)


def test_a_task_that_no_node_can_hold_is_refused() -> None:
    with pytest.raises(SettingError, match="needs 2 cores, but no node has more than 1"):
        heft_plan(a_workflow(("a", 1, ""), cores={"a": 2}), a_platform((1, 1.0)), {})


def test_a_file_on_a_node_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingError, match="file 0 cannot be on node 5"):
        heft_plan(a_workflow(("a", 1, "")), a_platform((1, 1.0)), {0: [5]})
