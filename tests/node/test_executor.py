"""The executor: a task goes from the ready queue to a proposed outcome, and nothing leaks."""

from math import inf
from typing import Any

import pytest

from dataward.model.answers import Refusal, Refused
from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    AttemptMeasured,
    InputsStaged,
)
from dataward.model.operations import (
    AddCopies,
    Begin,
    Commit,
    Copy,
    Fail,
    Join,
    LetGo,
    Notify,
    Operation,
    OutputFile,
    Postpone,
    Release,
    Reopen,
    ReportLoad,
    Submit,
    TaskSpec,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.node.binding import Binder, Binding
from dataward.node.executor import Executor
from dataward.world import StoredFile
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """A node whose executor runs."""

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
        self.start(executor.run())

    def queue(self, *specs: TaskSpec) -> None:
        """These tasks are held and in the ready queue; the executor has not had a turn yet."""
        self.hold(*specs)
        for spec in specs:
            self.state.queue.put(a_queue_entry(spec.id, spec.priority, generation=1))

    def reads_what_p_wrote(self, task: str, **fields: Any) -> TaskSpec:
        """A ready task that reads a file which p wrote, at n1."""
        spec = a_task(task, reads=["in"], made_by="p", **fields)
        self.have(
            Submit(a_task("p", writes=["in"], children=(task,))),
            Submit(spec),
            Begin("p", "n1.1.1", "n1"),
            Commit("p", "n1.1.1", "n1", (), 1),
            Notify(spec.id, "p", 1, False, (Copy("in", "n1"),)),
        )
        return spec

    def run(self, *specs: TaskSpec) -> None:
        self.queue(*specs)
        self.pass_time()

    def ends(self) -> list[tuple[str, AttemptOutcome]]:
        return [(event.task, event.outcome) for event in self.told(AttemptEnded)]

    def says(self, kind: type[Operation]) -> list[Any]:
        """What of this kind is in the outbox, which is empty after that."""
        return [op for op in self.state.outbox.take() if isinstance(op, kind)]

    def is_held(self, task: str = "t") -> bool:
        return task in self.state.identity.holdings


# --- the straight way ----------------------------------------------------------------------------


def test_a_task_is_begun_run_and_proposed_with_what_it_wrote() -> None:
    place = Place()
    spec = a_task(writes=["f"])

    place.run(spec)

    assert place.asked(Begin) == [Begin("t", "n0.1.1", "n0")]
    assert place.runner.ended == ["t"]
    steps = ((TaskState.RUNNING, 0.0), (TaskState.STAGE_OUT, 0.0))
    assert place.says(Commit) == [Commit("t", "n0.1.1", "n0", steps, 1, spec.outputs)]
    assert not place.state.attempts
    assert place.is_held()  # until the commit is answered


def test_what_an_attempt_does_is_told_as_it_happens() -> None:
    place = Place()
    place.disk.stored.clear()

    place.run(a_task(reads=["in"], writes=["out"]))

    life = (AttemptBegan, InputsStaged, AttemptAdvanced, AttemptMeasured)
    told = [event for event in place.events if isinstance(event, life)]
    assert told == [
        AttemptBegan(0.0, "t", "n0.1.1", "n0", False, 1),
        InputsStaged(0.0, "t", "n0.1.1", "n0", 0, 10),
        AttemptAdvanced(0.0, "t", "n0.1.1", "n0", TaskState.RUNNING),
        AttemptMeasured(0.0, "t", "n0.1.1", "n0", 0, 0, 1.0, 0.0, 0),
        AttemptAdvanced(0.0, "t", "n0.1.1", "n0", TaskState.STAGE_OUT),
    ]


def test_a_workflows_input_brought_in_is_announced_under_its_own_name() -> None:
    place = Place()

    place.run(a_task(reads=["in"]))

    assert place.network.fetched == [("in", "origin")]
    assert place.says(AddCopies) == [AddCopies("in", (Copy("in", "n0"),))]


def test_a_produced_file_brought_in_is_announced_under_its_producers_name() -> None:
    place = Place()

    place.run(place.reads_what_p_wrote("t"))

    assert place.network.fetched == [("in", "n1")]
    assert place.says(AddCopies) == [AddCopies("p", (Copy("in", "n0"),))]


def test_an_outcome_waits_for_company_only_if_no_task_waits_for_it() -> None:
    place = Place(outcome_seconds=1.0, unawaited_seconds=100.0)
    place.runner.may_end.clear()
    place.run(a_task("parent", children=("c",)))
    place.state.queue.put(a_queue_entry("other"))
    place.runner.may_end.set()
    due = place.start(place.state.outbox.due())

    place.pass_time(2.0)

    assert due.done()


def test_outcomes_wait_for_no_more_company_when_the_last_attempt_has_ended() -> None:
    place = Place(outcome_seconds=1.0, unawaited_seconds=100.0)
    place.runner.may_end.clear()
    place.run(*(a_task(f"t{n}") for n in range(9)))
    assert place.state.queue  # the first outcome finds other work
    due = place.start(place.state.outbox.due())

    place.runner.may_end.set()
    place.pass_time()

    assert len(place.runner.ended) == 9
    assert due.done()


def test_outcomes_of_a_draining_node_wait_for_no_company_that_never_begins() -> None:
    place = Place(outcome_seconds=1.0, unawaited_seconds=100.0)
    place.runner.may_end.clear()
    place.run(*(a_task(f"t{n}") for n in range(9)))
    due = place.start(place.state.outbox.due())

    place.state.drain()
    place.runner.may_end.set()
    place.pass_time()

    assert place.state.queue
    assert due.done()


def test_an_executor_out_of_work_asks_for_more_once() -> None:
    place = Place()

    assert place.state.queue.wanted.is_set()
    place.state.queue.wanted.clear()
    place.pass_time(100.0)

    assert not place.state.queue.wanted.is_set()


def test_the_load_is_reported_when_a_task_leaves_the_queue() -> None:
    place = Place()
    place.runner.may_start.clear()
    place.queue(a_task())
    assert place.state.outbox.take()  # says that a task waits
    due = place.start(place.state.outbox.due())

    place.pass_time(1.0)

    assert due.done()


# --- how many at a time --------------------------------------------------------------------------


def test_as_many_run_as_there_are_cores_and_one_more_stages_in() -> None:
    place = Place(cores=2, staging_ahead=1)
    place.runner.may_end.clear()

    place.run(*(a_task(f"t{i}") for i in range(5)))

    assert len(place.asked(Begin)) == 3
    assert place.runner.given == ["t0", "t1"]
    assert place.state.attempts.started == 2


def test_when_an_attempt_ends_the_next_begins() -> None:
    place = Place(cores=1, staging_ahead=0)
    place.runner.may_end.clear()
    place.run(a_task("a"), a_task("b"))
    assert place.runner.given == ["a"]

    place.runner.may_end.set()
    place.pass_time()

    assert place.runner.ended == ["a", "b"]


def test_a_task_queued_while_an_attempt_of_it_is_under_way_waits_for_that_to_end() -> None:
    place = Place(cores=2)
    place.runner.may_end.clear()
    place.run(a_task("t"))

    place.state.queue.put(a_queue_entry("t"))
    place.pass_time()
    assert len(place.asked(Begin)) == 1
    place.runner.may_end.set()
    place.pass_time()

    assert [begin.attempt for begin in place.asked(Begin)] == ["n0.1.1", "n0.1.2"]


def test_a_draining_node_begins_nothing_more_and_lets_what_runs_end() -> None:
    place = Place(cores=1, staging_ahead=0)
    place.runner.may_end.clear()
    place.run(a_task("runs"), a_task("waits"))

    place.state.drain()
    place.runner.may_end.set()
    place.pass_time()

    assert place.runner.ended == ["runs"]
    assert [commit.task for commit in place.says(Commit)] == ["runs"]
    assert "waits" in place.state.queue


# --- cancelled -----------------------------------------------------------------------------------


def cancelled_before_its_first_turn(place: Place) -> None:
    """The executor has spawned the attempt, and another fiber cancels it in the same instant."""
    place.queue(a_task("t"))
    while "t" not in place.state.attempts:
        place.kernel.step()
    assert not place.asked(Begin)
    place.state.attempts.cancel("t", 1)
    place.pass_time()


def test_an_attempt_cancelled_before_its_first_turn_leaves_its_place_to_the_next() -> None:
    place = Place(cores=1, staging_ahead=0)

    cancelled_before_its_first_turn(place)
    place.run(a_task("next"))

    assert place.runner.ended == ["next"]


def test_an_attempt_cancelled_before_its_first_turn_lets_go_of_its_task() -> None:
    place = Place()

    cancelled_before_its_first_turn(place)

    assert not place.is_held()
    assert [op.tasks[0][0] for op in place.says(LetGo)] == ["t"]


@pytest.mark.parametrize("started", [False, True])
def test_a_cancelled_attempt_lets_go_of_its_task_and_leaves_its_place_to_the_next(
    started: bool,
) -> None:
    place = Place(cores=1, staging_ahead=0)
    (place.runner.may_end if started else place.runner.may_start).clear()
    place.run(a_task("t", reads=["in"]))

    place.state.attempts.cancel("t", 1)
    place.pass_time()

    assert place.ends() == [("t", AttemptOutcome.CANCELLED)]
    assert not place.is_held()
    assert place.says(Commit) == []
    place.depot.drop("in")
    assert "in" not in place.depot  # no task holds it any more
    place.runner.may_start.set()
    place.runner.may_end.set()
    place.run(a_task("next", cores=1))
    assert place.runner.ended == ["next"]


def test_one_called_off_is_released_by_whoever_called_it_off() -> None:
    place = Place(cores=1)
    place.runner.may_end.clear()
    place.run(a_task("runs"), a_task("waits", reads=["in"], priority=2.0))

    attempt = place.state.attempts.call_off("waits")
    place.pass_time()

    assert attempt is not None
    assert place.ends() == [("waits", AttemptOutcome.SENT_ON)]
    assert place.is_held("waits")
    place.depot.drop("in")
    assert "in" not in place.depot  # no task holds it any more


def test_one_cancelled_with_its_lease_leaves_the_task_held_for_others_to_find() -> None:
    place = Place()
    place.runner.may_end.clear()
    place.run(a_task())

    place.state.lose_lease(1)
    place.state.identity.joined = True
    place.hold(a_task())  # the next incarnation has it again
    place.pass_time()

    assert place.is_held()
    assert place.says(LetGo) == []


# --- refused -------------------------------------------------------------------------------------

OTHERS = [reason for reason in Refusal if reason is not Refusal.FENCED]


def refused(place: Place, reason: Refusal) -> None:
    place.store.will_answer(Begin, Refused("t", reason, TaskState.READY))
    place.run(a_task())


@pytest.mark.parametrize("reason", OTHERS)
def test_a_task_that_may_not_be_begun_is_let_go_of(reason: Refusal) -> None:
    place = Place()

    refused(place, reason)

    assert not place.is_held()
    assert place.state.identity.incarnation == 1
    assert place.runner.given == []
    assert place.told(AttemptBegan) == []
    assert not place.state.attempts


def test_one_that_is_fenced_has_lost_the_lease() -> None:
    place = Place()

    refused(place, Refusal.FENCED)

    assert place.state.identity.incarnation == 2
    assert place.says(LetGo) == []


@pytest.mark.parametrize("reason", OTHERS)
def test_a_hold_that_covers_an_outcome_on_its_way_is_kept_if_that_is_why_it_was_refused(
    reason: Refusal,
) -> None:
    place = Place()
    place.state.outbox.fail("t", "n0.1.0", "it broke")

    refused(place, reason)

    assert place.is_held() == (reason is Refusal.UNDER_WAY_HERE)


def test_an_earlier_incarnations_fence_does_not_cost_the_present_one_its_lease() -> None:
    place = Place()
    place.store.answers.clear()
    refused(place, Refusal.FENCED)
    place.state.lose_lease(1)
    place.state.identity.joined = True

    place.store.answers.set()
    place.pass_time()

    assert place.state.identity.incarnation == 2


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_task_that_fails_by_itself_is_reported_with_what_it_said() -> None:
    place = Place()
    place.runner.fails["t"] = "exit code 1"

    place.run(a_task(reads=["in"], writes=["out"]))

    (fail,) = place.says(Fail)
    assert (fail.task, fail.attempt, fail.reason) == ("t", "n0.1.1", "exit code 1")
    assert place.ends() == [("t", AttemptOutcome.FAILED)]
    assert place.told(AttemptEnded)[0].reason == "exit code 1"
    assert "store outputs" not in place.log
    assert place.says(Commit) == []
    place.depot.drop("in")
    assert "in" not in place.depot


def test_an_input_that_nobody_has_any_more_is_made_again() -> None:
    place = Place(fetch_rounds=1)
    place.network.silent = {"n1"}

    place.run(place.reads_what_p_wrote("t"))

    assert place.asked(Reopen) == [Reopen("p", 1)]
    assert [op.parent for op in place.asked(Postpone)] == ["p"]
    assert place.ends() == [("t", AttemptOutcome.POSTPONED)]


def test_an_input_that_went_while_the_task_was_in_line_is_dropped_and_made_again() -> None:
    place = Place()
    place.runner.misses = {"t"}

    place.run(place.reads_what_p_wrote("t"))

    assert "in" not in place.depot
    assert "remove in" in place.log
    assert place.asked(Reopen) == [Reopen("p", 1)]
    assert place.ends() == [("t", AttemptOutcome.POSTPONED)]


def test_an_input_of_the_workflow_that_went_while_the_task_was_in_line_is_fetched_again() -> None:
    place = Place(retry_seconds_max=10.0)
    place.runner.misses = {"t"}
    place.run(a_task(reads=["in"]))
    assert "in" not in place.depot
    assert place.asked(Release) == [Release("t", "n0.1.1", keep=True)]
    assert place.asked(Reopen) == []

    place.runner.misses = set()
    place.pass_time(10.0)

    assert place.runner.ended == ["t"]
    assert place.ends() == [("t", AttemptOutcome.RELEASED)]


def test_an_input_out_of_reach_is_tried_again_later() -> None:
    place = Place(fetch_rounds=1, retry_seconds_max=10.0)
    place.network.silent = {"origin"}
    place.run(a_task(reads=["in"]))
    assert place.asked(Release) == [Release("t", "n0.1.1", keep=True)]
    assert place.runner.given == []

    place.network.silent = set()
    place.pass_time(10.0)

    assert place.runner.ended == ["t"]


def test_outputs_for_which_there_is_no_room_send_the_task_elsewhere() -> None:
    place = Place()
    place.have(Join("n1", 1, 1e9))
    place.disk.is_full = True

    place.run(a_task(reads=["in"], writes=["out"]))

    assert place.asked(Release) == [Release("t", "n0.1.1")]
    assert place.says(Commit) == []
    assert not place.is_held()
    place.depot.drop("in")
    assert "in" not in place.depot


def test_cores_are_given_back_whatever_happened_to_the_task() -> None:
    place = Place(cores=1, staging_ahead=0)
    place.runner.fails["fails"] = "it broke"
    place.runner.misses = {"misses"}

    place.run(a_task("fails"), place.reads_what_p_wrote("misses"), a_task("works"))

    assert place.runner.ended[-1] == "works"
    assert not place.state.attempts


# --- what is learned -----------------------------------------------------------------------------


def test_the_run_times_of_tasks_that_succeed_are_learned_by_type() -> None:
    place = Place()
    place.runner.seconds = {"works": 20.0, "fails": 1.0}
    place.runner.fails["fails"] = "it broke"

    place.run(a_task("works", type="sort"), a_task("fails", type="sort"))

    assert place.state.times.estimate("sort").seconds == 20.0
    assert place.state.times.runs == 1


def test_what_a_task_taught_is_told_as_the_load_of_those_that_wait() -> None:
    place = Place(cores=1, staging_ahead=0)
    place.runner.seconds["first"] = 20.0
    place.hold(a_task("first", type="sort"), a_task("next", type="sort"))
    place.runner.may_end.clear()
    for task in ("first", "next"):
        place.state.queue.put(a_queue_entry(task, spread=inf, task_type="sort"))
        place.pass_time()
    place.state.outbox.take()
    place.runner.may_start.clear()  # and so the other task stays where it is
    place.state.drain()

    place.runner.may_end.set()
    place.pass_time()

    assert place.says(ReportLoad) == [ReportLoad("n0", 20.0)]


def test_estimates_of_a_type_that_were_too_short_are_corrected() -> None:
    place = Place()
    place.runner.seconds["t"] = 90.0

    place.run(a_task(type="sort", estimated_seconds=10.0, estimated_spread=0.5))

    assert place.state.times.factor("sort") > 2.0


def test_a_guess_that_was_wrong_corrects_no_estimate() -> None:
    place = Place()
    place.runner.seconds["t"] = 90.0

    place.run(a_task(type="sort", estimated_seconds=10.0, estimated_spread=inf))

    assert place.state.times.factor("sort") == 1.0


def test_short_tasks_let_the_runner_have_more_than_there_are_cores() -> None:
    place = Place(cores=1, staging_ahead=0, lead_seconds=2.0)
    place.run(a_task("first"))
    assert place.capacity.attempts_max == 3
    place.runner.may_end.clear()

    place.run(*(a_task(f"t{i}") for i in range(5)))

    assert len(place.runner.given) == 1 + 3


# --- what a node learns --------------------------------------------------------------------------


def test_a_node_learns_how_long_good_runs_took() -> None:
    place = Place()
    place.runner.fails["bad"] = "it broke"

    place.run(a_task("good"), a_task("bad"))

    assert (place.state.learned.tasks, place.state.learned.run_seconds) == (1, 1.0)


def test_a_node_learns_how_long_tasks_wait_for_inputs_from_elsewhere() -> None:
    place = Place()
    spec = place.reads_what_p_wrote("t")
    place.store.answers.clear()
    place.run(spec)
    place.pass_time(50.0)  # not begun yet
    place.store.answers.set()
    place.network.silent.add("n1")
    place.pass_time(0.6)
    place.network.silent.clear()
    place.pass_time(10.0)

    assert "in" in place.disk.stored
    assert 0.5 < place.state.learned.moving_seconds < 10.0


def test_inputs_that_are_here_are_not_waited_for() -> None:
    place = Place()
    place.disk.stored["in"] = StoredFile("in", 10, "p", written=False)
    place.do(place.depot.recover())

    place.run(place.reads_what_p_wrote("t"))

    assert place.state.learned.tasks == 1
    assert place.state.learned.moving_seconds == 0.0


# --- giving way ----------------------------------------------------------------------------------


def two_that_want_the_core(place: Place) -> None:
    """A task that is urgent and waits for its input, and one that is not, and could run at once."""
    urgent = place.reads_what_p_wrote("urgent", priority=1.0)
    patient = a_task("patient", priority=5.0, estimated_seconds=100.0)
    place.network.silent.add("n1")
    place.run(urgent, patient)


def test_a_task_leaves_the_core_to_a_more_urgent_one_whose_inputs_come_soon() -> None:
    place = Place(cores=1, give_way_share=0.05, retry_seconds=0.5)

    two_that_want_the_core(place)
    place.network.silent.clear()
    place.pass_time(4.0)

    assert place.runner.given[0] == "urgent"


def test_a_task_gives_way_for_a_share_of_its_run_time_only() -> None:
    place = Place(cores=1, give_way_share=0.05, retry_seconds=100.0)

    two_that_want_the_core(place)
    place.pass_time(4.0)
    assert place.runner.given == []
    place.pass_time(2.0)

    assert place.runner.given == ["patient"]


def test_a_task_does_not_give_way_where_there_are_cores_for_all() -> None:
    place = Place(cores=2, give_way_share=0.05, retry_seconds=100.0)

    two_that_want_the_core(place)

    assert place.runner.given == ["patient"]


def test_a_long_task_with_nobody_to_give_way_to_is_in_line_when_a_core_comes_free() -> None:
    place = Place(cores=1, give_way_share=0.05, staging_ahead=2)
    place.runner.may_end.clear()
    place.run(a_task("runs", priority=0.0))
    place.run(a_task("long", priority=1.0, estimated_seconds=1000.0))
    place.run(a_task("short", priority=5.0, estimated_seconds=1.0))

    place.runner.may_end.set()
    place.pass_time(1.0)

    assert place.runner.given[:2] == ["runs", "long"]


def test_a_task_that_runs_again_asks_its_producers_what_its_inputs_contain() -> None:
    place = Place()
    spec = a_task("t", reads=["in"], made_by="p")
    written = OutputFile("in", 100, "a digest")
    place.have(
        Submit(a_task("p", writes=["in"], children=("t",))),
        Submit(spec),
        Begin("p", "n1.1.1", "n1"),
        Commit("p", "n1.1.1", "n1", (), 1, (written,)),
        Notify("t", "p", 1, False, (Copy("in", "n1", 100, "a digest"),)),
        Begin("t", "n1.1.2", "n1"),
        Commit("t", "n1.1.2", "n1", (), 1),
        Reopen("t", 1),
    )

    place.run(spec)

    assert place.told(AttemptBegan)[-1].generation == 2
    assert place.network.digests == {"in": "a digest"}
