"""dataward: runs workflows close to their data, for real and simulated.

What people who write workflows in Python need is here by name; the rest is in the rooms.
"""

from dataward.errors import DatawardError
from dataward.formats import read_workflow, write_workflow

# The function of that name takes the package's place here; ``from dataward.generate import ...``
# still finds the package. Fetched lazily it would be the one or the other, by who came first.
from dataward.generate import generate
from dataward.model.builder import Edges, WorkflowBuilder
from dataward.model.workflow import Task, Workflow
from dataward.plan.bounds import Bounds, makespan_bounds
from dataward.plan.critical_path import CriticalPath, critical_path

__all__ = [
    "Bounds",
    "CriticalPath",
    "DatawardError",
    "Edges",
    "Task",
    "Workflow",
    "WorkflowBuilder",
    "critical_path",
    "generate",
    "makespan_bounds",
    "read_workflow",
    "write_workflow",
]
