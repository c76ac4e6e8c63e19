from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.deadlines.frames import Allocation, awaited, frames_of_stage, outline_of
from dataward.deadlines.local_schedule import Frame, QueueSlot, is_kept, reserved
from dataward.deadlines.promising import (
    NodeSchedule,
    Staging,
    TaskPromise,
    earliest_promise,
    promised,
)
from dataward.generate import generate
from dataward.model.workflow import Workflow
from plan.dags import a_workflow, dags

FORK_JOIN = a_workflow(("f", 10, ""), ("a", 10, "f"), ("b", 10, "f"), ("j", 10, "ab"))


def idle(count: int, **facts: float) -> list[NodeSchedule]:
    return [NodeSchedule(f"n{i}", **facts) for i in range(count)]


def test_a_stage_is_framed_by_the_promises_of_the_stage_before() -> None:
    outline = outline_of(FORK_JOIN)
    allocation = Allocation(outline, 0.0, 90.0, lag_seconds=1.0)
    assert frames_of_stage(allocation, 0) == [Frame(0.0, 90.0)]
    assert awaited(allocation, [0, 1, 3]) == [True, False, False]

    for task, end in ((0, 30.0), (1, 80.0), (3, 90.0)):
        allocation.promise(task, end - 10, end)

    assert outline.width == 2
    assert frames_of_stage(allocation, 1) == [Frame(31.0, 79.0)]


def test_a_sequence_leaves_time_for_parents_and_children_that_come_later() -> None:
    # y follows x in the critical path; b, c follow x; a must end before b and is asked for last.
    workflow = a_workflow(("x", 9, ""), ("y", 9, "x"), ("a", 3, ""), ("b", 1, "ax"), ("c", 1, "b"))
    outline = outline_of(workflow)
    allocation = Allocation(outline, 0.0, 100.0)
    allocation.promise(0, -7.0, 2.0)  # x ends early
    allocation.promise(1, 91.0, 100.0)

    # The slack of 95 is shared: 3 parts for a, 2 for b and c.
    assert frames_of_stage(allocation, 1) == [Frame(3.0 + 95 * 3 / 5, 100.0)]


def test_what_fits_is_promised_and_what_does_not_is_not() -> None:
    outline = outline_of(FORK_JOIN)

    assert promised(outline, idle(2), 0.0, 30.0) is not None
    assert promised(outline, idle(2), 0.0, 29.9) is None
    assert promised(outline, idle(1), 0.0, 40.0) is not None


def test_the_earliest_promise_is_one_that_can_be_given() -> None:
    outline = outline_of(FORK_JOIN)
    busy = [NodeSchedule("n0", free_from=5.0)]

    soonest = earliest_promise(outline, busy, 0.0)

    assert 45.0 <= soonest <= 45.01
    assert promised(outline, busy, 0.0, soonest) is not None
    assert earliest_promise(outline, idle(2), 0.0) == 30.0


def test_a_sequence_that_no_hole_holds_is_cut_in_two() -> None:
    chain = outline_of(a_workflow(("a", 10, ""), ("b", 10, "a")))
    blocked = NodeSchedule("n0", [QueueSlot(20.0, 5.0, "other")])  # free to 15, and from 20 on

    found = promised(chain, [blocked], 0.0, 35.0)

    assert found is not None
    assert found[0].deadline <= 15.0
    assert found[1].latest_start >= 20.0


def test_among_holes_that_fit_the_node_with_more_of_the_data_wins() -> None:
    one = outline_of(a_workflow(("a", 10, "")))
    nodes = idle(3, bytes_per_second=10.0)
    data = {0: Staging(100.0, {1: 40.0, 2: 70.0})}

    assert promised(one, nodes, 0.0, 30.0, data=data) == [TaskPromise(2, 30.0, 13.0)]
    assert promised(one, nodes, 0.0, 12.0, data=data) is None


def check_promises(
    workflow: Workflow, nodes: list[NodeSchedule], found: list[TaskPromise], deadline: float
) -> None:
    for number, node in enumerate(nodes):
        slots = [
            QueueSlot(p.deadline, p.seconds, t) for t, p in enumerate(found) if p.node == number
        ]
        assert is_kept(reserved(node.queue, slots), node.free_from)
    for task, promise in enumerate(found):
        assert promise.deadline <= deadline + 1e-6
        for parent in workflow.parents.row(task).tolist():
            assert found[parent].deadline <= promise.latest_start + 1e-6


@settings(deadline=None, max_examples=150)
@given(
    dags(most=9, seconds_least=1),
    st.integers(1, 4),
    st.floats(1.0, 4.0),
    st.lists(st.tuples(st.floats(5, 60), st.floats(1, 5)), max_size=4),
)
def test_promises_keep_the_deadline_the_order_and_the_promises_before(
    workflow: Workflow, count: int, loose: float, slots: list[tuple[float, float]]
) -> None:
    outline = outline_of(workflow)
    queue = sorted(QueueSlot(30 * n + d, s, f"q{n}") for n, (d, s) in enumerate(slots))
    nodes = [NodeSchedule("n0", queue), *idle(count - 1, speed=1.5)]
    deadline = loose * outline.minimum_length_seconds

    found = promised(outline, nodes, 0.0, deadline)

    if found is not None:
        check_promises(workflow, nodes, found, deadline)


@settings(deadline=None, max_examples=60)
@given(dags(most=9, seconds_least=1), st.integers(1, 3))
def test_whatever_can_be_promised_at_the_earliest_is_promised_in_full(
    workflow: Workflow, count: int
) -> None:
    outline = outline_of(workflow)

    soonest = earliest_promise(outline, idle(count), 0.0)

    assert soonest >= outline.minimum_length_seconds - 1e-6
    found = promised(outline, idle(count), 0.0, soonest)
    assert found is not None
    check_promises(workflow, idle(count), found, soonest)


def test_a_workflow_is_promised_that_fits_with_half_of_its_slack_shared_only() -> None:
    steps = [("a", 1, ""), ("b", 1, ""), ("c", 5, "ab"), ("d", 1, "ab"), ("e", 1, "abc")]
    steps += [("f", 1, "abcde"), ("g", 1, "abcdef"), ("h", 1, "abcdefg"), ("i", 1, "abcd")]
    workflow = a_workflow(*steps)
    nodes = idle(1)

    soonest = earliest_promise(outline_of(workflow), nodes, 0.0)

    found = promised(outline_of(workflow), nodes, 0.0, soonest)
    assert found is not None
    check_promises(workflow, nodes, found, soonest)


def test_the_papers_workflows_have_its_widths_and_lengths() -> None:
    for name, tasks, width, speed_up in (("fork-join", 10, 2, 10 / 3), ("laplace", 9, 3, 9 / 5)):
        outline = outline_of(generate(name, tasks, seconds=300.0))

        assert outline.width == width
        assert abs(outline.total_length_seconds / outline.minimum_length_seconds - speed_up) < 1e-9
