from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataward.plan.critical_path as module
from dataward.errors import SettingError
from dataward.model.builder import Edges, WorkflowBuilder
from dataward.model.workflow import Workflow
from dataward.plan.critical_path import bottom_levels, critical_path, latest_starts, top_levels
from dataward.plan.edge_bytes import edge_bytes
from plan.dags import a_workflow, dags, length, paths


def a_diamond() -> Workflow:
    return a_workflow(("a", 1, ""), ("b", 5, "a"), ("c", 2, "a"), ("d", 3, "bc"))


def test_levels_of_a_diamond() -> None:
    workflow = a_diamond()

    assert bottom_levels(workflow).tolist() == [9, 8, 5, 3]
    assert top_levels(workflow).tolist() == [0, 1, 1, 6]
    assert latest_starts(workflow).tolist() == [0, 1, 4, 6]
    assert critical_path(workflow).tasks.tolist() == [0, 1, 3]
    assert critical_path(workflow).seconds == 9


def test_edges_lengthen_the_chain_they_are_on() -> None:
    workflow = a_diamond()  # edges in the order of parents: ba, ca, db, dc
    edge_seconds = np.array([0.0, 10.0, 0.5, 1.0])

    path = critical_path(workflow, edge_seconds=edge_seconds)

    assert path.tasks.tolist() == [0, 2, 3]
    assert path.seconds == 1 + 10 + 2 + 1 + 3
    assert top_levels(workflow, edge_seconds=edge_seconds).tolist() == [0, 1, 11, 14]
    assert bottom_levels(workflow, edge_seconds=edge_seconds).tolist() == [17, 8.5, 6, 3]


def test_own_durations_replace_run_times() -> None:
    assert critical_path(a_diamond(), np.array([1.0, 1, 7, 1])).tasks.tolist() == [0, 2, 3]


def test_equally_long_paths_go_to_the_lowest_index() -> None:
    workflow = a_workflow(("z", 1, ""), ("y", 1, ""), ("c", 1, "yz"), ("b", 1, "yz"))

    assert critical_path(workflow).tasks.tolist() == [0, 2]


def test_a_path_runs_from_entry_to_exit_even_through_tasks_of_no_duration() -> None:
    workflow = a_workflow(("c", 0, "b"), ("b", 2, "a"), ("a", 0, ""))

    assert critical_path(workflow).tasks.tolist() == [2, 1, 0]


def test_durations_for_another_workflow_are_refused() -> None:
    with pytest.raises(SettingError, match="3 durations were given for 4 tasks"):
        bottom_levels(a_diamond(), np.zeros(3))
    with pytest.raises(SettingError, match="3 durations were given for 4 edges"):
        top_levels(a_diamond(), edge_seconds=np.zeros(3))


@settings(deadline=None)
@given(dags(files=True), st.sampled_from([-1, 3, 10_000]))
def test_levels_are_the_longest_of_all_paths_in_numpy_and_in_plain_loops(
    workflow: Workflow, few: int
) -> None:
    """``few`` sends every level through numpy, some, or none."""
    cost = edge_bytes(workflow).astype(float)
    edges = zip(workflow.parents.owners(), workflow.parents.targets, strict=True)
    between = dict(zip(edges, cost, strict=True))

    def seconds(path: list[int]) -> float:
        moving = sum(between[c, p] for p, c in pairwise(path))
        return length(workflow, path) + float(moving)

    every = paths(workflow)
    down = [max(seconds(p) for p in every if p[0] == t) for t in range(len(workflow))]
    up = [
        max(seconds(p) - workflow.runtime_seconds[t] for p in every if p[-1] == t)
        for t in range(len(workflow))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", few)

        assert bottom_levels(workflow, edge_seconds=cost).tolist() == down
        assert top_levels(workflow, edge_seconds=cost).tolist() == up
        path = critical_path(workflow, edge_seconds=cost)
    assert path.seconds == max(down) == seconds(path.tasks.tolist())


@settings(deadline=None)
@given(dags(whole=False))
def test_no_parent_may_start_later_than_its_child(workflow: Workflow) -> None:
    latest = latest_starts(workflow)

    assert (latest[workflow.parents.targets] <= latest[workflow.parents.owners()]).all()


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=3, max_size=12), st.integers(0, 99))
def test_narrow_levels_between_wide_ones_come_out_the_same(widths: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    builder, above = WorkflowBuilder(), []
    for level, width in enumerate(widths):
        here = [f"{level}-{i}" for i in range(width)]
        for id in here:
            after = [p for p in above if random.random() < 0.5]
            builder.task(id, runtime_seconds=float(random.integers(0, 9)), after=after)
        above += here
    workflow = builder.build()

    found = []
    for few in (-1, 4, 10, 10_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_FEW", few)
            found.append((bottom_levels(workflow).tolist(), top_levels(workflow).tolist()))

    assert all(levels == found[0] for levels in found)


def test_files_between_tasks_without_an_edge_are_not_counted() -> None:
    builder = WorkflowBuilder()
    builder.file("x", 5)
    builder.task("p", outputs=["x"])
    builder.task("q")
    builder.task("r", inputs=["x"], after=["q"])

    assert edge_bytes(builder.build(Edges.DECLARED)).tolist() == [0]


def test_edge_bytes_are_what_the_parent_writes_and_the_child_reads() -> None:
    builder = WorkflowBuilder()
    for file, size in {"x": 1, "y": 10, "z": 100}.items():
        builder.file(file, size)
    builder.task("p", outputs=["x", "y", "z"])
    builder.task("q", after=["p"])
    builder.task("r", inputs=["x", "z"], after=["q"])

    assert edge_bytes(builder.build()).tolist() == [0, 101, 0]  # q-p, r-p, r-q
