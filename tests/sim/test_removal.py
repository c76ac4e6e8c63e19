"""Tasks that somebody removes while a workflow runs: they and what depends on them, and no more."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_diamond, workflows
from dataward.generate import generate
from dataward.model.events import AttemptAdvanced, Event, TaskFinished
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId, Workflow
from dataward.sim.campaign import drawn_removals, impatient, run_trial, small_cluster
from dataward.sim.faults import FaultPlan
from dataward.sim.healing import Healing
from dataward.sim.simulation import Removal, Simulation
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import (
    React,
    Run,
    adage,
    cheap,
    descendants,
    equal_tasks,
    machines,
    simulate,
    soon,
)


def ended(run: Run, state: TaskState) -> set[str]:
    return {id for id, record in run.records.items() if record.state is state}


def when_it_runs(task: str) -> React:
    """Remove a task as soon as an attempt of it runs."""

    def react(simulation: Simulation, event: Event) -> None:
        runs = isinstance(event, AttemptAdvanced) and event.state is TaskState.RUNNING
        if runs and event.task == task:
            soon(simulation, simulation.remove, TaskId(task))

    return react


@given(workflows(max_tasks=12), st.data())
@settings(max_examples=40, deadline=None)
def test_a_removal_takes_descendants_along_and_no_others(
    workflow: Workflow, data: st.DataObject
) -> None:
    ids = [str(task) for task in workflow.task_ids]
    unwanted = data.draw(st.sets(st.sampled_from(ids), max_size=3), label="unwanted")

    run = simulate(
        workflow,
        cheap(*machines(3)),
        removals=[Removal(TaskId(task), 0.0) for task in sorted(unwanted)],
    )

    gone = descendants(workflow, unwanted)
    # A task may have come to its end before the last one was submitted, and so would its parents.
    assert ended(run, TaskState.REMOVED) <= gone
    assert ended(run, TaskState.COMPLETE) == set(ids) - ended(run, TaskState.REMOVED)
    for task in unwanted & ended(run, TaskState.REMOVED):
        assert descendants(workflow, [task]) <= ended(run, TaskState.REMOVED)
    told = Counter(event.task for event in run.all(TaskFinished))
    assert told == dict.fromkeys(ids, 1)


def test_a_running_task_is_stopped_and_those_after_it_never_begin() -> None:
    run = simulate(
        a_diamond(), cheap(*machines(2)), adage(giving=False), react=when_it_runs("left")
    )

    assert run.ends("left") == [(run.ends("left")[0][0], "cancelled")]
    assert run.ends("join") == []
    assert ended(run, TaskState.REMOVED) == {"left", "join"}
    assert ended(run, TaskState.COMPLETE) == {"split", "right"}
    assert run.outcome is not None
    assert (run.outcome.complete, run.outcome.failed, run.outcome.removed) == (2, 0, 2)


def test_the_core_of_a_removed_task_is_free_at_once_for_another() -> None:
    run = simulate(
        equal_tasks(2, 10.0),
        cheap(*machines(1)),
        removals=[Removal(TaskId("t0"), 4.0)],
    )

    assert run.times(TaskState.RUNNING)["t1"] == pytest.approx(4.0)
    assert run.makespan == pytest.approx(14.0)


def test_a_task_in_a_queue_is_removed_before_it_runs() -> None:
    run = simulate(
        equal_tasks(2, 10.0),
        cheap(*machines(1)),
        adage(giving=False),
        removals=[Removal(TaskId("t1"), 4.0)],
    )

    assert run.makespan == pytest.approx(10.0)
    assert "t1" not in run.times(TaskState.RUNNING)


def test_a_complete_task_stays_and_so_does_what_depends_on_it() -> None:
    def react(simulation: Simulation, event: Event) -> None:
        if isinstance(event, TaskFinished) and event.task == "split":
            soon(simulation, simulation.remove, TaskId("split"))

    run = simulate(a_diamond(), cheap(*machines(2)), react=react)

    assert ended(run, TaskState.COMPLETE) == {"split", "left", "right", "join"}


def test_a_run_of_which_all_is_removed_ends() -> None:
    run = simulate(
        equal_tasks(3),
        cheap(*machines(2)),
        removals=[Removal(TaskId(f"t{i}"), 1.0) for i in (0, 1, 2)],
    )

    assert run.makespan == pytest.approx(1.0)
    assert ended(run, TaskState.REMOVED) == {"t0", "t1", "t2"}


@pytest.mark.parametrize("name", STRATEGIES)
def test_by_every_strategy_a_removal_in_fair_weather_leaves_nothing_to_heal(name: str) -> None:
    montage = generate("montage", 30, seed=1)
    removals = [Removal(task, 7.0 * i) for i, task in enumerate(montage.task_ids[1::9])]

    trial = run_trial(
        montage,
        small_cluster(3, nodes=4),
        impatient(STRATEGIES[name], 3),
        FaultPlan(),
        3,
        removals=removals,
    )

    assert trial.outcome.removed > 0
    assert trial.outcome.complete + trial.outcome.removed == len(montage)
    assert trial.healing == Healing()


@pytest.mark.parametrize("seed", range(12))
def test_a_removal_that_shards_forget_comes_to_an_end_all_the_same(seed: int) -> None:
    montage = generate("montage", 30, seed=1)
    platform = small_cluster(seed, nodes=4)
    removals = [Removal(task, 2.0 + 3.0 * i) for i, task in enumerate(montage.task_ids[seed::8])]

    run_trial(
        montage,
        platform,
        impatient(STRATEGIES["adage"], seed),
        FaultPlan(forgetful=6, forget_seconds=20.0, message_loss=0.2, store_silence=0.05),
        seed,
        removals=removals,
    )


def test_a_quarter_of_the_seeds_draw_removals_and_the_same_ones_each_time() -> None:
    montage = generate("montage", 30, seed=1)
    drawn = {seed: drawn_removals(montage, small_cluster(seed), seed) for seed in range(200)}

    assert 30 < sum(bool(removals) for removals in drawn.values()) < 70
    assert {len(removals) for removals in drawn.values()} == {0, 1, 3}
    assert drawn[7] == drawn_removals(montage, small_cluster(7), 7)
