import pytest

from dataward.errors import CycleError, FormatError
from dataward.formats import parse_workflow
from dataward.model.launch import Launch
from formats.documents import PEGASUS_YAML


def test_pegasus_yaml_is_read() -> None:
    workflow = parse_workflow(PEGASUS_YAML)
    job = workflow.task(0)

    assert workflow.name == "diamond"
    assert workflow.task_ids == ("ID1", "ID2")
    assert workflow.task_names == ("preprocess", "sub.yml")
    assert job.command == ("preprocess", "-a", "two", "words", "-i", "f.a")
    assert (job.inputs, job.outputs) == (("f.a",), ("f.b", "log"))
    assert job.launch == Launch(stdout="log", env=(("A", "B"),))
    assert (job.runtime_seconds, job.cores, job.memory_bytes, job.retries) == (60, 4, 2_000_000, 3)
    assert list(workflow.parents.rows()) == [[], [0]]


def test_sizes_come_from_uses_and_from_the_replica_catalog() -> None:
    workflow = parse_workflow(PEGASUS_YAML)
    sizes = dict(zip(workflow.file_ids, workflow.size_bytes.tolist(), strict=True))

    assert sizes == {"f.a": 77, "f.b": 5, "log": 0}


def test_sections_may_come_in_any_order() -> None:
    text = PEGASUS_YAML.decode()
    start = text.index("jobDependencies")
    workflow = parse_workflow((text[start:] + text[:start]).encode())

    assert workflow == parse_workflow(PEGASUS_YAML)


def test_text_is_never_taken_for_a_truth_value_or_a_number() -> None:
    data = b"jobs:\n- {id: no, name: 1_0, uses: [{lfn: 0x10, type: output}]}\n"

    task = parse_workflow(data).task(0)

    assert (task.id, task.name, task.outputs) == ("no", "1_0", ("0x10",))


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("jobs:\n- id: a\n  uses: 3\n", "line 3", "uses should be a list"),
        ("jobs: 3\n", "line 1", "'jobs' should be a list"),
        ("jobs:\n- id: a\n- id: a\n", "line 3", "two tasks have the id 'a'"),
        ("jobs:\n- name: a\n", "line 2", "a job's id is missing"),
        ("jobs:\n- id: [a]\n", "line 2", "a job's id should be text"),
        ("jobs:\n- a\n", "line 2", "a job should be a mapping"),
        ("jobs:\n- id: a\n  id: b\n", "line 3", "key 'id' twice"),
        ("jobs:\n- id: a\n  uses:\n  - {lfn: f, type: up}\n", "line 4", "'up'"),
        ("jobs:\n- id: a\n  uses:\n  - {type: input}\n", "line 4", "lfn is missing"),
        ("jobs:\n- id: a\n  uses:\n  - {lfn: f, type: input, size: x}\n", "line 4", "size 'x'"),
        ("jobs:\n- id: a\n  profiles: {pegasus: {cores: many}}\n", "line 3", "'many'"),
        (
            "jobs:\n- id: a\njobDependencies:\n- id: a\n  children: [b]\n",
            "line 5",
            "there is no task",
        ),
        ("jobs:\n- id: a\njobDependencies:\n- children: [a]\n", "line 4", "id is missing"),
        ('name: "a\\nb"\njobs:\n- id: a\n', "line 1", "control character"),
        ("jobs:\n- id: a\n b: [\n", "line 3", "not valid YAML"),
        ("jobs:\n- id: &x a\n- id: *x\n", "line 2", "anchors or aliases"),
        ("jobs:\n- id: a\n---\njobs: []\n", "line 3", "second YAML document"),
        ("name: x\n", "", "it has no 'jobs'"),
        ("? [a]\n: b\njobs:\n", "", "not a workflow file"),
        ("jobs:\n- ? [a]\n  : b\n", "line 2", "not plain text"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, place: str, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_workflow(text.encode(), "w.yml")

    assert problem in caught.value.problem
    assert caught.value.place == place


def test_a_cycle_keeps_its_own_type() -> None:
    with pytest.raises(CycleError):
        parse_workflow(b"jobs:\n- id: a\njobDependencies:\n- {id: a, children: [a]}\n")
