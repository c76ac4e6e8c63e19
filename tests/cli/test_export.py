"""`dataward export`: a workflow as a run has measured it, for planning and simulating."""

import json

import pytest

from builders import a_diamond
from cli.conftest import Dataward
from cli.recorded_runs import a_bad_run, a_good_run, a_recorded_run
from dataward.cli.exit_codes import ExitCode
from dataward.formats import read_workflow
from dataward.model.events import FileStored
from dataward.model.workflow import FileId
from reports.lives import ran


def test_measured_times_and_sizes_are_written(dataward: Dataward) -> None:
    a_recorded_run([*a_good_run(), FileStored(9.0, FileId("c"), "n0", 777)])

    said = dataward("export", "diamond.run", "-o", "measured.json")

    assert said.code == ExitCode.OK
    assert said.out == "measured.json: 4 tasks\n"
    assert said.err == ""
    found = read_workflow("measured.json")
    assert found.runtime_seconds.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert found.size_bytes.tolist() == [5, 10, 20, 777, 40, 50]
    assert found.parents == a_diamond().parents


def test_what_was_written_can_be_simulated(dataward: Dataward) -> None:
    a_recorded_run(a_good_run())
    dataward("export", "diamond.run", "-o", "measured.json")

    assert dataward("simulate", "measured.json", "--nodes", "1").code == ExitCode.OK


def test_tasks_that_were_not_measured_are_counted_in_a_warning(dataward: Dataward) -> None:
    a_recorded_run(a_bad_run())

    said = dataward("export", "diamond.run/1", "-o", "measured.json")

    assert said.code == ExitCode.OK
    assert said.err == (
        "warning: diamond.run/1: 2 of 4 tasks were not measured and keep their declared run times\n"
    )
    assert read_workflow("measured.json").runtime_seconds.tolist() == [1.0, 2.0, 1.0, 4.0]


def test_json_says_what_was_written(dataward: Dataward) -> None:
    a_recorded_run(a_bad_run())

    said = dataward("export", "diamond.run", "-o", "m.json.gz", "--schema", "1.5", "--json")

    row = json.loads(said.out)
    assert (row["file"], row["tasks"]) == ("m.json.gz", 4)
    assert "2 of 4" in row["warnings"][0]
    assert len(read_workflow("m.json.gz")) == 4


@pytest.mark.parametrize("seconds", [-1.0, 1e300])
def test_a_senseless_measurement_is_bad_input(dataward: Dataward, seconds: float) -> None:
    a_recorded_run(ran("split", 1.0, seconds))

    said = dataward("export", "diamond.run", "-o", "measured.json")

    assert said.code == ExitCode.BAD_INPUT
    assert "diamond.run/1/events" in said.err


def test_mistakes_have_their_codes(dataward: Dataward) -> None:
    a_recorded_run(a_good_run())

    assert dataward("export", "diamond.run").code == ExitCode.USAGE
    assert dataward("export", "nowhere", "-o", "m.json").code == ExitCode.BAD_INPUT
    assert dataward("export", "diamond.run", "-o", "no/m.json").code == ExitCode.CANNOT_WRITE
    bad_schema = dataward("export", "diamond.run", "-o", "m.json", "--schema", "2")
    assert bad_schema.code == ExitCode.USAGE
