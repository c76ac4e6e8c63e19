"""`dataward runs`: what became of each run, without being fooled by those that were killed."""

import json
import re
from pathlib import Path

import pytest

from cli.conftest import Dataward
from cli.recorded_runs import a_bad_run, a_good_run, a_recorded_run
from dataward.cli.exit_codes import ExitCode
from dataward.model.events import TaskSkipped
from dataward.model.workflow import TaskId
from dataward.runs.run_directory import RunDirectory
from reports.lives import ran, run_started


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, _a_plain_place: None) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def cells(line: str) -> list[str]:
    return re.split(" {2,}", line.strip())


def test_every_run_here_is_a_row(dataward: Dataward) -> None:
    a_recorded_run(a_good_run(), complete=3, skipped=1, makespan_seconds=10.0)
    a_recorded_run(a_bad_run(), complete=2, failed=2, makespan_seconds=4.0, state="failed")
    a_recorded_run(a_good_run(), "other.run", complete=4)

    said = dataward("runs")

    assert said.code == ExitCode.OK
    heading, *rows = said.out.splitlines()
    assert cells(heading) == [
        "run", "workflow", "when", "state", "tasks", "complete", "skipped", "failed", "makespan",
    ]  # fmt: skip
    assert [cells(row)[0] for row in rows] == ["diamond.run/1", "diamond.run/2", "other.run/1"]
    assert cells(rows[0])[3:] == ["complete", "4", "3", "1", "0", "10.0 s"]
    assert cells(rows[1])[3:] == ["failed", "4", "2", "0", "2", "4.00 s"]


def test_removed_tasks_have_a_column_if_there_are_any(dataward: Dataward) -> None:
    a_recorded_run(a_good_run(), complete=4)
    a_recorded_run(a_good_run(), complete=1, removed=3, state="partial", makespan_seconds=4.0)

    heading, *rows = dataward("runs").out.splitlines()
    listed = json.loads(dataward("runs", "--json").out)

    assert cells(heading)[-3:] == ["failed", "removed", "makespan"]
    assert cells(rows[1])[3:] == ["partial", "4", "1", "0", "0", "3", "4.00 s"]
    assert [run["removed"] for run in listed] == [0, 3]


def test_when_is_local_time(dataward: Dataward) -> None:
    a_recorded_run(a_good_run(), began=1_700_000_000.0)

    assert re.search(r"2023-11-1[45] \d\d:\d\d:20", dataward("runs").out)


def test_a_run_that_nobody_runs_was_killed_and_counts_what_it_recorded(
    dataward: Dataward,
) -> None:
    events = [run_started(), TaskSkipped(0.0, TaskId("split")), *ran("left", 2.0)]
    a_recorded_run(events, state="running")

    killed = dataward("runs")
    lock = RunDirectory(Path("diamond.run")).lock()
    going = dataward("runs")
    lock.release()

    assert cells(killed.out.splitlines()[1])[3:] == ["killed", "4", "1", "1", "0", "2.00 s"]
    assert cells(going.out.splitlines()[1])[3] == "running"


def test_a_run_that_was_killed_before_it_wrote_anything_is_listed(dataward: Dataward) -> None:
    record = a_recorded_run([], state="running")
    record.events.unlink()

    said = dataward("runs")

    assert cells(said.out.splitlines()[1])[3:] == ["killed", "4", "0", "0", "0", "0 s"]
    assert said.err.startswith("warning: ")


def test_a_directory_may_be_named(dataward: Dataward) -> None:
    a_recorded_run(a_good_run(), "a/b.run")

    assert "a/b.run/1" in dataward("runs", "a").out
    assert "a/b.run/1" in dataward("runs", "a/b.run").out
    assert "no runs in ." in dataward("runs").err


def test_json_has_all_that_is_known(dataward: Dataward) -> None:
    a_recorded_run(a_good_run(), complete=4, makespan_seconds=10.0)

    (row,) = json.loads(dataward("runs", "--json").out)

    assert row["run"] == "diamond.run/1"
    assert (row["workflow"], row["state"], row["began"]) == ("diamond", "complete", 1.7e9)
    assert (row["tasks"], row["complete"], row["skipped"], row["failed"]) == (4, 4, 0, 0)
    assert row["makespan_seconds"] == 10.0


def test_no_runs_are_no_error(dataward: Dataward) -> None:
    plain, as_json = dataward("runs"), dataward("runs", "--json")

    assert (plain.code, plain.out) == (ExitCode.OK, "")
    assert json.loads(as_json.out) == []


def test_one_run_that_cannot_be_read_does_not_hide_the_others(dataward: Dataward) -> None:
    bad = a_recorded_run(a_good_run(), "bad.run")
    (bad.path / "run.json").write_bytes(b"\xff")
    a_recorded_run(a_good_run(), "good.run")

    said = dataward("runs")

    assert said.code == ExitCode.OK
    assert "good.run/1" in said.out
    assert "warning: bad.run/1/run.json" in said.err


@pytest.mark.parametrize("began", [1e300, -1e300, 1e18])
def test_a_time_that_no_clock_shows_is_no_failure(dataward: Dataward, began: float) -> None:
    a_recorded_run(a_good_run(), began=began)

    said = dataward("runs")

    assert said.code == ExitCode.OK
    assert cells(said.out.splitlines()[1])[2] == "?"


def test_what_facts_say_cannot_draw_on_the_terminal(dataward: Dataward) -> None:
    a_recorded_run(a_good_run(), state="\x1b]0;owned\x07")

    said = dataward("runs")

    assert "\x1b" not in said.out + said.err
    assert "owned" in said.err


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_gets_numbers_and_is_told_what_is_left_out(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    a_recorded_run(a_bad_run(), complete=2, failed=2, makespan_seconds=4.0, state="failed")

    heading, row, *note = dataward("runs").out.splitlines()

    assert max(map(len, [heading, row, *note])) <= columns
    shown = dict(zip(cells(heading), cells(row), strict=True))
    assert {"run": "diamond.run/1", "state": "failed", "complete": "2", "failed": "2"}.items() <= (
        shown.items()
    )
    every = [
        "run",
        "workflow",
        "when",
        "state",
        "tasks",
        "complete",
        "skipped",
        "failed",
        "makespan",
    ]
    assert all(name in " ".join(note) for name in every if name not in shown)


@pytest.mark.parametrize("place", ["nowhere", "file"])
def test_what_is_no_directory_is_bad_input(dataward: Dataward, place: str) -> None:
    Path("file").write_text("")

    said = dataward("runs", place)

    assert said.code == ExitCode.BAD_INPUT
    assert said.err == f"dataward: {place}: there is no such directory\n"
