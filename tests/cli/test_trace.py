"""`dataward trace`: from the events of a run to a trace that Perfetto can open."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cli.conftest import Dataward
from dataward import WorkflowBuilder, write_workflow
from dataward.cli.exit_codes import ExitCode
from dataward.generate import generate


@pytest.fixture(autouse=True)
def _a_run(_a_plain_place: None, dataward: Dataward) -> None:
    write_workflow(generate("montage", 30, seed=1), "montage.json")
    dataward("simulate", "montage.json", "--nodes", "2", "--events", "run.events")


def test_nodes_are_processes_and_every_task_runs_in_one(dataward: Dataward) -> None:
    said = dataward("trace", "run.events", "-o", "trace.json")

    assert said.code == ExitCode.OK
    assert "trace.json: open it at ui.perfetto.dev" in said.out
    document = json.loads(Path("trace.json").read_text())
    events = document["traceEvents"] if isinstance(document, dict) else document
    names = {
        e["args"]["name"] for e in events if e.get("ph") == "M" and e["name"] == "process_name"
    }
    assert any("n0" in name for name in names)
    assert any("n1" in name for name in names)
    spans = Counter(e["ph"] for e in events)
    assert spans["X"] + spans["B"] >= 30


def test_a_run_may_be_named_in_place_of_its_events(dataward: Dataward) -> None:
    wf = WorkflowBuilder("two")
    wf.command("true", id="first")
    wf.command("true", id="second")
    write_workflow(wf.build(), "two.json")
    dataward("run", "two.json", "--quiet")

    said = [dataward("trace", run, "-o", "trace.json") for run in ("two.run", "two.run/1")]

    assert [one.code for one in said] == [ExitCode.OK] * 2
    assert "second" in Path("trace.json").read_text()


def test_a_trace_does_not_replace_the_events(dataward: Dataward) -> None:
    before = Path("run.events").read_bytes()

    said = dataward("trace", "run.events", "-o", "run.events")

    assert said.code == ExitCode.USAGE
    assert "run.events is the list of events itself" in said.err
    assert Path("run.events").read_bytes() == before


def test_json_tells_where_the_trace_is(dataward: Dataward) -> None:
    said = dataward("trace", "run.events", "-o", "trace.json", "--json")

    assert json.loads(said.out) == {"file": "trace.json", "warnings": []}


def test_a_list_that_breaks_off_is_traced_with_a_warning(dataward: Dataward) -> None:
    whole = Path("run.events").read_bytes()
    Path("cut.events").write_bytes(whole[: len(whole) // 2])

    said = dataward("trace", "cut.events", "-o", "trace.json")

    assert said.code == ExitCode.OK
    assert "warning: cut.events" in said.err
    assert json.loads(Path("trace.json").read_text())


def test_something_else_is_bad_input(dataward: Dataward) -> None:
    said = dataward("trace", "montage.json", "-o", "trace.json")

    assert said.code == ExitCode.BAD_INPUT
    assert "montage.json" in said.err


def test_a_missing_list_is_bad_input(dataward: Dataward) -> None:
    assert dataward("trace", "nowhere", "-o", "trace.json").code == ExitCode.BAD_INPUT


def test_it_must_be_told_where_to_write(dataward: Dataward) -> None:
    assert dataward("trace", "run.events").code == ExitCode.USAGE
    assert dataward("trace", "run.events", "-o", "montage.json/trace").code == ExitCode.CANNOT_WRITE
