"""The static strategies: nodes do what the plan says, when it says so."""

from dataclasses import replace
from itertools import permutations

import pytest

from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptBegan, TaskFinished
from dataward.model.platform import Placement, Platform
from dataward.model.states import TaskState
from dataward.model.workflow import Workflow
from dataward.plan.adage import Plan
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import MB, Run, cheap, machines, simulate

STATIC = ("heft", "heft-links", "peft", "random")
PLANNED = ("heft", "heft-links", "peft")
# Disks take no time: plans do not count them.
FAST = {"disk_bytes_per_second": 1e18}
SLIGHTLY = 1e-3  # from a parent's end to the ready queue


def plan_of(name: str, workflow: Workflow, platform: Platform) -> Plan:
    return STRATEGIES[name].plan(workflow, platform, {}, 0)


def nodes_used(run: Run) -> dict[str, str]:
    return {id: record.winner.split(".")[0] for id, record in run.records.items()}


@pytest.mark.parametrize("name", STATIC)
def test_every_task_runs_once_on_the_node_it_was_planned_for(name: str) -> None:
    workflow, platform = generate("cybershake", 60, seed=2), cheap(*machines(5, cores=2))

    run = simulate(workflow, platform, STRATEGIES[name])

    plan = plan_of(name, workflow, platform)
    at = [platform.machines[node].id for node in plan.preferred.tolist()]
    assert nodes_used(run) == dict(zip(workflow.task_ids, at, strict=True))
    assert run.summary.attempts == len(workflow)
    assert run.summary.given == run.summary.replicas_run == 0


def unlike_nodes() -> Platform:
    slow, quick = machines(2, cores=2, speed=0.7, **FAST), machines(3, speed=2.0, **FAST)[2:]
    return cheap(*slow, *quick)


@pytest.mark.parametrize("name", PLANNED)
def test_tasks_that_wait_for_nothing_start_when_planned(name: str) -> None:
    wf = WorkflowBuilder("bag")
    for i in range(40):
        wf.task(f"t{i}", runtime_seconds=1.0 + (i * 7) % 40)
    workflow, platform = wf.build(), unlike_nodes()

    run = simulate(workflow, platform, STRATEGIES[name])

    plan = plan_of(name, workflow, platform)
    planned = dict(zip(workflow.task_ids, plan.priority.tolist(), strict=True))
    assert run.times(TaskState.RUNNING) == pytest.approx(planned, abs=1e-6)
    assert run.makespan == pytest.approx(plan.estimated_makespan_seconds, abs=1e-6)


@pytest.mark.parametrize("name", STATIC)
def test_of_the_tasks_that_are_ready_a_node_begins_the_one_planned_first(name: str) -> None:
    workflow, platform = generate("montage", 80, seed=1), unlike_nodes()

    run = simulate(workflow, platform, STRATEGIES[name])

    plan = plan_of(name, workflow, platform)
    finished = {event.task: event.at for event in run.all(TaskFinished)}
    began = {event.task: event.at for event in run.all(AttemptBegan)}
    ids = workflow.task_ids
    ready = [
        max([finished[ids[p]] for p in parents], default=0.0) for parents in workflow.parents.rows()
    ]
    overtaken = [
        (ids[one], ids[other])
        for one, other in permutations(range(len(ids)), 2)
        if plan.preferred[one] == plan.preferred[other]
        and plan.priority[one] < plan.priority[other]
        and began[ids[one]] > began[ids[other]] > ready[one] + SLIGHTLY
    ]
    assert overtaken == []


def test_where_links_are_not_shared_heft_foresees_every_start() -> None:
    wf = WorkflowBuilder("chains")
    for i in range(4):
        wf.file(f"in{i}", 100 * MB)
        wf.file(f"mid{i}", 50 * MB)
        wf.task(f"a{i}", inputs=[f"in{i}"], outputs=[f"mid{i}"], runtime_seconds=2.0 + i)
        wf.task(f"b{i}", inputs=[f"mid{i}"], runtime_seconds=3.0)
    workflow, platform = wf.build(), cheap(*machines(4, **FAST))

    for name in PLANNED:
        run = simulate(workflow, platform, STRATEGIES[name])

        plan = plan_of(name, workflow, platform)
        assert run.makespan == pytest.approx(plan.estimated_makespan_seconds, rel=1e-6), name


def test_heft_with_links_foresees_that_a_link_is_shared_and_heft_does_not() -> None:
    wf = WorkflowBuilder("one link")
    for i in range(2):
        wf.file(f"in{i}", 1000 * MB)
        wf.task(f"t{i}", inputs=[f"in{i}"], runtime_seconds=5.0)
    workflow, platform = wf.build(), cheap(*machines(1, cores=2, **FAST))

    run = simulate(workflow, platform, STRATEGIES["heft-links"])

    def planned(name: str) -> float | None:
        return plan_of(name, workflow, platform).estimated_makespan_seconds

    assert planned("heft") == planned("peft") == 8.0 + 5.0
    assert planned("heft-links") == pytest.approx(16.0 + 5.0)
    assert run.makespan == pytest.approx(planned("heft-links"), rel=1e-6)


@pytest.mark.parametrize("name", PLANNED)
def test_inputs_that_nodes_have_are_used_there(name: str) -> None:
    workflow = generate("montage", 60, seed=1)
    spread = replace(cheap(*machines(4)), placement=Placement.SPREAD)

    moved = simulate(workflow, spread, STRATEGIES[name]).summary.bytes_moved

    assert moved < simulate(workflow, spread, STRATEGIES["random"]).summary.bytes_moved
