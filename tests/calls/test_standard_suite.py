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

ALONE = "a process that dies fails the call that it made, and no other; see test_failures"
INSIDE = "it looks into private parts of the standard library's executors"
SCRIPT = "its script imports the executor from concurrent.futures; see test_failures"
CHILDREN = "there is no max_tasks_per_child"
NOT_OURS = {
    "test_killed_child": ALONE,
    "test_crash_at_task_unpickle": ALONE,
    "test_crash_during_func_exec_on_worker": ALONE,
    "test_crash_during_result_pickle_on_worker": ALONE,
    "test_exit_at_task_unpickle": "SystemExit is an error like others, and ends no process",
    "test_error_at_task_unpickle": "the error itself is raised, since the process lives on",
    "test_error_at_task_pickle": "submit itself raises the error: it pickles the arguments",
    "test_error_during_result_unpickle_in_result_handler": "the error itself is raised by result()",
    "test_exit_during_result_unpickle_in_result_handler": "the error itself is raised by result()",
    "test_crash_big_data": ALONE,
    "test_shutdown_deadlock": ALONE,
    "test_shutdown_deadlock_pickle": "submit itself raises the error: it pickles the arguments",
    "test_gh105829_should_not_deadlock_if_wakeup_pipe_full": INSIDE,
    "test_traceback": "the class of the cause is private; test_failures reads the traceback",
    "test_saturation": INSIDE,
    "test_ressources_gced_in_workers": "it needs a manager of multiprocessing",
    "test_idle_process_reuse_one": INSIDE,
    "test_idle_process_reuse_multiple": INSIDE,
    "test_max_tasks_per_child": CHILDREN,
    "test_max_tasks_per_child_defaults_to_spawn_context": CHILDREN,
    "test_max_tasks_early_shutdown": CHILDREN,
    "test_python_finalization_error": INSIDE,
    "test_processes_terminate": INSIDE,
    "test_context_manager_shutdown": INSIDE,
    "test_del_shutdown": INSIDE,
    "test_shutdown_no_wait": INSIDE,
    "test_interpreter_shutdown": SCRIPT,
    "test_submit_after_interpreter_shutdown": SCRIPT,
    "test_hang_gh83386": SCRIPT,
    "test_hang_gh94440": "it kills processes of multiprocessing",
    "test_cancel_futures": "calls can be cancelled until a process has started, so perhaps all",
}


def modules() -> list[ModuleType]:
    """The module of the tests; later versions of Python have split it into a package."""
    names = [one.name for one in pkgutil.iter_modules(getattr(suite, "__path__", []))]
    return [suite, *(importlib.import_module(f"{NAME}.{name}") for name in names)]


def find(name: str) -> Any:
    return next(getattr(module, name) for module in modules() if hasattr(module, name))


class AnyContext(Executor):
    """Ours, which has no choice of how processes start."""

    def __init__(self, *args: Any, mp_context: None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class OnDataward(find("ExecutorMixin")):  # type: ignore[misc]
    executor_type = AnyContext

    def get_context(self) -> None:
        """No context, since there is none to choose."""


def on_dataward(name: str) -> type:
    """The class of tests with this name, as tests of our executor."""
    tests = find(name)
    body: dict[str, object] = {"__module__": __name__}
    for test, reason in NOT_OURS.items():
        if hasattr(tests, test):
            body[test] = unittest.skip(reason)(getattr(tests, test))
    bases = (tests, OnDataward, find("BaseTestCase"))
    return type(f"Dataward{name}", bases, body)


AsCompleted = on_dataward("AsCompletedTests")
Wait = on_dataward("WaitTests")
Submit = on_dataward("ProcessPoolExecutorTest")
Shutdown = on_dataward("ProcessPoolShutdownTest")
Deadlock = on_dataward("ExecutorDeadlockTest")
Initializer = on_dataward("InitializerMixin")
