"""Workflows run from Python: all that the command does, and one report of what came of it."""

from pathlib import Path

import pytest

import dataward
from dataward import WorkflowBuilder, write_workflow
from dataward.cli.main import main
from dataward.errors import MissingInputError, SettingError
from dataward.model.events import RunEnded, TaskFinished
from dataward.model.states import RunState
from dataward.reports.known_tasks import UnknownTaskError


def two_steps(word: str = "hello") -> WorkflowBuilder:
    wf = WorkflowBuilder("two steps")
    wf.command(f"echo {word} > a; echo said", outputs=["a"], id="first")
    wf.command("tr a-z A-Z < a > b", inputs=["a"], outputs=["b"], id="second")
    return wf


def test_a_workflow_built_in_python_is_run_and_tells_where_its_results_are():
    report = dataward.run(two_steps(), slots=2)

    assert report.state is RunState.COMPLETE
    assert report.is_complete
    assert {file: path.read_text() for file, path in report.outputs.items()} == {"b": "HELLO\n"}
    assert report.summary.complete == 2
    assert Path("two_steps.run").is_dir()


def test_a_file_is_run_as_the_command_runs_it():
    write_workflow(two_steps().build(), "w.json")
    with pytest.raises(SystemExit):
        main(["run", "w.json", "--quiet"])

    again = dataward.run("w.json")

    assert again.summary.complete == 2
    assert again.why("first").startswith("first was skipped")


def test_everything_that_can_be_asked_of_the_command_can_be_asked_here():
    wf = WorkflowBuilder("asked")
    wf.command("echo {word} > {word}.txt", outputs=["{word}.txt"], id="t")
    wf.command("false", id="other")

    report = dataward.run(
        wf, targets=["t"], parameters={"word": "bye"}, out="here.run", keep="all", nodes=2, slots=1
    )

    assert report.is_complete
    assert list(report.outputs) == ["bye.txt"]
    assert Path("here.run/outputs/bye.txt").read_text() == "bye\n"


def test_a_failed_task_does_not_raise_and_is_named_with_its_reason():
    wf = two_steps()
    wf.command("echo sorry >&2; exit 3", id="bad")

    report = dataward.run(wf)

    assert report.state is RunState.FAILED
    assert [(failure.task, failure.reason) for failure in report.failures] == [
        ("bad", "it ended with exit code 3")
    ]
    assert report.logs("bad").stderr == b"sorry\n"
    assert report.why("bad").startswith("bad failed: it ended with exit code 3")


def test_a_report_has_logs_events_and_a_drawing():
    report = dataward.run(two_steps())

    report.draw("run.svg")

    assert report.logs("first").stdout == b"said\n"
    assert sum(isinstance(event, TaskFinished) for event in report.events()) == 2
    assert isinstance(list(report.events())[-1], RunEnded)
    assert Path("run.svg").read_text().startswith("<svg")


def test_logs_of_a_skipped_task_are_those_of_the_run_that_made_it():
    dataward.run(two_steps())

    assert dataward.run(two_steps()).logs("first").stdout == b"said\n"


def test_what_cannot_be_run_raises_before_anything_is_made():
    wf = two_steps()
    wf.command("cat missing", inputs=["missing"], id="third")

    with pytest.raises(MissingInputError):
        dataward.run(wf)
    with pytest.raises(SettingError, match="run takes no 'slot'; it takes targets, until, slots"):
        dataward.run(two_steps(), slot=3)
    with pytest.raises(SettingError, match="no setting is called 'nosuch'"):
        dataward.run(two_steps(), settings=["nosuch=1"])
    assert list(Path().iterdir()) == []


def test_a_task_that_is_not_there_is_refused():
    report = dataward.run(two_steps())

    with pytest.raises(UnknownTaskError, match="did you mean 'first'"):
        report.logs("frist")


def test_a_run_prints_nothing(capfd):
    dataward.run(two_steps())

    assert capfd.readouterr() == ("", "")


def test_the_best_strategy_can_be_asked_for(tmp_path: Path) -> None:
    wf = WorkflowBuilder("one")
    wf.command("true > {outputs}", outputs=["x"])

    report = dataward.run(wf, out=tmp_path / "one.run", strategy="best", slots=1)

    assert report.is_complete
    assert report.summary.strategy == "dataward"
    assert report.forecast is None
