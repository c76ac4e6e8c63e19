"""Which edges order the tasks of a workflow."""

from enum import Enum


class Edges(Enum):
    """Which edges order the tasks."""

    DECLARED = "declared"  # only those the author wrote down: how a trace is read
    FILES = "files"  # only those from the task that writes a file to a task that reads it
    BOTH = "both"  # all of them: what a workflow needs to run
