"""The order of tasks of equal rank."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.builder import WorkflowBuilder
from dataward.model.file_edges import with_file_edges
from dataward.model.workflow import Workflow
from dataward.plan.families import families_in_turn, main_inputs


def fan(producers: int, readers: int) -> Workflow:
    wf = WorkflowBuilder("fan")
    for p in range(producers):
        wf.file(f"d{p}", 100)
        wf.task(f"p{p}", outputs=[f"d{p}"])
    for p in range(producers):
        for r in range(readers):
            wf.task(f"r{p}-{r}", inputs=[f"d{p}"])
    return with_file_edges(wf.build())


def named(workflow: Workflow, order: np.ndarray) -> list[str]:
    return [workflow.task_ids[task] for task in order.tolist()]


def test_of_equal_ranks_one_of_each_family_is_next() -> None:
    workflow = fan(2, 2)
    ranks = np.array([2.0, 2.0, 1.0, 1.0, 1.0, 1.0])

    order = named(workflow, families_in_turn(workflow, ranks))

    assert order == ["p0", "p1", "r0-0", "r1-0", "r0-1", "r1-1"]


def test_a_higher_rank_comes_first_whatever_its_family() -> None:
    workflow = fan(2, 2)
    ranks = np.array([2.0, 2.0, 1.0, 1.5, 1.0, 1.0])

    assert named(workflow, families_in_turn(workflow, ranks))[:3] == ["p0", "p1", "r0-1"]


def test_the_family_is_that_of_the_largest_input() -> None:
    wf = WorkflowBuilder("sizes")
    wf.file("small", 1)
    wf.file("large", 9)
    wf.task("t", inputs=["small", "large"])
    wf.task("alone")
    workflow = wf.build()

    found = main_inputs(workflow)

    assert workflow.file_ids[found[0]] == "large"
    assert found[1] < 0


@given(st.integers(1, 5), st.integers(0, 5), st.randoms(use_true_random=False))
def test_every_task_comes_once_and_after_its_parents(producers, readers, random) -> None:
    workflow = fan(producers, readers)
    ranks = np.array([random.choice([1.0, 2.0]) for _ in range(len(workflow))])
    for task in reversed(workflow.layers.order.tolist()):
        children = workflow.children.row(task).tolist()
        ranks[task] = max([ranks[task], *(ranks[child] for child in children)])

    order = families_in_turn(workflow, ranks).tolist()

    assert sorted(order) == list(range(len(workflow)))
    place = {task: number for number, task in enumerate(order)}
    for task in order:
        assert all(place[p] < place[task] for p in workflow.parents.row(task).tolist())


def test_of_tasks_alike_each_node_is_meant_to_have_a_stretch() -> None:
    workflow = fan(6, 0)

    order = named(workflow, families_in_turn(workflow, np.ones(6), [1, 1]))

    assert order == ["p0", "p3", "p1", "p4", "p2", "p5"]


def test_a_stretch_is_as_long_as_its_nodes_share_of_all_cores() -> None:
    workflow = fan(7, 0)

    order = named(workflow, families_in_turn(workflow, np.ones(7), [2, 1]))

    assert order == ["p0", "p1", "p5", "p2", "p3", "p6", "p4"]


@given(st.integers(1, 30), st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_stretches_leave_no_task_out(tasks, cores) -> None:
    order = families_in_turn(fan(tasks, 0), np.ones(tasks), cores).tolist()

    assert sorted(order) == list(range(tasks))
