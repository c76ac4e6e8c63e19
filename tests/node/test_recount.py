"""The recount after a loss: every unfinished task of every shard is looked at, page by page."""

import pytest

from dataward.model.answers import Findings
from dataward.model.events import Occasion, TaskPlaced, TaskReopened
from dataward.model.operations import (
    Begin,
    Commit,
    Delivered,
    Enqueue,
    Fail,
    Join,
    Notify,
    Postpone,
    Recount,
    Recounted,
    Remove,
    Reopen,
    Submit,
    shard_of,
)
from dataward.model.states import TaskState
from dataward.node import recount as module
from dataward.node.recount import recount
from node.fake_world import FakeWorld, a_queue_entry, a_task


def run_recount(world: FakeWorld, shard: int = 0, epoch: int = 1) -> None:
    findings = Findings(shard, (), (), (), epoch, True)
    world.do(recount(world.client, world.placer, world.store.shard_count, findings))


def complete(world: FakeWorld, task: str) -> None:
    world.have(Begin(task, "n1.1.1", "n1"), Commit(task, "n1.1.1", "n1", (), 1))


def test_every_shard_is_counted_from_its_first_task_to_its_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    world = FakeWorld(shards=2)
    tasks = [f"t{i}" for i in range(10)]
    world.have(*(Submit(a_task(task)) for task in tasks))
    by_shard = [[t for t in tasks if shard_of(Submit(a_task(t)), 2) == s] for s in (0, 1)]

    run_recount(world)

    pages = [[op.cursor for op in world.asked(Recount) if op.shard == s] for s in (0, 1)]
    assert pages == [list(range(0, len(mine), 2)) for mine in by_shard]
    assert sorted(world.queue_of("n0")) == tasks


def test_a_ready_task_is_queued_again_and_one_under_way_is_not() -> None:
    world = FakeWorld()
    world.have(Submit(a_task("ready", preferred="n2")), Submit(a_task("runs")))
    world.have(Begin("runs", "n1.1.1", "n1"))

    run_recount(world)

    assert world.asked(Enqueue) == [Enqueue("n2", (a_queue_entry("ready"),))]
    assert [event.occasion for event in world.told(TaskPlaced)] == [Occasion.READY]


def test_one_that_missed_its_parents_end_is_told_where_the_files_are_and_queued() -> None:
    world = FakeWorld()
    world.have(
        Submit(a_task("p", writes=["f"], children=("child",))),
        Submit(a_task("child", reads=["f"], made_by="p")),
    )
    complete(world, "p")

    run_recount(world)

    (notice,) = world.asked(Notify)
    assert (notice.task, notice.parent, notice.generation, notice.failed) == (
        "child",
        "p",
        1,
        False,
    )
    assert [(copy.file, copy.node) for copy in notice.copies] == [("f", "n1")]
    assert world.queue_of("n0") == ["child"]


def test_one_that_missed_its_parents_failure_fails_too() -> None:
    world = FakeWorld()
    world.have(Submit(a_task("p", children=("child",))), Submit(a_task("child", made_by="p")))
    world.have(Begin("p", "n1.1.1", "n1"), Fail("p", "n1.1.1", "it broke"))

    run_recount(world)

    assert world.asked(Notify) == [Notify("child", "p", 1, True)]
    assert not world.asked(Enqueue)


def test_one_that_missed_its_parents_removal_is_removed_too() -> None:
    world = FakeWorld()
    world.have(Submit(a_task("p", children=("child",))), Submit(a_task("child", made_by="p")))
    world.have(Remove("p"))

    run_recount(world)

    assert world.asked(Notify) == [Notify("child", "p", 1, removed=True)]
    assert world.known("child").state is TaskState.REMOVED
    assert not world.asked(Enqueue)


def test_one_that_waits_with_reason_goes_on_waiting() -> None:
    world = FakeWorld()
    world.have(Submit(a_task("p", children=("child",))), Submit(a_task("child", made_by="p")))
    world.have(Begin("p", "n1.1.1", "n1"))

    run_recount(world)

    assert not world.asked(Notify)
    assert not world.asked(Enqueue)


def test_a_parent_whose_reopening_was_forgotten_is_reopened_once_more_and_queued() -> None:
    world = FakeWorld()
    world.have(
        Submit(a_task("p", children=("a", "b"))),
        Submit(a_task("a", made_by="p")),
        Submit(a_task("b", made_by="p")),
    )
    complete(world, "p")
    # They miss the files of p's first end. That p was reopened for them, its shard has forgotten.
    for child, attempt in (("a", "n2.1.1"), ("b", "n2.1.2")):
        world.have(
            Notify(child, "p", 1),
            Begin(child, attempt, "n2"),
            Postpone(child, attempt, "p", 1),
        )

    run_recount(world)

    assert world.asked(Reopen) == [Reopen("p", 1)]
    assert world.told(TaskReopened) == [TaskReopened(0.0, "p", 1)]
    assert world.queue_of("n0") == ["p"]
    assert world.asked(Delivered) == [Delivered("p", 1, 1)]


def test_when_all_is_counted_the_store_is_told_that_the_loss_is_repaired() -> None:
    world = FakeWorld(shards=2)
    world.have(Join("n0", 1, 1e9), Submit(a_task()))

    run_recount(world, shard=1, epoch=5)

    assert world.log[-1] == Recounted(1, 5)
    assert len(world.asked(Recounted)) == 1
