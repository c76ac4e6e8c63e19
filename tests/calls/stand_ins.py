"""What the interpreter's own tests ask of the standard library's executors, asked of ours.

Those tests name classes of the standard library, count an executor's processes and share
semaphores of `multiprocessing` with them. Here the same questions have answers for
`dataward.Executor`; nothing here makes a call or decides whether a test passes.
"""

import os
import pickle
import re
import select
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import PENDING
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from dataward import Executor
from dataward.calls.future import CallFuture
from dataward.model.events import AttemptAdvanced, Event
from dataward.model.states import TaskState

WAIT_SECONDS = 60.0  # for what happens at once, unless there is a fault

_numbers = count(1)


class ProcessPool(Executor):
    """Ours, with the attributes by which the tests look into the standard library's."""

    def __init__(self, max_workers: int, *, mp_context: object = None, **others: Any) -> None:
        self._max_workers = max_workers
        self._processes = Processes(max_workers)
        super().__init__(max_workers=max_workers, on_event=self._processes.on_event, **others)
        self._executor_manager_thread = self._loop._thread
        self._call_queue = SimpleNamespace(join_thread=lambda: None)  # ours has none

    @property
    def _broken(self) -> bool:
        return self._loop._failure is not None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Ours raises at once if the arguments cannot be pickled, the standard library's later."""
        try:
            future: Future[Any] = super().submit(fn, *args, **kwargs)
        except pickle.PicklingError as error:
            future = Future()
            future.set_exception(error)
        self._processes.on_submitted(future)
        return future


class Processes:
    """The processes of an executor, in the place of a dictionary of them.

    The standard library's executors start processes within ``submit``, ours soon after it. So
    whoever counts them waits until there are as many as unfinished calls need.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._change = threading.Condition()
        self._unfinished = 0
        self._before = {child.pid for child in psutil.Process().children()}
        self._seen: dict[int, RunnerProcess] = {}

    def on_submitted(self, future: Future[Any]) -> None:
        self._count(1)
        future.add_done_callback(lambda _: self._count(-1))

    def _count(self, more: int) -> None:
        with self._change:
            self._unfinished += more
            self._change.notify_all()

    def on_event(self, event: Event) -> None:
        """Look for new processes whenever one begins to make calls."""
        if isinstance(event, AttemptAdvanced) and event.state is TaskState.RUNNING:
            with self._change:
                for child in psutil.Process().children():
                    if child.pid not in self._before:
                        self._seen.setdefault(child.pid, RunnerProcess(child))
                self._change.notify_all()

    def __len__(self) -> int:
        with self._change:
            enough = self._change.wait_for(
                lambda: len(self._seen) >= min(self._slots, self._unfinished), WAIT_SECONDS
            )
            assert enough, f"{self._unfinished} calls have only {len(self._seen)} processes"
            return len(self._seen)

    def values(self) -> list["RunnerProcess"]:
        with self._change:
            return list(self._seen.values())


class RunnerProcess:
    """A process as in `multiprocessing`, as far as the tests need one."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process

    def join(self) -> None:
        """Raises psutil.TimeoutExpired if the process does not end."""
        self._process.wait(WAIT_SECONDS)

    def terminate(self) -> None:
        self._process.terminate()


class AnnouncingPool(ProcessPool):
    """Cancels calls only once a call has begun: otherwise ours could cancel every call."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._begun = Semaphore(0)
        super().__init__(*args, **kwargs)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_announced, self._begun, fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._begun.acquire()
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._begun.close()


def _announced(begun: "Semaphore", fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    begun.release()
    return fn(*args, **kwargs)


# --- what processes share ------------------------------------------------------------------------


class Semaphore:
    """A named pipe with a byte for each release: those of `multiprocessing` cannot be arguments.

    The bytes are gone when the pipe is closed where it was made.
    """

    def __init__(self, value: int = 0) -> None:
        self.path = str(Path.cwd() / f"semaphore{next(_numbers)}")
        os.mkfifo(self.path)
        self._held = open(self.path, "r+b", buffering=0)  # noqa: SIM115 - keeps the bytes
        for _ in range(value):
            self.release()

    def acquire(self) -> None:
        with open(self.path, "rb", buffering=0) as pipe:
            pipe.read(1)

    def release(self) -> None:
        with open(self.path, "wb", buffering=0) as pipe:
            pipe.write(b".")

    def close(self) -> None:
        self._held.close()

    def __getstate__(self) -> dict[str, str]:
        return {"path": self.path}


class Event(Semaphore):
    """As that of a manager: ``wait`` is True if anybody has called ``set``."""

    set = Semaphore.release

    def wait(self, timeout: float) -> bool:
        ready, _, _ = select.select([self._held], [], [], timeout)
        return bool(ready)


class Context:
    """How processes start: on demand, each as a fresh interpreter, as with ``spawn``.

    It is its own manager, and what it has made lives until it is closed.
    """

    def __init__(self) -> None:
        self._made: list[Semaphore] = []

    def get_start_method(self, allow_none: bool = False) -> str:
        return "spawn"

    def close(self) -> None:
        for one in self._made:
            one.close()

    def Semaphore(self, value: int) -> Semaphore:  # noqa: N802 - the name in multiprocessing
        semaphore = Semaphore(value)
        self._made.append(semaphore)
        return semaphore

    def Event(self) -> Event:  # noqa: N802
        event = Event()
        self._made.append(event)
        return event

    def Manager(self) -> "Context":  # noqa: N802
        return self

    def shutdown(self) -> None:
        """A manager would end its process here."""

    join = shutdown


# --- futures and scripts -------------------------------------------------------------------------


class NoOwner:
    def on_cancelled(self, future: CallFuture[Any]) -> None:
        """Nobody makes the call."""


class LoneFuture(CallFuture[Any]):
    """A future without an executor, shown in errors as the standard library's is."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(NoOwner())

    def __repr__(self) -> str:
        return Future.__repr__(self).replace(type(self).__name__, "Future", 1)


def lone_future(
    state: str = PENDING, exception: BaseException | None = None, result: object = None
) -> LoneFuture:
    future = LoneFuture()
    future._state = state
    future._exception = exception
    future._result = result
    return future


def with_our_executor(script: str) -> str:
    """The script, with our executor under the name of the one that it imports."""
    return re.sub(
        r"from concurrent\.futures import (\w+)", r"from dataward import Executor as \1", script
    )
