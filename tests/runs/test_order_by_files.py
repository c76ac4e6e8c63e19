"""Workflows whose files say more than their edges: both order the tasks of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from dataward.model.events import AttemptBegan
from dataward.reports.event_file import EventFileReader
from runs.real_runs import OUTPUTS, RUN_DIRECTORY

NODES = ["1", "3"]


def a_task(id: str, line: str, inputs: str = "", outputs: str = "") -> dict[str, Any]:
    return {"id": id, "line": line, "inputs": inputs.split(), "outputs": outputs.split()}


def a_file(*tasks: dict[str, Any]) -> Path:
    """A WfFormat file that declares no edges."""
    files = dict.fromkeys(f for task in tasks for f in (*task["inputs"], *task["outputs"]))
    document = {
        "name": "by files",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {
                "tasks": [
                    {"id": task["id"], "name": task["id"], "parents": [], "children": [],
                     "inputFiles": task["inputs"], "outputFiles": task["outputs"]}
                    for task in tasks
                ],
                "files": [{"id": file, "sizeInBytes": 1} for file in files],
            },
            "execution": {
                "makespanInSeconds": 1, "executedAt": "2024-01-01T00:00:00Z",
                "tasks": [
                    {"id": task["id"], "runtimeInSeconds": 1,
                     "command": {"program": "sh", "arguments": ["-c", task["line"]]}}
                    for task in tasks
                ],
            },
        },
    }  # fmt: skip
    path = Path("w.json")
    path.write_text(json.dumps(document))
    return path


def count_runs(place: Path, task: str) -> str:
    """A shell line that notes, outside its directory, that the task has run."""
    return f"echo {task} >> {place / 'ran'}"


@pytest.mark.parametrize("nodes", NODES)
def test_tasks_ordered_by_files_alone_run_once_each_and_end(nodes, run, tmp_path):
    place = tmp_path.absolute()
    path = a_file(
        a_task("c", f"cat b > c && {count_runs(place, 'c')}", "b", "c"),
        a_task("d", f"cat b c > d && {count_runs(place, 'd')}", "b c", "d"),
        a_task("b", f"cat a > b && {count_runs(place, 'b')}", "a", "b"),
        a_task("a", f"echo made > a && {count_runs(place, 'a')}", "", "a"),
    )

    end = run(path, "--nodes", nodes)

    assert end.code == 0
    assert end.counts == (4, 0, 0, 0)
    ran = (place / "ran").read_text().split()
    assert list(dict.fromkeys(ran)) == ["a", "b", "c", "d"]
    assert nodes != "1" or len(ran) == 4  # several nodes may run replicas
    assert (OUTPUTS / "d").read_text() == "made\nmade\n"


@pytest.mark.parametrize("nodes", NODES)
def test_a_second_run_skips_what_files_alone_had_ordered(nodes, run):
    path = a_file(a_task("b", "cat a > b", "a", "b"), a_task("a", "echo > a", "", "a"))
    run(path, "--nodes", nodes)

    assert run(path, "--nodes", nodes).counts == (0, 2, 0, 0)


def test_a_cycle_made_by_files_is_refused_and_named_before_anything_runs(run):
    path = a_file(a_task("x", "touch a", "b", "a"), a_task("y", "touch b", "a", "b"))

    end = run(path, text=True)

    assert end.code == 3
    assert "workflow has a cycle: 'x' -> 'y' -> 'x'" in end.err
    assert not RUN_DIRECTORY.exists()


def test_a_file_with_two_writers_is_refused_with_both_named_before_anything_runs(run):
    path = a_file(a_task("x", "touch a", "", "a"), a_task("y", "touch a", "", "a"))

    end = run(path, text=True)

    assert end.code == 3
    assert "file 'a' is written by 2 tasks ('x' and 'y')" in end.err
    assert not RUN_DIRECTORY.exists()


def test_every_missing_input_is_named_with_the_places_looked_in(run):
    path = a_file(a_task("x", "true", "p q"), a_task("y", "true", "q r"))
    Path("w.inputs").mkdir()

    end = run(path, text=True)

    assert end.code == 3
    assert "3 inputs are missing" in end.err
    for words in ("'p' (read by 'x')", "'q' (read by 'x')", "'r' (read by 'y')", "w.inputs"):
        assert words in end.err


def test_a_pegasus_workflow_without_dependencies_runs_every_job_once(run):
    Path("w.yml").write_text(
        """
pegasus: "5.0"
name: by files
jobs:
- {type: job, name: cp, id: second, arguments: [a, b],
   uses: [{lfn: a, type: input}, {lfn: b, type: output}]}
- {type: job, name: touch, id: first, arguments: [a], uses: [{lfn: a, type: output}]}
"""
    )

    end = run(Path("w.yml"))

    events = EventFileReader(RUN_DIRECTORY / "1" / "events")
    assert end.counts == (2, 0, 0, 0)
    assert [e.task for e in events if isinstance(e, AttemptBegan)] == ["first", "second"]
