"""`dataward generate`, in the shapes and sizes it says it has."""

import json
from pathlib import Path

import pytest

from cli.conftest import Dataward
from dataward import read_workflow
from dataward.cli.exit_codes import ExitCode
from dataward.generate import SHAPES


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_made_and_read_back(dataward: Dataward, shape: str) -> None:
    said = dataward("generate", shape, "--tasks", "36", "-o", "made.json", "--json")

    assert said.code == ExitCode.OK
    made = json.loads(said.out)
    workflow = read_workflow("made.json")
    assert made["tasks"] == len(workflow) == 36
    assert made["edges"] == workflow.edge_count
    assert made["files"] == len(workflow.file_ids)
    assert made["file"] == "made.json"
    assert made["inputs"] is None


@pytest.mark.parametrize("shape", SHAPES)
def test_the_help_names_every_shape_at_the_start_of_a_line(dataward: Dataward, shape: str) -> None:
    lines = [line.strip() for line in dataward("generate", "--help").out.splitlines()]

    assert any(line.startswith(f"• {shape}: ") for line in lines)


def test_the_help_names_what_can_be_set(dataward: Dataward) -> None:
    words = " ".join(dataward("generate", "--help").out.split())

    for shape in SHAPES.values():
        for parameter in shape.parameters:
            assert f"--set {parameter.name}={parameter.default:g}: {parameter.meaning}" in words


def test_without_a_name_the_file_is_called_after_shape_and_size(dataward: Dataward) -> None:
    said = dataward("generate", "bag", "--tasks", "5")

    assert said.out.startswith("bag-5.json: 5 tasks, 5 files (")
    assert len(read_workflow("bag-5.json")) == 5


def test_the_nearest_size_is_made_and_said(dataward: Dataward) -> None:
    said = dataward("generate", "laplace", "--tasks", "30")

    assert said.code == ExitCode.OK
    assert said.out.startswith(
        "laplace-25.json: 25 tasks (the nearest to 30 that this shape allows)"
    )


def test_same_seed_same_file_and_another_seed_another(dataward: Dataward) -> None:
    for name, seed in [("a", "1"), ("b", "1"), ("c", "2")]:
        dataward("generate", "montage", "-n", "20", "--seed", seed, "-o", f"{name}.json")

    a, b, c = (Path(f"{name}.json").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_set_changes_a_shape(dataward: Dataward) -> None:
    dataward("generate", "fan-out", "-n", "21", "--set", "degree=4", "-o", "four.json")

    workflow = read_workflow("four.json")
    assert workflow.layers.depth == 3
    assert workflow.children.degrees().max() == 4


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["nope"], "choose from montage, cybershake"),
        (["montage", "-n", "3"], "17 is nearest"),
        (["bag", "-n", "99999999999"], "100000000 is nearest"),
        (["montage", "--set", "degree=4"], "it has none"),
        (["fan-in", "--set", "deg=4"], "it has degree"),
        (["fan-in", "--set", "degree"], "NAME=VALUE"),
        (["fan-in", "--set", "degree=four"], "leave it out for 10"),
        (["bag", "--schema", "9"], "choose 1.5 or 1.6"),
        (["bag", "--scale-time", "0.5"], "--runnable; add it"),
        (["bag", "--scale-data", "0.5"], "--runnable; add it"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_remedy(
    dataward: Dataward, tmp_path: Path, words: list[str], remedy: str
) -> None:
    said = dataward("generate", *words)

    assert said.code == ExitCode.USAGE
    assert said.err.startswith("dataward: ")
    assert remedy in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_runnable_has_commands_and_its_inputs_beside_it(dataward: Dataward) -> None:
    said = dataward(
        "generate",
        "montage",
        "-n",
        "17",
        "--runnable",
        "--scale-data",
        "1e-6",
        "-o",
        "m.v1.json.gz",
    )

    assert said.code == ExitCode.OK
    assert "m.v1.inputs: its input files" in said.out
    workflow = read_workflow("m.v1.json.gz")
    assert None not in workflow.commands
    unwritten = [
        (file, int(size))
        for file, size, writers in zip(
            workflow.file_ids,
            workflow.size_bytes,
            workflow.producers.degrees(),
            strict=True,
        )
        if writers == 0
    ]
    assert unwritten
    for file, size in unwritten:
        assert (Path("m.v1.inputs") / file).stat().st_size == size


@pytest.mark.parametrize("output", [".", "missing/x.json", "/proc/x.json"])
def test_where_nothing_can_be_written_is_said_with_code_4(dataward: Dataward, output: str) -> None:
    said = dataward("generate", "bag", "-n", "3", "-o", output)

    assert said.code == ExitCode.CANNOT_WRITE
    assert said.err.startswith(f"dataward: cannot write {output}: ")
    assert said.out == ""
