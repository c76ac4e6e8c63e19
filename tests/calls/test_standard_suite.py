"""The interpreter's own tests of `concurrent.futures`, run on `dataward.Executor`.

They are skipped where the interpreter came without its tests. A test that does not apply has its
reason here.
"""

import importlib
import pkgutil
import unittest
from types import ModuleType
from typing import Any

import pytest

from dataward import Executor

NAME = "test.test_concurrent_futures"
suite = pytest.importorskip(NAME, reason="this interpreter came without its own tests")

NOT_OURS: dict[str, str] = {}


def modules() -> list[ModuleType]:
    """The module of the tests; later versions of Python have split it into a package."""
    names = [one.name for one in pkgutil.iter_modules(getattr(suite, "__path__", []))]
    return [suite, *(importlib.import_module(f"{NAME}.{name}") for name in names)]


def find(name: str) -> Any:
    return next(getattr(module, name) for module in modules() if hasattr(module, name))


class OnDataward(find("ExecutorMixin")):  # type: ignore[misc]
    executor_type = Executor


def on_dataward(name: str) -> type:
    """The class of tests with this name, as tests of our executor."""
    tests = find(name)
    body: dict[str, object] = {"__module__": __name__}
    for test, reason in NOT_OURS.items():
        if hasattr(tests, test):
            body[test] = unittest.skip(reason)(getattr(tests, test))
    return type(f"Dataward{name}", (tests, OnDataward, find("BaseTestCase")), body)


AsCompleted = on_dataward("AsCompletedTests")
Wait = on_dataward("WaitTests")
Submit = on_dataward("ProcessPoolExecutorTest")
Shutdown = on_dataward("ProcessPoolShutdownTest")
Deadlock = on_dataward("ExecutorDeadlockTest")
