import math
import pickle
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given

from builders import a_diamond, workflows
from dataward.errors import (
    BadNameError,
    BadValueError,
    CycleError,
    DuplicateTaskError,
    EmptyWorkflowError,
    MissingInputError,
    NoCommandError,
    SelfFeedingError,
    TwoProducersError,
    UnknownParentError,
)
from dataward.model.builder import Edges, WorkflowBuilder, expand
from dataward.model.function_calls import CALL
from dataward.model.launch import Launch
from dataward.model.runnable import as_run
from dataward.model.workflow import Workflow, type_of


def edges_of(workflow: Workflow) -> set[tuple[str, str]]:
    return {
        (workflow.task_ids[parent], workflow.task_ids[child])
        for child, parents in enumerate(workflow.parents.rows())
        for parent in parents
    }


def test_edges_follow_from_files() -> None:
    assert edges_of(a_diamond()) == {
        ("split", "left"),
        ("split", "right"),
        ("left", "join"),
        ("right", "join"),
    }


def test_after_adds_an_edge_that_no_file_explains() -> None:
    wf = WorkflowBuilder()
    wf.task("b", after=["a"])
    wf.task("a")

    workflow = wf.build()

    assert edges_of(workflow) == {("a", "b")}
    assert workflow.task_ids == ("b", "a")


def test_a_trace_keeps_its_declared_edges_and_warns_of_the_others() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x"])
    wf.task("b", inputs=["x"], after=["a"])
    wf.task("c", inputs=["x"])

    workflow = wf.build(Edges.DECLARED)

    assert edges_of(workflow) == {("a", "b")}
    assert any("imply 1 edges" in warning for warning in workflow.warnings)


def test_declared_edges_without_files_are_warned_of_in_a_trace() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x"])
    wf.task("b", inputs=["x"], after=["a"])
    wf.task("c", after=["a"])

    workflow = wf.build(Edges.DECLARED)

    assert any("1 of 2 declared edges have no file" in warning for warning in workflow.warnings)


def test_edges_from_files_alone_ignore_the_declared() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x"])
    wf.task("b", inputs=["x"])
    wf.task("c", after=["a"])

    assert edges_of(wf.build(Edges.FILES)) == {("a", "b")}


def test_a_cycle_is_named_in_order() -> None:
    wf = WorkflowBuilder()
    wf.task("start")
    wf.task("a", after=["c", "start"])
    wf.task("b", after=["a"])
    wf.task("c", after=["b"])
    wf.task("end", after=["c"])

    with pytest.raises(CycleError) as caught:
        wf.build()

    assert caught.value.tasks == ("a", "b", "c")
    assert str(caught.value) == "workflow has a cycle: 'a' -> 'b' -> 'c' -> 'a'"


def test_a_task_after_itself_is_a_cycle_of_one() -> None:
    wf = WorkflowBuilder()
    wf.task("a", after=["a"])

    with pytest.raises(CycleError) as caught:
        wf.build()

    assert caught.value.tasks == ("a",)


def test_two_producers_are_an_error_in_a_workflow_to_be_run() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x"])
    wf.task("b", outputs=["x"])

    with pytest.raises(TwoProducersError, match="'x' is written by 2 tasks"):
        wf.build()


def test_two_producers_are_a_warning_in_a_trace_whose_edges_settle_the_order() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x"])
    wf.task("b", outputs=["x"], after=["a"])

    workflow = wf.build(Edges.DECLARED)

    assert any("several producers" in warning for warning in workflow.warnings)
    with pytest.raises(TwoProducersError):
        as_run(with_commands(workflow), lambda _: True)


def test_a_task_feeding_itself_is_an_error() -> None:
    wf = WorkflowBuilder()
    wf.task("a", inputs=["x"], outputs=["x"])

    with pytest.raises(SelfFeedingError, match="both reads and writes file 'x'"):
        wf.build()


def test_duplicate_ids_are_refused_at_once() -> None:
    wf = WorkflowBuilder()
    wf.task("a")

    with pytest.raises(DuplicateTaskError):
        wf.task("a")


def test_an_unknown_parent_is_named_with_its_child() -> None:
    wf = WorkflowBuilder()
    wf.task("a", after=["ghost"])

    with pytest.raises(UnknownParentError, match="'a' comes after 'ghost'"):
        wf.build()


def test_an_empty_workflow_is_refused() -> None:
    with pytest.raises(EmptyWorkflowError):
        WorkflowBuilder("nothing").build()


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 1e12])
def test_an_absurd_run_time_is_refused(seconds: float) -> None:
    with pytest.raises(BadValueError, match="run time"):
        WorkflowBuilder().task("a", runtime_seconds=seconds)


@pytest.mark.parametrize("size", [-2, 2**61])
def test_an_absurd_size_is_refused(size: int) -> None:
    with pytest.raises(BadValueError, match="size"):
        WorkflowBuilder().file("x", size)


@pytest.mark.parametrize(
    ("needs", "quantity"),
    [({"cores": 0}, "cores"), ({"memory_bytes": -1}, "memory"), ({"retries": -1}, "retries")],
)
def test_absurd_needs_are_refused(needs: dict[str, int], quantity: str) -> None:
    with pytest.raises(BadValueError, match=quantity):
        WorkflowBuilder().task("a", **needs)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00", "\x1b[2J", "\ud800", "x" * 5000])
def test_names_that_cannot_be_printed_are_refused(name: str) -> None:
    with pytest.raises(BadNameError):
        WorkflowBuilder().task(name)


@pytest.mark.parametrize("name", ["../../etc/x", "/etc/x", "a/../b", "~/x", "a//b", "C:x"])
def test_names_that_leave_the_directory_load_with_a_warning_but_do_not_run(name: str) -> None:
    wf = WorkflowBuilder()
    wf.command("true", inputs=[name])

    workflow = wf.build()

    assert any("not a plain relative path" in warning for warning in workflow.warnings)
    with pytest.raises(BadNameError):
        as_run(workflow, lambda _: True)


@pytest.mark.parametrize("part", ["inputs", "outputs", "after", "command"])
def test_text_where_a_list_belongs_is_not_taken_for_a_list_of_letters(part: str) -> None:
    problem = rf"task 'a' has {part} 'xyz', which is no list: write \['xyz'\]"
    with pytest.raises(BadValueError, match=problem):
        WorkflowBuilder().task("a", **{part: "xyz"})  # type: ignore[arg-type]


def test_the_largest_of_several_sizes_is_kept_with_a_warning() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x"])
    for size in (7, 9, 8):
        wf.file("x", size)

    workflow = wf.build()

    assert workflow.size_bytes.tolist() == [9]
    assert any("several sizes" in warning for warning in workflow.warnings)


def test_the_two_sizes_that_are_named_differ_also_if_the_first_is_the_largest() -> None:
    wf = WorkflowBuilder()
    wf.task("a", outputs=["x"])
    for size in (9, 9, 7):
        wf.file("x", size)

    assert any("('x': 9 and 7 bytes" in warning for warning in wf.build().warnings)


def test_a_missing_input_is_named_with_its_reader() -> None:
    wf = WorkflowBuilder()
    wf.command("cat {inputs}", inputs=["raw"], id="reader")
    workflow = wf.build()

    as_run(workflow, lambda file: file == "raw")
    with pytest.raises(
        MissingInputError, match=r"'raw' .read by 'reader'.; looked in here and there"
    ):
        as_run(workflow, lambda _: False, ["here", "there"])


def test_all_missing_inputs_are_named() -> None:
    wf = WorkflowBuilder()
    wf.command("cat {inputs}", inputs=[f"raw{i}" for i in range(13)], id="reader")

    with pytest.raises(MissingInputError) as caught:
        as_run(wf.build(), lambda file: file == "raw0")

    assert list(caught.value.readers) == [f"raw{i}" for i in range(1, 13)]
    assert str(caught.value).startswith("12 inputs are missing, which no task writes: 'raw1'")
    assert str(caught.value).endswith("'raw10' (read by 'reader'), 2 more")


def test_a_task_without_a_command_cannot_be_run() -> None:
    with pytest.raises(NoCommandError, match="'split' has no command, so there is nothing to run"):
        as_run(a_diamond(), lambda _: True)


def test_a_line_goes_to_the_shell_with_names_quoted_and_other_braces_left_alone() -> None:
    line = "awk '{print $1}' {inputs} > {outputs[0]}"

    words = expand(line, ["a b", "c"], ["out"])

    assert words == ("sh", "-c", "awk '{print $1}' 'a b' c > out")


def test_a_list_of_words_needs_no_shell() -> None:
    assert expand(["cat", "{inputs}", "-o={outputs}"], ["a b", "c"], ["d"]) == (
        "cat",
        "a b",
        "c",
        "-o=d",
    )


def test_a_placeholder_beyond_the_files_is_refused() -> None:
    with pytest.raises(BadValueError, match="it has 1 inputs"):
        expand("cat {inputs[1]}", ["a"], [])


def test_commands_are_named_after_their_program() -> None:
    wf = WorkflowBuilder()
    wf.command("/usr/bin/sort {inputs}", inputs=["a"])

    task = wf.build().task(0)

    assert (task.id, task.name) == ("sort-1", "sort")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mProjectPP", "mProjectPP"),
        ("individuals_ID0000001", "individuals"),
        ("cpuhog_chain_00000001", "cpuhog_chain"),
        ("FASTQC (ERR044595)", "FASTQC"),
        ("00017", "00017"),
        ("blastall_00000002", "blastall"),
        ("sort-12", "sort"),
        ("RNAMotif2", "RNAMotif2"),
    ],
)
def test_a_tasks_type_is_its_name_without_numbering(name: str, kind: str) -> None:
    assert type_of(name) == kind


@given(workflows())
def test_order_puts_every_parent_first_and_levels_are_longest_distances(workflow: Workflow) -> None:
    place = np.argsort(workflow.layers.order)

    for child, parents in enumerate(workflow.parents.rows()):
        deepest = max((workflow.layers.level_of[p] for p in parents), default=-1)
        assert workflow.layers.level_of[child] == deepest + 1
        assert all(place[p] < place[child] for p in parents)


@given(workflows())
def test_a_view_of_a_task_says_what_the_arrays_say(workflow: Workflow) -> None:
    for i, id in enumerate(workflow.task_ids):
        task = workflow.task(i)

        assert workflow.index_of[id] == i
        assert sum(workflow.size_bytes[workflow.inputs.row(i)]) == workflow.input_bytes()[i]
        assert len(task.outputs) == len(workflow.outputs.row(i))


def with_commands(workflow: Workflow) -> Workflow:
    return replace(workflow, commands=(("true",),) * len(workflow))


def test_files_that_imply_billions_of_edges_are_refused_before_they_are_made() -> None:
    wf = WorkflowBuilder()
    for i in range(30_000):
        wf.task(f"w{i}", outputs=["x"])
        wf.task(f"r{i}", inputs=["x"])

    with pytest.raises(BadValueError, match="edges implied by files 900000000"):
        wf.build(Edges.DECLARED)


def test_an_edge_to_an_unknown_child_names_the_child() -> None:
    wf = WorkflowBuilder()
    wf.task("a")

    with pytest.raises(UnknownParentError, match="there is no task 'ghost'"):
        wf.order("a", "ghost")


# --- calls of functions --------------------------------------------------------------------------


def test_a_call_is_a_task_named_after_its_function_whose_first_output_is_its_result() -> None:
    wf = WorkflowBuilder()
    first = wf.call(len, "abc", outputs=["log"], cores=2, retries=3)
    second = wf.call(partial(max, 1), 2, id="largest", after=[first.task])
    third = wf.call(lambda x: x, 1)

    workflow = wf.build()

    task = workflow.task(0)
    assert (task.id, task.name, task.cores, task.retries) == ("len-1", "len", 2, 3)
    assert task.outputs == ("len-1.pickle", "log")
    assert (first.task, first.file) == ("len-1", "len-1.pickle")
    assert (second.task, second.file) == ("largest", "largest.pickle")
    assert workflow.task(2).name == "lambda"
    assert third.task == "lambda-3"
    assert edges_of(workflow) == {("len-1", "largest")}


def test_the_results_among_a_calls_arguments_are_its_inputs() -> None:
    wf = WorkflowBuilder()
    one, two, three = (wf.call(abs, n, id=f"n{n}") for n in range(3))
    wf.call(print, {"a": [one, two]}, two, key=(three,), id="all", inputs=["in"])

    assert wf.build().task(3).inputs == ("in", "n0.pickle", "n1.pickle", "n2.pickle")


def test_the_same_call_is_the_same_command_and_another_is_another() -> None:
    def command(number: int, step: int = 1) -> object:
        wf = WorkflowBuilder()
        wf.call(lambda x: x + step, number)
        return wf.build().commands[0]

    assert command(1) == command(1)
    assert len({command(1), command(2), command(1, 2)}) == 3


def test_a_call_that_cannot_be_pickled_is_refused_and_leaves_no_task() -> None:
    wf = WorkflowBuilder()

    with pytest.raises(pickle.PicklingError, match="len or its arguments cannot be pickled"):
        wf.call(len, threading.Lock())

    assert len(wf) == 0


def test_the_files_of_streams_are_an_input_and_outputs_after_those_that_are_listed() -> None:
    wf = WorkflowBuilder("streams")
    wf.command("x {inputs} {outputs}", inputs=["a"], outputs=["b"], stdin="c", stdout="d", id="t")
    wf.command("y", inputs=["a"], stdin="a", stdout="e", stderr="e", env={"Z": "1", "A": "2"})

    first, second = (wf.build().task(i) for i in range(2))

    assert first.command == ("sh", "-c", "x a b")
    assert (first.inputs, first.outputs) == (("a", "c"), ("b", "d"))
    assert (second.inputs, second.outputs) == (("a",), ("e",))
    assert second.launch == Launch("a", "e", "e", (("A", "2"), ("Z", "1")))


def test_a_command_without_streams_and_variables_has_no_launch() -> None:
    wf = WorkflowBuilder("plain")
    wf.command("true", env={})

    workflow = wf.build()

    assert workflow.task(0).launch is None
    assert workflow.launches == {}


@pytest.mark.parametrize(
    "env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "\0"}, {"A": "\ud800"}]
)
def test_variables_that_no_environment_can_have_are_refused(env: dict[str, str]) -> None:
    with pytest.raises(BadValueError, match=r"task 't'.*variable"):
        WorkflowBuilder("odd").command("true", env=env, id="t")


def test_a_call_has_no_launch() -> None:
    with pytest.raises(BadValueError, match="calls a function"):
        WorkflowBuilder("odd").task("t", command=[CALL, "x"], launch=Launch(stdin="a"))
