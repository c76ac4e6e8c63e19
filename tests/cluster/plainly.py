"""Workflows in files, and what a plain loop over their tasks makes of them."""

import subprocess
from pathlib import Path

from cluster.laptops import contents_of
from dataward import write_workflow
from dataward.generate import write_inputs
from dataward.model.workflow import Workflow


def written(workflow: Workflow, directory: Path) -> Path:
    """The file of a workflow, beside its inputs."""
    path = directory / "w.json"
    write_workflow(workflow, path)
    write_inputs(workflow, directory / "w.inputs")
    return path


def plain_results(workflow: Workflow, directory: Path) -> dict[str, bytes]:
    """What a loop over all tasks in one directory makes: the files that nobody reads."""
    directory.mkdir()
    write_inputs(workflow, directory)
    for task in workflow.layers.order.tolist():
        subprocess.run(workflow.commands[task] or (), cwd=directory, check=True)
    made, read = workflow.producers.degrees(), workflow.consumers.degrees()
    found = contents_of(directory)
    return {f: found[f] for i, f in enumerate(workflow.file_ids) if made[i] and not read[i]}
