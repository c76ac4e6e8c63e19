"""Finds the task that a person typed."""

from collections.abc import Sequence

from dataward.errors import DatawardError
from dataward.model.workflow import TaskId, Workflow

_MATCHES_MAX = 3
# difflib takes some 10 µs per name; in larger workflows only names with the same first letters are
# compared.
_NAMES_COMPARED_MAX = 20_000


class UnknownTaskError(DatawardError):
    def __init__(self, task: str, workflow: str, close: Sequence[str]) -> None:
        self.task = task
        self.workflow = workflow
        self.close = tuple(close)
        meant = " or ".join(repr(name) for name in self.close)
        remedy = f"; did you mean {meant}?" if meant else "; 'dataward inspect' lists its types"
        super().__init__(f"workflow {workflow!r} has no task {task!r}{remedy}")


def find_task(workflow: Workflow, name: str) -> int:
    """The task's index. Raises an UnknownTaskError that suggests similar names."""
    found = workflow.index_of.get(TaskId(name))
    if found is None:
        raise UnknownTaskError(name, workflow.name, close_to(name, workflow.task_ids))
    return found


def close_to(name: str, candidates: Sequence[str]) -> list[str]:
    """Those of the candidates that somebody who typed this name may have meant."""
    from difflib import get_close_matches  # few commands need it

    if len(candidates) > _NAMES_COMPARED_MAX:
        lead = name[:3].lower()
        candidates = [task for task in candidates if task[:3].lower() == lead]
    return get_close_matches(name, candidates[:_NAMES_COMPARED_MAX], _MATCHES_MAX)
