"""Which files come ahead of the tasks that read them."""

import numpy as np
import pytest

from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.ahead import ahead_of_readers
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
