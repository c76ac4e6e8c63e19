"""dataward: runs workflows close to their data, for real and simulated.

What people who write workflows in Python need is here by name; the rest is in the rooms.
"""

from typing import TYPE_CHECKING, Any

from dataward.errors import DatawardError, ProcessDiedError
from dataward.formats import read_workflow, write_workflow

# The function of that name takes the package's place here; ``from dataward.generate import ...``
# still finds the package. Fetched lazily it would be the one or the other, by who came first.
from dataward.generate import generate
from dataward.model.builder import Edges, WorkflowBuilder
from dataward.model.function_calls import CallResult
from dataward.model.workflow import Task, Workflow
from dataward.plan.bounds import Bounds, makespan_bounds
from dataward.plan.critical_path import CriticalPath, critical_path

if TYPE_CHECKING:
    from dataward.calls.executor import CallExecutor as Executor

__all__ = [
    "Bounds",
    "CallResult",
    "CriticalPath",
    "DatawardError",
    "Edges",
    "Executor",
    "ProcessDiedError",
    "Task",
    "Workflow",
    "WorkflowBuilder",
    "critical_path",
    "generate",
    "makespan_bounds",
    "read_workflow",
    "write_workflow",
]


def __getattr__(name: str) -> Any:
    """``Executor`` brings all that runs tasks for real: loaded for those who ask for it."""
    if name == "Executor":
        from dataward.calls.executor import CallExecutor

        globals()["Executor"] = CallExecutor
        return CallExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
