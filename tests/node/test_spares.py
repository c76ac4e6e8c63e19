"""Spares run on idle cores, and end as soon as anything else wants to run there."""

from typing import Any

from dataward.model.events import AttemptEnded
from dataward.model.ids import NodeId
from dataward.model.operations import Begin, Enqueue, Release, Shelf, Submit
from dataward.model.states import AttemptOutcome
from dataward.node.binding import Binder, Binding
from dataward.node.decision_maker import DecisionMaker
from dataward.node.executor import Executor
from dataward.node.setbacks import GAVE_WAY
from dataward.node.settings import Precedence
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """Node n0, of one core unless said otherwise, which runs what is queued for it."""

    def __init__(self, cores: int = 1, **settings: Any) -> None:
        super().__init__(cores=cores, backups_max=1, **settings)
        binder = Binder(Binding.EARLY, self.state, self.placer)
        executor = Executor(
            self.world, self.client, self.state, self.depot, self.setbacks, binder,
            self.spares,
        )  # fmt: skip
        self.join()
        self.join("n1")
        self.runner.may_end.clear()
        claiming = DecisionMaker(self.world, self.settings, self.client, self.state)
        for loop in (
            executor.run(), executor.run_spares(), self.spares.give_way(), self.spares.make_room(),
            claiming.run(),
        ):  # fmt: skip
            self.start(loop)

    def is_given(
        self, *tasks: str, by: float = 0.0, shelf: Shelf = Shelf.SHARED, **fields: Any
    ) -> None:
        """These tasks are queued for this node; the first is to start by then at the latest."""
        specs = [a_task(task, priority=by + i, **fields) for i, task in enumerate(tasks)]
        self.have(*(Submit(spec) for spec in specs))
        self._queue(shelf, by, *tasks)

    def is_given_spares(self, *tasks: str, **fields: Any) -> None:
        """These tasks run at n1, and are queued here as spares."""
        specs = [a_task(task, backups_max=1, priority=9.0 + i, **fields)
                 for i, task in enumerate(tasks)]  # fmt: skip
        self.have(*(Submit(spec) for spec in specs))
        self.have(*(Begin(spec.id, "n1.1.1", NodeId("n1")) for spec in specs))
        self._queue(Shelf.SPARE, 9.0, *tasks)

    def _queue(self, shelf: Shelf, by: float, *tasks: str) -> None:
        entries = tuple(
            a_queue_entry(task, by + i, shelf=shelf, replica=shelf is Shelf.SPARE)
            for i, task in enumerate(tasks)
        )
        self.have(Enqueue(self.world.node, entries))
        self.state.queue.wanted.set()
        self.pass_time()

    def is_over_at_n1(self, task: str) -> None:
        """The run of this task at n1 is over, and did not complete the task."""
        self.have(Release(task, "n1.1.1"))

    def ends(self) -> list[tuple[str, AttemptOutcome, str]]:
        return [(end.task, end.outcome, end.reason) for end in self.told(AttemptEnded)]

    @property
    def spare_tasks(self) -> list[str]:
        return [spare.entry.task for spare in self.state.attempts.spares()]


def test_a_task_that_another_node_runs_is_run_too_while_a_core_is_idle() -> None:
    place = Place()

    place.is_given_spares("s")

    assert place.runner.given == ["s"]
    assert place.spare_tasks == ["s"]
    assert len(place.state.attempts) == 0
    assert place.state.attempts.all == 1


def test_a_spare_ends_when_a_task_needs_its_core() -> None:
    place = Place()
    place.is_given_spares("s")

    place.is_given("t")

    assert place.runner.given == ["s", "t"]
    assert place.ends() == [("s", AttemptOutcome.RELEASED, GAVE_WAY)]
    assert [release.task for release in place.asked(Release)] == ["s"]
    assert not place.state.identity.holdings.keys() - {"t"}
    assert len(place.known("s").attempts) == 1


def test_a_task_that_has_time_waits_for_another_core_before_a_more_urgent_spare_ends() -> None:
    place = Place()
    place.is_given_spares("s")

    place.is_given("t", by=100.0)
    place.pass_time(49.0)

    assert place.runner.given == ["s"]

    place.pass_time(2.0)

    assert place.runner.given == ["s", "t"]
    assert place.ends() == [("s", AttemptOutcome.RELEASED, GAVE_WAY)]


def test_a_spare_stays_if_another_core_is_free_in_time() -> None:
    place = Place(cores=2)
    place.is_given("a")
    place.is_given_spares("s")
    place.is_given("t", by=100.0)

    place.state.attempts.cancel("a", 1)
    place.pass_time(60.0)

    assert place.runner.given == ["a", "s", "t"]
    assert place.spare_tasks == ["s"]


def test_a_task_waits_for_no_spare_that_is_less_urgent() -> None:
    place = Place()
    place.is_given_spares("s")

    place.is_given("t", by=8.0)

    assert place.runner.given == ["s", "t"]


def test_a_task_whose_run_time_is_not_certain_waits_for_no_spare() -> None:
    place = Place()
    place.is_given_spares("s")

    place.is_given("t", by=100.0, estimated_spread=0.5)

    assert place.runner.given == ["s", "t"]


def test_of_tasks_that_wait_for_spares_the_one_that_must_start_first_has_the_core() -> None:
    place = Place(precedence=Precedence.URGENCY)
    place.is_given_spares("s")
    place.is_given("t", by=100.0)

    place.is_given("u")

    assert place.runner.given == ["s", "u"]


def test_the_least_urgent_spare_ends_first_and_no_more_than_needed() -> None:
    place = Place(cores=2)
    place.is_given_spares("s1", "s2")

    place.is_given("t")

    assert place.spare_tasks == ["s1"]
    assert place.runner.given == ["s1", "s2", "t"]


def test_a_task_of_several_cores_ends_several_spares() -> None:
    place = Place(cores=2)
    place.is_given_spares("s1", "s2")

    place.is_given("t", cores=2)

    assert place.spare_tasks == []
    assert place.runner.given[-1] == "t"


def test_a_task_that_needs_the_memory_of_a_spare_has_it() -> None:
    place = Place(cores=2)
    place.is_given_spares("s", memory_bytes=80.0)

    place.is_given("t", memory_bytes=80.0)

    assert place.spare_tasks == []
    assert place.runner.given == ["s", "t"]


def test_a_spare_that_is_the_only_run_of_its_task_stays() -> None:
    place = Place()
    place.is_given_spares("s")
    place.is_over_at_n1("s")

    place.is_given("t")

    assert place.ends() == []
    assert place.runner.given == ["s"]
    assert place.spare_tasks == []
    assert len(place.state.attempts) == 2  # the other one waits for the core


def test_where_no_core_is_idle_spares_are_let_go_of() -> None:
    place = Place()
    place.is_given("t")

    place.is_given_spares("s")

    assert place.runner.given == ["t"]
    assert not place.state.knows("s")
    assert "s" not in place.state.identity.holdings


def test_a_spare_whose_core_is_taken_when_its_inputs_are_there_is_let_go_of() -> None:
    place = Place()
    place.capacity._cores.take_at_once(1)

    place.is_given_spares("s")

    assert place.runner.given == []
    assert place.ends() == [("s", AttemptOutcome.RELEASED, GAVE_WAY)]
    assert not place.state.knows("s")


def test_a_spare_of_a_task_that_ran_nowhere_else_by_then_is_placed_anew() -> None:
    place = Place()
    place.is_given_spares("s")
    place.store.answers.clear()  # the look at the spare's task is on its way
    place.is_given("t")
    place.is_over_at_n1("s")

    place.store.answers.set()
    place.pass_time(1.0)

    assert place.runner.given[-1] in ("t", "s")
    assert place.known("s").attempts or place.queue_of("n0") or place.queue_of("n1")


def test_all_spares_end_when_a_task_of_another_run_waits_for_a_core() -> None:
    place = Place(cores=2)
    place.is_given_spares("s1", "s2")

    place.runner.crowd.set()
    place.pass_time()

    assert place.spare_tasks == []
    assert [task for task, _, _ in place.ends()] == ["s1", "s2"]


def test_a_spare_that_is_kept_gives_way_no_more() -> None:
    place = Place()
    place.is_given_spares("s")

    place.state.attempts.keep("s")
    place.is_given("t")

    assert place.runner.given == ["s"]
    assert len(place.state.attempts) == 2


def test_a_spare_that_ends_first_completes_its_task() -> None:
    place = Place()
    place.start(place.committer.run())
    place.is_given_spares("s")

    place.runner.may_end.set()
    place.pass_time(1.0)

    assert place.known("s").winner == "n0.1.1"


def test_a_node_that_is_to_begin_no_more_begins_no_spares_and_ends_those_that_run() -> None:
    place = Place(cores=2)
    place.is_given_spares("s1")

    place.state.drain()
    place.is_given_spares("s2")

    assert place.runner.given == ["s1"]
    assert place.state.attempts.all == 0
