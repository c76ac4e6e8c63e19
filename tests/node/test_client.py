"""The client: a planned workflow comes into the store, and again if the store forgets it."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from builders import a_diamond
from dataward.model.answers import Standing
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import Occasion, TaskFinished
from dataward.model.ids import CLIENT, NOBODY
from dataward.model.messages import Stock, Stop, TellChildren, WorkQueued
from dataward.model.operations import (
    AddCopies,
    Begin,
    Commit,
    Copy,
    Enqueue,
    Forget,
    InputFile,
    OutputFile,
    Recounted,
    Remove,
    Submit,
    TaskSpec,
)
from dataward.model.states import TaskState
from dataward.model.workflow import Workflow
from dataward.node import client as module
from dataward.node.client import Client, files_ahead, task_specs
from dataward.node.homes import AdageHome, Home, HomeRule, Homes, View
from dataward.plan.adage import Plan
from dataward.plan.estimates import EXACT, Estimated, as_estimated
from node.fake_world import ARule, FakeWorld, a_queue_entry, a_task

NODES = ["n0", "n1"]


def to_n2(task: Standing, occasion: Occasion, view: View) -> Home:
    """What is ready goes to n2, whatever the plan prefers."""
    return Home("n2" if occasion is Occasion.READY else "n0")


class Place(FakeWorld):
    def __init__(
        self, *specs: TaskSpec, rule: HomeRule | None = None, shards: int = 1, **placed: list[str]
    ) -> None:
        super().__init__(rule=rule, shards=shards)
        homes = Homes("client", self.world.nodes, Random(1), self.client, rule or AdageHome())
        self.submitter = Client(
            self.client, homes, specs, placed, self.network.send, self.kernel, self.events.append
        )

    @property
    def woken(self) -> list[str]:
        return [node for node, _ in self.sent(WorkQueued)]

    def submit(self) -> None:
        self.do(self.submitter.submit())

    def remove(self, *tasks: str) -> list[Standing]:
        return self.do(self.submitter.remove(tasks))


# --- what a task is to the store -----------------------------------------------------------------


def certain(workflow: Workflow) -> Estimated:
    return as_estimated(workflow, EXACT, seed=0)


def specs(**options: object) -> dict[str, TaskSpec]:
    """The diamond's tasks, of which split and join prefer n1."""
    plan = Plan(np.array([0.5, 1.5, 2.5, 3.5]), np.array([1, 0, 0, 1], dtype=np.int32), None)
    found = task_specs(certain(a_diamond()), plan, NODES, **{"backups_max": 2, **options})  # type: ignore[arg-type]
    return {str(spec.id): spec for spec in found}


def test_a_task_knows_its_parents_children_files_and_where_each_file_is_from() -> None:
    join = specs()["join"]
    split = specs()["split"]

    assert (split.parents, split.children) == ((), ("left", "right"))
    assert (join.parents, join.children) == (("left", "right"), ())
    assert split.inputs == (InputFile("in", 5, ""),)
    assert join.inputs == (InputFile("c", 30, "left"), InputFile("d", 40, "right"))
    assert join.outputs == (OutputFile("out", 50),)


def test_a_task_has_its_plans_node_and_priority() -> None:
    found = specs()

    assert [spec.preferred for spec in found.values()] == ["n1", "n0", "n0", "n1"]
    assert [spec.priority for spec in found.values()] == [0.5, 1.5, 2.5, 3.5]
    assert [spec.estimated_seconds for spec in found.values()] == [1.0, 2.0, 3.0, 4.0]
    assert {spec.backups_max for spec in found.values()} == {2}
    assert {spec.retries for spec in found.values()} == {0}


def test_a_task_has_the_estimate_of_its_run_time_and_how_good_that_is() -> None:
    plan = Plan(np.zeros(4), np.zeros(4, dtype=np.int32), None)
    known = Estimated(a_diamond(), np.array([0.0, 0.5, 1.0, np.inf]))

    found = list(task_specs(known, plan, NODES, backups_max=0))

    assert [spec.estimated_seconds for spec in found] == [1.0, 2.0, 3.0, 4.0]
    assert [spec.estimated_spread for spec in found] == [0.0, 0.5, 1.0, np.inf]


def test_digests_of_inputs_are_told_where_they_are_known() -> None:
    found = specs(digests={"in": "abc"})

    assert found["split"].inputs[0].digest == "abc"
    assert found["left"].inputs[0].digest == ""


def test_a_tasks_own_retries_count_before_those_given_for_all() -> None:
    workflow = a_diamond()
    workflow = replace(workflow, retries=np.array([-1, 0, 3, -1], dtype=np.int32))
    plan = Plan(np.zeros(4), np.zeros(4, dtype=np.int32), None)

    found = task_specs(certain(workflow), plan, NODES, backups_max=0, retries=2)

    assert [spec.retries for spec in found] == [2, 0, 3, 2]


def test_a_task_brings_its_command_if_it_has_one() -> None:
    wf = WorkflowBuilder("two")
    wf.task("says", command=["echo", "hello"])
    wf.task("waits")
    plan = Plan(np.zeros(2), np.zeros(2, dtype=np.int32), None)

    found = task_specs(certain(wf.build()), plan, NODES, backups_max=0)

    assert [spec.command for spec in found] == [("echo", "hello"), ()]


def test_each_node_is_told_which_inputs_to_bring_in_ahead_in_the_order_of_the_plan() -> None:
    workflow = a_diamond()
    index = {file: number for number, file in enumerate(workflow.file_ids)}
    ahead = ((index["in"], 1), (index["c"], 0), (index["in"], 0), (index["c"], 1))
    plan = Plan(np.zeros(4), np.zeros(4, dtype=np.int32), None, ahead=ahead)

    found = files_ahead(workflow, plan, NODES, {"in": "abc"})
    specs = task_specs(certain(workflow), plan, NODES, backups_max=0)

    wanted = Stock((InputFile("in", 5, "", "abc"),))
    assert found == {"n1": wanted, "n0": wanted}
    # What a task writes is not there yet: the node that commits it will tell the others.
    assert {spec.id: spec.ahead for spec in specs if spec.ahead} == {
        "left": (("c", "n0"), ("c", "n1"))
    }


def test_a_node_is_told_who_has_an_input_first() -> None:
    workflow = a_diamond()
    file = workflow.file_ids.index("in")
    preferred = np.array([1, 0, 0, 0], dtype=np.int32)
    plan = Plan(np.zeros(4), preferred, None, ahead=((file, 1),), relays={(file, 1): 0})

    found = files_ahead(workflow, plan, NODES)
    specs = list(task_specs(certain(workflow), plan, NODES, backups_max=0))

    assert found == {"n1": Stock((InputFile("in", 5, "", relay="n0"),))}
    relays = {(spec.preferred, file.relay) for spec in specs for file in spec.inputs if file.relay}
    assert relays == {("n1", "n0")}


# --- submitting ----------------------------------------------------------------------------------


def test_places_of_inputs_come_first_then_tasks_that_wait_then_those_that_do_not() -> None:
    place = Place(a_task("first"), a_task("second", parents=("first",)), a_file=["n1", "n2"])

    place.submit()

    told = [op for op in place.log if isinstance(op, AddCopies | Submit)]
    assert told[0] == AddCopies("a_file", (Copy("a_file", "n1"), Copy("a_file", "n2")))
    assert [op.spec.id for op in told[1:] if isinstance(op, Submit)] == ["second", "first"]


def test_tasks_that_are_ready_are_queued_where_they_prefer_and_their_nodes_woken() -> None:
    place = Place(
        a_task("a", preferred="n1"), a_task("b", preferred="n2"), a_task("c", parents=("a",))
    )

    place.submit()

    assert place.asked(Enqueue) == [
        Enqueue("n1", (a_queue_entry("a"),)),
        Enqueue("n2", (a_queue_entry("b"),)),
    ]
    assert place.woken == ["n1", "n2"]


def test_first_tasks_go_where_the_strategys_rule_says_not_where_the_plan_prefers() -> None:
    place = Place(a_task("a", preferred="n1"), rule=ARule(to_n2))

    place.submit()

    assert place.asked(Enqueue) == [Enqueue("n2", (a_queue_entry("a"),))]
    assert place.woken == ["n2"]


def test_no_node_is_woken_before_the_store_has_its_tasks() -> None:
    place = Place(a_task())
    place.store.answers.clear()
    place.start(place.submitter.submit())
    assert place.woken == []

    place.store.answers.set()
    place.pass_time()

    assert place.woken == ["n0"]


def test_the_most_urgent_tasks_are_queued_while_others_are_still_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_BATCH", 1)
    monkeypatch.setattr(module, "BATCH", 3)
    tasks = [a_task(f"t{p}", priority=float(p)) for p in (6, 5, 4, 3, 2, 1, 0)]
    place = Place(*tasks)

    place.submit()

    batches = [[e.task for e in op.entries] for op in place.asked(Enqueue)]
    assert batches == [["t0"], ["t1", "t2"], ["t3", "t4", "t5"], ["t6"]]


def test_nodes_have_turns_between_one_batch_of_ready_tasks_and_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_BATCH", 1)
    place = Place(a_task("a"), a_task("b"))
    known_by_then = []

    async def a_node() -> None:
        while not place.woken:
            await place.kernel.sleep(0)
        known_by_then.append(len(place.asked(Submit)))

    place.kernel.spawn(a_node())
    place.submit()
    place.pass_time()

    assert known_by_then == [1]


def test_no_call_is_larger_than_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 3)
    place = Place(*(a_task(f"t{i}", parents=("p",)) for i in range(7)))

    place.submit()

    assert [len(call) for call in place.store.calls] == [3, 3, 1]
    assert [op.spec.id for op in place.asked(Submit)] == [f"t{i}" for i in range(7)]


def test_submitted_again_a_task_that_runs_or_has_finished_is_not_queued_again() -> None:
    place = Place(a_task("done"), a_task("runs"), a_task("ready"))
    place.submit()
    place.have(Begin("done", "n0.1.1", "n0"), Commit("done", "n0.1.1", "n0", (), 1))
    place.have(Begin("runs", "n0.1.2", "n0"))
    place.log.clear()

    place.submit()

    assert place.asked(Enqueue) == [Enqueue("n0", (a_queue_entry("ready"),))]


def test_tasks_that_were_only_submitted_are_queued_and_those_that_wait_or_run_are_not() -> None:
    tasks = (a_task("ready"), a_task("runs"), a_task("waits", parents=("ready",)))
    place = Place(*tasks)
    place.have(*(Submit(task) for task in tasks), Begin("runs", "n0.1.1", "n0"))

    place.do(place.submitter.queue_ready())

    assert place.asked(Enqueue) == [Enqueue("n0", (a_queue_entry("ready"),))]
    assert place.woken == ["n0"]


# --- removing ------------------------------------------------------------------------------------


def a_chain() -> tuple[TaskSpec, TaskSpec]:
    return a_task("t", preferred="n2", children=("child",)), a_task("child", made_by="t")


def test_a_removed_task_is_reported_and_a_node_is_asked_to_tell_its_children() -> None:
    place = Place(*a_chain())
    place.submit()
    place.network.sent.clear()

    (standing,) = place.remove("t")

    assert (standing.state, standing.granted) == (TaskState.REMOVED, True)
    removed = TaskState.REMOVED
    assert place.told(TaskFinished) == [TaskFinished(0.0, "t", NOBODY, CLIENT, removed, 1)]
    assert place.network.sent == [
        ("n2", Stop("t", 1)),
        ("n2", TellChildren("t", 1, ("child",))),
    ]


def test_every_node_that_may_have_a_removed_task_is_told_to_stop() -> None:
    place = Place(a_task("t", preferred="n2"))
    place.submit()
    place.have(Begin("t", "n1.1.1", "n1"))

    place.remove("t")

    assert [node for node, _ in place.sent(Stop)] == ["n1", "n2"]


def test_a_complete_task_stays_and_nobody_is_told_anything() -> None:
    place = Place(*a_chain())
    place.submit()
    place.have(Begin("t", "n0.1.1", "n0"), Commit("t", "n0.1.1", "n0", (), 1))
    place.network.sent.clear()

    (standing,) = place.remove("t")

    assert (standing.state, standing.granted) == (TaskState.COMPLETE, False)
    assert (place.told(TaskFinished), place.network.sent) == ([], [])


def test_a_removal_that_fails_is_repeated_until_the_store_answers() -> None:
    place = Place(a_task("t"))
    place.submit()
    place.store.failures_left = 2

    place.remove("t")

    assert place.asked(Remove) == [Remove("t")] * 3
    assert place.known("t").state is TaskState.REMOVED


# --- watching ------------------------------------------------------------------------------------


def test_all_is_submitted_again_once_after_each_loss_of_any_shard() -> None:
    place = Place(a_task(), shards=2)
    place.submit()
    place.log.clear()
    place.start(place.submitter.watch(10.0))

    submitted = []
    for lost in (None, 1, None, 0):
        if lost is not None:
            place.store.lose_writes(lost)
        place.pass_time(10.0)
        submitted.append(len(place.asked(Submit)))

    assert submitted == [0, 1, 1, 2]
    assert all(submit.again for submit in place.asked(Submit))
    assert place.asked(Recounted)[:2] == [Recounted(0, 0), Recounted(1, 0)]


def test_what_the_store_forgot_it_knows_again() -> None:
    place = Place(a_task())
    place.submit()
    place.have(Begin("t", "n0.1.1", "n0"), Commit("t", "n0.1.1", "n0", (), 1), Forget("t"))
    place.start(place.submitter.watch(10.0))

    place.store.lose_writes()
    place.pass_time(10.0)

    assert place.known("t").spec.id == "t"


def test_what_was_removed_is_removed_again_after_a_loss_and_nothing_else_is() -> None:
    place = Place(a_task("gone"), a_task("stays"), a_task("done"))
    place.submit()
    place.have(Begin("done", "n0.1.1", "n0"), Commit("done", "n0.1.1", "n0", (), 1))
    place.remove("gone", "done")
    place.start(place.submitter.watch(10.0))
    place.log.clear()

    place.have(Forget("gone"))
    place.store.lose_writes()
    place.pass_time(10.0)

    assert place.asked(Remove) == [Remove("gone")]
    assert place.known("gone").state is TaskState.REMOVED
    assert place.known("stays").state is TaskState.READY
