"""A task that ran before: whether it is recalled or runs is decided when it is about to begin."""

from typing import Any

import msgspec
import pytest

from dataward.model.answers import Refusal, Refused
from dataward.model.events import AttemptBegan, AttemptEnded, TaskDue, TaskFinished, TaskSkipped
from dataward.model.ids import NOWHERE
from dataward.model.operations import (
    Begin,
    Commit,
    Copy,
    Earlier,
    Look,
    Notify,
    OutputFile,
    Reopen,
    Submit,
    TaskSpec,
)
from dataward.model.states import TaskState
from dataward.node.binding import Binder, Binding
from dataward.node.executor import Executor
from node.fake_world import FakeWorld, a_queue_entry, a_task

X, Y = OutputFile("x", 10, "dx"), OutputFile("y", 10, "dy")


class Place(FakeWorld):
    """A node that runs tasks and commits them; p has written ``in``, at n1."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        binder = Binder(Binding.EARLY, self.state, self.placer)
        executor = Executor(
            self.world,
            self.client,
            self.state,
            self.depot,
            self.setbacks,
            binder,
            self.spares,
        )
        for component in (executor, self.committer, self.herald):
            self.start(component.run())

    def run(self, spec: TaskSpec) -> None:
        """The task that reads what p wrote is queued here, and all goes its way."""
        self.have(
            Submit(a_task("p", writes=["in"], children=(spec.id,))),
            Submit(spec),
            Begin("p", "n1.1.1", "n1"),
            Commit("p", "n1.1.1", "n1", (), 1, (OutputFile("in", 10, "din"),)),
            Notify(spec.id, "p", 1, False, (Copy("in", "n1", 10, "din"),)),
        )
        self.hold(spec)
        self.state.queue.put(a_queue_entry(spec.id, spec.priority, generation=1))
        self.pass_time()

    def standing(self, task: str = "t") -> Any:
        (answer,) = self.have(Look(task))
        return answer


def a_rerun(read: str = "din", wanted: tuple[str, ...] = (), **fields: Any) -> TaskSpec:
    """A task that read ``in`` with this digest before, and wrote x and y."""
    earlier = Earlier((("in", read),), (X, Y), wanted)
    plain = a_task(reads=["in"], writes=["x", "y"], made_by="p", **fields)
    return msgspec.structs.replace(plain, earlier=earlier)


def test_a_task_that_would_read_the_same_again_does_not_run() -> None:
    place = Place()
    place.disk.earlier = {"x", "y"}

    place.run(a_rerun())

    assert place.runner.ended == []
    assert place.network.fetched == []
    assert place.standing().state is TaskState.COMPLETE
    assert set(place.standing().copies) == {Copy("x", "n0", 10, "dx"), Copy("y", "n0", 10, "dy")}


def test_what_is_told_of_a_recalled_task_is_only_that_it_was_skipped() -> None:
    place = Place()

    place.run(a_rerun())

    kinds = (AttemptBegan, AttemptEnded, TaskFinished, TaskSkipped, TaskDue)
    assert [e for e in place.events if isinstance(e, kinds)] == [TaskSkipped(0.0, "t", 1)]


def test_a_task_whose_input_has_changed_runs_and_says_so() -> None:
    place = Place()
    place.disk.earlier = {"x", "y"}

    place.run(a_rerun(read="another"))

    assert place.runner.ended == ["t"]
    assert place.told(TaskDue) == [TaskDue(0.0, "t", "its input 'in' has changed")]


def test_what_is_gone_is_told_as_being_nowhere_with_its_digest() -> None:
    place = Place()
    place.disk.earlier = {"x"}

    place.run(a_rerun())

    assert place.runner.ended == []
    assert set(place.standing().copies) == {Copy("x", "n0", 10, "dx"), Copy("y", NOWHERE, 10, "dy")}


def test_a_wanted_output_that_is_gone_makes_the_task_run() -> None:
    place = Place()
    place.disk.earlier = {"x"}

    place.run(a_rerun(wanted=("y",)))

    assert place.runner.ended == ["t"]
    assert place.told(TaskDue) == [TaskDue(0.0, "t", "its output 'y' is gone")]
    assert place.depot.loose_ends()["bytes in use beyond the files held"] == 0


def test_a_task_made_again_for_what_is_gone_runs() -> None:
    place = Place()
    spec = a_rerun()
    place.run(spec)

    place.have(Reopen("t", 1))
    place.hold(spec)
    place.state.queue.put(a_queue_entry("t", generation=2))
    place.pass_time()

    assert place.runner.ended == ["t"]
    assert place.standing().generation == 2


@pytest.mark.parametrize("left", [set(), {"x", "y"}])
def test_a_recalled_task_that_was_completed_elsewhere_leaves_nothing_behind(left) -> None:
    place = Place()
    place.disk.earlier = left
    place.store.will_answer(Commit, Refused("t", Refusal.FINISHED, TaskState.COMPLETE))

    place.run(a_rerun())

    assert place.depot.loose_ends()["bytes in use beyond the files held"] == 0
    assert "x" not in place.disk.stored
    assert place.told(AttemptEnded) == []
