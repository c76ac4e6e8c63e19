"""Python functions as tasks of a workflow, beside commands: `dataward run` runs what is saved.

A call's result is a file. Its handle can be an argument of another call, and the file's name an
input of a command. Run again, only calls whose code or arguments have changed are made.
"""

import json
import pickle
import subprocess
import sys
from pathlib import Path

from dataward import WorkflowBuilder, write_workflow


def simulate(seed: int, steps: int) -> list[int]:
    """A walk that looks random and is the same each time."""
    walk = [0]
    for step in range(steps):
        walk.append(walk[-1] + (1 if (seed * 7919 + step * step) % 3 else -1))
    return walk


def furthest(walks: list[list[int]], report: str) -> int:
    ends = [walk[-1] for walk in walks]
    Path(report).write_text("".join(f"{end}\n" for end in ends))
    return max(ends, key=abs)


wf = WorkflowBuilder("walks")
walks = [wf.call(simulate, seed, steps=1000) for seed in range(4)]
best = wf.call(furthest, walks, "ends.txt", outputs=["ends.txt"], id="furthest")
wf.command("sort -n {inputs} > {outputs}", inputs=["ends.txt"], outputs=["sorted.txt"])

workflow = wf.build()
for index in workflow.layers.order:
    task = workflow.task(index)
    print(f"{task.id}: {' '.join(task.inputs) or 'nothing'} -> {' '.join(task.outputs)}")
write_workflow(workflow, "walks.json")

command = [sys.executable, "-m", "dataward.cli.main", "run", "walks.json", "--json"]
for _ in range(2):
    run = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(f"dataward run walks.json: {run['complete']} complete, {run['skipped']} skipped")
outputs = Path("walks.run/outputs")
print("ends:", *(outputs / "sorted.txt").read_text().split())
print("furthest:", pickle.loads((outputs / best.file).read_bytes()))
