"""`dataward inspect`: the numbers others rely on, the picture, and files that are no workflow."""

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

from builders import a_diamond
from cli.conftest import Dataward
from dataward import WorkflowBuilder, generate, makespan_bounds, write_workflow
from dataward.cli.exit_codes import ExitCode

RELIED_ON = [
    "tasks",
    "files",
    "edges",
    "depth",
    "width",
    "total_runtime_seconds",
    "total_bytes",
    "critical_path_seconds",
    "lower_bound_seconds",
]


@pytest.fixture
def diamond() -> Path:
    write_workflow(a_diamond(), "diamond.json")
    return Path("diamond.json")


def test_json_has_the_numbers_others_rely_on(dataward: Dataward, diamond: Path) -> None:
    said = dataward("inspect", diamond, "--json", "--nodes", "1", "--cores", "1")

    assert said.code == ExitCode.OK
    found = json.loads(said.out)
    assert list(found)[: len(RELIED_ON)] == RELIED_ON
    assert [found[key] for key in RELIED_ON] == [4, 6, 4, 3, 2, 10.0, 155, 8.0, 10.0]
    assert found["critical_path"] == ["split", "right", "join"]


def test_the_lower_bound_is_for_the_nodes_and_cores_given(dataward: Dataward) -> None:
    workflow = generate("montage", 100)
    write_workflow(workflow, "m.json")

    for nodes, cores in [(1, 1), (2, 4), (16, 4)]:
        said = dataward("inspect", "m.json", "--json", "--nodes", nodes, "--cores", cores)

        bounds = makespan_bounds(
            workflow, nodes=nodes, cores=cores, bandwidth_bytes_per_second=125e6
        )
        assert json.loads(said.out)["lower_bound_seconds"] == pytest.approx(bounds.best_seconds)


def test_the_text_tells_size_shape_path_and_bounds(dataward: Dataward, diamond: Path) -> None:
    said = dataward("inspect", diamond, "--cores", "1")

    assert said.code == ExitCode.OK
    assert said.err == ""
    for words in (
        "diamond  (diamond.json)",
        "4 of 4 types",
        "6, 155 B",
        "3, at most 2 tasks wide",
        "10.0 s on one core",
        "105 B read, 150 B written",
        "Critical path: 8.00 s in 3 tasks",
        "split -> right -> join",
        "(1 node x 1 core, 1Gbps)",
        "* work area              10.0 s",
    ):
        assert words in said.out, words


def test_the_picture_has_a_bar_a_level(dataward: Dataward) -> None:
    write_workflow(generate("montage", 100), "m.json")

    lines = dataward("inspect", "m.json").out.splitlines()

    first = lines.index("Tasks per level") + 1
    bars = lines[first : lines.index("", first)]
    assert [line.split()[0] for line in bars] == [str(level) for level in range(9)]
    assert max(bars, key=lambda line: line.count("█")).split()[1] == "mDiffFit"


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(
    dataward: Dataward, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    write_workflow(generate("montage", 1000), "m.json")

    said = dataward("inspect", "m.json")

    wide = [line for line in said.out.splitlines() if cell_len(line.rstrip()) > columns]
    # The sentence above the bounds is for the terminal to wrap.
    assert [line for line in wide if not line.startswith("No schedule")] == []
    assert "mProjectPP" in said.out
    assert "…" not in said.out


def test_a_pipe_without_a_width_gets_the_whole_table(
    dataward: Dataward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    wf = WorkflowBuilder("long names")
    wf.task("t", name="n" * 45, outputs=["o"], runtime_seconds=1.0)
    write_workflow(wf.build(), "long.json")

    said = dataward("inspect", "long.json")

    heading = next(line for line in said.out.splitlines() if line.startswith("Task type"))
    assert heading.split()[-2:] == ["reads", "writes"]
    assert "n" * 45 in said.out


def test_names_thousands_long_are_shortened(dataward: Dataward) -> None:
    wf = WorkflowBuilder("w" * 4000)
    wf.task("i" * 4000, name="n" * 4000, runtime_seconds=1.0)
    write_workflow(wf.build(), "long.json")

    said = dataward("inspect", "long.json")

    assert said.code == ExitCode.OK
    assert max(map(len, said.out.splitlines())) < 200


def test_columns_stay_in_line_under_wide_characters(dataward: Dataward) -> None:
    wf = WorkflowBuilder("wide")
    wf.task("a", name="日本語", runtime_seconds=1.0)
    wf.task("b", name="plain", after=["a"], runtime_seconds=1.0)
    write_workflow(wf.build(), "wide.json")

    lines = dataward("inspect", "wide.json").out.splitlines()

    bars = [line for line in lines if "█" in line]
    assert len({cell_len(line.partition("█")[0]) for line in bars}) == 1
    assert len(bars) == 2


def test_a_task_wider_than_the_default_node_gets_a_node_that_holds_it(dataward: Dataward) -> None:
    wf = WorkflowBuilder("wide")
    wf.task("a", cores=32, runtime_seconds=1.0)
    write_workflow(wf.build(), "wide.json")

    said = dataward("inspect", "wide.json")
    refused = dataward("inspect", "wide.json", "--cores", "2")

    assert said.code == ExitCode.OK
    assert "1 node x 32 cores" in said.out
    assert refused.code == ExitCode.USAGE
    assert "needs 32 cores" in refused.err


def test_warnings_go_to_stderr_and_stdout_stays_json(dataward: Dataward) -> None:
    tasks = [a_task("a", outputs=["x"]), a_task("b", inputs=["x"]), a_task("c", parents=["b"])]
    Path("odd.json").write_text(json.dumps(a_document(tasks)))

    said = dataward("inspect", "odd.json", "--json")

    assert said.code == ExitCode.OK
    assert "warning: odd.json: its files imply 1 edges" in said.err
    assert json.loads(said.out)["edges"] == 1
    assert json.loads(said.out)["warnings"]
    assert (
        json.loads(dataward("inspect", "odd.json", "--edges", "both", "--json").out)["edges"] == 2
    )


def a_document(tasks: list[dict[str, object]]) -> dict[str, object]:
    return {
        "name": "odd",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": tasks, "files": [{"id": "x", "sizeInBytes": 1}]},
        },
    }


def a_task(
    id: str, parents: list[str] | None = None, inputs: object = (), outputs: object = ()
) -> dict[str, object]:
    return {
        "id": id,
        "name": id,
        "parents": parents or [],
        "children": [],
        "inputFiles": list(inputs),  # type: ignore[call-overload]
        "outputFiles": list(outputs),  # type: ignore[call-overload]
    }


def bad_files() -> dict[str, tuple[bytes, str]]:
    """Contents that are no workflow, and what must be said about each."""
    whole = json.dumps(a_document([a_task("a")])).encode()
    cycle = a_document([a_task("a", ["b"]), a_task("b", ["a"])])
    unknown = a_document([a_task("a", ["ghost"])])
    return {
        "empty": (b"", "is empty"),
        "garbage": (bytes(range(256)) * 40, "is not a workflow file"),
        "half-a-gzip": (gzip.compress(whole * 100)[:60], "ends early"),
        "half-a-json": (whole[:-20], "ends early"),
        "no-tasks": (json.dumps(a_document([])).encode(), "has no tasks"),
        "cycle": (json.dumps(cycle).encode(), "'a' -> 'b' -> 'a'"),
        "unknown-parent": (json.dumps(unknown).encode(), "ghost"),
        "twice": (json.dumps(a_document([a_task("a"), a_task("a")])).encode(), "'a'"),
        "wrong-type": (b'{"name": 5, "workflow": []}', ""),
        "half-an-xml": (b"<adag><job id='a'", ""),
    }


@pytest.mark.parametrize("command", ["inspect", "bound", "convert"])
@pytest.mark.parametrize("name", bad_files())
def test_a_bad_file_is_named_with_what_is_wrong_and_code_3(
    dataward: Dataward, command: str, name: str
) -> None:
    content, problem = bad_files()[name]
    Path(f"{name}.json").write_bytes(content)

    said = dataward(command, f"{name}.json", *(["out.json"] if command == "convert" else []))

    assert said.code == ExitCode.BAD_INPUT
    assert said.err.startswith(f"dataward: {name}.json")
    assert problem in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not Path("out.json").exists()


@pytest.mark.parametrize(
    ("path", "problem"), [("missing.json", "no such file"), (".", "is a directory")]
)
def test_a_path_that_is_no_file_is_said_with_code_3(
    dataward: Dataward, path: str, problem: str
) -> None:
    said = dataward("inspect", path)

    assert said.code == ExitCode.BAD_INPUT
    assert said.err.startswith(f"dataward: {path}: ")
    assert problem in said.err


@pytest.mark.parametrize("option", ["--bandwidth", "--edge"])
@pytest.mark.parametrize("value", ["fast", "0", "-1"])
def test_a_senseless_bandwidth_is_refused(
    dataward: Dataward, diamond: Path, option: str, value: str
) -> None:
    said = dataward("inspect", diamond, f"{option}={value}")

    assert said.code == ExitCode.USAGE
    assert "bandwidth" in said.err


def test_svg_writes_a_drawing_and_says_where(dataward: Dataward, diamond: Path) -> None:
    said = dataward("inspect", diamond, "--svg", "diamond.svg")

    assert said.code == ExitCode.OK
    assert "The DAG is drawn in diamond.svg" in said.out
    root = ElementTree.parse("diamond.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_an_svg_that_cannot_be_written_is_code_4(dataward: Dataward, diamond: Path) -> None:
    said = dataward("inspect", diamond, "--svg", diamond / "x.svg")

    assert said.code == ExitCode.CANNOT_WRITE
    assert said.err.startswith("dataward: cannot write diamond.json/x.svg: ")
    assert said.out == ""
