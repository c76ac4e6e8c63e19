"""Real applications' shapes, run by nodes and, the plain way, by a loop: the files are the same."""

import subprocess
from pathlib import Path

import pytest

from dataward import write_workflow
from dataward.generate import generate, make_runnable, write_inputs
from dataward.model.workflow import Workflow
from runs.real_runs import OUTPUTS, hashes

APPLICATIONS = ("montage", "cybershake", "epigenomics", "inspiral", "sipht")
MATRIX_SHAPES = ("bag", "fan-in", "fan-out", "pipeline")
TASKS = 30


def a_small(shape: str) -> Workflow:
    """The shape with next to no work, and small files."""
    return make_runnable(generate(shape, TASKS, seed=3), time_scale=0, data_scale=1e-5)


def execute_plainly(workflow: Workflow, directory: Path) -> None:
    """Every task in order, in one directory that holds all files: no nodes, no depot, no links."""
    directory.mkdir()
    write_inputs(workflow, directory)
    for task in workflow.layers.order.tolist():
        subprocess.run(workflow.commands[task], cwd=directory, check=True)


def names_of_outputs(workflow: Workflow, *, final_only: bool) -> set[str]:
    made, read = workflow.producers.degrees(), workflow.consumers.degrees()
    return {
        file
        for number, file in enumerate(workflow.file_ids)
        if made[number] and not (final_only and read[number])
    }


@pytest.mark.parametrize("shape", [*APPLICATIONS, *MATRIX_SHAPES])
def test_nodes_write_what_a_plain_execution_writes(shape, run):
    workflow = a_small(shape)
    write_workflow(workflow, Path("w.json"))
    write_inputs(workflow, Path("w.inputs"))
    execute_plainly(workflow, Path("plain"))
    plain = hashes(Path("plain"))
    final, made = (names_of_outputs(workflow, final_only=only) for only in (True, False))

    one = run(Path("w.json"))
    assert one.code == 0, one.reasons
    assert hashes(OUTPUTS) == {name: plain[name] for name in final}

    many = run(Path("w.json"), "--nodes", "4", "--slots", "1", "--keep", "all", "--out", "all.run")
    assert many.code == 0, many.reasons
    assert many.counts == (len(workflow), 0, 0, 0)
    assert hashes(Path("all.run/outputs")) == {name: plain[name] for name in made}
