"""The numbers that describe a workflow."""

import numpy as np
import pytest
from hypothesis import given

from builders import a_diamond, workflows
from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.summary import summarise


def test_a_diamond_by_hand() -> None:
    summary = summarise(a_diamond())

    assert (summary.tasks, summary.files, summary.edges) == (4, 6, 4)
    assert (summary.depth, summary.width) == (3, 2)
    assert summary.total_runtime_seconds == 10.0
    assert summary.total_bytes == 155  # each file once
    assert summary.read_bytes == 5 + 10 + 20 + 30 + 40
    assert summary.written_bytes == 10 + 20 + 30 + 40 + 50
    assert summary.critical_path.seconds == 8.0


def test_types_are_listed_by_the_time_they_take_then_by_first_appearance() -> None:
    wf = WorkflowBuilder()
    for id, name, seconds in [
        ("a", "short_1", 1.0),
        ("b", "long_1", 5.0),
        ("c", "short_2", 2.0),
        ("d", "other", 3.0),
    ]:
        wf.file(f"{id}.out", 10)
        wf.task(id, name=name, outputs=[f"{id}.out"], runtime_seconds=seconds)

    types = summarise(wf.build()).types

    assert [kind.name for kind in types] == ["long", "short", "other"]
    assert types[1].tasks == 2
    assert types[1].runtime_seconds_mean == 1.5
    assert types[1].runtime_seconds_total == 3.0
    assert types[1].written_bytes_mean == 10.0
    assert types[1].read_bytes_mean == 0.0


def test_a_file_read_twice_counts_once_in_all_and_twice_in_traffic() -> None:
    wf = WorkflowBuilder()
    wf.file("shared", 100)
    wf.task("a", inputs=["shared"])
    wf.task("b", inputs=["shared"])

    summary = summarise(wf.build())

    assert summary.total_bytes == 100
    assert summary.read_bytes == 200


@given(workflows())
def test_the_types_add_up_to_the_whole(workflow: Workflow) -> None:
    summary = summarise(workflow)

    assert sum(kind.tasks for kind in summary.types) == summary.tasks == len(workflow)
    assert sum(kind.runtime_seconds_total for kind in summary.types) == pytest.approx(
        summary.total_runtime_seconds
    )
    read = sum(kind.read_bytes_mean * kind.tasks for kind in summary.types)
    assert read == pytest.approx(summary.read_bytes)
    assert summary.width == np.bincount(workflow.layers.level_of).max()
    assert summary.critical_path.seconds <= summary.total_runtime_seconds + 1e-9
