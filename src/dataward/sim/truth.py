"""What only the simulated world knows: how long tasks really run, and how large files get."""

from collections.abc import Mapping
from dataclasses import dataclass

from dataward.model.workflow import FileId, TaskId, Workflow


@dataclass(frozen=True, slots=True)
class Truth:
    """The run time of each task, on a machine of speed 1, and the size of each file.

    Nodes and plans have estimates of them. A node hears a run time when the task has ended, and a
    size when the file is committed.
    """

    seconds: Mapping[TaskId, float]
    size_bytes: Mapping[FileId, int]


def truth_of(workflow: Workflow) -> Truth:
    """What a workflow says of its tasks and files, taken for the truth."""
    return Truth(
        dict(zip(workflow.task_ids, workflow.runtime_seconds.tolist(), strict=True)),
        dict(zip(workflow.file_ids, workflow.size_bytes.tolist(), strict=True)),
    )
