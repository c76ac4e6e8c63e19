"""The validator: drops what others have finished, and patrols when it is this node's turn."""

from typing import Any

import pytest

from dataward.model.operations import Begin, Commit, LetGo, Look, Patrol
from dataward.node.patrol import ShardPatrol
from dataward.node.validator import Validator, place_of
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """A node whose validator runs, every ten seconds."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"lease_seconds": 20.0, "validation_seconds": 10.0, **settings})
        patrol = ShardPatrol(
            self.world, self.settings, self.client, self.state.outbox, self.placer, self.herald
        )
        self.start(Validator(self.world, self.settings, self.client, self.state, patrol).run())

    def waits(self, task: str, *, shared: bool) -> None:
        """A task waits here that may have backups; one that is shared has them."""
        self.hold(a_task(task, backups_max=1))
        self.state.queue.put(a_queue_entry(task))
        if shared:
            self.state.queue.share(task)

    def is_finished_by(self, node: str, task: str) -> None:
        self.have(Begin(task, f"{node}.1.1", node), Commit(task, f"{node}.1.1", node, (), 1))


def test_a_queued_task_that_another_node_finished_is_dropped_and_let_go_of() -> None:
    place = Place()
    place.waits("t", shared=True)
    place.is_finished_by("n1", "t")
    place.pass_time(9.0)
    assert "t" in place.state.queue

    place.pass_time(1.0)

    assert "t" not in place.state.queue
    assert [type(op) for op in place.state.outbox.take()] == [LetGo]


def test_a_queued_task_that_nobody_has_finished_stays() -> None:
    place = Place()
    place.waits("t", shared=True)

    place.pass_time(10.0)

    assert "t" in place.state.queue
    assert "t" in place.state.identity.holdings


def test_only_tasks_that_another_node_has_too_are_asked_after() -> None:
    place = Place()
    for task in ("a", "b", "c"):
        place.waits(task, shared=task != "b")

    place.pass_time(10.0)

    assert place.asked(Look) == [Look("a"), Look("c")]


def test_a_task_that_was_begun_while_it_was_asked_after_is_not_let_go_of() -> None:
    place = Place()
    place.waits("t", shared=True)
    place.is_finished_by("n1", "t")
    place.store.answers.clear()
    place.pass_time(10.0)

    place.state.queue.take()
    place.store.answers.set()
    place.pass_time()

    assert "t" in place.state.identity.holdings


def test_the_shards_whose_turn_it_is_are_patrolled_each_round_another() -> None:
    place = Place(nodes=2, shards=2)

    place.pass_time(30.0)

    assert [(op.shard, op.node) for op in place.asked(Patrol)] == [(1, "n0"), (0, "n0"), (1, "n0")]


def test_of_many_nodes_each_patrols_but_now_and_then() -> None:
    place = Place(nodes=12, shards=1)

    place.pass_time(90.0)

    assert len(place.asked(Patrol)) == 3  # at every third of nine turns


@pytest.mark.parametrize("nodes", [("a", "b", "c"), ("c", "a", "b"), ("b",), ("c", "b", "a")])
def test_a_node_finds_its_place_among_sorted_and_unsorted_nodes(nodes: tuple[str, ...]) -> None:
    assert [place_of(node, nodes) for node in nodes] == list(range(len(nodes)))
