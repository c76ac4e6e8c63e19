from typing import Any

import pytest

from dataward.errors import CycleError, FormatError, UnknownParentError
from dataward.formats import parse_workflow
from dataward.model.builder import Edges
from dataward.model.workflow import Workflow
from formats.documents import TASKS, VERSIONS, Document, as_bytes, document, flat_document, run
from formats.documents import split_document as split


def parsed(value: Any, edges: Edges | None = None) -> Workflow:
    return parse_workflow(as_bytes(value), "w.json", edges)


def tasks_of(value: Document) -> list[Document]:
    tasks: list[Document] = value["workflow"]["specification"]["tasks"]
    return tasks


def runs_of(value: Document) -> list[Document]:
    runs: list[Document] = value["workflow"]["execution"]["tasks"]
    return runs


def parents(workflow: Workflow) -> list[list[int]]:
    return list(workflow.parents.rows())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_same_diamond(version: str) -> None:
    workflow = parsed(document(version))

    assert workflow.name == "diamond"
    assert parents(workflow) == [[], [0], [0], [1, 2]]
    assert workflow.runtime_seconds.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert workflow.cores.tolist() == [2] * 4
    assert workflow.file_ids == ("in", "a", "b", "c", "d", "out")
    assert workflow.task(3).inputs == ("c", "d")
    assert workflow.task(0).outputs == ("a", "b")
    assert workflow.warnings == ()


def test_a_split_document_keeps_ids_names_commands_and_memory() -> None:
    task = parsed(split()).task(1)

    assert (task.id, task.name, task.command) == ("left", "left-name", ("prog", "-x", "left"))
    assert task.memory_bytes == 1000
    assert task.retries is None


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
def test_flat_tasks_go_by_name_and_their_memory_is_in_kilobytes_before_1_4(version: str) -> None:
    task = parsed(flat_document(version)).task(1)

    assert (task.id, task.command, task.memory_bytes) == ("left_ID1", ("left", "-x"), 5000)


def test_flat_tasks_of_one_name_are_told_apart_by_id() -> None:
    value = flat_document("1.4")
    for task in value["workflow"]["tasks"]:
        task |= {"name": "same", "parents": [], "children": []}
    value["workflow"]["tasks"][3]["parents"] = ["ID0"]

    workflow = parsed(value)

    assert workflow.task_ids == ("same_ID0", "same_ID1", "same_ID2", "same_ID3")
    assert parents(workflow)[3] == [0]


def test_a_reference_to_a_name_that_two_flat_tasks_have_is_refused() -> None:
    value = flat_document("1.4")
    for task in value["workflow"]["tasks"]:
        task |= {"name": "same", "parents": ["same"]}

    with pytest.raises(FormatError, match=r"tasks\[0\].parents: .*several tasks"):
        parsed(value)


@pytest.mark.parametrize("version", VERSIONS)
def test_edges_declared_by_children_alone_count(version: str) -> None:
    value = document(version)
    workflow = value["workflow"]
    for task in workflow.get("specification", workflow).get("tasks") or workflow["jobs"]:
        del task["parents"]

    result = parsed(value)

    assert parents(result) == [[], [0], [0], [1, 2]]
    assert any("declare different edges" in warning for warning in result.warnings)


def test_edges_declared_by_parents_alone_count() -> None:
    value = split()
    for task in tasks_of(value):
        del task["children"]

    assert parents(parsed(value)) == [[], [0], [0], [1, 2]]


def test_children_listed_twice_are_one_edge() -> None:
    value = split()
    tasks_of(value)[1]["children"] = ["right", "right", "join"]

    assert parents(parsed(value))[2] == [0, 1]


def test_edges_can_be_taken_from_files() -> None:
    value = split()
    tasks_of(value)[2]["parents"] = []
    tasks_of(value)[0]["children"] = ["left"]

    assert parents(parsed(value)) == [[], [0], [], [1, 2]]
    assert parents(parsed(value, Edges.FILES)) == [[], [0], [0], [1, 2]]


def test_runs_in_another_order_find_their_tasks() -> None:
    value = split()
    runs_of(value).reverse()

    assert parsed(value) == parsed(split())


def test_tasks_without_a_run_and_runs_without_a_task_are_warned_about() -> None:
    value = split()
    runs_of(value)[1] = run("ghost", 1)

    workflow = parsed(value)

    assert workflow.runtime_seconds.tolist() == [0.5, 0, 2.5, 3.5]
    assert any("1 tasks have no recorded run" in warning for warning in workflow.warnings)
    assert any("1 recorded runs are ignored" in warning for warning in workflow.warnings)


def test_a_specification_alone_is_enough() -> None:
    value = split()
    del value["workflow"]["execution"]

    assert parsed(value).runtime_seconds.tolist() == [0] * 4


@pytest.mark.parametrize(("count", "cores"), [(0, 1), (0.5, 1), (1, 1), (1.01, 2), (3.0, 3)])
def test_fractional_cores_are_rounded_up(count: float, cores: int) -> None:
    value = split()
    runs_of(value)[0]["coreCount"] = count

    assert parsed(value).cores[0] == cores


def test_a_byte_order_mark_is_no_trouble() -> None:
    assert parse_workflow(b"\xef\xbb\xbf" + as_bytes(split())) == parsed(split())


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("workflow", "specification", "tasks", 2, "parents"), 3, "tasks[2].parents"),
        (("workflow", "specification", "tasks", 2, "parents", 0), 3, "tasks[2].parents[0]"),
        (("workflow", "specification", "tasks", 1, "id"), None, "tasks[1].id"),
        (("workflow", "specification", "tasks", 1), "x", "specification.tasks[1]"),
        (("workflow", "specification", "tasks"), {}, "specification.tasks"),
        (("workflow", "specification", "files", 1, "sizeInBytes"), "1", "files[1].sizeInBytes"),
        (("workflow", "specification", "files", 1, "sizeInBytes"), -3, "files[1]"),
        (("workflow", "specification", "files", 1, "sizeInBytes"), -1, "files[1]"),
        (("workflow", "specification", "files", 1, "sizeInBytes"), 10**30, "files[1]"),
        (("workflow", "execution", "tasks", 3, "runtimeInSeconds"), "1", "execution.tasks[3].runt"),
        (("workflow", "execution", "tasks", 3, "runtimeInSeconds"), -1, "tasks[3]"),
        (("workflow", "execution", "tasks", 3, "coreCount"), -1, "tasks[3]"),
        (("workflow", "execution", "tasks", 3, "coreCount"), 1e300, "tasks[3]"),
        (("workflow", "execution", "tasks", 3, "memoryInBytes"), 10**25, "tasks[3]"),
        (("workflow", "execution", "tasks", 3, "command"), "ls", "execution.tasks[3].command"),
        (("workflow", "execution"), [], "$.workflow.execution"),
        (("workflow",), 7, "$.workflow"),
        (("name",), "a\nb", "$.name"),
        (("name",), 3, "$.name"),
        (("workflow", "specification", "tasks", 2, "id"), "split", "specification.tasks[2]"),
        (("workflow", "specification", "tasks", 2, "children", 0), "x", "tasks[2].children"),
    ],
)
def test_a_mistake_is_told_with_its_place(path: tuple[Any, ...], value: Any, place: str) -> None:
    wrong = split()
    target: Any = wrong
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value

    with pytest.raises(FormatError) as caught:
        parsed(wrong)

    assert place in caught.value.place
    assert str(caught.value).startswith("w.json, $.")


def test_a_whole_graphs_mistake_keeps_its_own_type() -> None:
    cyclic, orphaned = split(), split()
    tasks_of(cyclic)[0]["parents"] = ["join"]
    tasks_of(orphaned)[0]["parents"] = ["nobody"]

    with pytest.raises(CycleError):
        parsed(cyclic)
    with pytest.raises(UnknownParentError, match="nobody"):
        parsed(orphaned)


@pytest.mark.parametrize("version", ["0.9", "1.7", "2.0", "", "x" * 1000])
def test_other_versions_are_refused_by_name(version: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(split(version))

    assert caught.value.place == "$.schemaVersion"
    assert len(str(caught.value)) < 200
    assert not version or "dataward reads 1.0 to 1.6" in str(caught.value)


def test_a_version_written_as_a_number_is_understood() -> None:
    assert parsed(split() | {"schemaVersion": 1.5}) == parsed(split())


@pytest.mark.parametrize("value", [{}, {"pegasus": 1}, {"name": "x", "schemaVersion": "1.5"}])
def test_json_that_is_no_workflow_is_told_so(value: Document) -> None:
    with pytest.raises(FormatError, match="not WfFormat"):
        parsed(value)


def test_broken_json_is_told_with_its_line() -> None:
    with pytest.raises(FormatError, match=r"line 3: is not valid JSON"):
        parse_workflow(b'{\n"name": "x",\n"schemaVersion": 1.5.5}')


def test_all_tasks_are_there_in_order() -> None:
    assert parsed(split()).task_ids == TASKS


def test_options_of_wfbench_are_two_words_and_its_files_are_json() -> None:
    raw = document("1.6")
    raw["workflow"]["execution"]["tasks"][0]["command"] = {
        "program": "wfbench",
        "arguments": [
            "--name split_1", "--name -x", "--cpu-work 5", "--verbose", "--debug",
            "--output-files {'a': 20408, \"it's\": 1}", "--input-files ['in']", "plain word",
            "--odd {not python",
        ],
    }  # fmt: skip

    command = parse_workflow(as_bytes(raw)).task(0).command

    assert command == (
        "wfbench", "--name", "split_1", "--name=-x", "--cpu-work", "5", "--verbose", "--debug",
        "--output-files", '{"a": 20408, "it\'s": 1}', "--input-files", '["in"]', "plain word",
        "--odd", "{not python",
    )  # fmt: skip


def test_arguments_of_other_programs_are_words_as_they_are() -> None:
    raw = document("1.6")
    command = {"program": "prog", "arguments": ["--name a b", "['in']"]}
    raw["workflow"]["execution"]["tasks"][0]["command"] = command

    assert parse_workflow(as_bytes(raw)).task(0).command == ("prog", "--name a b", "['in']")
