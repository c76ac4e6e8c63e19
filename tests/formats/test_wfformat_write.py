import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from dataward.errors import BadValueError, OutputError, SettingError
from dataward.formats import parse_workflow, read_workflow, render, write_workflow
from dataward.model.builder import Edges, WorkflowBuilder
from dataward.model.workflow import Workflow
from formats.any_workflow import workflows
from formats.documents import split_document
from formats.wfformat_rules import wfformat_rules

BOTH = pytest.mark.parametrize("version", ["1.5", "1.6"])


def a_workflow() -> Workflow:
    return parse_workflow(json.dumps(split_document()).encode())


def rendered(workflow: Workflow, version: str = "1.6") -> bytes:
    return b"".join(render(workflow, version))


@BOTH
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workflow=workflows())
def test_any_workflow_survives_being_written_and_read(version: str, workflow: Workflow) -> None:
    assert parse_workflow(rendered(workflow, version)) == workflow


@BOTH
@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workflow=workflows(plain=True))
def test_plainly_named_workflows_obey_the_official_rules(version: str, workflow: Workflow) -> None:
    jsonschema.validate(json.loads(rendered(workflow, version)), wfformat_rules(version))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("name"),
        lambda d: d["workflow"]["specification"]["tasks"][0].pop("children"),
        lambda d: d["workflow"]["specification"]["tasks"][0].update(parents=["a b"]),
        lambda d: d["workflow"]["specification"]["files"][0].update(sizeInBytes=-1),
        lambda d: d["workflow"]["execution"].pop("executedAt"),
        lambda d: d["workflow"]["execution"]["tasks"][0].update(coreCount=0),
        lambda d: d["workflow"]["execution"]["tasks"][0]["command"].update(arguments=[""]),
        lambda d: d.update(schemaVersion="1.4"),
    ],
)
@BOTH
def test_the_rules_can_fail(version: str, spoil) -> None:  # type: ignore[no-untyped-def]
    document = json.loads(rendered(a_workflow(), version))
    spoil(document)

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, wfformat_rules(version))


@BOTH
def test_an_edge_without_a_file_survives(version: str) -> None:
    builder = WorkflowBuilder()
    builder.task("a")
    builder.task("b", after=["a"])

    again = parse_workflow(rendered(builder.build(), version))

    assert again.parents.row(1).tolist() == [0]


@BOTH
def test_empty_words_and_no_words_and_no_command_stay_apart(version: str) -> None:
    builder = WorkflowBuilder()
    for i, command in enumerate([None, [], [""], ["p"], ["p", ""], ["", "x"]]):
        builder.task(str(i), command=command)

    again = parse_workflow(rendered(builder.build(), version))

    assert again.commands == (None, (), ("",), ("p",), ("p", ""), ("", "x"))


def test_retries_are_written_only_where_they_are_set() -> None:
    builder = WorkflowBuilder()
    builder.task("a")
    builder.task("b", retries=0)

    runs = json.loads(rendered(builder.build()))["workflow"]["execution"]["tasks"]

    assert ["datawardRetries" in run for run in runs] == [False, True]


@BOTH
@pytest.mark.parametrize("is_measured", [True, False])
def test_whether_figures_were_measured_survives(version: str, is_measured: bool) -> None:
    wf = WorkflowBuilder()
    wf.task("t", memory_bytes=5)
    if is_measured:
        wf.mark_measured()

    document = rendered(wf.build(), version)

    jsonschema.validate(json.loads(document), wfformat_rules(version))
    assert parse_workflow(document).is_measured is is_measured


@pytest.mark.parametrize(
    ("makespan", "is_measured"), [(0, False), (12.5, True), (-1, False), ("12", False)]
)
def test_a_document_of_a_run_that_took_time_holds_measurements(
    makespan: object, is_measured: bool
) -> None:
    document = split_document()
    document["workflow"]["execution"]["makespanInSeconds"] = makespan

    assert parse_workflow(json.dumps(document).encode()).is_measured is is_measured


def test_version_1_6_states_metrics_and_1_5_does_not() -> None:
    newer = json.loads(rendered(a_workflow(), "1.6"))["workflow"]["specification"]
    older = json.loads(rendered(a_workflow(), "1.5"))["workflow"]["specification"]

    assert "metrics" not in older
    assert newer["metrics"] == {
        "numberOfTasks": 4,
        "numberOfFiles": 6,
        "sumOfFileSizesInBytes": 100,
        "numberOfLevels": 3,
        "minimumWidth": 1,
        "maximumWidth": 2,
    }


def test_other_versions_cannot_be_written() -> None:
    with pytest.raises(SettingError, match=r"choose 1\.5 or 1\.6"):
        render(a_workflow(), "1.4")


def test_a_word_that_no_file_can_hold_is_refused() -> None:
    builder = WorkflowBuilder()
    builder.task("a", command=["x\ud800"])

    with pytest.raises(BadValueError, match="not valid Unicode"):
        rendered(builder.build())


@pytest.mark.parametrize("name", ["w.json", "w.json.gz"])
def test_the_same_workflow_gives_the_same_bytes_in_every_process(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source.json"
    source.write_text(json.dumps(split_document()))
    script = (
        "import sys; from dataward.formats import *;"
        "write_workflow(read_workflow(sys.argv[1]), sys.argv[2])"
    )
    contents = []
    for seed in ("1", "2"):
        target = tmp_path / seed / name
        target.parent.mkdir()
        subprocess.run(
            [sys.executable, "-c", script, source, target],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        contents.append(target.read_bytes())

    assert contents[0] == contents[1]


def test_gzip_is_chosen_by_name(tmp_path: Path) -> None:
    write_workflow(a_workflow(), tmp_path / "w.json.gz")

    assert gzip.decompress((tmp_path / "w.json.gz").read_bytes()) == rendered(a_workflow())
    assert read_workflow(tmp_path / "w.json.gz") == a_workflow()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "w.json"
    target.write_text("old")
    builder = WorkflowBuilder()
    builder.task("a", command=["\ud800"])

    with pytest.raises(BadValueError):
        write_workflow(builder.build(), target)

    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["w.json"]


@pytest.mark.parametrize("name", ["no/such/place.json", "", "x" * 300, "nul\0.json"])
def test_places_that_cannot_be_written_are_output_errors(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_workflow(a_workflow(), tmp_path / name)

    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_workflow(a_workflow(), "/dev/null")

    assert Path("/dev/null").is_char_device()


def test_a_written_file_is_readable_as_the_umask_says(tmp_path: Path) -> None:
    write_workflow(a_workflow(), tmp_path / "w.json")
    (tmp_path / "plain").touch()

    assert (tmp_path / "w.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_workflows_whose_files_decide_their_order_survive_too() -> None:
    builder = WorkflowBuilder()
    builder.task("w", outputs=["f"])
    builder.task("r", inputs=["f"])
    workflow = builder.build(Edges.FILES)

    assert parse_workflow(rendered(workflow)) == workflow
