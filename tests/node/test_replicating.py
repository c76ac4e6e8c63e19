"""A keeper gives each node the tasks planned for it, and who is idle a replica of another's."""

from typing import Any

import pytest

from dataward.errors import SettingError
from dataward.model.answers import Standing
from dataward.model.events import Occasion, TaskPlaced
from dataward.model.messages import Ask
from dataward.model.operations import (
    Begin,
    Claim,
    Commit,
    Enqueue,
    LetGo,
    Look,
    Notify,
    Postpone,
    Replicate,
    Shelf,
    Submit,
    TakeOver,
)
from dataward.model.states import TaskState
from dataward.node.identity import Holding
from dataward.node.pulling import PullMover
from dataward.node.replicating import Replicating
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """Node n0, the keeper, whose mover runs; the others ask."""

    def __init__(self, *, nodes: int = 4, backups_max: int = 9, **settings: Any) -> None:
        super().__init__(nodes=nodes, staging_ahead=0)
        self.backups_max = backups_max
        for node in self.world.nodes:
            self.join(node)
        self.mover: PullMover = Replicating(**{"idle_seconds": 1.0, **settings}).at(self.parts)
        for loop in self.mover.loops():
            self.start(loop)

    def keeps(self, **planned: str) -> None:
        """These tasks, the first most urgent, come into the pool, each planned for a node."""
        specs = [
            a_task(
                task,
                reads=[f"in of {task}"],
                preferred=node,
                priority=float(priority),
                backups_max=self.backups_max,
            )
            for priority, (task, node) in enumerate(planned.items())
        ]
        self.hold(*specs)
        for spec in specs:
            self.state.put(a_queue_entry(spec.id, spec.priority, shelf=Shelf.POOLED))

    def hears(self, *questions: Ask) -> None:
        for question in questions:
            self.mover.on_message(question)
        self.pass_time()

    def is_idle(self, *nodes: str) -> None:
        """These nodes ask for a task, and ask again when they have been idle for long enough."""
        self.hears(*(Ask(node, 1) for node in nodes))
        self.pass_time(1.0)
        self.hears(*(Ask(node, 1) for node in nodes))

    def given(self) -> dict[str, list[str]]:
        given: dict[str, list[str]] = {}
        for op in self.asked(Enqueue):
            given.setdefault(op.node, []).extend(entry.task for entry in op.entries)
        return given

    def begins(self, task: str, node: str) -> None:
        """The node begins what it was given."""
        self.have(Claim(node, 1, 0, 1000, 0.0), Begin(task, f"{node}.1.1", node))

    def ends(self, task: str, node: str) -> None:
        self.have(Begin(task, f"{node}.1.1", node), Commit(task, f"{node}.1.1", node, (), 1))

    def let_go(self) -> list[str]:
        ops = [op for op in self.state.outbox.take() if isinstance(op, LetGo)]
        return [task for op in ops for task, _ in op.tasks]


def test_each_node_is_given_the_tasks_planned_for_it() -> None:
    place = Place()
    place.keeps(a="n1", b="n2", c="n1", d="n1")

    place.hears(Ask("n2", 2), Ask("n1", 2), Ask("n3", 1))

    assert place.given() == {"n2": ["b"], "n1": ["a", "c"]}
    assert place.asked(Enqueue)[0].entries[0].shelf is Shelf.KEPT
    assert "d" in place.state.pool
    assert place.let_go() == ["b", "a", "c"]


def test_while_tasks_are_coming_a_node_that_is_idle_for_a_moment_is_given_no_replica() -> None:
    place = Place()
    place.keeps(a="n1")

    place.hears(Ask("n2", 1))
    place.pass_time(0.9)
    place.hears(Ask("n2", 1))

    assert place.given() == {}


def test_when_no_tasks_are_coming_an_idle_node_is_given_a_replica_at_once() -> None:
    place = Place()
    place.keeps(a="n1", b="n1")
    place.hears(Ask("n1", 1))
    place.pass_time(1.0)

    place.hears(Ask("n2", 1))

    assert place.given() == {"n1": ["a"], "n2": ["b"]}


def test_while_tasks_are_coming_a_node_that_was_idle_before_is_given_a_replica() -> None:
    place = Place()
    place.hears(Ask("n2", 1))
    place.pass_time(1.0)

    place.keeps(a="n1")
    place.pass_time()

    assert place.given() == {"n2": ["a"]}


def test_what_was_asked_and_forgotten_long_ago_does_not_make_a_node_idle() -> None:
    place = Place(ask_seconds_max=5.0)
    place.hears(Ask("n2", 1))
    place.pass_time(11.0)

    place.keeps(a="n1")
    place.hears(Ask("n2", 1))

    assert place.given() == {}


def test_an_idle_node_is_given_a_replica_and_the_task_waits_here_all_the_same() -> None:
    place = Place()
    place.keeps(a="n1")

    place.is_idle("n2")

    assert place.asked(Replicate) == [Replicate("a", "n0", "n2")]
    (enqueue,) = place.asked(Enqueue)
    assert (enqueue.node, [(e.task, e.replica, e.shelf) for e in enqueue.entries]) == (
        "n2",
        [("a", True, Shelf.KEPT)],
    )
    assert place.told(TaskPlaced)[0].occasion is Occasion.ASKED_FOR
    assert "a" in place.state.pool
    assert place.let_go() == []
    place.hears(Ask("n1", 1))
    assert place.given() == {"n2": ["a"], "n1": ["a"]}


def test_several_idle_nodes_are_given_different_tasks_in_one_call() -> None:
    place = Place()
    place.keeps(a="n1", b="n1")

    place.is_idle("n2", "n3")

    assert place.given() == {"n2": ["b"], "n3": ["a"]}
    assert [len(call) for call in place.store.calls if isinstance(call[0], Replicate)] == [2]


def test_an_idle_node_is_given_as_many_replicas_as_it_asks_for_and_its_question_is_answered() -> (
    None
):
    place = Place()
    place.keeps(a="n1", b="n1", c="n1")
    place.hears(Ask("n2", 2))
    place.pass_time(1.0)

    place.hears(Ask("n2", 2))
    place.pass_time(100.0)

    assert place.given() == {"n2": ["c", "b"]}
    assert len(place.asked(Enqueue)) == 1


def test_a_task_that_runs_is_replicated_and_the_node_that_runs_it_is_told_of_the_end() -> None:
    place = Place()
    place.keeps(a="n1")
    place.hears(Ask("n1", 1))
    place.begins("a", "n1")

    place.is_idle("n2")

    assert place.asked(Replicate) == [Replicate("a", "n1", "n2")]
    assert place.given() == {"n1": ["a"], "n2": ["a"]}
    (committed,) = place.have(Commit("a", "n1.1.1", "n1", (), 1))
    assert committed.rivals == ("n2",)


def test_a_task_that_has_ended_is_not_replicated_and_not_asked_for_again() -> None:
    place = Place()
    place.keeps(a="n1", b="n1")
    place.hears(Ask("n1", 2))
    place.ends("a", "n1")

    place.is_idle("n2")
    place.is_idle("n3")

    assert place.given() == {"n1": ["a", "b"], "n2": ["b"], "n3": ["b"]}
    assert [op.task for op in place.asked(Replicate)].count("a") == 1


def test_that_one_task_has_ended_keeps_no_other_node_from_its_replica() -> None:
    place = Place()
    place.keeps(a="n1", b="n1")
    place.ends("b", "n1")

    place.is_idle("n2", "n3")  # n2 is to have a replica of b, the last in line

    assert place.asked(Replicate)[:2] == [Replicate("b", "n0", "n2"), Replicate("a", "n0", "n3")]
    assert [op.node for op in place.asked(Enqueue)].count("n3") == 1


def test_a_task_of_the_pool_that_has_ended_is_dropped_though_nobody_said_so() -> None:
    place = Place()
    place.keeps(a="n1")
    place.ends("a", "n2")

    place.is_idle("n3")

    assert place.given() == {}
    assert "a" not in place.state.pool
    assert place.let_go() == ["a"]


def test_a_task_that_waits_for_a_parent_again_is_dropped_for_it_will_be_placed_anew() -> None:
    place = Place()
    spec = a_task("a", parents=("p",), preferred="n1", backups_max=9)
    place.have(Submit(spec), Notify("a", "p", 1))
    place.hold(spec)
    place.state.put(a_queue_entry("a", shelf=Shelf.POOLED))
    place.have(Begin("a", "n2.1.1", "n2"), Postpone("a", "n2.1.1", "p", 1))
    assert place.known("a").state is TaskState.WAITING

    place.is_idle("n3")

    assert place.given() == {}
    assert "a" not in place.state.pool
    assert place.let_go() == ["a"]


def test_a_replica_that_the_store_does_not_grant_is_asked_for_once() -> None:
    place = Place()
    place.keeps(a="n1")
    place.have(Replicate("a", "n1", "n2"))

    place.is_idle("n2")
    place.is_idle("n2")

    assert place.given() == {}
    assert len(place.asked(Replicate)) == 1
    assert "a" in place.state.pool


def test_nobody_asks_for_more_replicas_than_a_task_may_have() -> None:
    place = Place(backups_max=1)
    place.keeps(a="n1", b="n1")

    place.is_idle("n2", "n3")
    place.is_idle("n2", "n3")

    assert place.given() == {"n2": ["b"], "n3": ["a"]}
    assert len(place.asked(Replicate)) == 2


def test_a_question_taken_back_is_not_answered() -> None:
    place = Place()
    place.keeps(a="n1")

    place.hears(Ask("n2", 1))
    place.hears(Ask("n2", 0))
    place.is_idle("n3")

    assert place.given() == {"n3": ["a"]}


def test_a_keeper_that_is_idle_runs_what_it_keeps_for_another() -> None:
    place = Place()
    place.keeps(a="n1")

    place.is_idle("n0")

    assert place.given() == {}  # the store has it at this node already
    assert not place.asked(Replicate)
    entry = place.state.queue.take()
    assert entry is not None
    assert (entry.task, entry.replica) == ("a", False)
    assert "a" not in place.state.pool
    assert "a" in place.state.identity.holdings
    place.hears(Ask("n1", 1))
    assert place.asked(Replicate) == [Replicate("a", "n0", "n1")]


def test_a_keeper_that_is_idle_runs_a_replica_of_what_runs_elsewhere() -> None:
    place = Place()
    place.keeps(a="n1")
    place.hears(Ask("n1", 1))

    place.is_idle("n0")

    assert place.asked(Replicate) == [Replicate("a", "n1", "n0")]
    assert place.given() == {"n1": ["a"], "n0": ["a"]}


def test_a_task_that_came_while_the_store_was_asked_is_given() -> None:
    place = Place()
    place.keeps(a="n1")
    place.hears(Ask("n2", 1))
    place.pass_time(1.0)
    place.store.answers.clear()
    place.hears(Ask("n2", 1))

    place.keeps(b="n3")
    place.store.answers.set()
    place.hears(Ask("n3", 1))

    assert place.given() == {"n2": ["a"], "n3": ["b"]}


def test_a_task_that_comes_anew_while_the_store_says_that_it_ended_is_kept() -> None:
    place = Place()
    place.keeps(a="n1")
    place.hears(Ask("n1", 1))
    place.have(LetGo("n0", 1, (("a", -1),)))
    place.state.identity.holdings.clear()
    place.pass_time(1.0)
    place.store.will_answer(Replicate, Standing("a", TaskState.COMPLETE, 1))
    place.store.answers.clear()
    place.hears(Ask("n2", 1))

    place.keeps(a="n1")
    place.store.answers.set()
    place.pass_time()

    assert "a" in place.state.pool
    assert "a" in place.state.identity.holdings
    place.hears(Ask("n1", 1))
    assert place.given() == {"n1": ["a", "a"]}


def test_a_task_that_left_and_comes_anew_while_the_store_says_that_it_ended_is_kept() -> None:
    place = Place()
    place.keeps(a="n1")
    place.hears(Ask("n2", 1))
    place.pass_time(1.0)
    place.store.will_answer(Replicate, Standing("a", TaskState.COMPLETE, 1))
    place.store.answers.clear()
    place.hears(Ask("n2", 1))

    entry = place.state.pool.take("a")
    place.state.identity.holdings["a"] = Holding(entry, ticket=99)
    place.state.put(entry)
    place.store.answers.set()
    place.pass_time()

    assert "a" in place.state.pool
    assert place.let_go() == []


def test_a_node_that_was_given_everything_is_given_what_comes_later() -> None:
    place = Place()
    place.keeps(a="n1")
    place.is_idle("n2")
    place.is_idle("n2")
    assert place.given() == {"n2": ["a"]}

    place.keeps(b="n1")
    place.is_idle("n2")

    assert place.given() == {"n2": ["a", "b"]}


# --- replicas that are lost ----------------------------------------------------------------------


def lose_replica(place: Place, task: str, node: str) -> None:
    """The node dies, and a patrol has found that out."""
    place.have(TakeOver(task, node, 1))


def test_a_task_whose_replicas_are_lost_goes_for_good_to_a_node_that_is_idle() -> None:
    place = Place(ask_seconds_max=5.0)
    place.keeps(a="n1")
    place.is_idle("n2")
    place.begins("a", "n2")
    lose_replica(place, "a", "n2")
    place.log.clear()

    place.is_idle("n2")  # it is back; n1 never comes
    assert place.given() == {}
    place.pass_time(5.0)
    place.hears(Ask("n2", 1))

    assert place.given() == {"n2": ["a"]}
    assert not place.asked(Enqueue)[0].entries[0].replica
    assert "a" not in place.state.pool
    assert place.let_go() == ["a"]
    place.keeps(b="n2")
    place.pass_time(1.0)
    assert place.given() == {"n2": ["a"]}  # its question was answered


def test_a_task_whose_replica_runs_is_not_given_away() -> None:
    place = Place(ask_seconds_max=5.0)
    place.keeps(a="n1")
    place.is_idle("n2")
    place.begins("a", "n2")
    place.log.clear()

    for _ in range(10):
        place.is_idle("n2")
        place.pass_time(5.0)

    assert place.given() == {}
    assert "a" in place.state.pool


def test_a_replica_that_has_not_begun_yet_is_not_taken_for_lost_at_once() -> None:
    place = Place(ask_seconds_max=5.0)
    place.keeps(a="n1")
    place.is_idle("n2")
    place.log.clear()

    place.is_idle("n2")
    place.hears(Ask("n2", 1))

    assert place.given() == {}
    assert len(place.asked(Look)) == 1  # not for every question


# --- bookkeeping ---------------------------------------------------------------------------------


def test_tasks_that_may_have_ended_are_asked_after_before_they_are_many() -> None:
    place = Place()
    tasks = {f"t{i:03}": "n1" for i in range(300)}
    place.keeps(**tasks)
    place.hears(Ask("n1", 200))
    for number, task in enumerate(list(tasks)[:200]):
        attempt = f"n1.1.{number + 1}"
        place.have(Begin(task, attempt, "n1"), Commit(task, attempt, "n1", (), 1))
    place.log.clear()

    place.hears(Ask("n1", 100))
    place.is_idle("n2")

    assert [op.task for op in place.asked(Look)] == list(tasks)
    assert len(place.asked(Replicate)) == 1


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(SettingError, match="negative"):
        Replicating(idle_seconds=-1.0)
