from hypothesis import given
from hypothesis import strategies as st

from dataward.deadlines.core_plan import CorePlan, FilePlaces, core_plan, open_work
from dataward.deadlines.local_schedule import QueueSlot, is_kept
from dataward.deadlines.promising import NodeSchedule
from dataward.model.ids import NodeId
from dataward.model.workflow import Workflow
from tests.builders import a_diamond, workflows

SLACK = 1e-6


def cores(count: int, *queue: QueueSlot) -> list[NodeSchedule]:
    """Cores of one node; the first has promised something already."""
    return [NodeSchedule(NodeId("n0"), queue if not core else ()) for core in range(count)]


def plan_of(workflow: Workflow, schedules: list[NodeSchedule], lag: float = 0.0) -> CorePlan:
    work = open_work(workflow, [True] * len(workflow), lag)
    return core_plan(work, schedules, workflow.runtime_seconds.tolist(), 0.0)


def test_an_idle_machine_ends_after_the_critical_path() -> None:
    assert plan_of(a_diamond(), cores(2)).finish == 8.0


def test_one_core_does_all_the_work_in_turn() -> None:
    assert plan_of(a_diamond(), cores(1)).finish == 10.0


def test_what_was_promised_before_is_planned_around() -> None:
    theirs = QueueSlot(6.0, 4.0, "theirs")  # pushed to 2 to 6

    plan = plan_of(a_diamond(), cores(1, theirs))

    assert plan.finish == 15.0
    assert plan.slots[0].start == 0.0  # a second fits before
    assert min(slot.start for slot in plan.slots[1:]) == 6.0


def test_a_task_must_leave_its_children_time() -> None:
    plan = plan_of(a_diamond(), cores(2), lag=0.5)

    latest = plan.latest_ends(20.0)

    assert latest == [12.0, 15.5, 15.5, 20.0]


def test_a_wide_task_has_its_cores_at_the_same_time() -> None:
    workflow = a_diamond()
    work = open_work(workflow, [True] * 4)
    wide = type(work)(work.tasks, work.parents, work.children, work.order, [1, 1, 2, 1])

    plan = core_plan(wide, cores(2), workflow.runtime_seconds.tolist(), 0.0)

    assert plan.slots[2].cores == (0, 1)
    assert plan.finish == 10.0


def test_a_task_goes_where_its_files_are() -> None:
    workflow = a_diamond()
    nodes = [NodeSchedule(NodeId(name), bytes_per_second=1.0) for name in ("n0", "n1")]
    places = FilePlaces({0: [NodeId("n1")]}, workflow.size_bytes.astype(float))
    work = open_work(workflow, [True] * 4, files=places)

    plan = core_plan(work, nodes, workflow.runtime_seconds.tolist(), 0.0)

    assert [slot.cores for slot in plan.slots] == [(1,), (1,), (1,), (1,)]


slots = st.builds(QueueSlot, st.floats(30.0, 60.0), st.floats(0.1, 3.0), st.just("theirs"))


@given(
    workflows(max_cores=2),
    st.lists(st.lists(slots, max_size=5), min_size=1, max_size=3),
    st.floats(0.0, 50.0),
    st.sampled_from([0.0, 0.25]),
)
def test_a_promise_makes_nobody_late_and_leaves_everybody_time(
    workflow: Workflow, queues: list[list[QueueSlot]], slack: float, lag: float
) -> None:
    before = [
        NodeSchedule(NodeId("n0"), sorted(queue, key=lambda slot: slot.deadline))
        for queue in queues
    ]
    plan = plan_of(workflow, before, lag)
    deadline = plan.finish + slack

    latest = plan.latest_ends(deadline)
    promised = plan.queues(deadline)

    for core, schedule in enumerate(before):
        merged = sorted([*schedule.queue, *promised.get(core, [])], key=lambda slot: slot.deadline)
        assert is_kept(merged, 0.0)
    for task, slot in enumerate(plan.slots):
        assert slot.end <= latest[task] + SLACK <= deadline + 2 * SLACK
        for parent in workflow.parents.row(task).tolist():
            assert latest[parent] + lag <= latest[task] - slot.seconds + SLACK
