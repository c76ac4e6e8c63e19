"""The simulator is asked which strategy would be best, for a time that is small beside the run."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import a_diamond
from dataward import WorkflowBuilder
from dataward.generate import generate
from dataward.live.slice import Slice
from dataward.model.workflow import Workflow
from dataward.plan.estimates import Estimated, Estimates, as_estimated
from dataward.runs.best_strategy import CANDIDATES, Choice, best_of, choose_strategy
from dataward.runs.known_times import estimated_from
from dataward.strategies.registry import STRATEGIES
from runs.conftest import Run


def chosen(known: Estimated, machine: Slice, timer: Callable[[], float] = lambda: 0.0) -> Choice:
    tasks = list(range(len(known.workflow)))
    return choose_strategy(known, tasks, [], known, machine, timer)


def a_long_run() -> Estimated:
    return as_estimated(generate("montage", 40, 1), Estimates(0.3), 1)


def test_on_one_node_nothing_is_tried() -> None:
    choice = chosen(a_long_run(), Slice(1, 8))

    assert choice.seconds == {}
    assert choice.sentence == "strategy dataward: on one node all strategies do nearly the same"


def test_without_run_times_nothing_is_tried() -> None:
    wf = WorkflowBuilder("untimed")
    wf.task("a")

    choice = chosen(estimated_from(wf.build(), {}), Slice(2, 2))

    assert (choice.name, choice.seconds) == ("dataward", {})
    assert "too little is known" in choice.why


def test_beside_a_short_run_nothing_is_tried() -> None:
    choice = chosen(as_estimated(short(a_diamond()), Estimates(0.3), 1), Slice(2, 2))

    assert (choice.name, choice.seconds) == ("dataward", {})
    assert "would take long beside a run of" in choice.why


def short(workflow: Workflow) -> Workflow:
    return replace(workflow, runtime_seconds=workflow.runtime_seconds * 1e-3)


def test_while_there_is_time_all_candidates_are_tried_on_the_real_nodes() -> None:
    choice = chosen(a_long_run(), Slice(4, 2))

    assert tuple(choice.seconds) == CANDIDATES
    assert choice.name in CANDIDATES
    assert choice.seconds[choice.name] <= choice.seconds["dataward"]
    assert "5 tried in 0.0 s" in choice.why


def test_when_the_time_is_up_two_have_been_tried() -> None:
    hours = iter(range(0, 10**9, 3600))

    choice = chosen(a_long_run(), Slice(4, 2), lambda: float(next(hours)))

    assert tuple(choice.seconds) == CANDIDATES[:2]


def test_every_candidate_is_a_strategy() -> None:
    assert set(CANDIDATES) <= set(STRATEGIES)


def test_the_soonest_is_chosen_and_said_by_how_much() -> None:
    choice = best_of(
        {"dataward": [10.0, 20.0], "heft-links": [8.0, 19.0], "peft": [30.0, 30.0]}, 0.94
    )

    assert choice.name == "heft-links"
    assert choice.sentence == (
        "strategy heft-links: 13.5 s expected, 10% sooner than dataward (3 tried in 0.9 s)"
    )


@pytest.mark.parametrize("other", [9.95, 10.0, 99.0])
def test_who_is_hardly_sooner_is_not_worth_it(other: float) -> None:
    choice = best_of({"dataward": [10.0], "heft-links": [other]}, 0.5)

    assert (
        choice.sentence
        == "strategy dataward: 10.0 s expected, none is 1% sooner (2 tried in 0.5 s)"
    )


def test_tasks_that_take_no_time_make_no_difference() -> None:
    assert best_of({"dataward": [0.0], "peft": [0.0]}, 0.1).name == "dataward"


# --- by the command line -------------------------------------------------------------------------


def two_tasks() -> WorkflowBuilder:
    wf = WorkflowBuilder("two")
    wf.command("true > {outputs}", outputs=["a"], id="a")
    wf.command("cat {inputs} > {outputs}", inputs=["a"], outputs=["b"], id="b")
    return wf


def test_a_run_says_what_was_chosen_and_why(run: Run) -> None:
    one = run(two_tasks(), "--strategy", "best", text=True)
    several = run(two_tasks(), "--strategy", "best", "--nodes", "2", "--force", "a")

    assert one.err.startswith("strategy dataward: on one node all strategies do nearly the same\n")
    assert several.facts["strategy"] == "dataward"
    assert several.facts["choice"].startswith("strategy dataward: trying others would take long")
    assert several.err == ""


def test_a_run_that_nobody_chose_a_strategy_for_says_nothing_of_it(run: Run) -> None:
    end = run(two_tasks())

    assert (end.facts["strategy"], end.facts["choice"]) == ("dataward", None)


def test_where_nothing_is_left_to_run_nothing_is_compared(run: Run) -> None:
    run(two_tasks())

    end = run(two_tasks(), "--strategy", "best", "--nodes", "2")

    assert end.facts["choice"] == "strategy dataward: nothing is left to run"


def test_the_best_strategy_is_tried_as_it_is(run: Run) -> None:
    end = run(two_tasks(), "--strategy", "best", "--set", "validation_seconds=3", text=True)

    assert end.code == 2
    assert "name one to set validation_seconds=3" in end.err
