"""CPFL at work: shared inputs are there before the tasks that read them are ready."""

import pytest

from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import FileMoved
from dataward.model.states import TaskState
from dataward.model.workflow import Workflow
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import MB, cheap, machines, simulate

CPFL = STRATEGIES["cpfl"]
FAST = {"disk_bytes_per_second": 1e18}


def late_readers() -> Workflow:
    """Two tasks of 30 s, and after each one that reads the same 1,000 MB."""
    wf = WorkflowBuilder("late readers")
    wf.file("reference", 1000 * MB)
    for i in range(2):
        wf.task(f"first{i}", outputs=[f"o{i}"], runtime_seconds=30.0)
        wf.task(f"then{i}", inputs=["reference", f"o{i}"], runtime_seconds=5.0)
    return wf.build()


def test_a_shared_input_comes_while_tasks_run_that_do_not_need_it() -> None:
    platform = cheap(*machines(2, **FAST))

    run = simulate(late_readers(), platform, CPFL)

    moved = [event for event in run.all(FileMoved) if event.file == "reference"]
    assert {event.target for event in moved} == {"n0", "n1"}
    assert all(event.at < 30.0 for event in moved)
    assert run.makespan == pytest.approx(35.0, abs=0.1)
    assert simulate(late_readers(), platform, STRATEGIES["adage"]).makespan > 42.0


def test_tasks_run_where_their_shared_inputs_were_brought() -> None:
    workflow = generate("coadd", 60, seed=1)
    platform = cheap(*machines(4, cores=2))

    run = simulate(workflow, platform, CPFL)

    plan = CPFL.plan(workflow, platform, {}, 0)
    at = [platform.machines[node].id for node in plan.preferred.tolist()]
    ran = {id: record.winner.split(".")[0] for id, record in run.records.items()}
    assert ran == dict(zip(workflow.task_ids, at, strict=True))
    assert run.summary.attempts == len(workflow)
    planned = {(workflow.file_ids[file], f"n{node}") for file, node in plan.ahead}
    assert planned <= {(event.file, event.target) for event in run.all(FileMoved)}


def test_less_is_moved_than_by_a_plan_that_places_nothing_beforehand() -> None:
    workflow, platform = generate("coadd", 200, seed=1), cheap(*machines(8, cores=2))

    cpfl, adage = (simulate(workflow, platform, STRATEGIES[name]) for name in ("cpfl", "adage"))

    assert cpfl.summary.bytes_moved < 0.5 * adage.summary.bytes_moved


def test_a_node_that_is_back_from_a_crash_needs_no_files_brought_ahead() -> None:
    def crash(simulation):  # type: ignore[no-untyped-def]
        simulation.kernel.call_at(3.0, simulation.crash, "n1")
        simulation.kernel.call_at(20.0, simulation.boot, "n1")

    run = simulate(late_readers(), cheap(*machines(2, **FAST)), CPFL, meddle=crash)

    assert {record.state for record in run.records.values()} == {TaskState.COMPLETE}
