"""A workflow as it is run: its files count besides its edges."""

import pytest

from dataward.errors import BadNameError, CycleError, SelfFeedingError, TwoProducersError
from dataward.model.builder import Edges, WorkflowBuilder
from dataward.model.runnable import as_run
from dataward.model.workflow import Workflow


def a_trace(*tasks: tuple[str, str, str, str]) -> Workflow:
    """Tasks given as id, inputs, outputs and parents, each of these with spaces between."""
    wf = WorkflowBuilder("odd")
    for id, inputs, outputs, parents in tasks:
        wf.task(
            id,
            command=("true",),
            inputs=inputs.split(),
            outputs=outputs.split(),
            after=parents.split(),
        )
    return wf.build(Edges.DECLARED)


def run_of(workflow: Workflow) -> Workflow:
    return as_run(workflow, lambda file: True)


def test_a_file_cannot_be_in_another_one():
    with pytest.raises(BadNameError, match=r"'a/b/c' would be in a directory called 'a'"):
        run_of(a_trace(("t", "", "a a/b/c", "")))


def test_a_task_waits_for_the_writer_of_what_it_reads_also_where_that_is_not_declared():
    workflow = a_trace(("a", "", "x", ""), ("b", "x", "y", "a"), ("c", "x y", "", "a"))

    ordered = run_of(workflow)

    assert [ordered.parents.row(task).tolist() for task in range(3)] == [[], [0], [0, 1]]
    assert workflow.parents.row(2).tolist() == [0]


def test_a_cycle_that_only_files_make_is_refused_and_named():
    workflow = a_trace(("a", "z", "x", ""), ("b", "x", "y", "a"), ("c", "y", "z", "b"))

    with pytest.raises(CycleError, match=r"'a' -> 'b' -> 'c' -> 'a'"):
        run_of(workflow)


def test_a_file_with_two_writers_is_refused_with_both_named():
    workflow = a_trace(("a", "", "x", ""), ("b", "", "x", "a"))

    with pytest.raises(TwoProducersError, match=r"'x' is written by 2 tasks .'a' and 'b'."):
        run_of(workflow)


def test_a_task_that_reads_what_it_writes_is_refused():
    with pytest.raises(SelfFeedingError, match=r"'a' both reads and writes file 'x'"):
        run_of(a_trace(("a", "x", "x", ""), ("b", "", "", "a")))


def test_a_workflow_that_declares_no_edges_is_ordered_by_its_files_even_as_a_trace():
    workflow = a_trace(("c", "y", "", ""), ("b", "x", "y", ""), ("a", "", "x", ""))

    assert [workflow.parents.row(task).tolist() for task in range(3)] == [[1], [2], []]
    assert workflow.warnings == ("it declares no edges; the 2 of its files are used",)


def test_a_trace_without_edges_whose_files_have_no_order_stays_without_order():
    workflow = a_trace(("a", "y", "x", ""), ("b", "x", "y", ""))

    assert workflow.edge_count == 0
    with pytest.raises(CycleError, match=r"'a' -> 'b' -> 'a'"):
        run_of(workflow)
