"""A trace as it is replayed: what is read comes from the last writer that precedes the reader."""

from hypothesis import given
from hypothesis import strategies as st

from builders import a_diamond
from dataward.model.builder import Edges, WorkflowBuilder
from dataward.model.replay import as_replayed
from dataward.model.workflow import Workflow
from dataward.sim.odd_workflows import odd_workflow


def ancestors(workflow: Workflow) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in workflow.task_ids]
    for task in workflow.layers.order.tolist():
        for parent in workflow.parents.row(task).tolist():
            found[task] |= {parent} | found[parent]
    return found


def readers_and_writers(workflow: Workflow) -> dict[tuple[str, str], str]:
    """For each reader and the file it reads, as replayed: who writes that."""
    replayed = as_replayed(workflow)
    ids, files = replayed.task_ids, replayed.file_ids
    return {
        (ids[reader], files[file]): " ".join(ids[w] for w in replayed.producers.row(file).tolist())
        for reader, row in enumerate(replayed.inputs.rows())
        for file in row
    }


def test_a_workflow_whose_files_follow_its_edges_stays_as_it_is() -> None:
    workflow = a_diamond()

    assert as_replayed(workflow) is workflow


def test_a_file_is_read_from_the_last_writer_that_precedes_the_reader() -> None:
    wf = WorkflowBuilder()
    wf.task("first", outputs=["x"])
    wf.task("second", outputs=["x"], after=["first"])
    wf.task("third", outputs=["x"], after=["second"])
    wf.task("reader", inputs=["x"], after=["second"])

    assert readers_and_writers(wf.build(Edges.DECLARED)) == {("reader", "x~2"): "second"}


def test_a_reader_waits_for_a_writer_that_precedes_it_from_afar() -> None:
    wf = WorkflowBuilder()
    wf.task("writer", outputs=["x"])
    wf.task("between", after=["writer"])
    wf.task("reader", inputs=["x"], after=["between"])

    replayed = as_replayed(wf.build(Edges.DECLARED))

    assert replayed.parents.row(2).tolist() == [0, 1]


def test_what_no_preceding_task_writes_was_there_before() -> None:
    wf = WorkflowBuilder()
    wf.task("root")
    wf.task("writer", outputs=["x"], after=["root"])
    wf.task("reader", inputs=["x"], after=["root"])

    replayed = as_replayed(wf.build(Edges.DECLARED))

    assert readers_and_writers(replayed) == {("reader", "x"): ""}
    assert replayed.file_ids == ("x", "x~2")
    assert replayed.parents.row(2).tolist() == [0]


def test_a_task_that_reads_what_it_writes_reads_what_was_there_before() -> None:
    wf = WorkflowBuilder()
    wf.task("root", outputs=["x"])
    wf.task("again", inputs=["x"], outputs=["x"], after=["root"])

    assert readers_and_writers(wf.build(Edges.DECLARED)) == {("again", "x"): "root"}


def test_a_new_file_takes_no_name_that_is_taken() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x", "x~2"])
    wf.task("b", outputs=["x"], after=["a"])

    assert as_replayed(wf.build(Edges.DECLARED)).file_ids == ("x", "x~2", "x~3")


@given(st.integers(0, 100_000))
def test_every_file_has_one_writer_for_whom_its_readers_wait(seed: int) -> None:
    replayed = as_replayed(odd_workflow(seed))

    for reader, files in enumerate(replayed.inputs.rows()):
        for file in files:
            writers = set(replayed.producers.row(file).tolist())
            assert len(writers) <= 1
            assert writers <= set(replayed.parents.row(reader).tolist())


@given(st.integers(0, 100_000))
def test_replaying_orders_nothing_that_was_not_ordered(seed: int) -> None:
    workflow = odd_workflow(seed)

    assert ancestors(as_replayed(workflow)) == ancestors(workflow)


@given(st.integers(0, 100_000))
def test_as_many_bytes_are_read_and_written_from_the_last_of_preceding_writers(seed: int) -> None:
    workflow = odd_workflow(seed)
    replayed, before = as_replayed(workflow), ancestors(workflow)
    place = {task: at for at, task in enumerate(workflow.layers.order.tolist())}

    assert replayed.input_bytes().tolist() == workflow.input_bytes().tolist()
    assert replayed.output_bytes().tolist() == workflow.output_bytes().tolist()
    for reader, files in enumerate(workflow.inputs.rows()):
        for file, copy in zip(files, replayed.inputs.row(reader).tolist(), strict=True):
            preceding = before[reader] & set(workflow.producers.row(file).tolist())
            last = [max(preceding, key=lambda task: place[task])] if preceding else []
            assert replayed.producers.row(copy).tolist() == last
