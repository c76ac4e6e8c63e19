"""The latest starts of a schedule: whoever keeps to them ends when the schedule does."""

import numpy as np
import pytest
from hypothesis import given, settings

from dataward.model.builder import WorkflowBuilder
from dataward.model.platform import Platform, uniform_platform
from dataward.model.workflow import Workflow
from dataward.plan.costs import costs_of
from dataward.plan.heft_links import heft_links_schedule
from dataward.plan.latest_starts import latest_starts
from dataward.plan.schedule import Schedule
from plan.clusters import platforms
from plan.dags import dags

CLOSE = 1e-6


def latest(workflow: Workflow, platform: Platform, schedule: Schedule) -> dict[str, float]:
    found = latest_starts(costs_of(workflow, platform, {}), schedule)
    return dict(zip(workflow.task_ids, found.tolist(), strict=True))


@settings(max_examples=200)
@given(dags(), platforms())
def test_no_task_may_start_so_late_that_its_children_or_the_end_are_late(
    workflow: Workflow, platform: Platform
) -> None:
    schedule = heft_links_schedule(workflow, platform, {})
    found = latest_starts(costs_of(workflow, platform, {}), schedule)

    ends = found + (schedule.ends - schedule.starts)
    scale = CLOSE * (1 + schedule.makespan_seconds)
    assert (found >= schedule.starts - scale).all(), "the schedule itself is in time"
    assert (ends <= schedule.makespan_seconds + scale).all()
    for task in range(len(workflow)):
        for parent in workflow.parents.row(task).tolist():
            assert ends[parent] <= found[task] + scale


def chain_and_short() -> Workflow:
    builder = WorkflowBuilder("two")
    builder.command("a", id="a", outputs=["x"], runtime_seconds=10)
    builder.command("b", id="b", inputs=["x"], outputs=["y"], runtime_seconds=20)
    builder.command("c", id="c", outputs=["z"], runtime_seconds=5)
    return builder.build()


def test_what_nothing_waits_for_may_start_when_it_would_end_last() -> None:
    workflow = chain_and_short()
    schedule = Schedule(
        np.array([0, 0, 0], np.int32), np.array([0.0, 10.0, 0.0]), np.array([10.0, 30.0, 5.0])
    )

    found = latest(workflow, uniform_platform(1, cores=2), schedule)

    assert found == pytest.approx({"a": 0.0, "b": 10.0, "c": 25.0})


def test_a_task_must_leave_its_core_in_time_for_the_next() -> None:
    workflow = chain_and_short()
    schedule = Schedule(
        np.array([0, 0, 0], np.int32), np.array([5.0, 15.0, 0.0]), np.array([15.0, 35.0, 5.0])
    )

    found = latest(workflow, uniform_platform(1, cores=1), schedule)

    assert found == pytest.approx({"a": 5.0, "b": 15.0, "c": 0.0})


def test_files_take_time_to_reach_another_node() -> None:
    builder = WorkflowBuilder("move")
    builder.file("x", size_bytes=1_250_000_000)  # ten seconds at 1 Gbps
    builder.command("a", id="a", outputs=["x"], runtime_seconds=10)
    builder.command("b", id="b", inputs=["x"], runtime_seconds=20)
    schedule = Schedule(np.array([0, 1], np.int32), np.array([0.0, 25.0]), np.array([10.0, 45.0]))

    found = latest(builder.build(), uniform_platform(2), schedule)

    assert found == pytest.approx({"a": 5.0, "b": 25.0})


def test_tasks_that_take_no_time_may_follow_each_other_at_one_moment() -> None:
    builder = WorkflowBuilder("moments")
    builder.command("a", id="a", outputs=["x"], runtime_seconds=2)
    builder.command("c", id="c", inputs=["x"], runtime_seconds=0)
    builder.command("b", id="b", inputs=["x"], runtime_seconds=0)
    schedule = Schedule(
        np.array([0, 0, 0], np.int32), np.array([0.0, 2.0, 2.0]), np.array([2.0, 2.0, 2.0])
    )

    found = latest(builder.build(), uniform_platform(1, cores=1), schedule)

    assert found == pytest.approx({"a": 0.0, "b": 2.0, "c": 2.0})
