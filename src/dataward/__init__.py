"""dataward: runs workflows close to their data, for real and simulated.

This module exports the names needed to write workflows in Python; import the rest from its rooms.
"""

from typing import TYPE_CHECKING, Any

from dataward.errors import DatawardError, ProcessDiedError
from dataward.formats import read_workflow, write_workflow

# ``dataward.generate`` is the function, not the package; ``from dataward.generate import ...``
# still finds the package. If the function were loaded lazily, ``dataward.generate`` would be the
# function or the package, depending on which was imported first.
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
    """Import ``Executor`` on first use: it pulls in everything that runs tasks for real."""
    if name == "Executor":
        from dataward.calls.executor import CallExecutor

        globals()["Executor"] = CallExecutor
        return CallExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
