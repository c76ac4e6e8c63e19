"""The committer: files are safe before their commit is said, and answers are heeded."""

from typing import Any

import pytest

from dataward.model.answers import Committed, Failing, Refusal, Refused
from dataward.model.events import (
    AttemptEnded,
    FileEvicted,
    Occasion,
    TaskFinished,
    TaskPlaced,
)
from dataward.model.ids import AttemptId
from dataward.model.messages import Stop
from dataward.model.operations import (
    Begin,
    Commit,
    Copy,
    Delivered,
    Enqueue,
    Fail,
    LetGo,
    Notify,
    OutputFile,
    Release,
    Replicate,
    Submit,
    TakeOver,
    TaskSpec,
)
from dataward.model.states import AttemptOutcome, FailureCause, TaskState
from node.fake_world import FakeWorld, a_queue_entry, a_task


class Place(FakeWorld):
    """A node whose committer and herald run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.start(self.committer.run())
        self.start(self.herald.run())

    def ends(self, spec: TaskSpec) -> AttemptId:
        """An attempt of the task has stored its outputs and proposes its commit."""
        attempt, begun = self.begin(spec)
        self.proposes(spec, attempt, begun.generation)
        return attempt

    def proposes(self, spec: TaskSpec, attempt: AttemptId, generation: int = 1) -> None:
        outputs = self.do(self.depot.store_outputs(spec))
        self.log.clear()
        self.state.outbox.commit(spec.id, attempt, generation, outputs, awaited=True)

    def fails(self, spec: TaskSpec) -> AttemptId:
        attempt, _ = self.begin(spec)
        self.log.clear()
        self.state.outbox.fail(spec.id, attempt, "it broke")
        return attempt

    def outcomes(self) -> list[tuple[str, AttemptOutcome, str]]:
        return [(e.attempt, e.outcome, e.reason) for e in self.told(AttemptEnded)]


# --- files are safe first ------------------------------------------------------------------------


def test_the_disk_is_synced_before_a_commit_goes_to_the_store() -> None:
    place = Place()
    attempt = place.ends(a_task(writes=["f"]))

    place.pass_time()

    assert place.log[0] == "sync"
    assert place.log[1] == Commit("t", attempt, "n0", (), 1, (OutputFile("f", 10),))


def test_one_sync_and_one_call_serve_all_commits_that_came_meanwhile() -> None:
    place = Place()
    place.store.answers.clear()
    for task in ("a", "b", "c"):
        place.ends(a_task(task, writes=[f"{task}.out"]))
    place.pass_time()
    place.log.clear()

    place.store.answers.set()
    place.pass_time()

    assert [commit.task for commit in place.asked(Commit)] == ["b", "c"]
    assert place.log.count("sync") == 1


def test_without_a_commit_the_disk_is_not_synced() -> None:
    place = Place()
    place.fails(a_task())
    place.state.outbox.later(Delivered("other", 1))

    place.pass_time(1.0)

    assert place.asked(Fail)
    assert "sync" not in place.log


def test_a_sync_that_fails_sends_the_task_elsewhere_and_discards_its_outputs() -> None:
    place = Place()
    for node in place.world.nodes:
        place.join(node)
    place.disk.sync_fails = True
    attempt = place.ends(a_task(writes=["f"]))

    place.pass_time()

    assert not place.asked(Commit)
    assert not place.asked(Fail)
    assert place.asked(Release) == [Release("t", attempt)]
    assert "remove f" in place.log
    assert place.depot.used_bytes == 0
    assert place.outcomes() == [(attempt, AttemptOutcome.RELEASED, "the disk is full")]
    (placed,) = place.told(TaskPlaced)
    assert (placed.node != "n0", placed.occasion) == (True, Occasion.NO_ROOM)
    assert place.known("t").state is TaskState.READY
    assert not place.state.identity.holdings
    assert not place.state.outbox.is_busy


def test_a_node_that_is_alone_tries_again_after_a_while_and_uses_up_no_retry() -> None:
    place = Place(nodes=1, retry_seconds_max=10.0)
    place.disk.sync_fails = True
    attempt = place.ends(a_task(writes=["f"], retries=1))

    place.pass_time(9.0)
    assert place.asked(Release) == [Release("t", attempt, keep=True)]
    assert not place.state.queue
    place.pass_time(1.0)

    assert place.state.queue.take() is not None
    assert not place.known("t").failures


def test_after_many_tries_a_sync_that_fails_is_the_failure_of_the_task() -> None:
    place = Place(nodes=1, full_disk_tries=0)
    place.disk.sync_fails = True
    attempt = place.ends(a_task(writes=["f"]))

    place.pass_time()

    assert place.asked(Fail) == [Fail("t", attempt, "the disk is full")]
    assert place.outcomes() == [(attempt, AttemptOutcome.FAILED, "the disk is full")]
    assert place.told(AttemptEnded)[0].cause is FailureCause.DISK
    assert place.known("t").state is TaskState.FAILED


def test_a_sync_that_fails_keeps_no_task_from_being_recalled() -> None:
    """What an earlier run left was synced by that run."""
    place = Place()
    place.disk.sync_fails = True
    attempt, _ = place.begin(a_task(writes=["f"]))

    place.state.outbox.recall("t", attempt, (OutputFile("f", 10, "d"),), ())
    place.pass_time()

    assert [commit.attempt for commit in place.asked(Commit)] == [attempt]
    assert not place.asked(Release)


def test_a_release_that_is_answered_after_the_lease_was_lost_changes_nothing() -> None:
    place = Place(nodes=1, retry_seconds_max=10.0)
    place.disk.sync_fails = True
    place.store.answers.clear()
    place.ends(a_task(writes=["f"]))
    place.pass_time()

    place.state.lose_lease(1)
    place.store.answers.set()
    place.pass_time(10.0)

    assert not place.state.queue
    assert len(place.outcomes()) == 1


def test_a_sync_that_fails_leaves_what_is_only_said_again_alone() -> None:
    place = Place()
    place.disk.sync_fails = True
    spec = a_task(writes=["f"])
    place.have(Submit(spec))
    said_before = Commit("t", "n0.1.9", "n0", (), 1, spec.outputs)

    place.state.outbox.recommit(said_before)
    place.pass_time()

    assert place.asked(Commit) == [said_before]
    assert "remove f" not in place.log


def test_a_sync_that_fails_changes_nothing_but_commits() -> None:
    place = Place()
    place.disk.sync_fails = True
    place.ends(a_task(writes=["f"]))
    place.state.outbox.later(Delivered("other", 1))

    place.pass_time()

    assert place.asked(Delivered)[0] == Delivered("other", 1)


# --- a commit that won ---------------------------------------------------------------------------


def test_what_won_is_kept_journalled_told_and_let_go_of() -> None:
    place = Place()
    attempt = place.ends(a_task(writes=["f"]))
    ticket = place.state.identity.holdings["t"].ticket

    place.pass_time(1.0)

    assert "f" in place.depot
    assert [commit.attempt for commit in place.disk.commits] == [attempt]
    assert place.outcomes() == [(attempt, AttemptOutcome.WON, "")]
    assert place.told(TaskFinished) == [
        TaskFinished(0.0, "t", attempt, "n0", TaskState.COMPLETE, 1)
    ]
    assert place.asked(LetGo) == [LetGo("n0", 1, (("t", ticket),))]
    assert place.state.is_idle


def test_children_of_what_won_are_told_where_its_files_are() -> None:
    place = Place()
    place.have(Submit(a_task("child", reads=["f"], made_by="t")))
    place.ends(a_task(writes=["f"], children=("child",)))

    place.pass_time()

    (notice,) = place.asked(Notify)
    assert notice == Notify("child", "t", 1, False, (Copy("f", "n0", 10),))


def test_rivals_of_what_won_are_stopped() -> None:
    place = Place()
    spec = a_task(backups_max=2)
    attempt, begun = place.begin(spec)
    place.have(Replicate("t", "n0", "n1"), Replicate("t", "n0", "n2"))

    place.proposes(spec, attempt, begun.generation)
    place.pass_time()

    assert place.sent(Stop) == [("n1", Stop("t", 1)), ("n2", Stop("t", 1))]


def test_a_node_does_not_stop_itself() -> None:
    place = Place()
    place.ends(a_task())
    place.store.will_answer(Commit, Committed("t", 1, (), (), ("n0", "n1")))

    place.pass_time()

    assert place.sent(Stop) == [("n1", Stop("t", 1))]


def test_what_is_only_said_again_is_told_to_children_but_is_no_end_of_an_attempt() -> None:
    place = Place()
    place.have(Submit(a_task("child", made_by="t")), Submit(a_task(children=("child",))))

    place.state.outbox.recommit(Commit("t", "n0.1.9", "n0", (), 1))
    place.pass_time()

    assert [notice.task for notice in place.asked(Notify)] == ["child"]
    assert place.disk.commits == []
    assert place.outcomes() == []
    assert place.told(TaskFinished) == []


# --- a commit that was refused -------------------------------------------------------------------


def test_one_refused_discards_its_outputs_and_lets_go_of_the_task() -> None:
    place = Place()
    spec = a_task(writes=["f"], backups_max=1)
    attempt, _ = place.begin(spec)
    place.have(Begin("t", "n1.1.1", "n1"), Commit("t", "n1.1.1", "n1", (), 1))

    place.proposes(spec, attempt)
    place.pass_time(1.0)

    assert "remove f" in place.log
    assert [event.file for event in place.told(FileEvicted)] == ["f"]
    assert place.outcomes() == [(attempt, AttemptOutcome.LOST, "finished")]
    assert place.held_by("n0") == []
    assert place.disk.commits == []
    assert place.state.identity.incarnation == 1
    assert place.state.is_idle


def test_one_fenced_has_lost_the_lease_and_lets_go_of_nothing() -> None:
    place = Place()
    spec = a_task(writes=["f"])
    attempt, _ = place.begin(spec)
    place.have(TakeOver("t", "n0", 1))

    place.proposes(spec, attempt)
    place.pass_time(1.0)

    assert place.outcomes() == [(attempt, AttemptOutcome.LOST, "fenced")]
    assert place.state.identity.incarnation == 2
    assert place.held_by("n0") == ["t"]  # for others to find
    assert not place.asked(LetGo)


def test_an_incarnation_that_has_lost_its_lease_before_does_not_lose_the_next_ones() -> None:
    place = Place()
    place.store.answers.clear()
    place.store.will_answer(Commit, Refused("t", Refusal.FENCED, TaskState.READY))
    place.ends(a_task(writes=["f"]))
    place.pass_time()
    place.state.lose_lease(1)
    place.state.identity.joined = True

    place.store.answers.set()
    place.pass_time()

    assert place.state.identity.incarnation == 2
    assert place.outcomes() == []  # whoever cleared up after it said so


def test_a_commit_abandoned_with_its_lease_is_neither_kept_nor_journalled_if_it_won_after_all() -> (
    None
):
    place = Place()
    place.store.answers.clear()
    place.ends(a_task(writes=["f"]))
    place.pass_time()
    place.state.lose_lease(1)

    place.store.answers.set()
    place.pass_time(1.0)

    assert "f" not in place.depot
    assert place.disk.commits == []
    assert place.outcomes() == []
    assert not place.asked(LetGo)


# --- failures ------------------------------------------------------------------------------------


def test_a_task_that_has_failed_for_good_is_told_to_children_and_rivals_and_let_go_of() -> None:
    place = Place()
    place.have(Submit(a_task("child", made_by="t")))
    attempt = place.fails(a_task(children=("child",), backups_max=1))
    place.have(Replicate("t", "n0", "n1"))

    place.pass_time(1.0)

    assert place.asked(Notify) == [Notify("child", "t", 1, True)]
    assert place.sent(Stop) == [("n1", Stop("t", 2))]
    finished = [(e.task, e.attempt, e.state, e.generation) for e in place.told(TaskFinished)]
    assert finished[0] == ("t", attempt, TaskState.FAILED, 1)
    assert place.held_by("n0") == []


def test_a_task_with_retries_left_is_tried_again_here() -> None:
    place = Place()
    place.fails(a_task(retries=1, children=("child",)))

    place.pass_time(1.0)

    assert place.state.queue.take() == a_queue_entry()
    assert place.held_by("n0") == ["t"]
    assert not place.asked(Notify)
    assert place.told(TaskFinished) == []


def test_a_failure_that_is_refused_lets_go_of_the_task() -> None:
    place = Place()
    place.fails(a_task(backups_max=1))
    place.have(Begin("t", "n1.1.1", "n1"), Commit("t", "n1.1.1", "n1", (), 1))

    place.pass_time(1.0)

    assert place.held_by("n0") == []
    assert place.told(TaskFinished) == []
    assert not place.state.outbox.is_busy


@pytest.mark.parametrize("is_final", [True, False])
def test_an_answer_to_a_failure_is_ignored_if_the_lease_was_lost_meanwhile(is_final: bool) -> None:
    place = Place()
    place.store.answers.clear()
    place.store.will_answer(Fail, Failing("t", is_final, ("child",), 1, ("n1",)))
    place.fails(a_task())
    place.pass_time()
    place.state.lose_lease(1)

    place.store.answers.set()
    place.pass_time(1.0)

    assert not place.asked(Notify)
    assert not place.state.queue
    assert place.network.sent == []
    assert place.told(TaskFinished) == []


# --- the rest ------------------------------------------------------------------------------------


@pytest.mark.parametrize("queued", [0, 1])
def test_an_answer_that_tells_of_queued_work_has_the_node_look(queued: int) -> None:
    place = Place()
    place.hold(a_task())
    if queued:
        place.have(Enqueue("n0", (a_queue_entry("next"),)))

    place.state.outbox.let_go("t")
    place.pass_time(1.0)

    assert place.state.queue.wanted.is_set() == bool(queued)


def test_a_call_that_fails_is_repeated_until_it_is_answered() -> None:
    place = Place()
    attempt = place.ends(a_task())
    place.store.failures_left = 3

    place.pass_time(60.0)

    assert [commit.attempt for commit in place.asked(Commit)] == [attempt] * 4
    assert place.outcomes() == [(attempt, AttemptOutcome.WON, "")]
    assert place.told(TaskFinished)[0].generation == 1


def test_nothing_is_sent_while_there_is_nothing_to_say() -> None:
    place = Place()

    place.state.queue.put(a_queue_entry())
    place.state.outbox.load_changed()
    place.state.queue.clear()  # before anybody could be told of the load
    place.pass_time(10.0)

    assert place.store.calls == []
