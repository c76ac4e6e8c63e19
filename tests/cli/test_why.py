"""`dataward why`: one sentence, about the right task of the right run."""

import json
import time
from pathlib import Path

import pytest

from cli.conftest import Dataward
from cli.recorded_runs import a_bad_run, a_good_run, a_recorded_run
from dataward.cli.exit_codes import ExitCode
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import RunResumed
from dataward.runs.run_directory import RunDirectory
from reports.lives import ran, run_started, started


def test_the_latest_run_here_is_asked(dataward: Dataward) -> None:
    a_recorded_run(a_good_run(), "new.run", began=2000.0)
    a_recorded_run(a_bad_run(), "old.run", began=1000.0)

    said = dataward("why", "left")

    assert said.code == ExitCode.OK
    assert said.out == "left ran once on n0, 2.00 s, because it had not run before\n"
    assert said.err == ""


def test_a_run_may_be_named(dataward: Dataward) -> None:
    a_recorded_run(a_bad_run())
    a_recorded_run(a_good_run())

    first = dataward("why", "left", "--run", "diamond.run/1")
    latest = dataward("why", "left", "--run", "diamond.run")

    assert first.out == "left failed: exit code 3 (2 attempts)\n"
    assert latest.out.startswith("left ran once")


def test_json_says_which_run(dataward: Dataward) -> None:
    a_recorded_run(a_bad_run())

    said = dataward("why", "join", "--json")

    assert json.loads(said.out) == {
        "run": "diamond.run/1",
        "task": "join",
        "why": "join did not run because left, which it depends on, failed: exit code 3 "
        "(2 attempts)",
    }


def test_a_run_that_goes_on_and_one_that_was_killed_are_told_apart(dataward: Dataward) -> None:
    a_recorded_run([run_started(), *started("split", 0.0)], state="running")

    killed = dataward("why", "split")
    lock = RunDirectory(Path("diamond.run")).lock()
    going = dataward("why", "split")
    lock.release()

    assert killed.out == "split was running when the run was broken off\n"
    assert going.out.startswith("split is running on n0")


def test_how_long_a_task_of_a_resumed_run_has_run_does_not_count_the_time_between(
    dataward: Dataward,
) -> None:
    events = [run_started(), RunResumed(4.0, 2), *started("split", 4.0)]
    counted_from = time.time() - 4.0 - 600.0  # resumed ten minutes ago, when its clock said 4 s
    a_recorded_run(events, state="running", starts=2, counted_from=counted_from)

    lock = RunDirectory(Path("diamond.run")).lock()
    answer = dataward("why", "split").out
    (row,) = json.loads(dataward("runs", "--json").out)
    lock.release()

    assert answer.startswith("split is running on n0 for 10 min 0")
    assert 604.0 <= row["makespan_seconds"] < 640.0


def test_a_list_of_events_that_breaks_off_is_used_as_far_as_it_goes(dataward: Dataward) -> None:
    record = a_recorded_run(a_good_run())
    record.events.write_bytes(record.events.read_bytes()[:-20])

    said = dataward("why", "split")

    assert said.out.startswith("split ran once")
    assert said.code == ExitCode.OK


def test_a_name_that_draws_is_spelled_out(dataward: Dataward) -> None:
    wf = WorkflowBuilder("odd")
    wf.task("[red]日本")
    a_recorded_run(ran("[red]日本", 1.0), workflow=wf.build())

    assert dataward("why", "[red]日本").out.startswith("[red]日本 ran once")
    unknown = dataward("why", "\x1b[31m")
    assert unknown.code == ExitCode.BAD_INPUT
    assert "\x1b" not in unknown.err


def test_an_unknown_task_is_bad_input_with_close_names(dataward: Dataward) -> None:
    a_recorded_run(a_good_run())

    said = dataward("why", "lft")

    assert said.code == ExitCode.BAD_INPUT
    assert said.err == "dataward: workflow 'diamond' has no task 'lft'; did you mean 'left'?\n"


@pytest.mark.parametrize("run", ["", "nowhere", "diamond.json", "diamond.run/7", "\x00"])
def test_a_run_that_is_not_there_is_bad_input(dataward: Dataward, run: str) -> None:
    if run.startswith("diamond.run"):
        a_recorded_run(a_good_run())

    said = dataward("why", "left", "--run", run)

    assert said.code == ExitCode.BAD_INPUT
    assert said.err.startswith("dataward: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("file", ["events", "workflow.json", "run.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\x00nonsense", None])
def test_a_damaged_record_is_bad_input(
    dataward: Dataward, file: str, content: bytes | None
) -> None:
    record = a_recorded_run(a_good_run())
    if content is None:
        (record.path / file).unlink()
    else:
        (record.path / file).write_bytes(content)

    said = dataward("why", "left", "--run", "diamond.run")

    assert said.code == ExitCode.BAD_INPUT
    assert said.out == ""
    assert "Traceback" not in said.err


def test_a_run_whose_facts_are_damaged_does_not_hide_the_others(dataward: Dataward) -> None:
    bad = a_recorded_run(a_bad_run(), "bad.run", began=2000.0)
    (bad.path / "run.json").write_text("{")
    a_recorded_run(a_good_run(), "good.run", began=1000.0)

    said = dataward("why", "left")

    assert said.out.startswith("left ran once")
    assert said.err.startswith("warning: bad.run/1/run.json: cannot be read")
