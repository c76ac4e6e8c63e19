"""The patrol: what is stuck on a shard is found and repaired, in an order that a crash may cut."""

from collections.abc import Sequence
from typing import Any

import pytest

from dataward.model.answers import Findings, Orphans, Suspect, Undelivered
from dataward.model.events import Occasion, TaskFinished, TaskPlaced, TaskTakenOver
from dataward.model.ids import NOBODY
from dataward.model.messages import Confirm
from dataward.model.operations import (
    Begin,
    Commit,
    Copy,
    Delivered,
    Enqueue,
    Join,
    Leave,
    LetGo,
    Notify,
    Operation,
    Patrol,
    Recount,
    Recounted,
    Seize,
    Submit,
    TakeOver,
    shard_of,
)
from dataward.model.states import TaskState
from dataward.node.patrol import PATROLS, ShardPatrol, shards_to_patrol
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """A node whose herald runs and which patrols when told to."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"lease_seconds": 20.0, "validation_seconds": 10.0, **settings})
        self.patrol = ShardPatrol(
            self.world, self.settings, self.client, self.state.outbox, self.placer, self.herald
        )
        self.start(self.herald.run())

    def look(self, shard: int = 0) -> None:
        self.do(self.patrol.look_after(shard))
        self.pass_time()

    def finds(self, shard: int = 0, **found: Any) -> None:
        """The next patrol finds this."""
        plain = {"orphans": (), "undelivered": (), "suspects": (), "epoch": 0, "recount_due": False}
        self.store.will_answer(Patrol, Findings(shard, **{**plain, **found}))

    def dies(self, node: str, *tasks: str) -> None:
        """A node with these tasks in its queue has not renewed its lease."""
        self.join(node, lease_seconds=-1.0)
        self.have(Enqueue(node, tuple(a_queue_entry(task) for task in tasks)))


# --- whose turn it is ----------------------------------------------------------------------------


def shards_in_a_round(nodes: int, shards: int) -> list[int]:
    """How often each shard is looked after while every node has one turn."""
    seen = [s for node in range(nodes) for s in shards_to_patrol(node, nodes, shards)]
    return [seen.count(shard) for shard in range(shards)]


def test_of_many_nodes_a_few_patrol_each_shard_in_a_round() -> None:
    assert shards_in_a_round(nodes=1000, shards=10) == [PATROLS] * 10


def test_of_few_nodes_each_patrols_its_share_of_the_shards() -> None:
    assert shards_to_patrol(0, nodes=2, shards=8) == [0, 1, 2, 3]
    assert shards_to_patrol(7, nodes=2, shards=8) == [7, 0, 1, 2]
    assert shards_to_patrol(0, nodes=1, shards=3) == [0, 1, 2]


@pytest.mark.parametrize(("nodes", "shards", "turns"), [(1, 8, 1), (2, 8, 5), (8, 8, 8),
                                                       (100, 8, 24)])  # fmt: skip
def test_a_lone_survivor_patrols_every_shard_in_time(nodes: int, shards: int, turns: int) -> None:
    start = 7

    seen = {
        shard
        for turn in range(start, start + turns)
        for shard in shards_to_patrol(turn, nodes, shards)
    }

    assert seen == set(range(shards))


def test_a_patrol_says_who_looks_how_much_it_can_take_and_what_counts_as_stuck() -> None:
    place = Place(shards=2, patrol_limit=7, stale_outbox_seconds=3.0)

    place.look(1)

    assert place.log == [Patrol(1, "n0", 7, 3.0, suspect_seconds=40.0)]


# --- dead nodes ----------------------------------------------------------------------------------


def test_orphans_are_fenced_first_queued_elsewhere_second_and_forgotten_last() -> None:
    place = Place()
    place.have(Submit(a_task("t", preferred="n1")))
    place.dies("n1", "t")

    place.look()

    kinds = [type(op) for op in place.log if isinstance(op, TakeOver | Enqueue | Delivered | LetGo)]
    assert kinds == [TakeOver, Enqueue, Delivered, LetGo]
    assert place.asked(TakeOver) == [TakeOver("t", "n1", 1)]
    assert place.queue_of("n1") == []
    assert place.queue_of("n0") == ["t"]
    assert [event.occasion for event in place.told(TaskPlaced)] == [Occasion.ORPHANED]
    assert place.told(TaskTakenOver) == [TaskTakenOver(0.0, "t", "n1", 1)]


def test_a_node_that_is_known_to_have_ended_is_given_up_before_its_lease_expires() -> None:
    place = Place()
    place.have(Submit(a_task("t", preferred="n1")))
    place.join("n1", incarnation=5)
    place.have(Enqueue("n1", (a_queue_entry("t"),)))

    place.start(place.patrol.give_up("n1", 6))
    place.pass_time()

    assert place.asked(TakeOver) == [TakeOver("t", "n1", 5)]
    assert place.queue_of("n1") == []
    assert place.queue_of("n0") == ["t"]


def test_what_is_queued_late_for_a_node_that_was_given_up_is_found_soon() -> None:
    place = Place()
    place.have(Submit(a_task("t")), Submit(a_task("late")))
    place.join("n1", incarnation=5)
    place.have(Enqueue("n1", (a_queue_entry("t"),)))
    place.start(place.patrol.give_up("n1", 6))
    place.pass_time()

    place.have(Enqueue("n1", (a_queue_entry("late"),)))
    place.pass_time(10.0)

    assert place.queue_of("n1") == []
    assert TakeOver("late", "n1", 5) in place.asked(TakeOver)


def test_a_node_that_has_begun_again_is_not_given_up() -> None:
    place = Place()
    place.have(Submit(a_task("t", preferred="n1")))
    place.join("n1", incarnation=6)
    place.have(Enqueue("n1", (a_queue_entry("t"),)))

    place.do(place.patrol.give_up("n1", 6))
    place.pass_time()

    assert place.asked(TakeOver) == []
    assert place.queue_of("n1") == ["t"]


def test_a_node_that_was_cut_off_itself_gives_up_nobody() -> None:
    place = Place()
    place.have(Submit(a_task("t", preferred="n1")))
    place.join("n1", incarnation=5)
    place.store.failures_left = 6  # it repeats the call, after 0.5 s, 1 s, 2 s and so on

    place.do(place.patrol.give_up("n1", 8))

    assert place.kernel.now() > 10.0
    assert place.asked(Leave) == []


def test_what_was_queued_for_a_node_that_ended_before_it_joined_is_taken_over() -> None:
    place = Place()
    place.have(Submit(a_task("t", preferred="n1")), Enqueue("n1", (a_queue_entry("t"),)))

    place.start(place.patrol.give_up("n1", 6))
    place.pass_time()

    assert place.asked(Leave) == []
    assert place.queue_of("n1") == []
    assert place.queue_of("n0") == ["t"]


def test_only_the_stays_that_were_found_are_forgotten() -> None:
    place = Place()
    place.have(Submit(a_task("t")))
    entries = (a_queue_entry("t"), a_queue_entry("t"))
    place.finds(orphans=(Orphans("n1", 3, entries, (70, 71)),))

    place.look()

    assert place.asked(LetGo) == [LetGo("n1", 3, (("t", 70), ("t", 71)))]
    assert place.asked(TakeOver) == [TakeOver("t", "n1", 3)]  # fenced once


def test_an_orphan_that_is_finished_or_runs_elsewhere_is_only_forgotten() -> None:
    place = Place()
    place.have(Submit(a_task("done")), Submit(a_task("runs", backups_max=1)))
    place.have(Begin("done", "n2.1.1", "n2"), Commit("done", "n2.1.1", "n2", (), 1))
    place.have(Begin("runs", "n2.1.2", "n2"))
    place.dies("n1", "done", "runs")

    place.look()

    assert not place.asked(Enqueue)
    assert place.queue_of("n1") == []


# --- attempts that nobody may run ----------------------------------------------------------------


def a_suspect(task: str, node: str) -> Suspect:
    return Suspect(task, f"{node}.1.1", node, 1)


def begun(place: Place, task: str, node: str) -> None:
    place.have(Submit(a_task(task)), Begin(task, f"{node}.1.1", node))


def test_a_suspects_node_that_is_alive_is_asked_to_confirm_it() -> None:
    place = Place()
    place.join("n1")
    begun(place, "t", "n1")
    place.finds(suspects=(a_suspect("t", "n1"),))

    place.look()

    assert place.sent(Confirm) == [("n1", Confirm("t", "n1.1.1"))]
    assert not place.asked(TakeOver)


def test_the_attempts_of_a_node_that_is_dead_are_taken_over_and_their_tasks_queued() -> None:
    place = Place()
    place.join("n1", lease_seconds=-1.0)
    for task in ("a", "b"):
        begun(place, task, "n1")
    place.finds(suspects=(a_suspect("a", "n1"), a_suspect("b", "n1")))

    place.look()

    assert place.asked(Seize) == [Seize("n1", 1)]  # a node is asked about once
    assert [fence.task for fence in place.asked(TakeOver)] == ["a", "b"]
    assert place.queue_of("n0") == ["a", "b"]
    assert place.sent(Confirm) == []


def test_without_suspects_nobody_is_seized() -> None:
    place = Place()

    place.look()

    assert not place.asked(Seize)


# --- what was not said ---------------------------------------------------------------------------


def an_undelivered(task: str, **fields: Any) -> Undelivered:
    plain = {"generation": 1, "state": TaskState.COMPLETE, "placement": 0, "children": (),
             "copies": (), "winner": NOBODY}  # fmt: skip
    return Undelivered(task, **{**plain, **fields})


def test_children_that_were_not_told_are_told_and_so_is_the_event_list() -> None:
    place = Place()
    copies = (Copy("f", "n1"),)
    place.finds(
        undelivered=(
            an_undelivered("t", generation=2, children=("c",), copies=copies, winner="n1.1.1"),
        )
    )

    place.look()

    assert place.asked(Notify) == [Notify("c", "t", 2, False, copies)]
    assert place.told(TaskFinished) == [
        TaskFinished(0.0, "t", "n1.1.1", "n1", TaskState.COMPLETE, 2)
    ]


def test_a_failure_that_was_not_passed_on_is_passed_on() -> None:
    place = Place()
    place.finds(undelivered=(an_undelivered("t", state=TaskState.FAILED, children=("c",)),))

    place.look()

    assert place.asked(Notify) == [Notify("c", "t", 1, True)]
    assert place.told(TaskFinished) == []  # nobody won


def test_a_removal_that_was_not_passed_on_is_passed_on() -> None:
    place = Place()
    place.finds(undelivered=(an_undelivered("t", state=TaskState.REMOVED, children=("c",)),))

    place.look()

    assert place.asked(Notify) == [Notify("c", "t", 1, removed=True)]
    assert place.told(TaskFinished) == []


def test_a_task_that_may_be_in_no_queue_is_queued_again() -> None:
    place = Place()
    place.have(Submit(a_task("t")))
    place.finds(undelivered=(an_undelivered("t", placement=1, children=("c",)),))

    place.look()

    assert place.queue_of("n0") == ["t"]
    assert not place.asked(Notify)


# --- a shard that lost writes --------------------------------------------------------------------


def journalled(place: Place, tasks: Sequence[str]) -> None:
    place.disk.commits += [Commit(task, f"n0.1.{i}", "n0", (), 1) for i, task in enumerate(tasks)]


def said_again(place: Place) -> list[str]:
    said: list[Operation] = place.state.outbox.take()
    return [op.task for op in said if isinstance(op, Commit)]


def test_after_a_loss_this_nodes_commits_of_that_shard_are_said_again_and_no_others() -> None:
    place = Place(shards=2)
    tasks = [f"t{i}" for i in range(8)]
    journalled(place, tasks)
    place.finds(shard=1, epoch=1)

    place.look(1)

    lost = [commit.task for commit in place.disk.commits if shard_of(commit, 2) == 1]
    assert 0 < len(lost) < 8
    assert said_again(place) == lost


def test_they_are_said_again_once_for_each_loss() -> None:
    place = Place()
    journalled(place, ["t"])

    said = []
    for epoch in (0, 1, 1, 2):
        place.finds(epoch=epoch)
        place.look()
        said.append(said_again(place))

    assert said == [[], ["t"], [], ["t"]]


def test_losses_of_one_shard_are_not_taken_for_another_ones() -> None:
    place = Place(shards=2)
    journalled(place, [f"t{i}" for i in range(8)])

    said = []
    for shard in (0, 1):
        place.finds(shard=shard, epoch=1)
        place.look(shard)
        said += said_again(place)

    assert sorted(said) == [f"t{i}" for i in range(8)]


def test_a_loss_that_nobody_has_repaired_is_recounted_and_then_repaired() -> None:
    place = Place(shards=2)
    place.have(Join("n0", 1, 1e9))
    place.store.lose_writes(1)

    place.look(0)
    assert not place.asked(Recount)
    place.look(1)
    place.look(1)

    assert [op.shard for op in place.asked(Recount)] == [0, 1]
    assert place.asked(Recounted) == [Recounted(1, 1)]
