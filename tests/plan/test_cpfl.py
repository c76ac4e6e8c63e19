"""CPFL: shared inputs get places beforehand, and tasks go to them in the order of their paths."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.platform import Platform, uniform_platform
from dataward.model.workflow import Workflow
from dataward.plan.adage import adage_plan
from dataward.plan.costs import costs_of
from dataward.plan.cpfl import cpfl_plan, shared_locations
from dataward.plan.heft import rank_order, upward_ranks
from plan.clusters import a_platform, placements, platforms
from plan.dags import dags

Located = Mapping[int, Sequence[int]]


def locations(
    workflow: Workflow, platform: Platform, located: Located | None = None
) -> dict[str, list[int]]:
    """Where each shared input is brought, by name."""
    ranks = upward_ranks(costs_of(workflow, platform, located or {}))
    found = shared_locations(workflow, platform, rank_order(workflow, ranks), located or {})
    return {str(workflow.file_ids[file]): nodes for file, nodes in found.items()}


def readers(groups: Mapping[str, int], *, seconds: float = 10.0, **sizes: int) -> Workflow:
    """So many tasks for each group of one-letter files, which all of the group's tasks read."""
    wf = WorkflowBuilder("readers")
    for file in sorted(set("".join(groups))):
        wf.file(file, sizes.get(file, 100))
    for group, count in groups.items():
        for i in range(count):
            wf.task(f"{group}{i}", inputs=list(group), runtime_seconds=seconds)
    return wf.build()


def two(cores: int = 1) -> Platform:
    return a_platform((cores, 1.0), (cores, 1.0), bandwidth=100.0, origin=1000.0)


# --- where files go ------------------------------------------------------------------------------


def test_a_file_that_all_read_goes_to_all_nodes() -> None:
    workflow = readers({"a": 12})

    assert locations(workflow, uniform_platform(4)) == {"a": [0, 1, 2, 3]}


def test_files_that_are_read_together_come_together() -> None:
    workflow = readers({"ab": 6, "cd": 6})

    assert locations(workflow, two()) == {"a": [0], "b": [0], "c": [1], "d": [1]}


def test_a_file_gets_as_many_copies_as_its_readers_keep_nodes_busy() -> None:
    workflow = readers({"a": 9, "b": 3})

    found = locations(workflow, uniform_platform(4))

    assert {file: len(nodes) for file, nodes in found.items()} == {"a": 3, "b": 1}
    assert not set(found["a"]) & set(found["b"])


def test_a_stronger_node_has_more_readers_and_needs_fewer_copies() -> None:
    workflow = readers({"a": 9, "b": 3})
    strong = a_platform((3, 1.0), (1, 1.0), bandwidth=100.0, origin=1000.0)

    assert locations(workflow, strong) == {"a": [0], "b": [1]}


def test_what_one_task_reads_or_a_task_writes_or_is_empty_is_not_placed() -> None:
    wf = WorkflowBuilder("not shared")
    for file, size in (("alone", 100), ("empty", 0), ("made", 100)):
        wf.file(file, size)
    wf.task("maker", inputs=["alone"], outputs=["made"])
    for i in range(4):
        wf.task(f"t{i}", inputs=["made", "empty"], runtime_seconds=1.0)

    assert locations(wf.build(), two()) == {}


def test_what_is_at_a_node_already_is_not_brought_there() -> None:
    workflow = readers({"a": 6, "b": 6})
    at = {workflow.file_ids.index(file): [1] for file in ("a",)}

    assert locations(workflow, two(), at) == {"b": [0]}


def test_no_disk_is_planned_to_hold_more_than_it_can() -> None:
    workflow = readers({"a": 4, "b": 4, "c": 4})
    small = replace(two(), machines=tuple(replace(m, capacity_bytes=150.0) for m in two().machines))

    found = locations(workflow, small)

    assert sorted(node for nodes in found.values() for node in nodes) == [0, 1]


def test_tasks_without_duration_count_alike() -> None:
    found = locations(readers({"a": 6, "b": 6}, seconds=0.0), two())

    assert {file: len(nodes) for file, nodes in found.items()} == {"a": 1, "b": 1}


@given(dags(most=12, cores_most=3, files=True), platforms(), st.data())
@settings(max_examples=200, deadline=None)
def test_shared_inputs_and_only_those_have_a_place(
    workflow: Workflow, platform: Platform, data: st.DataObject
) -> None:
    located = data.draw(placements(workflow, platform))
    ranks = upward_ranks(costs_of(workflow, platform, located))

    found = shared_locations(workflow, platform, rank_order(workflow, ranks), located)

    made, read = workflow.producers.degrees(), workflow.consumers.degrees()
    shared = {
        file
        for file in range(len(workflow.file_ids))
        if not made[file] and read[file] > 1 and workflow.size_bytes[file]
    }
    assert set(found) <= shared
    assert all(found.get(file) or located.get(file) for file in shared)
    for file, nodes in found.items():
        assert len(set(nodes)) == len(nodes)
        assert not set(nodes) & set(located.get(file, ()))
        assert len(nodes) <= read[file]


# --- the plan ------------------------------------------------------------------------------------


def test_tasks_prefer_the_nodes_where_their_files_are_to_be() -> None:
    workflow = readers({"ab": 4, "cd": 4})

    plan = cpfl_plan(workflow, two(), {})

    ids = [str(task) for task in workflow.task_ids]
    at = dict(zip(ids, plan.preferred.tolist(), strict=True))
    assert at == {task: 0 if task.startswith("ab") else 1 for task in ids}


def test_a_shared_file_that_is_brought_in_in_no_time_keeps_no_task() -> None:
    workflow = readers({"ab": 2, "c": 6}, a=1, b=1, c=1)

    plan = cpfl_plan(workflow, two(), {})

    assert np.bincount(plan.preferred).tolist() == [4, 4]
    assert plan.estimated_makespan_seconds == pytest.approx(40.0, abs=0.1)


def test_what_is_brought_ahead_is_named_with_the_most_urgent_first() -> None:
    wf = WorkflowBuilder("a long way and a short one")
    for file in ("slow", "quick"):
        wf.file(file, 100)
    for i in range(2):
        wf.task(f"quick{i}", inputs=["quick"], runtime_seconds=1.0)
        wf.task(f"slow{i}", inputs=["slow"], outputs=[f"o{i}"], runtime_seconds=1.0)
        wf.task(f"after{i}", inputs=[f"o{i}"], runtime_seconds=50.0)
    workflow = wf.build()

    plan = cpfl_plan(workflow, a_platform((4, 1.0), bandwidth=100.0), {})

    assert [(workflow.file_ids[file], node) for file, node in plan.ahead] == [
        ("slow", 0),
        ("quick", 0),
    ]


def test_transfers_between_tasks_make_a_path_longer() -> None:
    wf = WorkflowBuilder("two ways")
    wf.file("big", 10_000)
    wf.file("small", 1)
    wf.task("a", outputs=["big"], runtime_seconds=5.0)
    wf.task("b", outputs=["small"], runtime_seconds=5.5)
    wf.task("c", inputs=["big"], runtime_seconds=5.0)
    wf.task("d", inputs=["small"], runtime_seconds=5.0)
    workflow = wf.build()

    priority = cpfl_plan(workflow, two(), {}).priority
    by_run_times = adage_plan(workflow, 2, bandwidth_bytes_per_second=100.0).priority

    at = workflow.index_of
    assert priority[at["a"]] < priority[at["b"]]
    assert by_run_times[at["b"]] < by_run_times[at["a"]]


@given(dags(most=12, cores_most=3, files=True), platforms(), st.data())
@settings(max_examples=200, deadline=None)
def test_a_plan_is_whole_and_no_child_is_more_urgent_than_its_parent(
    workflow: Workflow, platform: Platform, data: st.DataObject
) -> None:
    located = data.draw(placements(workflow, platform))

    plan = cpfl_plan(workflow, platform, located)

    cores = np.array([machine.cores for machine in platform.machines])
    assert (cores[plan.preferred] >= workflow.cores).all()
    for task, parents in enumerate(workflow.parents.rows()):
        assert all(plan.priority[parent] <= plan.priority[task] for parent in parents)
    assert plan.priority.min() == 0.0
    assert len(set(plan.ahead)) == len(plan.ahead)


@pytest.mark.parametrize("shape", ["montage", "epigenomics"])
def test_where_no_input_is_shared_nothing_is_brought_ahead(shape: str) -> None:
    workflow = generate(shape, 60, seed=1)
    shared = (workflow.producers.degrees() == 0) & (workflow.consumers.degrees() > 1)

    plan = cpfl_plan(workflow, uniform_platform(4), {})

    assert bool(plan.ahead) == bool(shared.any())


def test_a_plan_is_made_the_same_each_time() -> None:
    workflow, platform = generate("coadd", 100, seed=1), uniform_platform(8)

    one, other = cpfl_plan(workflow, platform, {}), cpfl_plan(workflow, platform, {})

    assert one.ahead == other.ahead
    assert one.preferred.tolist() == other.preferred.tolist()
