"""A list schedule: cores take the most urgent of the tasks that have their files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_diamond
from dataward import WorkflowBuilder
from dataward.generate import generate
from dataward.model.platform import uniform_platform
from dataward.model.remaining import Remaining, before_the_run
from dataward.model.workflow import Workflow
from dataward.plan.bounds import makespan_bounds
from dataward.plan.list_schedule import ListSchedule, Resources, resources_of


def tasks(*seconds: float, cores: int = 1) -> Workflow:
    wf = WorkflowBuilder("row")
    for number, one in enumerate(seconds):
        wf.task(f"t_{number}", runtime_seconds=one, cores=cores)
    return wf.build()


def end_of(
    workflow: Workflow, resources: Resources, remaining: Remaining | None = None, **given: float
) -> float:
    remaining = remaining or before_the_run(workflow)
    seconds = workflow.runtime_seconds
    schedule = ListSchedule(workflow, remaining, seconds, resources)
    return schedule.end_seconds(seconds[remaining.is_open].tolist(), **given)


def test_tasks_are_spread_over_the_cores_longest_first() -> None:
    assert end_of(tasks(1, 1, 1, 3), Resources(1, 2)) == 3.0


def test_children_wait_for_their_parents() -> None:
    wf = WorkflowBuilder("chain")
    wf.task("a", runtime_seconds=1.0)
    wf.task("b", runtime_seconds=2.0, after=["a"])

    assert end_of(wf.build(), Resources(1, 8)) == 3.0
    assert end_of(wf.build(), Resources(1, 8, pause_seconds=0.5)) == 4.0


def test_a_wide_task_needs_its_cores_at_once_and_one_too_wide_takes_all() -> None:
    assert end_of(tasks(2, 2, 2, cores=2), Resources(1, 4)) == 4.0
    assert end_of(tasks(2, 2, cores=64), Resources(1, 4)) == 4.0


def test_running_tasks_keep_their_cores() -> None:
    workflow = tasks(5, 1)
    remaining = before_the_run(workflow)
    remaining.running[0] = 2.0

    assert end_of(workflow, Resources(1, 1), remaining) == 6.0


def test_tasks_that_are_done_take_no_time() -> None:
    workflow = a_diamond()
    remaining = before_the_run(workflow)
    remaining.is_open[:3] = False

    assert end_of(workflow, Resources(1, 1), remaining) == workflow.runtime_seconds[3]


def a_reader(size_bytes: int) -> Workflow:
    wf = WorkflowBuilder("reader")
    wf.file("in", size_bytes)
    wf.task("t", inputs=["in"], runtime_seconds=1.0)
    return wf.build()


def test_inputs_take_the_time_of_a_nodes_link() -> None:
    resources = resources_of(uniform_platform(4))

    assert end_of(a_reader(1_000_000_000), resources) == pytest.approx(9.0, abs=0.01)
    assert end_of(a_reader(1_000_000_000), resources, slowness=2.0) == pytest.approx(17.0, abs=0.01)


def test_what_is_staged_already_takes_no_more_time() -> None:
    workflow, resources = a_reader(1_000_000_000), resources_of(uniform_platform(4))
    half, whole = before_the_run(workflow), before_the_run(workflow)
    half.staging[0] = 4.0
    whole.staged.append(0)

    assert end_of(workflow, resources, half) == pytest.approx(5.0, abs=0.01)
    assert end_of(workflow, resources, whole) == pytest.approx(1.0, abs=0.01)


def test_each_node_fetches_a_file_once() -> None:
    wf = WorkflowBuilder("readers")
    wf.file("in", 1_250_000_000)  # a second from the origin
    for number in range(100):
        wf.task(f"t_{number}", inputs=["in"], runtime_seconds=0.001)

    alone = end_of(wf.build(), resources_of(uniform_platform(1, cores=100)))
    three = end_of(wf.build(), resources_of(uniform_platform(3, cores=34)))

    # The disks are slower than the link here: every task reads the file.
    assert three < alone


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(["montage", "sipht", "fan-in", "bag"]),
    st.integers(1, 60),
    st.integers(1, 9),
)
def test_no_list_schedule_is_below_the_bound_nor_above_all_work(
    name: str, size: int, cores: int
) -> None:
    workflow = generate(name, max(size, 30), seed=size)

    end = end_of(workflow, Resources(1, cores))

    bound = makespan_bounds(
        workflow, nodes=1, cores=cores, bandwidth_bytes_per_second=float("inf")
    ).best_seconds
    assert bound * (1 - 1e-9) <= end <= float(np.sum(workflow.runtime_seconds)) * (1 + 1e-9)
