"""``dataward.Executor``: an executor of `concurrent.futures` that makes calls on nodes' slots.

A future passed as an argument is a dependency, so that a DAG is written as plain calls. This is
the caller's side; the calls are made by a `CallLoop` in a thread of its own.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from dataward.calls.arguments import PendingCall
from dataward.calls.dispatcher import CallSettings
from dataward.calls.functions import FunctionTable, pickled_function
from dataward.calls.future import CallFuture
from dataward.calls.lender import MakeLender
from dataward.calls.local_lender import LocalLender, LocalSettings
from dataward.calls.loop import CallLoop
from dataward.errors import SettingError
from dataward.live.runner_settings import RunnerSettings
from dataward.live.slice import Slice
from dataward.model.events import Emit

P = ParamSpec("P")
T = TypeVar("T")


class CallExecutor(Executor):
    """Makes calls in other processes, several at a time; `ExecutorAnywhere` says more.

    ``make_lender`` makes who lends the slots; by default, nodes in this process do.
    """

    def __init__(
        self,
        slots: int | None = None,
        *,
        nodes: int = 1,
        directory: str | Path | None = None,
        time_limit_seconds: float = 0.0,
        on_event: Emit | None = None,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        make_lender: MakeLender | None = None,
    ) -> None:
        if slots is not None and max_workers is not None:
            raise TypeError("slots and max_workers are the same: give only one of them")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if max_workers is not None and max_workers < 1:
            raise SettingError("max_workers must be greater than 0")
        slots = max_workers if slots is None else slots
        slots = (os.cpu_count() or 1) if slots is None else slots
        if slots < 1 or nodes < 1:
            raise SettingError("an executor needs at least one slot and one node")
        if not (isfinite(time_limit_seconds) and time_limit_seconds >= 0):
            raise SettingError("the time limit of calls must be a number of seconds; 0 for none")
        self._functions = FunctionTable()
        self._lock = threading.Lock()
        self._calls = 0
        self._is_shut = False
        if make_lender is None:
            runner = RunnerSettings(time_limit_seconds=time_limit_seconds)
            local = LocalSettings(Slice(nodes, slots), runner, on_event)
            make_lender = partial(LocalLender, local)
        settings = CallSettings(
            make_lender,
            pickled_function(partial(initializer, *initargs)) if initializer is not None else b"",
        )
        self._loop = CallLoop(settings, None if directory is None else Path(directory).absolute())
        self._loop.start()
        # An executor that is garbage without a shutdown makes the calls that are left and ends, as
        # those of the standard library do. At the interpreter's exit, `calls.loop` does this.
        weakref.finalize(self, self._loop.finish, cancel=False).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> CallFuture[T]:
        """The future of a call. Raises PicklingError if function or arguments cannot be sent."""
        future: CallFuture[T] = CallFuture(self._loop)
        pending = PendingCall(future, self._functions.find(fn), args, kwargs)
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot submit to an executor that has been shut down")
            self._calls += 1
            pending.number = future.number = self._calls
            self._loop.add(pending)
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """As in `concurrent.futures`. Small calls are bundled, so chunks are seldom needed."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = super().map(
            _of_chunks(fn), _chunks(zip(*iterables, strict=False), chunksize), timeout=timeout
        )
        return (value for chunk in chunks for value in chunk)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._is_shut = True
        self._loop.finish(cancel=cancel_futures)
        if wait:
            self._loop.join()


def _of_chunks(function: Callable[..., T]) -> Callable[[list[tuple[Any, ...]]], list[T]]:
    def call_each(chunk: list[tuple[Any, ...]]) -> list[T]:
        return [function(*args) for args in chunk]

    call_each.__qualname__ = f"{getattr(function, '__qualname__', 'callable')} of chunks"
    return call_each


def _chunks(items: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    them = iter(items)
    while chunk := list(islice(them, size)):
        yield chunk
