"""`dataward convert`: what was read is what is written."""

import json
from pathlib import Path

import pytest

from builders import a_diamond
from cli.conftest import Dataward
from dataward import read_workflow, write_workflow
from dataward.cli.exit_codes import ExitCode

DAX = """<?xml version="1.0" encoding="UTF-8"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="two" jobCount="2">
  <job id="ID1" namespace="n" name="first" version="1.0" runtime="1.5">
    <uses file="in" link="input" size="10"/>
    <uses file="middle" link="output" size="20"/>
  </job>
  <job id="ID2" namespace="n" name="second" version="1.0" runtime="2,5">
    <uses file="middle" link="input" size="20"/>
    <uses file="out" link="output" size="30"/>
  </job>
  <child ref="ID2"><parent ref="ID1"/></child>
</adag>
"""


def test_dax_becomes_wfformat_and_stays_the_same_workflow(dataward: Dataward) -> None:
    Path("two.xml").write_text(DAX)

    said = dataward("convert", "two.xml", "two.json")

    assert said.code == ExitCode.OK
    assert said.out == "two.json: 2 tasks, 1 edge\n"
    assert read_workflow("two.json") == read_workflow("two.xml")
    assert json.loads(Path("two.json").read_bytes())["schemaVersion"] == "1.6"
    assert read_workflow("two.json").runtime_seconds.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("schema", ["1.5", "1.6"])
def test_the_version_asked_for_is_written(dataward: Dataward, schema: str) -> None:
    write_workflow(a_diamond(), "a.json")

    dataward("convert", "a.json", "b.json", "--schema", schema)

    assert json.loads(Path("b.json").read_bytes())["schemaVersion"] == schema
    assert read_workflow("b.json") == a_diamond()


def test_json_says_what_was_written(dataward: Dataward) -> None:
    write_workflow(a_diamond(), "a.json")

    said = dataward("convert", "a.json", "b.json.gz", "--json")

    assert json.loads(said.out) == {"file": "b.json.gz", "tasks": 4, "edges": 4}
    assert Path("b.json.gz").read_bytes().startswith(b"\x1f\x8b")
    assert read_workflow("b.json.gz") == a_diamond()


def test_a_file_may_be_converted_in_place(dataward: Dataward) -> None:
    write_workflow(a_diamond(), "a.json")

    assert dataward("convert", "a.json", "a.json").code == ExitCode.OK
    assert read_workflow("a.json") == a_diamond()


def test_an_unknown_version_is_refused_and_nothing_written(dataward: Dataward) -> None:
    write_workflow(a_diamond(), "a.json")

    said = dataward("convert", "a.json", "b.json", "--schema", "2.0")

    assert said.code == ExitCode.USAGE
    assert "choose 1.5 or 1.6" in said.err
    assert not Path("b.json").exists()
