"""HEFT with links, quickly: feasible, repeatable, no more work on many nodes than on few."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import workflows
from dataward import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.file_edges import with_file_edges
from dataward.model.platform import Platform, uniform_platform
from dataward.model.workflow import Workflow
from dataward.plan.costs import costs_of
from dataward.plan.heft import rank_order, upward_ranks
from dataward.plan.heft_links import heft_links_schedule
from dataward.plan.quick_links import QuickPlanner, placed_quickly, quick_links_schedule
from dataward.plan.schedule import Schedule
from plan.clusters import a_platform, check_schedule, placements, platforms
from plan.dags import dags
from plan.transfers import check_transfers


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans())
def test_a_schedule_keeps_order_cores_bounds_and_links(data: st.DataObject, whole: bool) -> None:
    workflow = data.draw(dags(files=True, cores_most=3, most=14, whole=whole))
    platform = data.draw(platforms(most=14))
    located = data.draw(placements(workflow, platform))

    schedule = quick_links_schedule(workflow, platform, located)

    check_schedule(workflow, platform, schedule)
    check_transfers(workflow, platform, located, schedule)
    again = quick_links_schedule(workflow, platform, located)
    assert again.transfers == schedule.transfers


@settings(max_examples=50, deadline=None)
@given(workflows(max_tasks=40), st.integers(1, 4))
def test_busy_links_whose_gaps_are_forgotten_still_carry_one_file_at_a_time(
    workflow: Workflow, nodes: int
) -> None:
    platform = a_platform(*[(1, 1.0)] * nodes, bandwidth=100.0, origin=50.0)

    schedule = quick_links_schedule(workflow, platform, {})

    check_schedule(workflow, platform, schedule)
    check_transfers(workflow, platform, {}, schedule)


@settings(max_examples=50, deadline=None)
@given(dags(cores_most=3, most=12, seconds_least=1), st.integers(1, 9))
def test_without_files_every_task_ends_where_it_ends_first(workflow: Workflow, nodes: int) -> None:
    platform = a_platform(*[(3, 1.0)] * nodes)

    quick = quick_links_schedule(workflow, platform, {})

    order = rank_order(workflow, upward_ranks(costs_of(workflow, platform, {}))).tolist()
    for at, task in enumerate(order):
        first = first_start_anywhere(workflow, platform, quick, order[:at], task)
        assert quick.starts[task] == pytest.approx(first)


def first_start_anywhere(
    workflow: Workflow, platform: Platform, schedule: Schedule, placed: list[int], task: int
) -> float:
    """A search over every moment at which something ends, on every node."""
    parents = workflow.parents.row(task).tolist()
    ready = max((float(schedule.ends[parent]) for parent in parents), default=0.0)
    seconds = float(workflow.runtime_seconds[task])
    moments = sorted({ready, *(float(e) for e in schedule.ends[placed] if e > ready)})
    return next(
        start
        for start in moments
        for node, machine in enumerate(platform.machines)
        if most_used(workflow, schedule, placed, node, start, start + seconds)
        <= machine.cores - workflow.cores[task]
    )


def most_used(
    workflow: Workflow, schedule: Schedule, placed: list[int], node: int, start: float, end: float
) -> int:
    """The most cores that these tasks use on the node at one moment of that time."""
    here = [
        t
        for t in placed
        if schedule.nodes[t] == node and schedule.starts[t] < end and schedule.ends[t] > start
    ]
    moments = [start, *(float(schedule.starts[t]) for t in here if schedule.starts[t] > start)]
    return max(
        sum(int(workflow.cores[t]) for t in here if schedule.starts[t] <= at < schedule.ends[t])
        for at in moments
    )


@pytest.mark.parametrize("nodes", [4, 32])
@pytest.mark.parametrize("application", ["montage", "cybershake", "epigenomics", "sipht"])
def test_plans_are_about_as_short_as_if_all_nodes_were_compared(
    application: str, nodes: int
) -> None:
    workflow, platform = generate(application, 200, 1), uniform_platform(nodes)

    quick = quick_links_schedule(workflow, platform, {}).makespan_seconds

    assert quick <= 1.02 * heft_links_schedule(workflow, platform, {}).makespan_seconds


def test_without_transfers_the_plan_is_the_same() -> None:
    workflow, platform = generate("montage", 100, 1), uniform_platform(5)
    costs = costs_of(workflow, platform, {})

    schedule = placed_quickly(costs, platform, upward_ranks(costs), with_transfers=False)

    whole = quick_links_schedule(workflow, platform, {})
    assert schedule.transfers == ()
    assert schedule.nodes.tolist() == whole.nodes.tolist()
    assert schedule.ends.tolist() == whole.ends.tolist()


# --- as much work on many nodes as on few --------------------------------------------------------


def compared_per_task(workflow: Workflow, platform: Platform) -> float:
    costs = costs_of(workflow, platform, {})
    planner = QuickPlanner(costs, platform, with_transfers=False)
    for task in rank_order(workflow, upward_ranks(costs)).tolist():
        planner.place(task)
    return planner.compared / len(workflow)


@pytest.mark.parametrize("nodes", [16, 128, 1024])
def test_some_ten_equal_nodes_are_compared_however_many_there_are(nodes: int) -> None:
    assert compared_per_task(generate("montage", 400, 1), uniform_platform(nodes)) < 11


@pytest.mark.parametrize("nodes", [64, 512])
def test_nodes_that_all_differ_are_compared_by_a_few_kinds(nodes: int) -> None:
    equal = uniform_platform(nodes)
    machines = tuple(
        replace(machine, speed=1 + at / nodes, up_bytes_per_second=1e8 + at)
        for at, machine in enumerate(equal.machines)
    )

    assert compared_per_task(generate("montage", 200, 1), replace(equal, machines=machines)) < 30


@pytest.mark.parametrize("readers", [100, 1000])
def test_a_file_that_every_node_has_does_not_make_every_node_compared(readers: int) -> None:
    workflow = readers_of(10, seconds=100, count=readers)

    assert compared_per_task(workflow, a_platform(*[(1, 1.0)] * 100, bandwidth=10.0)) < 8


# --- by hand -------------------------------------------------------------------------------------


def readers_of(*sizes: int, seconds: float, count: int) -> Workflow:
    """Tasks that all read the same inputs."""
    builder = WorkflowBuilder()
    for i, size in enumerate(sizes):
        builder.file(f"in{i}", size)
    for i in range(count):
        builder.task(f"t{i}", inputs=[f"in{j}" for j in range(len(sizes))], runtime_seconds=seconds)
    return builder.build()


def moves(schedule: Schedule) -> list[tuple[int, int, float, float]]:
    return [(t.source, t.node, t.start, t.end) for t in schedule.transfers]


def test_a_node_that_has_a_file_by_then_sends_it_on() -> None:
    workflow = readers_of(10, seconds=100, count=4)

    schedule = quick_links_schedule(workflow, a_platform(*[(1, 1.0)] * 4, origin=1.0), {})

    # The origin has one lane here. After 10 s the first node sends the file on as well.
    assert sorted(schedule.starts.tolist()) == [10, 20, 20, 30]
    assert moves(schedule)[:3] == [(4, 0, 0, 10), (0, 1, 10, 20), (4, 2, 10, 20)]


def test_a_file_spreads_through_more_copies_than_are_all_looked_at() -> None:
    workflow = readers_of(10, seconds=1000, count=64)

    schedule = quick_links_schedule(workflow, a_platform(*[(1, 1.0)] * 64, origin=1.0), {})

    # Twice as many have it, and one more from the origin, every 10 s: 1, 3, 7, 15, 31, 63.
    assert max(schedule.starts.tolist()) == 70


def test_a_task_goes_to_a_free_one_of_many_nodes_that_have_its_file() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 1000)
    for at in range(16):
        builder.task(f"long{at}", runtime_seconds=500)
    builder.task("reader", inputs=["x"], runtime_seconds=1)
    holders = [*range(0, 60, 4)]

    platform = a_platform(*[(1, 1.0)] * 60)
    schedule = quick_links_schedule(builder.build(), platform, {0: holders})

    assert schedule.transfers == ()
    assert schedule.starts[16] == pytest.approx(0)


def test_of_equal_ends_the_node_that_has_the_file_is_chosen() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 10)
    builder.task("first", runtime_seconds=20)
    builder.task("then", inputs=["x"], after=["first"], runtime_seconds=1)

    schedule = quick_links_schedule(builder.build(), a_platform(*[(1, 1.0)] * 9), {0: [8]})

    assert schedule.nodes.tolist() == [0, 8]
    assert schedule.transfers == ()


def test_of_equal_ends_and_bytes_the_lowest_index_is_chosen() -> None:
    workflow = readers_of(10, seconds=1, count=1)

    schedule = quick_links_schedule(workflow, a_platform(*[(1, 1.0)] * 9), {0: [7, 3, 5]})

    assert schedule.nodes.tolist() == [3]


def readers_each(size: int, *, seconds: float, count: int) -> Workflow:
    """Tasks that each read an input of their own."""
    builder = WorkflowBuilder()
    for at in range(count):
        builder.file(f"in{at}", size)
        builder.task(f"t{at}", inputs=[f"in{at}"], runtime_seconds=seconds)
    return builder.build()


def test_of_equal_ends_and_bytes_a_lane_goes_on_with_the_node_it_sent_to() -> None:
    workflow = readers_each(100, seconds=10, count=8)

    schedule = quick_links_schedule(workflow, a_platform(*[(1, 1.0)] * 8, origin=2.0), {})

    # Two lanes, and by each four files one after another, all to one node.
    assert sorted(schedule.ends.tolist()) == [110, 110, 210, 210, 310, 310, 410, 410]
    assert sorted(schedule.nodes.tolist()) == [0] * 4 + [1] * 4


def test_a_lane_changes_its_node_if_a_task_would_have_to_wait_for_a_core_there() -> None:
    workflow = readers_each(100, seconds=1000, count=4)

    schedule = quick_links_schedule(workflow, a_platform(*[(1, 1.0)] * 4, origin=1.0), {})

    assert sorted(schedule.starts.tolist()) == [100, 200, 300, 400]
    assert sorted(schedule.nodes.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("copies", [1, 6, 12])
def test_a_file_comes_from_the_node_from_which_it_arrives_first(copies: int) -> None:
    builder = WorkflowBuilder()
    builder.file("x", 100)
    builder.task("wide", inputs=["x"], runtime_seconds=1, cores=2)
    near = a_platform(*[(1, 1.0)] * 14, (2, 1.0), bandwidth=10.0).machines
    far = tuple(replace(machine, site="far") for machine in near[:copies])
    platform = Platform((*far, *near[copies:]), site_bytes_per_second=1.0)

    schedule = quick_links_schedule(builder.build(), platform, {0: [*range(copies), 13]})

    assert moves(schedule) == [(13, 14, 0, 10)]


def test_a_task_is_planned_into_a_gap_between_others() -> None:
    builder = WorkflowBuilder()
    builder.file("made", 50)
    builder.task("writer", outputs=["made"], runtime_seconds=10, cores=2)
    builder.task("urgent", inputs=["made"], runtime_seconds=100, cores=3)
    builder.task("patient", runtime_seconds=2, cores=3)

    schedule = quick_links_schedule(builder.build(), a_platform((2, 1.0), (3, 1.0)), {})

    assert schedule.starts.tolist() == [0, 60, 0]


def test_neighbours_that_have_children_in_common_stay_together() -> None:
    wf, width = WorkflowBuilder("layers"), 30
    for layer in range(5):
        for i in range(width):
            wf.file(f"f{layer + 1}-{i}", 1000)
            inputs = [f"f{layer}-{i}", f"f{layer}-{(i + 1) % width}"] if layer else []
            wf.task(
                f"t{layer}-{i}", runtime_seconds=1.0, inputs=inputs, outputs=[f"f{layer + 1}-{i}"]
            )
    workflow = with_file_edges(wf.build())

    schedule = quick_links_schedule(workflow, uniform_platform(3, cores=1), {})

    check_schedule(workflow, uniform_platform(3, cores=1), schedule)
    assert schedule.makespan_seconds < 5 * width / 3 + 0.1
    assert len(schedule.transfers) < 6 * 4  # two at most for each border, and layer but the first
