"""Which files come ahead of the tasks that read them, and which by other nodes."""

from dataclasses import replace

import numpy as np
import pytest

from dataward.model.builder import WorkflowBuilder
from dataward.model.platform import uniform_platform
from dataward.model.workflow import Workflow
from dataward.plan.ahead import ahead_of_readers, relays_of
from dataward.plan.costs import costs_of
from dataward.plan.schedule import PlannedTransfer, Schedule


def late_reader() -> Workflow:
    """A task that reads an input, but must wait for another task first."""
    builder = WorkflowBuilder()
    builder.file("input", 100)
    builder.task("first", outputs=["made"], runtime_seconds=100)
    builder.task("reader", inputs=["input", "made"], runtime_seconds=10)
    return builder.build()


def planned(*transfers: PlannedTransfer) -> Schedule:
    """The first task on node 0 until 100, the reader on node 1 until 200."""
    return Schedule(np.array([0, 1]), np.array([0.0, 190.0]), np.array([100.0, 200.0]), transfers)


def test_a_file_that_is_planned_to_come_before_its_reader_is_ready_comes_ahead() -> None:
    workflow = late_reader()
    file = workflow.file_ids.index("input")

    schedule = planned(PlannedTransfer(file, 2, 1, 20.0, 120.0))

    assert ahead_of_readers(workflow, schedule) == ((file, 1),)


@pytest.mark.parametrize(
    ("start", "end"),
    [(100.0, 150.0), (99.0, 150.0), (20.0, 21.0)],
    ids=["when the reader is ready", "hardly before", "too short"],
)
def test_a_file_by_which_little_is_gained_does_not(start: float, end: float) -> None:
    workflow = late_reader()
    file = workflow.file_ids.index("input")

    assert ahead_of_readers(workflow, planned(PlannedTransfer(file, 2, 1, start, end))) == ()


def test_files_come_in_the_order_of_their_planned_starts() -> None:
    builder = WorkflowBuilder()
    for name in "abc":
        builder.file(name, 100)
    builder.task("first", outputs=["made"], runtime_seconds=100)
    builder.task("reader", inputs=["a", "b", "c", "made"], runtime_seconds=10)
    workflow = builder.build()
    a, b, c = (workflow.file_ids.index(name) for name in "abc")

    schedule = planned(
        PlannedTransfer(a, 2, 1, 50.0, 80.0),
        PlannedTransfer(b, 2, 1, 0.0, 20.0),
        PlannedTransfer(c, 2, 1, 20.0, 50.0),
    )

    assert ahead_of_readers(workflow, schedule) == ((b, 1), (c, 1), (a, 1))


# --- relays --------------------------------------------------------------------------------------


def two_readers() -> Workflow:
    """Two tasks that read an input of 100 MB; the second reads what the first writes as well."""
    builder = WorkflowBuilder()
    builder.file("input", 10**8)
    builder.file("made", 10**8)
    builder.task("first", inputs=["input"], outputs=["made"], runtime_seconds=100)
    builder.task("second", inputs=["input", "made"], runtime_seconds=10)
    return builder.build()


def relays(origin_bytes_per_second: float, source: int, name: str = "input") -> dict[str, int]:
    """By file, the node that sends it on to node 1, which is planned to have it from ``source``."""
    workflow = two_readers()
    file = workflow.file_ids.index(name)
    platform = replace(uniform_platform(2), origin_bytes_per_second=origin_bytes_per_second)
    schedule = planned(PlannedTransfer(file, source, 1, 100.0, 108.0))
    found = relays_of(costs_of(workflow, platform, {}), schedule)
    return {workflow.file_ids[file]: relay for (file, node), relay in found.items() if node == 1}


def test_an_input_that_a_slow_origin_would_send_twice_goes_by_the_node_that_has_it_first() -> None:
    assert relays(1e7, source=0) == {"input": 0}


@pytest.mark.parametrize(
    ("origin_bytes_per_second", "source", "name"),
    [(1e10, 0, "input"), (1e7, 2, "input"), (1e7, 0, "made")],
    ids=["from a quick origin", "planned from the origin", "made by a task"],
)
def test_other_files_do_not(origin_bytes_per_second: float, source: int, name: str) -> None:
    assert relays(origin_bytes_per_second, source, name) == {}
