"""Generated workflows, executed for real with plain child processes."""

import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dataward.errors import BadNameError, OutputError, SettingError, TwoProducersError
from dataward.generate import SHAPES, generate, make_runnable, write_inputs
from dataward.generate.runnable import SCRIPT, input_words
from dataward.model.builder import Edges, WorkflowBuilder
from dataward.model.workflow import Workflow

# The interpreter of the tests, not a launcher that may come first on the path.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run_task(command: tuple[str, ...], directory: Path) -> int:
    return subprocess.run(command, cwd=directory, env=ENVIRONMENT, capture_output=True).returncode


def run(workflow: Workflow, directory: Path) -> None:
    """Every task in order, level by level; those of a level side by side."""
    for level in range(workflow.layers.depth):
        tasks = workflow.layers.level(level).tolist()
        for batch in (tasks[i : i + 4] for i in range(0, len(tasks), 4)):
            started = [
                subprocess.Popen(workflow.commands[t], cwd=directory, env=ENVIRONMENT)
                for t in batch
            ]
            assert [process.wait() for process in started] == [0] * len(batch)


def hashes(workflow: Workflow, directory: Path) -> list[str]:
    return [
        hashlib.sha256((directory / file).read_bytes()).hexdigest() for file in workflow.file_ids
    ]


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_runs_and_writes_its_sizes(name, tmp_path):
    plain = generate(name, SHAPES[name].smallest, seed=1)
    workflow = make_runnable(plain, time_scale=1e-9, data_scale=1e-7)

    write_inputs(workflow, tmp_path)
    run(workflow, tmp_path)

    written = [(tmp_path / file).stat().st_size for file in workflow.file_ids]
    assert written == workflow.size_bytes.tolist()
    assert workflow.parents == plain.parents


def test_the_same_run_twice_gives_the_same_files(tmp_path):
    workflow = make_runnable(generate("montage", 17), time_scale=0, data_scale=1e-4)

    seen = []
    for name in ("one", "two"):
        write_inputs(workflow, tmp_path / name)
        run(workflow, tmp_path / name)
        seen.append(hashes(workflow, tmp_path / name))

    assert seen[0] == seen[1]
    # Distinct names give distinct contents, even from the same inputs at the same size.
    sizes = workflow.size_bytes.tolist()
    assert len(set(seen[0])) == len([size for size in sizes if size])


def test_one_changed_byte_changes_all_that_follows_and_nothing_else(tmp_path):
    workflow = make_runnable(generate("fan-in", 13, degree=3), time_scale=0, data_scale=1e-5)
    run(workflow, tmp_path)
    before = hashes(workflow, tmp_path)
    changed = 2
    path = tmp_path / workflow.file_ids[int(workflow.outputs.row(changed)[0])]
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])

    below = {changed}
    for task in workflow.layers.order.tolist():
        if below & set(workflow.parents.row(task).tolist()):
            below.add(task)
    for task in workflow.layers.order.tolist():
        if task != changed:
            assert run_task(workflow.commands[task], tmp_path) == 0

    after = hashes(workflow, tmp_path)
    written = {int(workflow.outputs.row(task)[0]) for task in below}
    assert {f for f, (a, b) in enumerate(zip(before, after, strict=True)) if a != b} == written
    assert 1 < len(below) < 13


def test_a_missing_input_fails_the_task(tmp_path):
    workflow = make_runnable(generate("pipeline", 2), time_scale=0, data_scale=0)

    assert run_task(workflow.commands[1], tmp_path) != 0
    assert not list(tmp_path.iterdir())


def test_large_files_are_written_and_read_in_pieces(tmp_path):
    wf = WorkflowBuilder("big")
    wf.file("in", 2_500_000)
    wf.file("deep/er/out", (3 << 20) + 5)
    wf.task("a", inputs=["in"], outputs=["deep/er/out"])
    workflow = make_runnable(wf.build())

    write_inputs(workflow, tmp_path)
    run(workflow, tmp_path)

    data = (tmp_path / "deep/er/out").read_bytes()
    assert len(data) == (3 << 20) + 5
    assert len({data[i << 20 : (i << 20) + 64] for i in range(3)}) == 3
    assert (tmp_path / "in").stat().st_size == 2_500_000


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_run_time_is_spent_on_the_processor(tmp_path):
    workflow = make_runnable(generate("laplace", 1, seconds=3), time_scale=0.25)
    before = processor_seconds()

    run(workflow, tmp_path)

    assert processor_seconds() - before >= 0.74


def test_run_times_and_sizes_are_scaled_and_no_file_vanishes():
    plain = generate("sipht", 24)

    workflow = make_runnable(plain, time_scale=0.5, data_scale=1e-9)

    assert workflow.runtime_seconds.tolist() == (plain.runtime_seconds * 0.5).tolist()
    assert np.array_equal(workflow.size_bytes, (plain.size_bytes > 0).astype(int))
    assert (plain.size_bytes == 0).any()


def test_all_tasks_carry_the_same_script():
    workflow = make_runnable(generate("bag", 50))

    assert all(command[4] is SCRIPT for command in workflow.commands)
    assert len(SCRIPT) < 900


def test_many_numbered_inputs_become_a_few_words(tmp_path):
    names = [f"d/p{i:04d}.txt" for i in range(95, 400)] + ["x", "7", "8", "9", "10"] + ["p3", "p5"]

    words = input_words(names)

    assert words == ["/95/305/4/3/d/p.txt", "x", "/7/4/1/0/", "p3", "p5"]
    assert input_words(names[:200]) == names[:200]


def test_a_task_with_very_many_inputs_reads_them_all(tmp_path):
    workflow = make_runnable(generate("image-stacking", 402), time_scale=0, data_scale=0)
    for i in range(401):
        (tmp_path / f"roi_{i:07d}.fit").write_bytes(b"x")
    last = workflow.commands[401]

    assert run_task(last, tmp_path) == 0
    before = (tmp_path / "stacked.fit").read_bytes()
    (tmp_path / "roi_0000400.fit").unlink()

    assert len(last) < 12
    assert len(before) == 1
    assert run_task(last, tmp_path) != 0


def test_a_montage_of_any_size_fits_in_an_argument_list():
    workflow = make_runnable(generate("montage", 30_000))

    longest = max(sum(len(word) + 1 for word in command) for command in workflow.commands)
    assert longest < 10_000


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", "~/x"])
def test_inputs_that_leave_the_directory_are_refused_before_anything_is_written(name, tmp_path):
    wf = WorkflowBuilder("escape")
    wf.file("good", 5)
    wf.file(name, 5)
    wf.task("a", inputs=["good", name], outputs=["out"])
    workflow = wf.build()

    with pytest.raises(BadNameError):
        write_inputs(workflow, tmp_path / "in")
    with pytest.raises(BadNameError):
        make_runnable(workflow)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    workflow = make_runnable(generate("all-pairs", 1), data_scale=1e-6)

    with pytest.raises(OutputError, match=r"cannot write .*a_00000"):
        write_inputs(workflow, tmp_path / "file")


def test_a_trace_with_two_producers_cannot_be_made_to_run():
    wf = WorkflowBuilder("odd")
    wf.task("a", outputs=["f"])
    wf.task("b", outputs=["f"], after=["a"])

    with pytest.raises(TwoProducersError):
        make_runnable(wf.build(Edges.DECLARED))


def test_what_a_task_needs_and_waits_for_is_kept():
    wf = WorkflowBuilder("needs")
    wf.task("a", outputs=["f"], cores=3, memory_bytes=77, retries=2, runtime_seconds=4)
    wf.task("b", outputs=["g"], after=["a"])

    workflow = make_runnable(wf.build(), time_scale=0.25)

    task = workflow.task(0)
    assert (task.cores, task.memory_bytes, task.retries, task.runtime_seconds) == (3, 77, 2, 1.0)
    assert workflow.task(1).retries is None
    assert workflow.parents.row(1).tolist() == [0]


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_scales_that_make_no_sense_are_refused(scale):
    with pytest.raises(SettingError, match="time scale"):
        make_runnable(generate("bag", 1), time_scale=scale)
    with pytest.raises(SettingError, match="data scale"):
        make_runnable(generate("bag", 1), data_scale=scale)
