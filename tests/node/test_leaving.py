"""A node that leaves: tasks and files go to others first, then its membership."""

from typing import Any

import pytest

from dataward.model.answers import Membership
from dataward.model.events import NodeLeft, Occasion, TaskPlaced
from dataward.model.messages import Stock, WorkQueued
from dataward.model.operations import (
    AddCopies,
    Copy,
    DropCopies,
    Enqueue,
    InputFile,
    Leave,
    Probe,
    QueueEntry,
    Submit,
)
from dataward.model.states import TaskState
from dataward.node.leaving import DRAWS_MAX
from dataward.node.mover import Staying
from dataward.node.node import Node
from dataward.node.rules import Rules
from dataward.world import DiskFull
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """Node n0 of three, of one core, that has started; n1 and n2 are up."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cores=1, staging_ahead=1, **settings)
        self.node = Node(self.world, Rules(settings=self.settings, home=self.rule, mover=Staying()))
        self.state = self.node._state
        for node in self.world.nodes[1:]:
            self.join(node)
        self.node.start()
        self.pass_time()

    def queued(self, *specs: Any, **fields: Any) -> None:
        self.have(*(Submit(spec) for spec in specs))
        entries: tuple[QueueEntry, ...] = tuple(a_queue_entry(s.id, **fields) for s in specs)
        self.have(Enqueue("n0", entries))
        self.network.inbox.put(WorkQueued())
        self.pass_time(0.2)

    def leaves(self, seconds: float = 0.0) -> Any:
        fiber = self.kernel.spawn(self.node.leave())
        self.pass_time(seconds)
        return fiber

    def brings(self, owner: str, file: str) -> None:
        """Another node has brought in what it was asked to."""
        node = self.sent(Stock)[-1][0]
        self.have(AddCopies(owner, (Copy(file, node),)))

    def is_up(self) -> bool:
        (answer,) = self.have(Probe("n0"))
        assert isinstance(answer, Membership)
        return answer.up


# --- tasks ---------------------------------------------------------------------------------------


def test_what_waits_goes_to_others_while_what_runs_ends_here() -> None:
    place = Place()
    place.runner.may_end.clear()
    place.queued(a_task("runs"), a_task("staged"), a_task("waits"))

    leaving = place.leaves(seconds=1.0)
    moved = {*place.queue_of("n1"), *place.queue_of("n2")}
    ran = list(place.runner.given)
    place.runner.may_end.set()
    place.pass_time(10.0)

    assert len(ran) == 1
    assert moved == {"runs", "staged", "waits"} - set(ran)
    assert {e.occasion for e in place.told(TaskPlaced)} == {Occasion.LEFT}
    assert place.known(ran[0]).state is TaskState.COMPLETE
    assert place.held_by("n0") == place.queue_of("n0") == []
    assert leaving.done()


def test_a_node_is_a_member_until_all_is_over_and_then_at_once_no_more() -> None:
    place = Place()
    place.runner.may_end.clear()
    place.queued(a_task("runs"))

    place.leaves(seconds=60.0)
    assert place.is_up()
    place.runner.may_end.set()
    place.pass_time(10.0)

    assert not place.is_up()
    assert place.asked(Leave) == [Leave("n0", 1)]
    assert [event.node for event in place.told(NodeLeft)] == ["n0"]


def test_a_node_that_has_left_does_not_join_again() -> None:
    place = Place(validation_seconds=5.0)

    place.leaves(seconds=1000.0)

    assert not place.is_up()


def test_what_others_send_here_because_they_have_not_heard_goes_on() -> None:
    place = Place()
    place.runner.may_end.clear()
    place.queued(a_task("runs"))
    place.leaves(seconds=1.0)

    place.queued(a_task("late"))
    place.pass_time(1.0)

    assert "late" in (*place.queue_of("n1"), *place.queue_of("n2"))


def test_old_news_that_this_node_is_a_member_does_not_bring_tasks_back() -> None:
    place = Place()
    place.runner.may_end.clear()
    place.queued(a_task("runs"))
    place.leaves(seconds=1.0)

    place.world.nodes.become(["n0", "n1"])

    assert place.world.nodes == ["n1"]


def test_a_replica_that_waits_is_just_let_go_of() -> None:
    place = Place()
    place.runner.may_end.clear()
    place.queued(a_task("runs"))
    place.queued(a_task("staged"))
    place.queued(a_task("copy"), replica=True)

    place.leaves(seconds=1.0)

    assert "copy" not in (*place.queue_of("n1"), *place.queue_of("n2"), *place.held_by("n0"))


def test_a_node_that_is_alone_ends_what_runs_and_leaves_the_rest_for_whoever_comes() -> None:
    place = Place()
    place.world.nodes.become(["n0"])
    place.runner.may_end.clear()
    place.queued(a_task("runs"))
    place.queued(a_task("staged"))
    place.queued(a_task("waits"))

    leaving = place.leaves(seconds=1.0)
    place.runner.may_end.set()
    place.pass_time(10.0)

    assert leaving.done()
    assert place.held_by("n0") == ["waits"]
    assert not place.is_up()


# --- files ---------------------------------------------------------------------------------------


def test_the_only_copy_of_what_a_child_will_read_is_brought_to_another_node_first() -> None:
    place = Place()
    place.have(Submit(a_task("other", children=("child",))))
    child = a_task("child", reads=["out"], parents=("t", "other"))
    place.have(Submit(child))
    place.queued(a_task(writes=["out"], children=("child",)))

    leaving = place.leaves(seconds=1.0)
    assert [m for _, m in place.sent(Stock)] == [Stock((InputFile("out", 10, "t"),), for_good=True)]
    assert not leaving.done()
    place.brings("t", "out")
    place.pass_time(10.0)

    assert leaving.done()
    assert DropCopies("t", (Copy("out", "n0"),)) in place.asked(DropCopies)


def test_what_another_node_has_too_need_not_be_brought_anywhere() -> None:
    place = Place()
    place.queued(a_task(writes=["out"]))
    place.have(AddCopies("t", (Copy("out", "n2"),)))

    leaving = place.leaves(seconds=5.0)

    assert leaving.done()
    assert place.sent(Stock) == []


def test_a_copy_on_a_node_that_is_down_does_not_count() -> None:
    place = Place()
    place.queued(a_task(writes=["out"]))
    place.have(AddCopies("t", (Copy("out", "n2"),)), Leave("n2", 1))

    place.leaves(seconds=1.0)

    assert place.sent(Stock)


def test_what_all_children_have_read_stays_and_what_nobody_but_a_user_reads_does_not() -> None:
    place = Place()
    place.have(Submit(a_task("child", reads=["between"], made_by="t", writes=["result"])))
    place.queued(a_task(writes=["between"], children=("child",)))
    place.pass_time(5.0)
    assert place.known("child").state is TaskState.COMPLETE

    place.leaves(seconds=1.0)

    assert [file.id for _, m in place.sent(Stock) for file in m.files] == ["result"]


def test_other_nodes_are_asked_in_turn_and_not_for_ever() -> None:
    place = Place()
    place.queued(a_task(writes=["out"]))

    leaving = place.leaves(seconds=3600.0)

    asked = [node for node, _ in place.sent(Stock)]
    assert len(asked) == DRAWS_MAX
    assert set(asked[:2]) == {"n1", "n2"}
    assert leaving.done()
    assert not place.is_up()


def test_a_file_taken_over_comes_at_once_and_is_not_evicted() -> None:
    place = Place()
    file = InputFile("theirs", 10, "t9")
    place.have(Submit(a_task("t9", writes=["theirs"])), AddCopies("t9", (Copy("theirs", "n1"),)))
    depot = place.node._depot
    depot.is_quiet.clear()

    place.network.inbox.put(Stock((file,), for_good=True))
    place.pass_time(5.0)

    assert "theirs" in depot
    place.disk.capacity_bytes = 10.0
    with pytest.raises(DiskFull):
        depot.make_room(5)
