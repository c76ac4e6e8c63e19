"""The herald: children are told, those who became ready are queued, and only then is it over."""

from typing import Any

from dataward.model.events import Occasion, TaskFinished, TaskPlaced
from dataward.model.ids import NOBODY
from dataward.model.messages import Stop, WorkQueued
from dataward.model.operations import Begin, Copy, Delivered, Enqueue, Notify, Submit
from dataward.model.states import TaskState
from dataward.node.herald import Notice
from node.fake_world import FakeWorld, a_queue_entry, a_task


def a_notice(task: str = "p", children: tuple[str, ...] = (), **fields: Any) -> Notice:
    return Notice(**{"task": task, "generation": 1, "end": TaskState.COMPLETE, "children": children,
                     "copies": (), **fields})  # fmt: skip


class Place(FakeWorld):
    """A node whose herald runs."""

    def __init__(self) -> None:
        super().__init__()
        self.start(self.herald.run())

    def delivered(self) -> list[str]:
        said = self.state.outbox.take()
        return [op.task for op in said if isinstance(op, Delivered)]


def test_every_child_is_told_which_completion_it_was_and_where_the_files_are() -> None:
    place = Place()
    copies = (Copy("f", "n2"),)

    place.herald.deliver(a_notice("p", ("a", "b"), generation=3, copies=copies))
    place.pass_time()

    assert place.asked(Notify) == [
        Notify("a", "p", 3, False, copies),
        Notify("b", "p", 3, False, copies),
    ]


def test_notices_that_come_together_are_told_in_one_call() -> None:
    place = Place()

    for parent in ("p", "q"):
        place.herald.deliver(a_notice(parent, ("a",)))
    place.pass_time()

    assert [len(call) for call in place.store.calls] == [2]


def test_a_notice_that_comes_while_others_are_told_is_told_after_them() -> None:
    place = Place()
    place.store.answers.clear()
    place.herald.deliver(a_notice("p", ("a",)))
    place.pass_time()

    place.herald.deliver(a_notice("q", ("a",)))
    place.store.answers.set()
    place.pass_time()

    assert [notice.parent for notice in place.asked(Notify)] == ["p", "q"]


def test_a_child_that_became_ready_is_queued_where_it_prefers_and_that_node_is_told() -> None:
    place = Place()
    place.have(Submit(a_task("child", made_by="p", preferred="n2")))

    place.herald.deliver(a_notice("p", ("child",)))
    place.pass_time()

    assert place.queue_of("n2") == ["child"]
    assert place.sent(WorkQueued) == [("n2", WorkQueued())]
    placed = [(event.task, event.node, event.occasion) for event in place.told(TaskPlaced)]
    assert placed == [("child", "n2", Occasion.READY)]


def test_a_child_that_still_waits_or_already_runs_is_not_queued() -> None:
    place = Place()
    place.have(
        Submit(a_task("waits", parents=("p", "q"))),
        Submit(a_task("runs", parents=("p",))),
        Notify("runs", "p", 1),
        Begin("runs", "n1.1.1", "n1"),
    )

    place.herald.deliver(a_notice("p", ("waits", "runs")))
    place.pass_time()

    assert not place.asked(Enqueue)


def test_a_child_that_two_notices_made_ready_is_queued_once() -> None:
    place = Place()
    place.have(Submit(a_task("child", parents=("p", "q"))))

    for parent in ("p", "q"):
        place.herald.deliver(a_notice(parent, ("child",)))
    place.pass_time()

    assert place.asked(Enqueue) == [Enqueue("n0", (a_queue_entry("child"),))]


def test_it_is_delivered_only_when_the_ready_children_are_queued() -> None:
    place = Place()
    place.have(Submit(a_task("child", made_by="p")))
    place.store.answers.clear()
    place.herald.deliver(a_notice("p", ("child",)))
    place.pass_time()
    assert place.delivered() == []

    place.store.answers.set()
    place.pass_time()

    assert isinstance(place.log[-1], Enqueue)
    assert place.state.outbox.take() == [Delivered("p", 1)]


def test_a_task_without_children_is_delivered_at_once() -> None:
    place = Place()

    place.herald.deliver(a_notice("p", generation=7))
    place.pass_time()

    assert place.store.calls == []
    assert place.state.outbox.take() == [Delivered("p", 7)]


def test_it_stays_undelivered_while_the_store_does_not_know_a_child() -> None:
    place = Place()
    place.have(Submit(a_task("known", made_by="p")), Submit(a_task("too", made_by="q")))

    place.herald.deliver(a_notice("p", ("known", "forgotten")))
    place.herald.deliver(a_notice("q", ("too",)))
    place.pass_time()

    assert place.delivered() == ["q"]


def test_a_failure_is_passed_on_to_all_descendants() -> None:
    place = Place()
    place.have(
        Submit(a_task("child", made_by="p", children=("grandchild",))),
        Submit(a_task("grandchild", made_by="child")),
    )

    place.herald.deliver(a_notice("p", ("child",), end=TaskState.FAILED))
    place.pass_time()

    assert place.asked(Notify) == [
        Notify("child", "p", 1, True),
        Notify("grandchild", "child", 1, True),
    ]
    finished = [(e.task, e.attempt, e.node, e.state) for e in place.told(TaskFinished)]
    assert finished == [
        ("child", NOBODY, "n0", TaskState.FAILED),
        ("grandchild", NOBODY, "n0", TaskState.FAILED),
    ]
    assert place.delivered() == ["p", "child", "grandchild"]


def test_a_child_that_failed_by_itself_is_not_failed_again_with_its_parent() -> None:
    place = Place()
    place.have(
        Submit(a_task("child", parents=("p", "q"), children=("grandchild",))),
        Notify("child", "q", 1, True),
    )

    place.herald.deliver(a_notice("p", ("child",), end=TaskState.FAILED))
    place.pass_time()

    assert [notice.task for notice in place.asked(Notify)] == ["child"]
    assert place.told(TaskFinished) == []


def test_a_child_under_way_outlives_its_parents_failure() -> None:
    place = Place()
    place.have(
        Submit(a_task("child", parents=("p",))), Notify("child", "p", 1),
        Begin("child", "n1.1.1", "n1"),
    )  # fmt: skip

    place.herald.deliver(a_notice("p", ("child",), generation=2, end=TaskState.FAILED))
    place.pass_time()

    assert place.told(TaskFinished) == []
    assert place.delivered() == ["p"]


# --- removal -------------------------------------------------------------------------------------


def test_a_removal_is_passed_on_to_all_descendants() -> None:
    place = Place()
    place.have(
        Submit(a_task("child", made_by="p", children=("grandchild",))),
        Submit(a_task("grandchild", made_by="child")),
    )

    place.herald.deliver(a_notice("p", ("child",), end=TaskState.REMOVED))
    place.pass_time()

    assert place.asked(Notify) == [
        Notify("child", "p", 1, removed=True),
        Notify("grandchild", "child", 1, removed=True),
    ]
    finished = [(e.task, e.attempt, e.node, e.state) for e in place.told(TaskFinished)]
    assert finished == [
        ("child", NOBODY, "n0", TaskState.REMOVED),
        ("grandchild", NOBODY, "n0", TaskState.REMOVED),
    ]
    assert place.delivered() == ["p", "child", "grandchild"]
    assert place.network.sent == []  # they waited, so no node has them


def test_whoever_may_have_a_child_that_is_removed_is_told_to_stop() -> None:
    place = Place()
    place.have(
        Submit(a_task("child", parents=("p",), preferred="n2")), Notify("child", "p", 1),
        Begin("child", "n1.1.1", "n1"),
    )  # fmt: skip

    place.herald.deliver(a_notice("p", ("child",), generation=2, end=TaskState.REMOVED))
    place.pass_time()

    stop = Stop("child", place.known("child").generation)
    assert place.network.sent == [("n1", stop), ("n2", stop)]
    assert [event.state for event in place.told(TaskFinished)] == [TaskState.REMOVED]


def test_a_removed_child_that_the_store_has_forgotten_is_to_be_told_later() -> None:
    place = Place()

    place.herald.deliver(a_notice("p", ("child",), end=TaskState.REMOVED))
    place.pass_time()

    assert place.delivered() == []
