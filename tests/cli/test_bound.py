"""`dataward bound`: the paper's workloads, small enough to wait for, and any workflow."""

import json

import pytest

from builders import a_diamond
from cli.conftest import Dataward
from dataward import write_workflow
from dataward.cli.exit_codes import ExitCode
from dataward.plan.matrix_benchmarks import BenchmarkShape
from dataward.plan.matrix_bound import Reading

SMALL = ("--cores", "64", "--tasks-per-core", "10")


def test_json_has_every_shape_under_every_reading(dataward: Dataward) -> None:
    said = dataward("bound", *SMALL, "--json")

    assert said.code == ExitCode.OK
    rows = json.loads(said.out)
    assert {(row["shape"], row["reading"]) for row in rows} == {
        (shape.value, reading.value) for shape in BenchmarkShape for reading in Reading
    }
    for row in rows:
        assert row["tasks"] == 640
        assert row["tasks_per_second"] == pytest.approx(640 / row["makespan_seconds"])
        assert row["published_tasks_per_second"] is None  # the paper's are for 131,072 cores


def test_the_text_says_what_no_machine_can_beat(dataward: Dataward) -> None:
    said = dataward("bound", *SMALL)

    assert "Tasks per second, 64 cores, 640 tasks" in said.out
    assert "more than 1,280 a second" in said.out
    assert all(reading.value in said.out for reading in Reading)


def test_same_seed_same_bound_and_another_seed_another(dataward: Dataward) -> None:
    one, again, other = (dataward("bound", *SMALL, "--seed", seed).out for seed in (1, 1, 2))

    assert one == again
    assert one != other


def test_any_workflow_has_a_bound(dataward: Dataward) -> None:
    write_workflow(a_diamond(), "diamond.json")

    text = dataward("bound", "diamond.json", "--cores", "4")
    rows = json.loads(dataward("bound", "diamond.json", "--cores", "4", "--json").out)

    assert "diamond on 4 cores" in text.out
    assert {row["file"] for row in rows} == {"diamond.json"}
    assert all(row["makespan_seconds"] >= 8.0 for row in rows)
