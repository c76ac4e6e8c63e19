"""Workflows simulated from Python: the same kind of report as of a real run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import dataward
from dataward import WorkflowBuilder, generate, write_workflow
from dataward.cli.main import main
from dataward.errors import SettingError
from dataward.model.events import TaskFinished
from dataward.model.platform import Machine, Platform
from dataward.model.states import RunState


def test_a_simulation_is_what_the_command_says_of_it(capsys):
    workflow = generate("montage", 60, seed=1)
    write_workflow(workflow, "montage.json")
    with pytest.raises(SystemExit):
        main(["simulate", "montage.json", "--nodes", "4", "--faults", "crashes", "--json"])
    (said,) = json.loads(capsys.readouterr().out)

    report = dataward.simulate("montage.json", nodes=4, faults="crashes")

    assert report.summary.makespan_seconds == said["makespan_seconds"]
    assert report.bound_seconds == said["lower_bound_seconds"]
    assert report.summary.complete == said["complete"] == 60


def test_a_simulated_report_answers_as_one_of_a_real_run():
    report = dataward.simulate(generate("montage", 30, seed=1), nodes=2, strategy="adage")

    report.draw("run.svg")

    assert report.state is RunState.COMPLETE
    assert sum(isinstance(event, TaskFinished) for event in report.events()) == 30
    assert " ran once on n" in report.why(report.workflow.task_ids[0])
    assert Path("run.svg").read_text().startswith("<svg")
    assert report.outputs == {}
    assert report.logs(report.workflow.task_ids[0]).stdout == b""


def test_a_simulation_from_which_a_task_is_removed_is_partial():
    wf = WorkflowBuilder("two")
    wf.task("a", outputs=["x"], runtime_seconds=2.0)
    wf.task("b", inputs=["x"], runtime_seconds=3.0)

    report = dataward.simulate(wf, nodes=1, removals=["a@1"])

    assert (report.state, report.is_complete) == (RunState.PARTIAL, False)
    assert report.summary.removed == 2
    assert report.why("a") == "a was removed while it ran on n0"
    assert report.why("b") == "b was removed with a, which it depends on"


def test_a_builder_is_simulated_as_it_would_be_run():
    wf = WorkflowBuilder("two")
    wf.task("a", outputs=["x"], runtime_seconds=2.0)
    wf.task("b", inputs=["x"], runtime_seconds=3.0)

    assert dataward.simulate(wf, nodes=1).summary.makespan_seconds == pytest.approx(5.0, abs=0.1)


def one_that_reads(size_bytes: int, *, measured: bool) -> WorkflowBuilder:
    """A task of 1 s that reads a file and writes one of the same size."""
    wf = WorkflowBuilder("reads")
    if measured:
        wf.mark_measured()
    wf.file("in", size_bytes)
    wf.file("out", size_bytes)
    wf.task("a", inputs=["in"], outputs=["out"], runtime_seconds=1.0)
    return wf


def test_measured_run_times_include_the_disk():
    said, ran = (
        dataward.simulate(one_that_reads(1_000_000_000, measured=measured), nodes=1)
        for measured in (False, True)
    )

    assert said.summary.makespan_seconds == pytest.approx(1.0 + 2.0 + 2.0, abs=0.1)
    assert ran.summary.makespan_seconds == pytest.approx(1.0, abs=0.1)


def test_a_node_alone_has_the_inputs_and_several_fetch_them():
    alone, of_two = (
        dataward.simulate(one_that_reads(125_000_000, measured=True), nodes=nodes)
        for nodes in (1, 2)
    )

    assert alone.summary.makespan_seconds == pytest.approx(1.0, abs=0.1)
    assert of_two.summary.makespan_seconds == pytest.approx(2.0, abs=0.1)


def test_a_run_that_only_moves_a_giant_file_is_not_taken_for_stuck():
    """The lower bound of such a run is 0."""
    wf = WorkflowBuilder("giant")
    wf.file("x", 100 * 10**12)
    wf.task("a", outputs=["x"], runtime_seconds=0.0)
    for name in ("b", "c"):
        wf.task(name, inputs=["x"], runtime_seconds=0.0)
    machine = Machine("n", capacity_bytes=1e15, disk_bytes_per_second=1e15)
    nodes = tuple(replace(machine, id=f"n{i}") for i in range(2))

    assert dataward.simulate(wf, platform=Platform(nodes), strategy="random", seed=1).is_complete


def test_each_link_of_a_chain_waits_until_the_one_before_is_synced():
    wf = WorkflowBuilder("chain")
    wf.file("x", 1)
    wf.file("y", 1)
    wf.task("a", outputs=["x"], runtime_seconds=1.0)
    wf.task("b", inputs=["x"], outputs=["y"], runtime_seconds=1.0)

    quick, slow = (
        dataward.simulate(wf, platform=Platform((Machine("n", sync_seconds=seconds),)))
        for seconds in (0.0, 3.0)
    )

    longer_seconds = slow.summary.makespan_seconds - quick.summary.makespan_seconds
    assert longer_seconds == pytest.approx(6.0, abs=0.1)


def test_the_bound_is_that_of_the_truth_whatever_is_known_beforehand():
    workflow = generate("montage", 60, seed=1)

    exact, rough, unknown = (
        dataward.simulate(workflow, nodes=4, estimates=estimates)
        for estimates in ("exact", "1.0", "unknown")
    )

    assert exact.bound_seconds == rough.bound_seconds == unknown.bound_seconds
    assert all(run.is_complete for run in (exact, rough, unknown))
    assert len({run.summary.makespan_seconds for run in (exact, rough, unknown)}) == 3
    assert min(rough.summary.makespan_seconds, unknown.summary.makespan_seconds) > (
        exact.bound_seconds
    )


def test_estimates_that_are_none_are_refused():
    with pytest.raises(SettingError, match="'good' says not how good estimates are"):
        dataward.simulate(generate("montage", 30), estimates="good")


def test_a_setting_that_there_is_not_is_refused():
    with pytest.raises(SettingError, match="no setting is called 'nosuch'"):
        dataward.simulate(generate("montage", 30), settings=["nosuch=1"])


def test_the_sigma_of_estimates_may_be_a_number() -> None:
    as_number, as_text = (
        dataward.simulate(generate("montage", 30), nodes=2, estimates=sigma)
        for sigma in (0.5, "0.5")
    )

    assert as_number.summary == as_text.summary


def test_a_sigma_below_zero_is_refused() -> None:
    with pytest.raises(SettingError, match="sigma"):
        dataward.simulate(generate("montage", 30), estimates=-1)
