"""The node: its messages, and how it starts, drains and stops."""

from typing import Any

import pytest

from dataward.kernel.fibers import VirtualFiber
from dataward.model.events import AttemptEnded, NodeJoined
from dataward.model.messages import Confirm, Stop, TellChildren, WorkQueued
from dataward.model.operations import (
    AddCopies,
    Begin,
    Claim,
    Commit,
    Copy,
    Enqueue,
    Join,
    LetGo,
    Look,
    Notify,
    Probe,
    Release,
    Remove,
    ReportLoad,
    Submit,
    TakeOver,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.node.giving import Giving
from dataward.node.homes import Home
from dataward.node.identity import Holding
from dataward.node.mover import Mover, Staying
from dataward.node.node import Node
from dataward.node.rules import Rules
from dataward.world import StoredFile
from node.fake_world import ARule, FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """A node that has started; what its components share is `state`."""

    def __init__(self, *, mover: Mover | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        rules = Rules(settings=self.settings, home=self.rule, mover=mover or Staying())
        self.node = Node(self.world, rules)
        self.state = self.node._state

    def boot(self) -> "Place":
        self.node.start()
        self.pass_time()
        return self

    def queued(self, *specs: Any) -> None:
        """These are in the node's queue in the store; nobody has told the node."""
        self.have(*(Submit(spec) for spec in specs))
        self.have(Enqueue("n0", tuple(a_queue_entry(spec.id) for spec in specs)))

    def hears(self, message: Any) -> None:
        self.network.inbox.put(message)
        self.pass_time()

    def runs(self, *specs: Any) -> None:
        """These are under way, and go on until the runner may end."""
        self.runner.may_end.clear()
        self.queued(*specs)
        self.hears(WorkQueued())

    def outcomes(self) -> list[tuple[str, AttemptOutcome]]:
        return [(event.task, event.outcome) for event in self.told(AttemptEnded)]


# --- start ---------------------------------------------------------------------------------------


def test_a_node_joins_takes_stock_and_only_then_asks_for_work() -> None:
    place = Place()
    place.disk.stored["kept"] = StoredFile("kept", 10, "kept", written=False)
    place.disk.stored["unsure"] = StoredFile("unsure", 10, "somebody", written=True)
    place.queued(a_task())

    place.boot()
    place.pass_time(1.0)

    steps = [type(op) for op in place.log if isinstance(op, Join | Look | Claim)]
    assert steps[:3] == [Join, Look, Claim]
    assert list(place.disk.stored) == ["kept"]
    assert place.asked(AddCopies) == [AddCopies("kept", (Copy("kept", "n0"),))]
    assert place.runner.ended == ["t"]


def test_a_node_that_may_not_join_asks_for_no_work() -> None:
    place = Place()
    place.store.failures_left = 10**6

    place.boot()
    place.pass_time(100.0)

    assert place.asked(Join)
    assert not place.asked(Claim)


def test_a_task_goes_from_the_stores_queue_to_its_commit() -> None:
    place = Place().boot()
    place.queued(a_task(writes=["out"]))

    place.hears(WorkQueued())
    place.pass_time(1.0)

    assert place.known("t").state is TaskState.COMPLETE
    assert place.held_by("n0") == []
    assert place.node.is_idle


def test_a_node_sends_tasks_where_its_strategys_rule_says() -> None:
    place = Place(rule=ARule(lambda task, occasion, view: Home("n2"))).boot()
    place.have(Submit(a_task("c", made_by="t", preferred="n1")))
    place.queued(a_task(children=("c",)))

    place.hears(WorkQueued())

    assert place.queue_of("n2") == ["c"]


@pytest.mark.parametrize("giving", [True, False])
def test_a_node_gives_to_others_only_if_it_is_to(giving: bool) -> None:
    place = Place(cores=1, mover=Giving(neighbours=3) if giving else None).boot()

    place.runs(*(a_task(f"t{i}", backups_max=2) for i in range(4)))
    place.pass_time(1.0)

    assert bool(place.asked(Probe)) == giving


# --- messages ------------------------------------------------------------------------------------


def test_a_hint_has_the_node_look_into_its_queue() -> None:
    place = Place().boot()
    place.queued(a_task())
    place.pass_time(10.0)
    assert place.runner.given == []

    place.hears(WorkQueued())

    assert place.runner.given == ["t"]


def test_a_stop_drops_a_queued_task_lets_go_of_it_and_reports_the_load() -> None:
    place = Place(cores=1, staging_ahead=0).boot()
    place.runs(a_task("runs"), a_task("waits"))
    place.pass_time(1.0)

    place.hears(Stop("waits", 1))
    place.pass_time(1.0)

    assert "waits" not in place.state.queue
    assert place.held_by("n0") == ["runs"]
    assert place.asked(ReportLoad)[-1] == ReportLoad("n0", 0.0)
    assert "runs" in place.state.attempts


def test_a_stop_cancels_an_attempt_and_lets_go_of_its_task() -> None:
    place = Place().boot()
    place.runs(a_task())

    place.hears(Stop("t", 1))
    place.pass_time(1.0)

    assert place.outcomes() == [("t", AttemptOutcome.CANCELLED)]
    assert place.held_by("n0") == []


@pytest.mark.parametrize("cores", [1, 2])
def test_a_stop_that_comes_late_changes_nothing(cores: int) -> None:
    """One task waits or runs for its second completion; the stop is about its first."""
    place = Place(cores=cores, staging_ahead=0).boot()
    place.runs(a_task("runs"))
    place.have(Submit(a_task("again")))
    place.have(Enqueue("n0", (a_queue_entry("again", generation=2),)))
    place.hears(WorkQueued())

    place.hears(Stop("again", 1))

    assert place.state.knows("again")
    assert place.outcomes() == []


def test_a_stop_for_an_outcome_that_is_on_its_way_changes_nothing() -> None:
    place = Place().boot()
    place.have(Submit(a_task()))
    place.store.answers.clear()
    place.state.outbox.fail("t", "n0.1.9", "it broke")
    place.pass_time()

    place.hears(Stop("t", 1))

    assert place.state.knows("t")


def test_a_node_tells_the_children_of_a_removed_task_and_theirs() -> None:
    place = Place().boot()
    place.have(
        Submit(a_task("t", children=("child",))),
        Submit(a_task("child", made_by="t", children=("grandchild",))),
        Submit(a_task("grandchild", made_by="child")),
        Remove("t"),
    )

    place.hears(TellChildren("t", 1, ("child",)))

    assert [(n.task, n.parent, n.removed) for n in place.asked(Notify)] == [
        ("child", "t", True),
        ("grandchild", "child", True),
    ]
    assert place.known("grandchild").state is TaskState.REMOVED


def test_the_commit_of_a_removed_task_comes_too_late_and_its_outputs_are_discarded() -> None:
    place = Place().boot()
    place.runner.may_end.clear()
    place.runs(a_task("t", writes=["f"]))
    place.have(Remove("t"))

    place.runner.may_end.set()
    place.pass_time(1.0)

    assert [event.outcome for event in place.told(AttemptEnded)] == [AttemptOutcome.LOST]
    assert place.known("t").state is TaskState.REMOVED
    assert "f" not in place.disk.stored
    assert not any(place.node.loose_ends().values())


def test_a_task_that_was_removed_while_it_was_queued_is_let_go_of_unrun() -> None:
    place = Place().boot()
    place.queued(a_task("t"))
    place.have(Remove("t"))

    place.hears(WorkQueued())
    place.pass_time(1.0)

    assert place.runner.given == []
    assert not any(place.node.loose_ends().values())
    assert place.queue_of("n0") == []


def test_a_node_that_knows_the_task_need_not_confirm_its_attempt() -> None:
    place = Place().boot()
    place.runs(a_task())

    place.hears(Confirm("t", "n0.1.1"))

    assert not place.asked(Release)
    assert place.outcomes() == []


def test_a_node_that_does_not_know_the_task_gives_the_attempt_up_and_has_it_queued_again() -> None:
    place = Place().boot()
    place.have(Submit(a_task(preferred="n2")), Begin("t", "n0.1.9", "n0"))
    place.have(Enqueue("n0", (a_queue_entry("t"),)), Claim("n0", 1, 99, 9, 0.0))
    place.state.identity.holdings["t"] = Holding(a_queue_entry("t"), 1)
    assert place.held_by("n0") == ["t"]

    place.hears(Confirm("t", "n0.1.9"))

    assert place.asked(Release) == [Release("t", "n0.1.9")]
    assert place.asked(LetGo) == [LetGo("n0", 1, (("t", -1),))]
    assert place.held_by("n0") == []
    assert not place.state.identity.holdings
    assert place.queue_of("n2") == ["t"]


# --- a lost lease --------------------------------------------------------------------------------


def test_a_node_whose_lease_is_lost_is_reborn_once_and_works_on() -> None:
    place = Place().boot()
    place.runs(a_task("old"))
    place.have(TakeOver("old", "n0", 1))

    place.runner.may_end.set()  # its commit is refused
    place.pass_time(1.0)
    place.queued(a_task("new"))
    place.hears(WorkQueued())
    place.pass_time(1.0)

    assert place.node.incarnation == 2
    assert [event.incarnation for event in place.told(NodeJoined)] == [1, 2]
    assert place.known("new").winner.startswith("n0.2.")


# --- drain and stop ------------------------------------------------------------------------------


def test_a_draining_node_ends_what_runs_commits_it_and_begins_nothing() -> None:
    place = Place(cores=1, staging_ahead=0).boot()
    place.runs(a_task("runs"), a_task("waits"))
    assert place.node.running == 1

    place.node.drain()
    place.pass_time(1.0)
    assert not place.node.is_idle
    place.runner.may_end.set()
    place.pass_time(1.0)

    assert place.node.is_idle
    assert place.node.running == 0
    assert place.known("runs").state is TaskState.COMPLETE
    assert place.runner.given == ["runs"]


def test_a_node_is_idle_only_when_the_store_has_answered() -> None:
    place = Place().boot()
    place.runs(a_task())
    place.store.answers.clear()

    place.runner.may_end.set()
    place.pass_time(1.0)
    assert not place.state.attempts
    assert not place.node.is_idle
    place.store.answers.set()
    place.pass_time()

    assert place.node.is_idle


def test_a_stopped_node_does_nothing_more() -> None:
    place = Place(mover=Giving()).boot()
    place.runs(a_task())

    place.node.stop()
    place.pass_time()
    place.log.clear()
    place.hears(WorkQueued())
    place.queued(a_task("more"))
    place.pass_time(1000.0)

    assert place.log == []
    assert place.outcomes() == [("t", AttemptOutcome.CANCELLED)]
    assert not place.kernel._fibers


def test_components_stop_in_the_opposite_order_of_their_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(mover=Giving()).boot()
    stopped: list[str] = []
    cancel = VirtualFiber.cancel
    monkeypatch.setattr(
        VirtualFiber, "cancel", lambda fiber: (stopped.append(fiber.name), cancel(fiber))
    )

    place.node.stop()

    assert stopped == [
        f"n0 {component}"
        for component in ("mover", "stocker", "making room", "giving way", "spares", "executor",
                          "validator", "lease", "inbox", "herald", "committer", "rejoin", "join")
    ]  # fmt: skip


def test_a_file_that_nobody_will_ask_for_is_dropped() -> None:
    place = Place()
    place.disk.stored["f"] = StoredFile("f", 10, "f", written=False)
    place.boot()

    place.node.drop("f")

    assert place.disk.stored == {}
    assert place.asked(Commit) == []
