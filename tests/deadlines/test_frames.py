"""Frames, widths and lengths of the paper's workflows and of drawn ones."""

from math import inf

from hypothesis import given, settings

from dataward.deadlines.frames import Allocation, awaited, frames_of_stage, outline_of
from dataward.model.workflow import Workflow
from plan.dags import a_workflow, dags


def test_an_outline_has_the_papers_width_minimum_and_total_length() -> None:
    outline = outline_of(
        a_workflow(("a", 1, ""), ("b", 5, "a"), ("c", 2, "a"), ("d", 1, "c"), ("e", 4, "bd"))
    )

    assert outline.width == 2
    assert outline.minimum_length_seconds == 10
    assert outline.total_length_seconds == 13
    assert [outline.sequences[s] for s in outline.stages[0]] == [[0, 1, 4]]
    assert [outline.sequences[s] for s in outline.stages[1]] == [[2, 3]]


def test_the_lag_between_nodes_narrows_a_frame_on_both_sides() -> None:
    outline = outline_of(a_workflow(("f", 10, ""), ("a", 10, "f"), ("b", 5, "f"), ("j", 10, "ab")))
    for lag in (0.0, 2.0):
        allocation = Allocation(outline, 0.0, 100.0, lag)
        for task, end in ((0, 20.0), (1, 60.0), (3, 100.0)):
            allocation.promise(task, end - 10.0, end)

        ((start, end),) = frames_of_stage(allocation, 1)

        assert (start, end) == (20.0 + lag, 90.0 - lag)


def test_a_promise_can_be_withdrawn() -> None:
    allocation = Allocation(outline_of(a_workflow(("a", 1, ""), ("b", 1, "a"))), 0.0, 10.0)
    allocation.promise(0, 1.0, 2.0)
    assert allocation.is_promised(0)
    assert not allocation.is_complete

    allocation.withdraw(0)

    assert not allocation.is_promised(0)
    assert allocation.latest_starts == [inf, inf]


@settings(deadline=None, max_examples=150)
@given(dags(most=9, seconds_least=1))
def test_on_equal_idle_nodes_every_sequence_has_a_frame_that_holds_it(workflow: Workflow) -> None:
    outline = outline_of(workflow)
    loose = 3.0 * outline.total_length_seconds
    allocation = Allocation(outline, 0.0, loose)
    for stage in range(outline.width):
        frames = frames_of_stage(allocation, stage)
        for sequence, frame in zip(outline.stages[stage], frames, strict=True):
            tasks = outline.sequences[sequence]
            work = sum(outline.work[task] for task in tasks)
            assert frame.startline >= 0.0
            assert frame.deadline <= loose
            assert frame.deadline - frame.startline >= work - 1e-6
            # Promise each task its share of the frame, as an idle node would.
            passed = 0.0
            for task in tasks:
                passed += outline.work[task]
                end = frame.startline + passed / work * (frame.deadline - frame.startline)
                allocation.promise(task, end - outline.work[task], end)
    assert allocation.is_complete
    for task, parents in enumerate(outline.parents):
        for parent in parents:
            assert allocation.latest_ends[parent] <= allocation.latest_starts[task] + 1e-6


@given(dags(most=9, seconds_least=1))
def test_only_tasks_with_unpromised_children_outside_are_awaited(workflow: Workflow) -> None:
    outline = outline_of(workflow)
    allocation = Allocation(outline, 0.0, 1000.0)
    first = outline.sequences[0]
    expected = [any(c not in first for c in outline.children[task]) for task in first]

    assert awaited(allocation, first) == expected
    for task in range(len(outline)):
        allocation.promise(task, 1.0, 2.0)
    assert awaited(allocation, first) == [False] * len(first)
