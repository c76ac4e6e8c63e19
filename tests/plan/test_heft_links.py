"""HEFT with links: no link carries two files at a time, and nothing is moved twice."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import workflows
from dataward.model.builder import WorkflowBuilder
from dataward.model.platform import Platform
from dataward.model.workflow import Workflow
from dataward.plan.heft_links import heft_links_plan, heft_links_schedule
from dataward.plan.schedule import Schedule
from plan.clusters import a_platform, check_plan, check_schedule, placements, platforms
from plan.dags import dags
from plan.transfers import check_transfers


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans())
def test_a_schedule_keeps_order_cores_bounds_and_links(data: st.DataObject, whole: bool) -> None:
    workflow = data.draw(dags(files=True, cores_most=3, most=14, whole=whole))
    platform = data.draw(platforms())
    located = data.draw(placements(workflow, platform))

    schedule = heft_links_schedule(workflow, platform, located)

    check_schedule(workflow, platform, schedule)
    check_transfers(workflow, platform, located, schedule)
    again = heft_links_schedule(workflow, platform, located)
    assert again.transfers == schedule.transfers
    check_plan(heft_links_plan(workflow, platform, located), again)


@settings(max_examples=50, deadline=None)
@given(workflows(max_tasks=40), st.integers(1, 4))
def test_busy_links_whose_gaps_are_forgotten_still_carry_one_file_at_a_time(
    workflow: Workflow, nodes: int
) -> None:
    platform = a_platform(*[(1, 1.0)] * nodes, bandwidth=100.0, origin=50.0)

    schedule = heft_links_schedule(workflow, platform, {})

    check_schedule(workflow, platform, schedule)
    check_transfers(workflow, platform, {}, schedule)


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


def test_a_file_is_brought_to_a_node_once() -> None:
    workflow = readers_of(10, seconds=100, count=3)

    schedule = heft_links_schedule(workflow, a_platform((3, 1.0)), {})

    assert moves(schedule) == [(1, 0, 0, 10)]
    assert schedule.starts.tolist() == [10, 10, 10]


def test_a_node_that_has_a_file_by_then_sends_it_on() -> None:
    workflow = readers_of(10, seconds=100, count=4)

    schedule = heft_links_schedule(workflow, a_platform(*[(1, 1.0)] * 4, origin=1.0), {})

    # The origin has one lane here. After 10 s the first node sends the file on as well.
    assert sorted(schedule.starts.tolist()) == [10, 20, 20, 30]
    assert moves(schedule)[:3] == [(4, 0, 0, 10), (0, 1, 10, 20), (4, 2, 10, 20)]


def test_an_origin_with_a_faster_link_sends_several_files_at_once() -> None:
    workflow = readers_of(10, seconds=100, count=4)

    schedule = heft_links_schedule(workflow, a_platform(*[(1, 1.0)] * 4, origin=3.5), {})

    assert sorted(schedule.starts.tolist()) == [10, 10, 10, 20]
    assert {t.source for t in schedule.transfers} >= {4, 5, 6}


def test_large_inputs_go_over_different_links() -> None:
    builder = WorkflowBuilder()
    for name in ("a", "b"):
        builder.file(f"{name}.in", 100)
        builder.task(name, inputs=[f"{name}.in"], runtime_seconds=1.0)

    schedule = heft_links_schedule(builder.build(), a_platform((2, 1.0), (2, 1.0)), {})

    assert sorted(schedule.nodes.tolist()) == [0, 1]
    assert schedule.makespan_seconds == 101


def test_a_file_is_put_on_a_link_before_one_that_was_planned_earlier() -> None:
    builder = WorkflowBuilder()
    builder.file("made", 50)
    builder.file("given", 5)
    builder.task("writer", outputs=["made"], runtime_seconds=10, cores=2)
    builder.task("urgent", inputs=["made"], runtime_seconds=100, cores=3)
    builder.task("patient", inputs=["given"], runtime_seconds=2, cores=3)
    platform = a_platform((2, 1.0), (3, 1.0))  # a node for the writer, and one for the others

    schedule = heft_links_schedule(builder.build(), platform, {})

    assert moves(schedule) == [(0, 1, 10, 60), (2, 1, 0, 5)]
    assert schedule.starts.tolist() == [0, 60, 5]


def test_of_equal_ends_the_node_that_has_the_file_is_chosen() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 10)
    builder.task("first", runtime_seconds=20)
    builder.task("then", inputs=["x"], after=["first"], runtime_seconds=1)

    schedule = heft_links_schedule(builder.build(), a_platform(*[(1, 1.0)] * 9), {0: [8]})

    assert schedule.nodes.tolist() == [0, 8]
    assert schedule.transfers == ()


@pytest.mark.parametrize("copies", [1, 6])
def test_a_file_comes_from_the_node_from_which_it_arrives_first(copies: int) -> None:
    builder = WorkflowBuilder()
    builder.file("x", 100)
    builder.task("wide", inputs=["x"], runtime_seconds=1, cores=2)
    near = (a_platform(*[(1, 1.0)] * 8, (2, 1.0), bandwidth=10.0)).machines
    far = tuple(replace(machine, site="far") for machine in near[:copies])
    platform = Platform((*far, *near[copies:]), site_bytes_per_second=1.0)

    schedule = heft_links_schedule(builder.build(), platform, {0: [*range(copies), 7]})

    assert moves(schedule) == [(7, 8, 0, 10)]
