"""What a node has to say: in which order, how soon, and what of it is forgotten."""

from collections.abc import Callable

import pytest

from dataward.model.operations import (
    AddCopies,
    Advance,
    Commit,
    Copy,
    Delivered,
    DropCopies,
    Fail,
    LetGo,
    OutputFile,
    Release,
    ReportLoad,
)
from dataward.model.states import TaskState
from dataward.node.outbox import Outbox
from node.fake_world import FakeWorld, a_queue_entry, a_task

RUNNING, STAGE_OUT = TaskState.RUNNING, TaskState.STAGE_OUT


def propose(outbox: Outbox, task: str = "t", attempt: str = "n0.1.1", awaited: bool = True) -> None:
    outbox.commit(task, attempt, 1, (), awaited=awaited)


def due_after(world: FakeWorld) -> float:
    """How many seconds it takes until what is to say is due."""
    began = world.kernel.now()
    world.do(world.state.outbox.due())
    return world.kernel.now() - began


# --- what is said --------------------------------------------------------------------------------


def test_a_commit_says_who_ran_the_task_what_it_wrote_and_which_completion_it_is() -> None:
    outbox = FakeWorld().state.outbox
    wrote = (OutputFile("f", 7, "digest"),)

    outbox.commit("t", "n0.1.1", 3, wrote, awaited=True)

    assert outbox.take() == [Commit("t", "n0.1.1", "n0", (), 3, wrote)]
    assert outbox.take() == []


def test_steps_not_yet_sent_go_along_with_the_outcome_and_are_not_sent_besides() -> None:
    outbox = FakeWorld().state.outbox
    for attempt in ("n0.1.1", "n0.1.2"):
        outbox.advance("t", attempt, RUNNING, 1.0)
        outbox.advance("t", attempt, STAGE_OUT, 2.0)

    propose(outbox)
    outbox.fail("t", "n0.1.2", "it broke")

    steps = ((RUNNING, 1.0), (STAGE_OUT, 2.0))
    assert outbox.take() == [
        Commit("t", "n0.1.1", "n0", steps, 1),
        Fail("t", "n0.1.2", "it broke", steps),
    ]


def test_steps_go_alone_if_the_outcome_is_not_known_yet() -> None:
    outbox = FakeWorld().state.outbox
    outbox.advance("t", "n0.1.1", RUNNING, 1.0)
    outbox.advance("t", "n0.1.1", STAGE_OUT, 2.0)

    assert outbox.take() == [
        Advance("t", "n0.1.1", RUNNING, 1.0),
        Advance("t", "n0.1.1", STAGE_OUT, 2.0),
    ]
    propose(outbox)
    assert outbox.take() == [Commit("t", "n0.1.1", "n0", (), 1)]


def test_steps_come_first_then_outcomes_then_the_rest_and_letting_go_comes_after_those() -> None:
    world = FakeWorld()
    world.hold(a_task("t"))
    outbox = world.state.outbox
    world.state.queue.put(a_queue_entry("next"))
    outbox.let_go("t")
    outbox.later(Delivered("p", 1))
    propose(outbox)
    outbox.advance("u", "n0.1.2", RUNNING, 1.0)

    kinds = [type(operation) for operation in outbox.take()]

    assert kinds == [Advance, Commit, Delivered, LetGo, ReportLoad]


def test_copies_are_announced_and_retracted_under_the_name_of_their_owner() -> None:
    outbox = FakeWorld().state.outbox
    copy = Copy("f", "n0")

    outbox.announce("maker of f", copy)
    outbox.retract("maker of f", copy)

    assert outbox.take() == [AddCopies("maker of f", (copy,)), DropCopies("maker of f", (copy,))]


def test_a_task_is_let_go_of_once_with_the_ticket_of_its_stay() -> None:
    world = FakeWorld()
    world.hold(a_task("t"))
    ticket = world.state.identity.holdings["t"].ticket

    world.state.outbox.let_go("t")
    world.state.outbox.let_go("t")
    world.state.outbox.let_go("never held")

    assert world.state.outbox.take() == [LetGo("n0", 1, (("t", ticket),))]
    assert world.state.outbox.take() == []


# --- loads ---------------------------------------------------------------------------------------


def test_the_load_is_said_with_whatever_goes_next_if_it_has_changed() -> None:
    world = FakeWorld()
    queue, outbox = world.state.queue, world.state.outbox
    queue.put(a_queue_entry("a", seconds=3.0))
    queue.put(a_queue_entry("b", seconds=4.0))

    assert outbox.take() == [ReportLoad("n0", 7.0)]
    assert outbox.take() == []
    queue.clear()
    assert outbox.take() == [ReportLoad("n0", 0.0)]


@pytest.mark.parametrize(("seconds", "is_said"), [(74.0, True), (75.0, False), (100.0, False),
                                                 (125.0, False), (126.0, True)])  # fmt: skip
def test_a_load_is_said_without_other_cause_if_it_changed_by_more_than_a_share(
    seconds: float, is_said: bool
) -> None:
    world = FakeWorld(load_report_share=0.25)
    queue, outbox = world.state.queue, world.state.outbox
    queue.put(a_queue_entry("a", seconds=100.0))
    outbox.take()
    queue.clear()
    queue.put(a_queue_entry("b", seconds=seconds))

    outbox.load_changed()
    waiting = world.start(outbox.due())
    world.pass_time(10.0)

    assert waiting.done() == is_said


# --- how soon ------------------------------------------------------------------------------------


def test_nothing_is_due_until_there_is_something_to_say() -> None:
    world = FakeWorld()
    waiting = world.start(world.state.outbox.due())

    world.pass_time(1000.0)

    assert not waiting.done()


SAYINGS: list[Callable[[FakeWorld], None]] = [
    lambda w: w.state.outbox.advance("t", "n0.1.1", RUNNING, 0.0),
    lambda w: w.state.outbox.let_go("t"),
    lambda w: w.state.outbox.announce("t", Copy("f", "n0")),
    lambda w: w.state.outbox.retract("t", Copy("f", "n0")),
    lambda w: w.state.outbox.later(Delivered("t", 1)),
]
NAMES = ["advance", "let go", "announce", "retract", "later"]


@pytest.mark.parametrize("say", SAYINGS, ids=NAMES)
def test_what_is_not_urgent_waits_a_moment_for_company(say: Callable[[FakeWorld], None]) -> None:
    world = FakeWorld(company_seconds=0.05)
    world.hold(a_task("t"))

    say(world)

    assert due_after(world) == 0.05


OUTCOMES: list[Callable[[Outbox], None]] = [
    propose,
    lambda outbox: outbox.fail("t", "n0.1.1", "it broke"),
    lambda outbox: outbox.recommit(Commit("t", "n0.1.1", "n0")),
]


@pytest.mark.parametrize("say", OUTCOMES, ids=["commit", "fail", "recommit"])
def test_an_outcome_is_due_at_once(say: Callable[[Outbox], None]) -> None:
    world = FakeWorld()

    say(world.state.outbox)

    assert due_after(world) == 0.0


def test_an_outcome_takes_along_what_was_waiting_for_company() -> None:
    world = FakeWorld(company_seconds=5.0)
    waiting = world.start(world.state.outbox.due())
    world.state.outbox.later(Delivered("t", 1))
    world.pass_time(1.0)
    assert not waiting.done()

    propose(world.state.outbox)
    world.pass_time()

    assert waiting.done()
    assert len(world.state.outbox.take()) == 2


def test_while_there_is_other_work_outcomes_wait_for_company_too() -> None:
    world = FakeWorld(outcome_seconds=0.25, unawaited_seconds=4.0)
    propose(world.state.outbox)
    assert due_after(world) == 0.0  # nothing else to do here

    world.state.queue.put(a_queue_entry("next"))

    assert due_after(world) == 0.25


def test_outcomes_that_need_no_company_are_due_at_once_whatever_else_there_is_to_do() -> None:
    world = FakeWorld(outcome_seconds=0.0, unawaited_seconds=4.0)
    world.state.queue.put(a_queue_entry("next"))

    propose(world.state.outbox, awaited=False)

    assert due_after(world) == 0.0


def test_an_outcome_that_no_task_waits_for_waits_longer() -> None:
    world = FakeWorld(outcome_seconds=0.25, unawaited_seconds=4.0)
    world.state.queue.put(a_queue_entry("next"))

    propose(world.state.outbox, awaited=False)

    assert due_after(world) == 4.25


@pytest.mark.parametrize("say", OUTCOMES, ids=["commit", "fail", "recommit"])
def test_one_that_a_task_waits_for_ends_the_wait_of_those_that_none_does(
    say: Callable[[Outbox], None],
) -> None:
    world = FakeWorld(outcome_seconds=0.25, unawaited_seconds=4.0)
    world.state.queue.put(a_queue_entry("next"))
    propose(world.state.outbox, "unawaited", "n0.1.2", awaited=False)
    waiting = world.start(world.state.outbox.due())
    world.pass_time(1.0)

    say(world.state.outbox)
    world.pass_time(0.25)

    assert waiting.done()


@pytest.mark.parametrize("seconds", [1.0, 4.1], ids=["while unawaited", "for company"])
def test_a_node_that_has_nothing_else_to_do_waits_for_no_more_company(seconds: float) -> None:
    world = FakeWorld(outcome_seconds=0.25, unawaited_seconds=4.0)
    world.state.queue.put(a_queue_entry("next"))
    propose(world.state.outbox, awaited=False)
    waiting = world.start(world.state.outbox.due())
    world.pass_time(seconds)
    assert not waiting.done()

    world.state.outbox.hurry()
    world.pass_time()

    assert waiting.done()


@pytest.mark.parametrize("outcomes", [0, 1])
def test_a_node_that_was_out_of_work_waits_for_company_again(outcomes: int) -> None:
    world = FakeWorld(outcome_seconds=0.25, unawaited_seconds=4.0)
    for _ in range(outcomes):
        propose(world.state.outbox)
    world.state.outbox.hurry()
    for _ in range(outcomes):
        world.state.outbox.take()

    world.state.queue.put(a_queue_entry("next"))
    propose(world.state.outbox, "later", "n0.1.2", awaited=False)

    assert due_after(world) == 4.25


def test_what_was_taken_is_due_no_more() -> None:
    world = FakeWorld(company_seconds=0.05, outcome_seconds=0.25, unawaited_seconds=4.0)
    propose(world.state.outbox)
    world.state.outbox.take()

    waiting = world.start(world.state.outbox.due())
    world.pass_time(10.0)
    assert not waiting.done()
    world.state.queue.put(a_queue_entry("next"))
    propose(world.state.outbox, awaited=False)
    world.pass_time(4.0)

    assert not waiting.done()  # nor does the earlier one's being awaited hurry the next


def test_after_an_outcome_what_is_not_urgent_waits_for_company_again() -> None:
    world = FakeWorld(company_seconds=0.05)
    propose(world.state.outbox)
    world.state.outbox.take()

    world.state.outbox.later(Delivered("t", 1))

    assert due_after(world) == 0.05


# --- outcomes on their way -----------------------------------------------------------------------


@pytest.mark.parametrize("say", OUTCOMES[:2], ids=["commit", "fail"])
def test_an_outcome_is_on_its_way_until_the_store_has_answered_it(
    say: Callable[[Outbox], None],
) -> None:
    outbox = FakeWorld().state.outbox
    say(outbox)
    outbox.take()

    assert outbox.is_busy
    assert outbox.is_about("t")
    assert not outbox.is_about("u")
    assert outbox.is_proposed("n0.1.1")
    assert outbox.arrived("n0.1.1")

    assert not outbox.is_busy
    assert not outbox.is_about("t")
    assert not outbox.arrived("n0.1.1")


def test_what_is_only_said_again_is_not_an_outcome_on_its_way() -> None:
    outbox = FakeWorld().state.outbox

    outbox.recommit(Commit("t", "n0.1.1", "n0"))

    assert not outbox.is_proposed("n0.1.1")
    assert not outbox.is_busy
    assert not outbox.arrived("n0.1.1")


def test_a_commit_that_is_withdrawn_is_a_failure_with_the_same_steps() -> None:
    outbox = FakeWorld().state.outbox
    outbox.advance("t", "n0.1.1", RUNNING, 1.0)
    propose(outbox)
    (commit,) = outbox.take()
    assert isinstance(commit, Commit)

    fail = outbox.withdraw(commit, "no room")

    assert fail == Fail("t", "n0.1.1", "no room", ((RUNNING, 1.0),))
    assert outbox.is_proposed("n0.1.1")
    assert outbox.forget() == []  # there is no commit any more that could be abandoned


def test_an_attempt_that_is_released_in_place_of_its_commit_is_no_commit_any_more() -> None:
    outbox = FakeWorld().state.outbox
    propose(outbox)
    (commit,) = outbox.take()
    assert isinstance(commit, Commit)

    release = outbox.release(commit, keep=True)

    assert release == Release("t", "n0.1.1", keep=True)
    assert outbox.is_proposed("n0.1.1")
    assert outbox.forget() == []


def test_one_that_lost_its_lease_forgets_what_it_had_to_say_of_its_tasks() -> None:
    world = FakeWorld()
    world.hold(a_task("held"))
    outbox = world.state.outbox
    outbox.advance("u", "n0.1.3", RUNNING, 1.0)
    propose(outbox)
    outbox.fail("v", "n0.1.2", "it broke")
    outbox.let_go("held")
    outbox.announce("maker", Copy("f", "n0"))

    abandoned = outbox.forget()

    assert [commit.task for commit in abandoned] == ["t"]
    assert not outbox.is_busy
    assert outbox.take() == [AddCopies("maker", (Copy("f", "n0"),))]  # the file is still here


def test_a_commit_that_is_only_said_again_is_not_lost_with_the_lease() -> None:
    outbox = FakeWorld().state.outbox
    acknowledged = Commit("old", "n0.1.1", "n0")
    outbox.recommit(acknowledged)
    propose(outbox, "new", "n0.1.2")

    (abandoned,) = outbox.forget()

    assert abandoned.task == "new"
    assert outbox.take() == [acknowledged]


def test_a_load_told_by_the_way_is_not_said_again() -> None:
    world = FakeWorld()
    world.state.queue.put(a_queue_entry("a"))

    assert world.state.outbox.load_told() == world.state.queue.load_seconds > 0

    assert world.state.outbox.take() == []
