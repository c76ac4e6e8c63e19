"""The events of several hosts as one list."""

from hypothesis import given
from hypothesis import strategies as st

from dataward.cluster.merging import WAIT_SECONDS, merged
from dataward.model.events import AttemptBegan, Event, FileStored, TaskFinished
from dataward.model.ids import AttemptId, NodeId
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId

A, B = NodeId("a"), NodeId("b")


def began(at: float, task: str, node: NodeId) -> Event:
    return AttemptBegan(at, TaskId(task), AttemptId(f"{node}.1.1"), node, False, 1)


def finished(at: float, task: str, node: NodeId) -> Event:
    attempt = AttemptId(f"{node}.1.1")
    return TaskFinished(at, TaskId(task), attempt, node, TaskState.COMPLETE, 1)


def test_events_of_hosts_come_by_time() -> None:
    lists = {A: [began(1.0, "x", A), finished(4.0, "x", A)], B: [began(2.0, "y", B)]}

    assert [event.at for event in merged(lists, {})] == [1.0, 2.0, 4.0]


def test_a_task_does_not_begin_before_its_parent_has_finished() -> None:
    lists = {A: [finished(5.0, "parent", A)], B: [began(4.9, "child", B), finished(6, "child", B)]}

    found = list(merged(lists, {TaskId("child"): (TaskId("parent"),)}))

    assert [type(event) for event in found] == [TaskFinished, AttemptBegan, TaskFinished]
    assert found[1].at == 5.0  # the time of what it waited for


def test_what_a_lost_host_told_is_not_waited_for_for_long() -> None:
    far = 4.9 + 2 * WAIT_SECONDS
    lists = {A: [began(far, "other", A)], B: [began(4.9, "child", B), finished(5.0, "child", B)]}

    found = list(merged(lists, {TaskId("child"): (TaskId("gone"),)}))

    assert [event.at for event in found] == [4.9, 5.0, far]


def test_when_two_hosts_wait_for_a_lost_one_each_still_waits_for_the_other() -> None:
    lists = {
        A: [began(5.0, "one", A), finished(5.5, "one", A), began(9.0, "late", A)],
        B: [began(4.9, "two", B), began(6.0, "child", B)],
    }
    gone = (TaskId("gone"),)
    parents = {TaskId("one"): gone, TaskId("two"): gone, TaskId("child"): (TaskId("one"),)}

    found = [(type(event), event.task) for event in merged(lists, parents)]

    assert found.index((TaskFinished, "one")) < found.index((AttemptBegan, "child"))
    assert len(found) == 5


@given(
    st.lists(
        st.tuples(st.sampled_from([A, B]), st.floats(0, 100), st.sampled_from("pqrs")), max_size=30
    )
)
def test_nothing_is_lost_and_each_host_keeps_its_order(
    told: list[tuple[NodeId, float, str]],
) -> None:
    lists: dict[NodeId, list[Event]] = {A: [], B: []}
    for number, (node, at, task) in enumerate(told):
        kind = (began, finished)[number % 2]
        lists[node] += [kind(at, task, node), FileStored(at, FileId(str(number)), node, 1)]
    parents = {TaskId("q"): (TaskId("p"),), TaskId("s"): (TaskId("q"), TaskId("r"))}

    found = list(merged(lists, parents))

    for node in (A, B):
        marks = [e.file for e in found if isinstance(e, FileStored) and e.node == node]
        assert marks == [e.file for e in lists[node] if isinstance(e, FileStored)]
    assert len(found) == sum(map(len, lists.values()))
