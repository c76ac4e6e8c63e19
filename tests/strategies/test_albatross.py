"""Albatross: tasks go to their data, unless it is overloaded."""

from dataclasses import replace

from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import AttemptBegan, Occasion, TaskPlaced
from dataward.model.platform import Placement, uniform_platform
from dataward.model.workflow import Workflow
from dataward.strategies.choosing import changed_strategy
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import MB, Run, simulate

ALBATROSS = STRATEGIES["albatross"]
FOUR = uniform_platform(4, cores=1)


def a_fan(children: int, seconds: float) -> Workflow:
    """One task writes a file that many read."""
    wf = WorkflowBuilder("fan")
    wf.file("big", 100 * MB)
    wf.task("first", outputs=["big"], runtime_seconds=1.0)
    for child in range(children):
        wf.task(f"child{child}", inputs=["big"], runtime_seconds=seconds)
    return wf.build()


def nodes_of(run: Run) -> set[str]:
    return {event.node for event in run.all(AttemptBegan) if event.task != "first"}


def test_children_run_where_their_data_is_while_that_has_time() -> None:
    assert len(nodes_of(simulate(a_fan(8, 1.0), FOUR, ALBATROSS))) == 1


def test_other_nodes_run_those_that_an_overloaded_one_has_no_time_for() -> None:
    run = simulate(a_fan(40, 10.0), FOUR, ALBATROSS)

    assert len(nodes_of(run)) == 4
    assert run.makespan < 250.0  # 401 s on one node


def test_a_task_that_was_taken_goes_to_its_data_once_that_has_time() -> None:
    run = simulate(a_fan(40, 3.0), FOUR, ALBATROSS)

    taken = [e.task for e in run.all(TaskPlaced) if e.occasion is Occasion.TAKEN]
    assert taken
    assert len(taken) == len(set(taken))  # none goes to and fro


def test_a_node_that_is_never_overloaded_is_sent_everything() -> None:
    patient = changed_strategy(ALBATROSS, ["overload_seconds=1e9"])

    assert len(nodes_of(simulate(a_fan(40, 10.0), FOUR, patient))) == 1


def test_fewer_bytes_are_moved_than_by_a_plan_that_knows_no_data() -> None:
    spread = replace(FOUR, placement=Placement.SPREAD)
    workflow = generate("montage", 60, seed=1)

    moved = {
        name: simulate(workflow, spread, STRATEGIES[name]).summary.bytes_moved
        for name in ("albatross", "adage-no-data")
    }

    assert moved["albatross"] < moved["adage-no-data"]
