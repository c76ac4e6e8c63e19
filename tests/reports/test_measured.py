import pytest

from builders import a_diamond
from dataward.errors import BadValueError
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from dataward.model.events import FileStored, TaskFinished, TaskSkipped
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.reports.measured import measured_workflow
from reports.lives import attempt_of, done, error, failed, measured, ran, started
from reports.runs import simulated


def test_what_was_measured_takes_the_place_of_what_was_declared() -> None:
    events = [
        *ran("split", 5.0, 2.5),
        measured("left", 6.0, 7.0, memory=4096),
        TaskFinished(6.0, TaskId("left"), attempt_of("left"), "n0", TaskState.COMPLETE, 1),
        FileStored(6.0, FileId("a"), "n0", 1234),
    ]

    found = measured_workflow(a_diamond(), [events])

    assert found.runtime_seconds.tolist() == [2.5, 7.0, 3.0, 4.0]
    assert found.memory_bytes.tolist() == [0, 4096, 0, 0]
    assert found.size_bytes.tolist() == [5, 1234, 20, 30, 40, 50]


def test_everything_else_stays_as_it_was() -> None:
    workflow = generate("montage", 60, 1)

    assert measured_workflow(workflow, []) == workflow


def test_only_the_attempt_that_won_counts() -> None:
    loser = measured("split", 1.0, 99.0, node="n1")

    found = measured_workflow(
        a_diamond(), [[loser, *error("split", 1.0), *ran("split", 4.0, count=2)]]
    )

    assert found.runtime_seconds[0] == 1.0


def test_a_task_that_failed_or_was_skipped_is_not_measured() -> None:
    events = [*error("split", 1.0), failed("split", 1.0), TaskSkipped(0.0, TaskId("left"))]

    found = measured_workflow(a_diamond(), [events])

    assert found == a_diamond()
    assert found.warnings == ("4 of 4 tasks were not measured and keep their declared run times",)


def test_a_run_that_measured_all_leaves_nothing_to_warn_of() -> None:
    workflow = generate("montage", 60, 1)

    found = measured_workflow(workflow, [simulated()])

    assert not [sentence for sentence in found.warnings if "not measured" in sentence]
    assert found.parents == workflow.parents


def test_a_task_that_ran_again_counts_as_it_last_ran() -> None:
    events = [*ran("split", 2.0, 1.0), *ran("split", 9.0, 5.0, count=2, end=2)]

    assert measured_workflow(a_diamond(), [events]).runtime_seconds[0] == 5.0


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), 1e300])
def test_a_measurement_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(BadValueError, match="split"):
        measured_workflow(a_diamond(), [ran("split", 1.0, seconds)])


def test_a_task_skipped_in_the_last_run_counts_as_it_ran_in_an_earlier_one() -> None:
    first = [*ran("split", 1.0, 2.0), *ran("left", 9.0, 3.0)]
    second = [TaskSkipped(0.0, TaskId("split")), *ran("left", 9.0, 4.0)]

    found = measured_workflow(a_diamond(), [first, second])

    assert found.runtime_seconds.tolist()[:2] == [2.0, 4.0]


def test_how_a_command_is_launched_and_where_inputs_are_stays_as_it_was() -> None:
    wf = WorkflowBuilder("launched")
    wf.file("in", 5, path="/somewhere/in")
    wf.command(["sort"], stdin="in", stdout="out", env={"LC_ALL": "C"}, id="t")
    workflow = wf.build()

    assert measured_workflow(workflow, [ran("t", 1.0, 2.0)]).launches == workflow.launches
    assert measured_workflow(workflow, []).locations == workflow.locations


def test_what_a_task_needs_besides_its_command_counts_too() -> None:
    events = [*started("split", 1.0), *done("split", 4.5, seconds=2.0)]

    assert measured_workflow(a_diamond(), [events]).runtime_seconds[0] == 3.5
