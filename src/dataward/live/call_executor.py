"""``dataward.Executor``: Python functions on a node's slots, as `concurrent.futures` has it.

A future passed as an argument is a dependency, so that a DAG is written as plain calls. This is
the caller's side; behind it, in a thread of its own, is `CallLoop`.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from dataward.errors import SettingError
from dataward.live.call_arguments import Arguments, FunctionTable
from dataward.live.call_future import CallFuture
from dataward.live.call_loop import CallLoop, Pending
from dataward.live.live_runner import RunnerSettings
from dataward.live.session import Machine
from dataward.model.events import Emit

P = ParamSpec("P")
T = TypeVar("T")


class CallExecutor(Executor):
    """Makes calls in processes of their own, several at a time.

    ``slots`` says how many at a time (default: as many as there are cores) on each of ``nodes``.
    Everything is kept in ``directory``, which must be new or empty, or in one of its own that
    goes when nobody can ask for a result any more. A result that was handed out is on the disk.
    ``on_event`` is told of everything that happens, in the executor's own thread.
    """

    def __init__(
        self,
        slots: int | None = None,
        *,
        nodes: int = 1,
        directory: str | Path | None = None,
        time_limit_seconds: float = 0.0,
        on_event: Emit = lambda event: None,
    ) -> None:
        slots = (os.cpu_count() or 1) if slots is None else slots
        if slots < 1 or nodes < 1:
            raise SettingError("an executor needs at least one slot and one node")
        self._functions = FunctionTable()
        self._lock = threading.Lock()
        self._calls = 0
        self._is_shut = False
        self._loop = CallLoop(
            Machine(nodes, slots),
            None if directory is None else Path(directory).absolute(),
            RunnerSettings(time_limit_seconds=time_limit_seconds),
            self._functions,
            on_event,
        )
        self._thread = threading.Thread(target=self._loop.run, name="dataward", daemon=True)
        self._thread.start()
        self._loop.wait_until_started()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> CallFuture[T]:
        future: CallFuture[T] = CallFuture()
        pending = Pending(future, self._functions.number_of(fn), Arguments(args, kwargs))
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot submit to an executor that has been shut down")
            self._calls += 1
            future.number = self._calls
            self._loop.add(pending)
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """As `concurrent.futures` has it; a chunk is then one call."""
        if chunksize < 1:
            raise ValueError("chunksize must be at least 1")
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
            self._thread.join()


def _of_chunks(function: Callable[..., T]) -> Callable[[list[tuple[Any, ...]]], list[T]]:
    def call_each(chunk: list[tuple[Any, ...]]) -> list[T]:
        return [function(*args) for args in chunk]

    return call_each


def _chunks(items: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    them = iter(items)
    while chunk := list(islice(them, size)):
        yield chunk
