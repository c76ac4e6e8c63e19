"""The interpreter's own tests of `concurrent.futures`, run on `dataward.Executor`.

They are skipped where the interpreter came without its tests; `test_other_interpreter` then looks
for an interpreter that has them. A test that does not apply has its reason here.
"""

import contextlib
import importlib
import logging
import pkgutil
import unittest
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import BrokenExecutor, process
from functools import partial
from pickle import UnpicklingError
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from calls import stand_ins
from dataward import ProcessDiedError
from dataward.calls.future import RemoteTraceback

NAME = "test.test_concurrent_futures"
suite = pytest.importorskip(NAME, reason="this interpreter came without its own tests")

CHILDREN = "there is no max_tasks_per_child"
NOT_OURS = {
    "test_killed_child": "a process that dies breaks no executor; see test_failures",
    "test_max_tasks_per_child": CHILDREN,
    "test_max_tasks_per_child_defaults_to_spawn_context": CHILDREN,
    "test_max_tasks_early_shutdown": CHILDREN,
    "test_python_finalization_error": "it forbids a second thread, and ours has only one",
    "test_repr": "ours shows the number of its call",
    "test_cancel": "ours has told everybody that it is cancelled when cancel() returns",
}

# Where the standard library's executor breaks, ours raises the error itself, since its processes
# live on. Where a process dies, the call that it made fails, and no other.
RAISED_INSTEAD = {
    "test_exit_at_task_unpickle": SystemExit,
    "test_error_at_task_unpickle": UnpicklingError,
    "test_error_during_result_unpickle_in_result_handler": UnpicklingError,
    "test_exit_during_result_unpickle_in_result_handler": SystemExit,
}


# Only the executors of threads have these in the standard library, but ours pass them.
OF_THREADS = ["test_cancel_futures_wait_false"]


def modules() -> list[ModuleType]:
    """The module of the tests; later versions of Python have split it into a package."""
    names = [one.name for one in pkgutil.iter_modules(getattr(suite, "__path__", []))]
    return [suite, *(importlib.import_module(f"{NAME}.{name}") for name in names)]


def find(name: str) -> Any:
    return next(getattr(module, name) for module in modules() if hasattr(module, name))


@contextlib.contextmanager
def replaced(**names: Any) -> Iterator[None]:
    """Other things under these names, in every module of the tests that has the name."""
    with contextlib.ExitStack() as stack:
        for module in modules():
            for name in names.keys() & vars(module).keys():
                stack.enter_context(mock.patch.object(module, name, names[name]))
        yield


def ours(tests: type, *others: type, **more: object) -> Any:
    """A class with these tests; those that are not ours are skipped."""
    body: dict[str, object] = {"__module__": __name__, **more}
    for test, reason in NOT_OURS.items():
        if hasattr(tests, test):
            body[test] = unittest.skip(reason)(getattr(tests, test))
    return type(f"Dataward{tests.__name__}", (tests, *others), body)


# --- tests of executors --------------------------------------------------------------------------

our_futures = SimpleNamespace(**vars(futures))
our_futures.process = SimpleNamespace(**vars(process) | {"_RemoteTraceback": RemoteTraceback})
# A function, since a test skips itself if its executor is of the class with this name.
our_futures.ProcessPoolExecutor = partial(stand_ins.ProcessPool)


def run_script(run: Any, *words: str) -> Any:
    return run(*map(stand_ins.with_our_executor, words))


class OnDataward(find("ExecutorMixin")):  # type: ignore[misc]
    executor_type = stand_ins.ProcessPool

    def setUp(self) -> None:
        if self._testMethodName == "test_cancel_futures":
            self.executor_type = stand_ins.AnnouncingPool
        died = RAISED_INSTEAD.get(self._testMethodName, ProcessDiedError)
        script = partial(run_script, find("assert_python_ok"))
        self.enterContext(
            replaced(futures=our_futures, BrokenProcessPool=died, assert_python_ok=script)
        )
        self._context = stand_ins.Context()
        self.addCleanup(self._context.close)
        super().setUp()

    def get_context(self) -> stand_ins.Context:
        return self._context


@contextlib.contextmanager
def assert_said(self: Any, message: str) -> Iterator[None]:
    """What the standard library's executor logs, ours says in every later error."""
    yield
    with pytest.raises(BrokenExecutor, match=message):
        self.executor.submit(int)


def on_dataward(name: str, **more: object) -> Any:
    """The class of tests with this name, as tests of our executor."""
    return ours(find(name), OnDataward, find("BaseTestCase"), **more)


threads = vars(find("ThreadPoolShutdownTest"))

AsCompleted = on_dataward("AsCompletedTests")
Wait = on_dataward("WaitTests")
Submit = on_dataward("ProcessPoolExecutorTest")
Shutdown = on_dataward(
    "ProcessPoolShutdownTest", **{test: threads[test] for test in OF_THREADS if test in threads}
)
Deadlock = on_dataward("ExecutorDeadlockTest")
Initializer = on_dataward("InitializerMixin")
FailingInitializer = on_dataward("FailingInitializerMixin", _assert_logged=assert_said)


# --- tests of futures ----------------------------------------------------------------------------


def futures_of_ours() -> dict[str, Any]:
    """One in each state, by the name that the tests have for the standard library's."""
    states = {name for module in modules() for name in vars(module) if name.endswith("_FUTURE")}
    theirs = {name: find(name) for name in states}
    return {
        name: stand_ins.lone_future(one._state, one._exception, one._result)
        for name, one in theirs.items()
    }


class OnOurFutures(find("BaseTestCase")):  # type: ignore[misc]
    def setUp(self) -> None:
        names = {"Future": stand_ins.LoneFuture, "create_future": stand_ins.lone_future}
        self.enterContext(replaced(**names, **futures_of_ours()))
        # Only what no handler takes is logged to stderr, where the tests look; pytest has handlers.
        self.enterContext(mock.patch.object(logging.getLogger(), "handlers", []))
        super().setUp()


OurFutures = ours(find("FutureTests"), OnOurFutures)
