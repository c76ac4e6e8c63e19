"""The checker itself: it says nothing about a good run, and something about each bad step."""

import pytest

from builders import a_diamond
from dataward.model.answers import Answer, Begun, Committed, Findings, Membership, Orphans, Standing
from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    FileEvicted,
    FileMoved,
    FileStored,
    NodeLost,
)
from dataward.model.operations import (
    Begin,
    Commit,
    Join,
    Operation,
    Renew,
    Reopen,
    Seize,
    TakeOver,
    TaskSpec,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.sim.invariants import Checker, InvariantBroken
from dataward.stores.shard import Shard


class Books:
    """A checker over the diamond on nodes a (two cores) and b (one), and a clock moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.checker = Checker(a_diamond(), 1, {"a": 2, "b": 1}, lambda: self.now)
        self.shard = Shard(0)

    def saw(self, operation: Operation, answer: Answer) -> None:
        self.checker.on_applied(operation, answer, self.shard)

    def commit(self, task: str, attempt: str = "a.1.1", generation: int = 1) -> None:
        node = attempt.split(".")[0]
        answer = Committed(TaskId(task), generation, (), (), ())
        self.saw(Commit(TaskId(task), attempt, node), answer)

    def begin(self, task: str, attempt: str = "a.1.9") -> None:
        spec = TaskSpec(TaskId(task), "", (), (), (), (), 1.0, 1, 0, 0, "a", 1.0, 0)
        self.saw(Begin(TaskId(task), attempt, "a"), Begun(spec, 1, (), {}))

    def join(self, node: str = "a", incarnation: int = 1, lease_seconds: float = 10.0) -> None:
        answer = Membership(node, True, True, incarnation, 0, 0.0, 0)
        self.saw(Join(node, incarnation, lease_seconds), answer)

    def find_orphans_of(self, node: str = "a", incarnation: int = 1) -> None:
        found = Findings(0, (Orphans(node, incarnation, (), ()),), (), (), 0, False)
        self.saw(Seize(node, incarnation), found)

    def take_over(self, task: str, node: str = "a", incarnation: int = 1) -> None:
        standing = Standing(TaskId(task), TaskState.READY, 0)
        self.saw(TakeOver(TaskId(task), node, incarnation), standing)

    def commit_all(self) -> None:
        for task in ("split", "left", "right", "join"):
            self.commit(task)

    def runs(self, task: str, node: str, number: int = 1) -> None:
        running = TaskState.RUNNING
        self.checker.on_event(
            AttemptAdvanced(0.0, TaskId(task), f"{node}.1.{number}", node, running)
        )


def test_a_good_run_is_not_complained_of() -> None:
    books = Books()

    books.join()
    for task in ("split", "left", "right", "join"):
        books.begin(task)
        books.commit(task)
    books.checker.at_end(4, 0)

    assert books.checker.checks == 9


def test_a_commit_said_again_is_the_same_commit() -> None:
    books = Books()

    books.commit("split")
    books.commit("split")


def test_one_task_is_committed_once() -> None:
    books = Books()
    books.commit("split", "a.1.1")

    with pytest.raises(InvariantBroken, match=r"by a\.1\.1 and again by b\.1\.1"):
        books.commit("split", "b.1.1")


def test_a_reopened_task_may_be_committed_again() -> None:
    books = Books()
    books.commit("split", "a.1.1")

    reopened = Standing(TaskId("split"), TaskState.READY, 1, granted=True)
    books.saw(Reopen(TaskId("split"), 1), reopened)
    books.begin("split")

    books.commit("split", "b.1.1", generation=2)


def test_no_child_starts_or_commits_before_its_parents() -> None:
    books = Books()
    books.commit("split")
    books.commit("left")

    with pytest.raises(InvariantBroken, match="join began before its parent right"):
        books.begin("join")
    with pytest.raises(InvariantBroken, match="join was committed before its parent right"):
        books.commit("join")
    with pytest.raises(InvariantBroken, match="join began before its parent right"):
        books.checker.on_event(AttemptBegan(0.0, TaskId("join"), "a.1.1", "a", False, 1))


def test_a_finished_task_never_starts_again() -> None:
    books = Books()
    books.commit("split")

    with pytest.raises(InvariantBroken, match=r"split is finished, yet a\.1\.9 began it"):
        books.begin("split")


def test_nobody_is_declared_dead_while_its_lease_holds() -> None:
    books = Books()
    books.join()
    books.now = 10.0

    with pytest.raises(InvariantBroken, match="a was declared dead while its lease still holds"):
        books.find_orphans_of("a")
    with pytest.raises(InvariantBroken, match="a was declared dead"):
        books.saw(Seize("a", 1), Membership("a", False, False, 1, 0, 0.0, 0))


def test_a_renewal_makes_a_lease_longer() -> None:
    books = Books()
    books.join()
    books.now = 9.0
    books.saw(Renew("a", 1, 0.0), Membership("a", True, True, 1, 0, 0.0, 0))
    books.now = 15.0

    with pytest.raises(InvariantBroken, match="a was declared dead"):
        books.find_orphans_of("a")


def test_tasks_are_taken_only_from_the_dead() -> None:
    books = Books()
    books.join()

    with pytest.raises(InvariantBroken, match="split was taken from a, whose lease still holds"):
        books.take_over("split")
    books.now = 11.0
    books.find_orphans_of("a")
    books.take_over("split")


def test_an_earlier_life_may_be_taken_over_at_any_time() -> None:
    books = Books()
    books.join(incarnation=2)

    books.take_over("split", incarnation=1)


def test_a_commit_after_a_take_over_is_noticed() -> None:
    books = Books()
    books.join()
    books.now = 11.0
    books.find_orphans_of("a")
    books.take_over("split")

    with pytest.raises(InvariantBroken, match=r"a\.1\.1 committed split after losing its lease"):
        books.commit("split", "a.1.1")
    books.commit("split", "a.2.1")  # the same node in its next life


def test_a_file_comes_only_from_a_node_that_holds_it() -> None:
    books = Books()
    see, file = books.checker.on_event, FileId("f")

    see(FileMoved(0.0, file, "origin", "a", 1, 1.0))
    see(FileStored(0.0, file, "a", 1))
    see(FileMoved(0.0, file, "a", "b", 1, 1.0))
    see(FileEvicted(0.0, file, "a", 1))

    with pytest.raises(InvariantBroken, match="f came from a, which never held it"):
        see(FileMoved(0.0, file, "a", "b", 1, 1.0))


def test_a_node_runs_no_more_than_its_cores_can() -> None:
    books = Books()
    books.runs("left", "a", 1)
    books.runs("right", "a", 2)

    with pytest.raises(InvariantBroken, match="a runs more than its 2 cores can"):
        books.runs("join", "a", 3)


def test_cores_are_free_again_after_an_attempt_or_a_crash() -> None:
    books = Books()

    books.runs("left", "b", 1)
    books.checker.on_event(
        AttemptEnded(0.0, TaskId("left"), "b.1.1", "b", AttemptOutcome.CANCELLED)
    )
    books.runs("right", "b", 2)
    books.checker.on_event(NodeLost(0.0, "b"))
    books.runs("join", "b", 3)


def test_nothing_is_lost() -> None:
    books = Books()
    books.commit_all()

    with pytest.raises(InvariantBroken, match="1 tasks have no outcome"):
        books.checker.at_end(3, 0)
    books.checker.at_end(4, 0)


def test_nothing_is_called_complete_that_nobody_committed() -> None:
    books = Books()
    books.commit("split")

    with pytest.raises(InvariantBroken, match="nobody committed"):
        books.checker.at_end(4, 0)


def test_what_a_shard_forgot_it_may_be_told_again() -> None:
    books = Books()
    before = books.checker.snapshot(0)
    books.commit("split", "a.1.1")

    books.checker.restore(0, before)

    books.commit("split", "b.1.1")
