"""The checker itself: it says nothing about a good run, and something about each bad step."""

import pytest

from builders import a_diamond
from dataward.model.answers import (
    Answer,
    Begun,
    Committed,
    Findings,
    Membership,
    Orphans,
    Refusal,
    Refused,
    Standing,
)
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import (
    AttemptAdvanced,
    AttemptBegan,
    AttemptEnded,
    FileEvicted,
    FileMoved,
    FileStored,
    NodeJoined,
    NodeLost,
)
from dataward.model.operations import (
    Begin,
    Commit,
    Join,
    Look,
    Notify,
    Operation,
    OutputFile,
    Probe,
    Remove,
    Renew,
    Reopen,
    Replicate,
    Seize,
    TakeOver,
    TaskSpec,
    shard_of,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.sim.campaign import run_trial, small_cluster
from dataward.sim.faults import FaultPlan
from dataward.sim.invariants import Checker, InvariantBroken
from dataward.sim.parts import SimDisk
from dataward.stores.shard import Shard
from dataward.strategies.registry import STRATEGIES

COMPLETE_SPLIT = (TaskId("split"), TaskState.COMPLETE, 1)


class Books:
    """A checker over the diamond on nodes a (two cores) and b (one), and a clock moved by hand."""

    def __init__(self, workflow: Workflow | None = None, shards: int = 1) -> None:
        self.now = 0.0
        self.unsafe: dict[str, set[FileId]] = {"a": set(), "b": set()}
        self.checker = Checker(
            workflow or a_diamond(),
            shards,
            {"a": 2, "b": 1},
            lambda: self.now,
            self.unsafe.__getitem__,
        )
        self.shard = Shard(0)

    def saw(self, operation: Operation, answer: Answer) -> None:
        self.checker.on_applied(operation, answer, self.shard)

    def commit(
        self,
        task: str,
        attempt: str = "a.1.1",
        generation: int = 1,
        outputs: tuple[OutputFile, ...] = (),
    ) -> None:
        node = attempt.split(".")[0]
        answer = Committed(TaskId(task), generation, (), (), ())
        self.saw(Commit(TaskId(task), attempt, node, outputs=outputs), answer)

    def begin(self, task: str, attempt: str = "a.1.9") -> None:
        spec = TaskSpec(TaskId(task), "", (), (), (), (), 1.0, 1, 0, 0, "a", 1.0, 0)
        self.saw(Begin(TaskId(task), attempt, "a"), Begun(spec, 1, (), {}))

    def join(self, node: str = "a", incarnation: int = 1, lease_seconds: float = 10.0) -> None:
        answer = Membership(node, True, True, incarnation, 0, 0.0, 0)
        self.saw(Join(node, incarnation, lease_seconds), answer)

    def find_orphans_of(self, node: str = "a", incarnation: int = 1) -> None:
        found = Findings(0, (Orphans(node, incarnation, (), ()),), (), (), 0, False)
        self.saw(Seize(node, incarnation), found)

    def remove(self, task: str) -> None:
        answer = Standing(TaskId(task), TaskState.REMOVED, 1, granted=True)
        self.saw(Remove(TaskId(task)), answer)

    def hear_of_removal(self, task: str, parent: str) -> None:
        answer = Standing(TaskId(task), TaskState.REMOVED, 1, granted=True)
        self.saw(Notify(TaskId(task), TaskId(parent), 1, removed=True), answer)

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


def test_a_task_is_still_finished_if_it_was_not_reopened() -> None:
    books = Books()
    books.commit("split")
    books.saw(Reopen(TaskId("split"), 7), Standing(TaskId("split"), TaskState.COMPLETE, 1))
    books.saw(Replicate(TaskId("split"), "a", "b"), Standing(*COMPLETE_SPLIT, granted=True))

    with pytest.raises(InvariantBroken, match="split is finished"):
        books.begin("split")


def test_what_was_refused_did_not_happen() -> None:
    books = Books()
    books.commit("split", "a.1.1")
    refused = Refused(TaskId("split"), Refusal.FINISHED, TaskState.COMPLETE)

    books.saw(Commit(TaskId("split"), "b.1.1", "b"), refused)
    books.saw(Begin(TaskId("split"), "b.1.2", "b"), refused)
    books.saw(Begin(TaskId("join"), "b.1.3", "b"), refused)
    books.saw(Look(TaskId("split")), Standing(*COMPLETE_SPLIT))


def test_a_commit_is_noticed_whose_output_is_not_synced() -> None:
    books = Books()
    written = (OutputFile(FileId("a"), 10), OutputFile(FileId("b"), 20))
    books.unsafe["a"].add(FileId("b"))

    with pytest.raises(InvariantBroken, match="split was committed before b was synced"):
        books.commit("split", "a.1.1", outputs=written)
    books.unsafe["a"].clear()
    books.commit("split", "a.1.1", outputs=written)


def test_what_others_have_not_synced_is_no_matter_to_a_commit() -> None:
    books = Books()
    books.unsafe["a"].add(FileId("c"))
    books.unsafe["b"].add(FileId("a"))

    books.commit("split", "a.1.1", outputs=(OutputFile(FileId("a"), 10),))


def test_a_run_whose_disks_do_not_sync_is_complained_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget_to_sync(disk: SimDisk) -> None:
        pass

    monkeypatch.setattr(SimDisk, "sync", forget_to_sync)

    with pytest.raises(InvariantBroken, match="split was committed before a was synced"):
        run_trial(a_diamond(), small_cluster(1), STRATEGIES["adage"], FaultPlan(), 1)


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


def test_a_renewal_that_is_refused_lengthens_nothing() -> None:
    books = Books()
    books.saw(Renew("a", 1, 0.0), Membership("a", False, False, -1, 0, 0.0, 0))
    books.join()
    books.now = 9.0
    books.saw(Renew("a", 1, 0.0), Membership("a", False, False, 2, 0, 0.0, 0))
    books.now = 10.5

    books.find_orphans_of("a")


def test_a_probe_lengthens_no_lease() -> None:
    books = Books()
    books.saw(Probe("b"), Membership("b", True, False, -1, 0, 0.0, 0))
    books.join()
    books.now = 9.0
    books.saw(Probe("a"), Membership("a", True, True, 1, 0, 0.0, 0))
    books.now = 10.5

    books.find_orphans_of("a")


def test_to_ask_after_a_node_that_is_up_or_was_reborn_is_not_to_declare_it_dead() -> None:
    books = Books()
    books.join(incarnation=2)

    books.saw(Seize("a", 2), Membership("a", True, True, 2, 0, 0.0, 0))
    books.saw(Seize("a", 1), Membership("a", False, True, 2, 0, 0.0, 0))

    with pytest.raises(InvariantBroken, match="split was taken from a, whose lease still holds"):
        books.take_over("split", incarnation=2)


def test_a_node_that_never_joined_has_no_lease_that_could_hold() -> None:
    books = Books()

    books.find_orphans_of("a", incarnation=1)
    books.take_over("split", "b", incarnation=1)


def test_an_earlier_life_may_be_declared_dead_at_any_time() -> None:
    books = Books()
    books.join(incarnation=2)

    books.find_orphans_of("a", incarnation=1)


def test_a_lease_is_kept_by_the_shard_of_its_node() -> None:
    books = Books(shards=5)
    for node in ("a", "b"):
        books.shard = Shard(shard_of(Probe(node), 5))
        books.join(node)
        books.shard = Shard((books.shard.index + 1) % 5)

        with pytest.raises(InvariantBroken, match=f"{node} was declared dead"):
            books.find_orphans_of(node)


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


def test_cores_are_free_again_once_a_task_has_run() -> None:
    books = Books()
    books.runs("left", "b", 1)

    books.checker.on_event(AttemptAdvanced(0.0, TaskId("left"), "b.1.1", "b", TaskState.STAGE_OUT))

    books.runs("right", "b", 2)


def test_a_task_takes_the_cores_it_asks_for_or_all_there_are() -> None:
    wf = WorkflowBuilder("wide")
    wf.task("wide", cores=2)
    wf.task("wider", cores=8)
    books = Books(wf.build())
    books.runs("wider", "b")
    books.runs("wide", "a")

    with pytest.raises(InvariantBroken, match="a runs more than its 2 cores can"):
        books.runs("wider", "a", 2)


def test_every_event_is_seen_and_most_are_no_news() -> None:
    books = Books()

    books.checker.on_event(NodeJoined(0.0, "a", 1))

    assert books.checker.checks == 1


def test_nothing_is_lost() -> None:
    books = Books()
    books.commit_all()

    with pytest.raises(InvariantBroken, match="1 tasks have no outcome"):
        books.checker.at_end(3, 0)
    with pytest.raises(InvariantBroken, match="1 tasks have no outcome"):
        books.checker.at_end(2, 1)
    books.checker.at_end(4, 0)


def test_a_task_that_failed_need_not_have_been_committed() -> None:
    books = Books()
    books.commit("split")

    books.checker.at_end(1, 3)


def test_a_task_that_was_removed_need_not_have_been_committed() -> None:
    books = Books()
    books.commit("split")

    books.checker.at_end(1, 0, 3)
    with pytest.raises(InvariantBroken, match="1 tasks have no outcome"):
        books.checker.at_end(1, 0, 2)


def test_a_removed_task_neither_starts_nor_completes() -> None:
    books = Books()
    books.commit("split")
    books.remove("left")

    with pytest.raises(InvariantBroken, match="left is finished, yet"):
        books.begin("left")
    with pytest.raises(InvariantBroken, match=r"left was removed, yet a\.1\.1 committed it"):
        books.commit("left")
    with pytest.raises(InvariantBroken, match="left was removed, yet now it is ready"):
        books.saw(Look(TaskId("left")), Standing(TaskId("left"), TaskState.READY, 0))


def test_a_task_is_removed_only_on_request_or_with_a_parent() -> None:
    books = Books()
    books.remove("left")

    books.hear_of_removal("join", "left")

    with pytest.raises(InvariantBroken, match="right was removed, which nobody asked for"):
        books.hear_of_removal("right", "split")


def test_nobody_is_told_of_a_parents_removal_that_did_not_happen() -> None:
    books = Books()
    books.remove("left")

    with pytest.raises(InvariantBroken, match="join was told that right was removed"):
        books.hear_of_removal("join", "right")


def test_a_removal_that_a_shard_forgot_may_never_have_been() -> None:
    books = Books()
    before = books.checker.snapshot(0)
    books.remove("split")

    books.checker.restore(0, before)

    books.commit("split")


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
