"""A node that takes a task may find a better node for it, once."""

from typing import Any

import pytest

from dataward.model.answers import Standing
from dataward.model.events import AttemptBegan, Occasion, TaskPlaced
from dataward.model.messages import Stop
from dataward.model.operations import Begin, Enqueue, LetGo, Shelf, Submit
from dataward.node.binding import Binder, Binding
from dataward.node.homes import Home, View
from dataward.node.node import Node
from dataward.node.rules import Rules
from node.fake_world import ARule, FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """Node n0, which binds late; the rule sends every task to one node, and writes down why."""

    def __init__(self, home: str, binding: Binding = Binding.LATE) -> None:
        self.occasions: list[Occasion] = []

        def choose(task: Standing, occasion: Occasion, view: View) -> Home:
            self.occasions.append(occasion)
            return Home(home)

        super().__init__(rule=ARule(choose))
        self.hold(a_task("t"))
        self.binder = Binder(binding, self.state, self.placer)

    def sends_away(self, **entry: Any) -> bool:
        return self.do(self.binder.sends_away(a_queue_entry("t", **entry)))


def test_a_task_with_a_better_node_is_queued_there_for_good_and_let_go_of_here() -> None:
    place = Place("n1")

    assert place.sends_away(priority=3.0)

    assert place.occasions == [Occasion.TAKEN]
    assert place.asked(Enqueue) == [Enqueue("n1", (a_queue_entry("t", 3.0, shelf=Shelf.KEPT),))]
    assert place.told(TaskPlaced)[0].occasion is Occasion.TAKEN
    (let_go,) = [op for op in place.state.outbox.take() if isinstance(op, LetGo)]
    assert [task for task, _ in let_go.tasks] == ["t"]


def test_a_task_without_a_better_node_runs_here() -> None:
    place = Place("n0")

    assert not place.sends_away()

    assert place.asked(Enqueue) == []
    assert "t" in place.state.identity.holdings


@pytest.mark.parametrize("entry", [{"shelf": Shelf.KEPT}, {"replica": True}])
def test_a_task_that_was_sent_here_is_not_sent_on(entry: dict[str, Any]) -> None:
    place = Place("n1")

    assert not place.sends_away(**entry)
    assert place.occasions == []


def test_with_early_binding_nobody_is_asked() -> None:
    place = Place("n1", Binding.EARLY)

    assert not place.sends_away()
    assert place.occasions == []


# --- in a node -----------------------------------------------------------------------------------


class Whole(FakeWorld):
    """A whole node that binds late, for which a task is queued; the rule sends it to one node."""

    def __init__(self, home: str, *, answers: bool = True) -> None:
        def choose(task: Standing, occasion: Occasion, view: View) -> Home:
            if not answers:
                self.store.answers.clear()
            return Home(home)

        super().__init__(rule=ARule(choose))
        self.have(Submit(a_task("t")), Enqueue("n0", (a_queue_entry("t"),)))
        rules = Rules(settings=self.settings, home=self.rule, binding=Binding.LATE)
        self.node = Node(self.world, rules)
        self.node.start()

    def loose_ends(self) -> dict[str, int]:
        return {what: count for what, count in self.node.loose_ends().items() if count}


def test_a_task_that_is_sent_away_is_never_begun() -> None:
    place = Whole("n1")

    place.pass_time(1.0)

    assert place.queue_of("n1") == ["t"]
    assert place.asked(Begin) == []
    assert place.told(AttemptBegan) == []
    assert place.held_by("n0") == []
    assert place.loose_ends() == {}


def test_a_task_that_is_not_sent_away_is_begun() -> None:
    place = Whole("n0")

    place.pass_time(1.0)

    assert [event.task for event in place.told(AttemptBegan)] == ["t"]


def test_a_task_that_is_stopped_while_it_is_sent_away_is_let_go_of() -> None:
    place = Whole("n1", answers=False)
    place.pass_time(1.0)
    assert place.queue_of("n1") == ["t"]
    assert "t" in place.node._state.attempts
    place.network.inbox.put(Stop("t", 1))
    place.pass_time()

    place.store.answers.set()
    place.pass_time(1.0)

    assert place.loose_ends() == {}
    assert place.held_by("n0") == []
