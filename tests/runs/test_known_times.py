"""Run times and sizes of earlier runs are what the next run is planned with."""

from dataclasses import replace
from math import inf
from pathlib import Path

import msgspec
import pytest

from builders import a_diamond
from dataward import WorkflowBuilder
from dataward.model.operations import OutputFile
from dataward.model.workflow import Workflow
from dataward.node.client import Client
from dataward.runs.known_times import (
    DECLARED_SPREAD,
    MEASURED_SPREAD,
    estimated_from,
    measured_seconds,
)
from dataward.runs.outcomes import Outcome, load_outcomes, save_outcomes
from dataward.runs.run_directory import RunDirectory
from runs.real_runs import LOG, RUN_DIRECTORY, log_line


def an_outcome(seconds: float, **written: int) -> Outcome:
    outputs = tuple(OutputFile(file, size, "a digest") for file, size in written.items())
    return Outcome("a recipe", (), outputs, 1, "n0.1.1", seconds)


def typed(**seconds: float) -> Workflow:
    """Tasks named as type_number, with these run times."""
    wf = WorkflowBuilder("typed")
    for name, one in seconds.items():
        wf.task(name, name=name, runtime_seconds=one)
    return wf.build()


# --- what is known -------------------------------------------------------------------------------


def test_of_a_first_run_the_author_is_believed_and_0_is_unknown() -> None:
    known = estimated_from(typed(sort_1=5.0, sort_2=0.0), {})

    assert known.workflow.runtime_seconds.tolist() == [5.0, 0.0]
    assert known.spread.tolist() == [DECLARED_SPREAD, inf]


def test_what_was_measured_before_is_known_better_than_what_was_declared() -> None:
    known = estimated_from(typed(sort_1=5.0), {"sort_1": an_outcome(0.25)})

    assert known.workflow.runtime_seconds.tolist() == [0.25]
    assert known.spread.tolist() == [MEASURED_SPREAD]
    assert MEASURED_SPREAD < DECLARED_SPREAD


def test_a_workflow_that_a_run_has_measured_is_as_good_as_an_earlier_run() -> None:
    known = estimated_from(replace(typed(sort_1=5.0), is_measured=True), {})

    assert known.spread.tolist() == [MEASURED_SPREAD]


def test_a_new_task_is_guessed_to_take_as_long_as_others_of_its_type_did() -> None:
    workflow = typed(sort_1=0.0, sort_2=0.0, sort_3=0.0, join_4=0.0, split_5=0.0)
    outcomes = {"sort_1": an_outcome(2.0), "sort_2": an_outcome(4.0), "join_4": an_outcome(90.0)}

    known = estimated_from(workflow, outcomes)

    assert known.workflow.runtime_seconds.tolist() == [2.0, 4.0, 3.0, 90.0, 32.0]
    assert known.spread.tolist() == [MEASURED_SPREAD, MEASURED_SPREAD, inf, MEASURED_SPREAD, inf]


def test_what_is_declared_is_corrected_by_how_wrong_the_author_was_before() -> None:
    tasks = {f"sort_{i}": 10.0 for i in range(20)}
    outcomes = {task: an_outcome(1.0) for task in list(tasks)[1:]}

    known = estimated_from(typed(**tasks), outcomes)

    assert known.workflow.runtime_seconds[0] == pytest.approx(1.0, rel=0.15)
    assert known.spread[0] == DECLARED_SPREAD


def test_a_task_that_only_failed_has_no_run_time() -> None:
    failed = Outcome("", (), (), 1, "n0.1.1", 0.0, "it broke")

    assert measured_seconds(typed(sort_1=5.0), {"sort_1": failed}).tolist() == [0.0]
    assert estimated_from(typed(sort_1=5.0), {"sort_1": failed}).workflow.runtime_seconds[0] == 5.0


def test_files_are_as_large_as_they_were_and_inputs_as_large_as_they_are() -> None:
    outcomes = {"split": an_outcome(1.0, a=1000), "gone": an_outcome(1.0, **{"in": 77})}

    known = estimated_from(a_diamond(), outcomes).workflow

    sizes = dict(zip(known.file_ids, known.size_bytes.tolist(), strict=True))
    assert sizes == {"in": 5, "a": 1000, "b": 20, "c": 30, "d": 40, "out": 50}


# --- for real ------------------------------------------------------------------------------------


def three_tasks() -> WorkflowBuilder:
    """Tasks that do not know of each other, without run times; ids say who comes first at first."""
    wf = WorkflowBuilder("three")
    for task in ("a", "b", "c"):
        wf.command(f"{log_line(task)}; echo {task} > {task}.out", outputs=[f"{task}.out"], id=task)
    return wf


def order_of_runs() -> list[str]:
    path = Path(LOG)
    found = path.read_text().split()
    path.unlink()
    return found


def remember_otherwise(**seconds: float) -> None:
    """Have the earlier runs of these tasks taken so long."""
    path = RunDirectory(RUN_DIRECTORY).outcomes
    outcomes = load_outcomes(path)
    for task, one in seconds.items():
        outcomes[task] = msgspec.structs.replace(outcomes[task], seconds=one)
    save_outcomes(path, outcomes)


def test_a_second_run_begins_with_what_took_longest_in_the_first(run) -> None:
    everything = ("--force", "a", "--force", "b", "--force", "c")
    run(three_tasks(), "--slots", "1")
    assert order_of_runs() == ["a", "b", "c"]
    remember_otherwise(a=1.0, b=2.0, c=300.0)

    run(three_tasks(), "--slots", "1", *everything)

    assert order_of_runs() == ["c", "b", "a"]


def test_the_nodes_of_a_second_run_are_told_what_the_first_one_measured(run, monkeypatch) -> None:
    specs = []

    class Noted(Client):
        async def submit(self) -> None:
            specs.append({spec.id: spec for spec in self.specs})
            await super().submit()

    monkeypatch.setattr("dataward.runs.workflow_run.Client", Noted)
    run(three_tasks())
    measured = load_outcomes(RunDirectory(RUN_DIRECTORY).outcomes)

    run(three_tasks(), "--force", "b")

    first, second = specs
    assert {spec.estimated_seconds for spec in first.values()} == {0.0}
    assert {spec.estimated_spread for spec in first.values()} == {inf}
    assert second["b"].estimated_seconds == measured["b"].seconds > 0
    assert second["b"].estimated_spread == MEASURED_SPREAD
    assert second["b"].outputs[0].size_bytes == len("b\n")
