"""`dataward deadlines`: many workflows that are promised in time or refused."""

import json

import pytest

from cli.conftest import Dataward
from dataward import write_workflow
from dataward.cli.exit_codes import ExitCode
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder


@pytest.fixture(autouse=True)
def _workflows(_a_plain_place: None) -> None:
    write_workflow(generate("fork-join", 5, seconds=200.0), "fork.json")


def test_the_papers_workflows_are_accepted_and_kept(dataward: Dataward) -> None:
    said = dataward("deadlines", "--nodes", "50", "--minutes", "40", "--after", "90", "--json")

    assert said.code == ExitCode.OK
    told = json.loads(said.out)
    assert [each["workflow"] for each in told["workflows"]] == ["fork-join", "laplace"]
    assert sum(each["accepted"] for each in told["workflows"]) > 0
    for each in told["workflows"]:
        assert each["accepted"] + each["refused"] == each["submitted"]
        assert (each["ended"], each["late"]) == (each["accepted"], 0)
    assert told["simulated_seconds"] == 7800.0


def test_the_table_names_the_workflows_files(dataward: Dataward) -> None:
    said = dataward("deadlines", "fork.json", "--nodes", "20", "--minutes", "30")

    assert said.code == ExitCode.OK
    assert "fork.json" in said.out
    assert "20 nodes" in said.out


def test_the_same_seed_prints_the_same(dataward: Dataward) -> None:
    words = ("deadlines", "--nodes", "30", "--minutes", "20", "--seed", "3")

    assert dataward(*words).out == dataward(*words).out


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ({"runtime_seconds": 0.0}, "no run time"),
        ({"runtime_seconds": 5.0, "cores": 4}, "several cores"),
    ],
)
def test_workflows_that_cannot_be_promised_are_named(
    dataward: Dataward, tasks: dict[str, float], sentence: str
) -> None:
    builder = WorkflowBuilder()
    builder.task("t", **tasks)
    write_workflow(builder.build(), "odd.json")

    said = dataward("deadlines", "odd.json")

    assert said.code == ExitCode.BAD_INPUT
    assert sentence in said.err


def test_what_is_taken_is_told_as_it_is(dataward: Dataward) -> None:
    said = dataward("deadlines", "--priority", "0")

    assert "it takes a number from 0.01 to 1,000" in said.err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--nodes", "0"), ("--minutes", "inf"), ("--after", "-1"), ("--priority", "nan"),
     ("--load", "0"), ("--nodes", "3000000")],
)  # fmt: skip
def test_numbers_out_of_range_are_refused_in_one_sentence(
    dataward: Dataward, option: str, value: str
) -> None:
    said = dataward("deadlines", option, value)

    assert said.code == ExitCode.USAGE
    assert f"{option} cannot be {value}" in said.err
