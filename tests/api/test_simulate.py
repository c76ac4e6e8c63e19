"""Workflows simulated from Python: the same kind of report as of a real run."""

import json
from pathlib import Path

import pytest

import dataward
from dataward import WorkflowBuilder, generate, write_workflow
from dataward.cli.main import main
from dataward.errors import SettingError
from dataward.model.events import TaskFinished
from dataward.runs.run_directory import RunState


def test_a_simulation_is_what_the_command_says_of_it(capsys):
    workflow = generate("montage", 60, seed=1)
    write_workflow(workflow, "montage.json")
    with pytest.raises(SystemExit):
        main(["simulate", "montage.json", "--nodes", "4", "--faults", "crashes", "--json"])
    (said,) = json.loads(capsys.readouterr().out)

    report = dataward.simulate("montage.json", nodes=4, faults="crashes")

    assert report.summary.makespan_seconds == said["makespan_seconds"]
    assert report.bound_seconds == said["lower_bound_seconds"]
    assert report.summary.complete == said["complete"] == 60


def test_a_simulated_report_answers_as_one_of_a_real_run():
    report = dataward.simulate(generate("montage", 30, seed=1), nodes=2, strategy="adage")

    report.draw("run.svg")

    assert report.state is RunState.COMPLETE
    assert sum(isinstance(event, TaskFinished) for event in report.events()) == 30
    assert " ran once on n" in report.why(report.workflow.task_ids[0])
    assert Path("run.svg").read_text().startswith("<svg")
    assert report.outputs == {}
    assert report.logs(report.workflow.task_ids[0]).stdout == b""


def test_a_simulation_from_which_a_task_is_removed_is_partial():
    wf = WorkflowBuilder("two")
    wf.task("a", outputs=["x"], runtime_seconds=2.0)
    wf.task("b", inputs=["x"], runtime_seconds=3.0)

    report = dataward.simulate(wf, nodes=1, removals=["a@1"])

    assert (report.state, report.is_complete) == (RunState.PARTIAL, False)
    assert report.summary.removed == 2
    assert report.why("a") == "a was removed while it ran on n0"
    assert report.why("b") == "b was removed with a, which it depends on"


def test_a_builder_is_simulated_as_it_would_be_run():
    wf = WorkflowBuilder("two")
    wf.task("a", outputs=["x"], runtime_seconds=2.0)
    wf.task("b", inputs=["x"], runtime_seconds=3.0)

    assert dataward.simulate(wf, nodes=1).summary.makespan_seconds == pytest.approx(5.0, abs=0.1)


def test_the_bound_is_that_of_the_truth_whatever_is_known_beforehand():
    workflow = generate("montage", 60, seed=1)

    exact, rough, unknown = (
        dataward.simulate(workflow, nodes=4, estimates=estimates)
        for estimates in ("exact", "1.0", "unknown")
    )

    assert exact.bound_seconds == rough.bound_seconds == unknown.bound_seconds
    assert all(run.is_complete for run in (exact, rough, unknown))
    assert len({run.summary.makespan_seconds for run in (exact, rough, unknown)}) == 3
    assert min(rough.summary.makespan_seconds, unknown.summary.makespan_seconds) > (
        exact.bound_seconds
    )


def test_estimates_that_are_none_are_refused():
    with pytest.raises(SettingError, match="'good' says not how good estimates are"):
        dataward.simulate(generate("montage", 30), estimates="good")


def test_a_setting_that_there_is_not_is_refused():
    with pytest.raises(SettingError, match="no setting is called 'nosuch'"):
        dataward.simulate(generate("montage", 30), settings=["nosuch=1"])
