import pytest

from dataward.errors import CycleError, FormatError, UnknownParentError
from dataward.formats import parse_workflow
from dataward.model.launch import Launch
from formats.documents import DAX_2, DAX_3


def dax(body: str) -> bytes:
    return f'<adag name="w">\n{body}\n</adag>'.encode()


TWO_JOBS = '<job id="a" name="x"/><job id="b" name="x"/>'


def test_dax_2_is_read() -> None:
    workflow = parse_workflow(DAX_2)

    assert workflow.name == "diamond"
    assert workflow.task_ids == ("ID1", "ID2", "ID3", "ID4")
    assert workflow.task_names == ("split", "left", "right", "join")
    assert list(workflow.parents.rows()) == [[], [0], [0], [1, 2]]
    assert workflow.runtime_seconds.tolist() == [13.93, 1.5, 0, 4]
    assert workflow.commands == (None,) * 4


def test_a_file_has_its_largest_size_and_only_used_files_count() -> None:
    workflow = parse_workflow(DAX_2)

    assert dict(zip(workflow.file_ids, workflow.size_bytes.tolist(), strict=True)) == {
        "in": 10,
        "a": 25,
        "b": 30,
        "c": 1,
        "d": 0,
    }
    assert any("1 file has several sizes" in warning for warning in workflow.warnings)


def test_inout_is_both_read_and_written() -> None:
    task = parse_workflow(DAX_2).task(3)

    assert (task.inputs, task.outputs) == (("c", "d"), ("d",))


def test_dax_3_is_read() -> None:
    workflow = parse_workflow(DAX_3)
    job = workflow.task(0)

    assert workflow.task_names == ("preprocess", "sub.dax", "sub.dag")
    assert job.command == ("preprocess", "-a", "two words", "-i", "f.a", "-o", "f.b")
    assert (job.inputs, job.outputs) == (("f.a",), ("log", "f.b"))
    assert job.launch == Launch(stdout="log")
    assert (job.runtime_seconds, job.cores, job.memory_bytes, job.retries) == (60, 4, 2_000_000, 3)
    assert list(workflow.parents.rows()) == [[], [0], [1]]


def test_dax_3_sizes_come_from_metadata() -> None:
    workflow = parse_workflow(DAX_3)
    sizes = dict(zip(workflow.file_ids, workflow.size_bytes.tolist(), strict=True))

    assert sizes == {"f.a": 1024, "f.b": 5, "log": 0}


def test_prefixes_do_not_matter() -> None:
    data = b'<p:adag xmlns:p="x"><p:job id="a" name="n"/></p:adag>'

    assert parse_workflow(data).task_ids == ("a",)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_other_encodings_are_read(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><adag><job id="é" name="n"/></adag>'

    assert parse_workflow(text.encode(encoding)).task_ids == ("é",)


def test_edges_may_come_before_their_jobs() -> None:
    workflow = parse_workflow(dax('<child ref="b"><parent ref="a"/></child>' + TWO_JOBS))

    assert list(workflow.parents.rows()) == [[], [0]]


def test_negative_sizes_and_run_times_of_the_generator_are_warned_about() -> None:
    body = '<job id="a" name="x" runtime="-1.5"><uses file="f" link="input" size="-7"/></job>'

    workflow = parse_workflow(dax(body))

    assert workflow.runtime_seconds.tolist() == [0]
    assert workflow.size_bytes.tolist() == [0]
    assert workflow.warnings == (
        "1 negative file sizes count as unknown",
        "1 negative run times count as 0",
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<job id="a" name="x" runtime="1,2,3"/>', "run time '1,2,3' is not a number"),
        ('<job id="a" name="x" runtime="1,234.5"/>', "is not a number"),
        ('<job id="a" name="x" runtime="nan"/>', "is not a number"),
        ('<job id="a" name="x" runtime="inf"/>', "is not a number"),
        ('<job id="a" name="x" runtime="1e999"/>', "is not a number"),
        ('<job id="a" name="x" runtime="1e50"/>', "run time"),
        ('<job id="a" name="x" runtime="1_0"/>', "is not a number"),
        ('<job id="a" name="x" runtime="\u0661"/>', "is not a number"),
        (f'<job id="a" name="x" runtime="{"9" * 5000}"/>', "is not a number"),
        ('<job id="a" name="x"><uses file="f" link="input" size="big"/></job>', "file size 'big'"),
        (f'<job id="a" name="x"><uses file="f" link="input" size="{2**61}"/></job>', "size"),
        ('<job id="a" name="x"><uses file="f" link="sideways"/></job>', "'sideways'"),
        ('<job id="a" name="x"><uses link="input"/></job>', "<uses> names no file"),
        ('<job id="a" name="x"><job id="b" name="y"/></job>', "inside another job"),
        ('<job name="x"/>', "task name '' is empty"),
        ('<job id="a&#10;b" name="x"/>', "control character"),
        ('<job id="a" name="x"/><job id="a" name="x"/>', "two tasks have the id 'a'"),
        (TWO_JOBS + "<child><parent ref='a'/></child>", "<child> has no ref"),
        (TWO_JOBS + "<child ref='z'><parent ref='a'/></child>", "there is no task"),
        ("<job id='a'", "not well-formed"),
    ],
)
def test_a_mistake_is_told_with_its_line(body: str, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_workflow(dax(body), "w.xml")

    assert caught.value.place in ("line 2", "line 3")
    assert problem in caught.value.problem


def test_a_whole_graphs_mistake_keeps_its_own_type() -> None:
    ring = '<child ref="a"><parent ref="b"/></child><child ref="b"><parent ref="a"/></child>'

    with pytest.raises(CycleError):
        parse_workflow(dax(TWO_JOBS + ring))
    with pytest.raises(UnknownParentError):
        parse_workflow(dax(TWO_JOBS + '<child ref="a"><parent ref="z"/></child>'))


def test_xml_that_is_no_dax_is_told_so() -> None:
    with pytest.raises(FormatError, match="root is <html>"):
        parse_workflow(b"<html/>")
