"""dataward: runs workflows close to their data, for real and simulated.

This module exports the names needed to write workflows in Python; import the rest from its rooms.
Each name is loaded on first use: together they would load numpy and most rooms.
"""

import sys

TYPE_CHECKING = False  # for type checkers it is True; ``typing`` itself is not loaded here

__version__ = "0.1.0"

__all__ = [
    "Bounds",
    "CallResult",
    "CriticalPath",
    "DatawardError",
    "Edges",
    "Executor",
    "ProcessDiedError",
    "RunReport",
    "Task",
    "ValueLostError",
    "Workflow",
    "WorkflowBuilder",
    "critical_path",
    "generate",
    "makespan_bounds",
    "read_workflow",
    "run",
    "simulate",
    "write_workflow",
]

_MODULES = {
    "Bounds": "plan.bounds",
    "CallResult": "model.function_calls",
    "CriticalPath": "plan.critical_path",
    "DatawardError": "errors",
    "Edges": "model.edges",
    "Executor": "cluster.executor",
    "ProcessDiedError": "errors",
    "RunReport": "api.report",
    "Task": "model.workflow",
    "ValueLostError": "errors",
    "Workflow": "model.workflow",
    "WorkflowBuilder": "model.builder",
    "critical_path": "plan.critical_path",
    "makespan_bounds": "plan.bounds",
    "read_workflow": "formats.read",
    "run": "api.run",
    "simulate": "api.simulate",
    "write_workflow": "formats.write",
}

if TYPE_CHECKING:
    from dataward.api.report import RunReport
    from dataward.api.run import run
    from dataward.api.simulate import simulate
    from dataward.cluster.executor import ExecutorAnywhere as Executor
    from dataward.errors import DatawardError, ProcessDiedError, ValueLostError
    from dataward.formats.read import read_workflow
    from dataward.formats.write import write_workflow
    from dataward.generate.registry import generate
    from dataward.model.builder import WorkflowBuilder
    from dataward.model.edges import Edges
    from dataward.model.function_calls import CallResult
    from dataward.model.workflow import Task, Workflow
    from dataward.plan.bounds import Bounds, makespan_bounds
    from dataward.plan.critical_path import CriticalPath, critical_path
else:  # not for type checkers, to which a module with ``__getattr__`` has every name

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"dataward.{_MODULES[name]}")
        found = getattr(module, "ExecutorAnywhere" if name == "Executor" else name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(type(sys)):  # type: ignore[misc]
    """Keeps ``dataward.generate`` the function: importing the package of that name would bind it.

    ``from dataward.generate import ...`` still finds the package.
    """

    @property
    def generate(self) -> object:
        from dataward.generate.registry import generate

        return generate

    @generate.setter
    def generate(self, package: object) -> None:
        pass


sys.modules[__name__].__class__ = _Package
