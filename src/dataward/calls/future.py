"""The future of a call: its result stays pickled until it is asked for, a large one on the disk."""

import os
import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, PENDING, RUNNING
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dataward.live.call_results import InFile, Result
from dataward.live.value_files import load_value

if TYPE_CHECKING:
    from dataward.calls.arguments import PendingCall

T = TypeVar("T")
_UNREAD: Any = object()  # stands for the value of a future that nobody has asked for


class RemoteTraceback(Exception):  # noqa: N818 - shown as the cause of the error itself
    """The traceback of a call's error, from the runner process."""

    def __init__(self, trace: str) -> None:
        self.tb = trace  # the name that it has in the standard library
        super().__init__(trace)

    def __str__(self) -> str:
        return f'\n"""\n{self.tb}"""'


class StoredResult(ABC):
    """A large pickled result, which is stored somewhere as long as a future refers to it."""

    __slots__ = ("__weakref__",)

    @property
    @abstractmethod
    def file(self) -> InFile:
        """The file in which a runner process finds the result."""

    @property
    def homes(self) -> Sequence[str]:
        """The nodes at which the result can be read without moving it; none if it is any node."""
        return ()

    @property
    def size_bytes(self) -> int:
        return 0

    @property
    def loss(self) -> BaseException | None:
        """Why the result is no longer to be had, if that is so."""
        return None

    @abstractmethod
    def load(self, timeout: float | None = None) -> Any:
        """The value. Any thread may ask. Raises the ``loss``, or TimeoutError.

        A result that was lost may be made again meanwhile; the executor's own thread does not wait
        for that.
        """


class LargeResult(StoredResult):
    """A result in a file of this machine, which is removed with the last reference."""

    __slots__ = ("_directory", "_file", "_process")

    def __init__(self, file: InFile, directory: object) -> None:
        self._file = file
        self._directory = directory  # a reference, which keeps the directory from being removed
        self._process = os.getpid()

    @property
    def file(self) -> InFile:
        return self._file

    def load(self, timeout: float | None = None) -> Any:
        return load_value(self._file.path)

    def __del__(self) -> None:
        if os.getpid() == self._process:  # not in a fork of this process
            with suppress(OSError):
                os.unlink(self._file.path)


Kept = bytes | StoredResult


class _Turn:
    """Behaves as the `threading.Condition` that the standard library's `Future` expects.

    A real condition is made only when somebody waits: each takes 1.5 KB, and there may be millions
    of futures.
    """

    __slots__ = ("_future",)

    def __init__(self, future: "CallFuture[Any]") -> None:
        self._future = future

    def acquire(self) -> bool:
        return self._future._lock.acquire()

    def release(self) -> None:
        self._future._lock.release()

    def __enter__(self) -> bool:
        return self._future._lock.acquire()

    def __exit__(self, *problem: object) -> None:
        self._future._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        future = self._future
        if future._sleepers is None:
            future._sleepers = threading.Condition(future._lock)
        return future._sleepers.wait(timeout)

    def notify_all(self) -> None:
        if self._future._sleepers is not None:
            self._future._sleepers.notify_all()


class FutureOwner(Protocol):
    """The loop that will make the call."""

    def on_cancelled(self, future: "CallFuture[Any]") -> None:
        """Called once for a cancelled future, from any thread."""


class CallFuture(Future[T]):
    """A future as in `concurrent.futures`, made to take little memory.

    A cancelled future is done at once, and so are the futures of calls that depend on it.
    """

    __slots__ = (
        "_done_callbacks",
        "_exception",
        "_lock",
        "_result",
        "_sleepers",
        "_state",
        "_waiters",
        "kept",
        "number",
        "owner",
        "pending",
    )

    def __init__(self, owner: "FutureOwner") -> None:
        # The same as the standard library's `__init__`, except for the condition.
        self._lock = threading.RLock()
        self._sleepers: threading.Condition | None = None
        self._state = PENDING
        self._result: Any = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self.owner = owner
        self.number = -1
        self.pending: PendingCall | None = None  # until there is a result
        self.kept: Kept | None = None  # the pickled result

    @property
    def _condition(self) -> Any:  # type: ignore[override]
        return _Turn(self)

    def result(self, timeout: float | None = None) -> T:
        """What the call returned. It is unpickled when it is first asked for."""
        until = None if timeout is None else monotonic() + timeout
        value: Any = super().result(timeout)
        if value is _UNREAD:
            kept = self.kept
            assert kept is not None
            left = None if until is None else max(until - monotonic(), 0.0)
            value = self._result = (
                kept.load(left) if isinstance(kept, StoredResult) else pickle.loads(kept)
            )
        found: T = value
        return found

    def set_kept(self, kept: Kept) -> None:
        """Set the pickled result."""
        self.kept = kept
        self.set_result(_UNREAD)

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        with self._lock:
            is_news = self._state == CANCELLED
            if is_news:
                self.set_running_or_notify_cancel()
        if is_news:
            self.owner.on_cancelled(self)
        return True

    def start(self) -> bool:
        """Whether the call may be made; False if it has been cancelled."""
        with self._lock:
            if self._state != PENDING:
                return False
            self._state = RUNNING
            return True

    def pause(self) -> None:
        """The call is not made yet after all: it may be cancelled again."""
        with self._lock:
            if self._state == RUNNING:
                self._state = PENDING

    def __reduce__(self) -> Any:
        raise TypeError("a future cannot be pickled; as an argument of a call it need not be")

    def __repr__(self) -> str:
        return f"<CallFuture {self.number} {self._state.lower()}>"


def error_of(result: Result) -> BaseException:
    """The error that a call raised, with its traceback as the cause."""
    try:
        error: BaseException = pickle.loads(result.value)
    except Exception as problem:
        error = RuntimeError(f"the call raised an error that cannot be loaded ({problem!r})")
    error.__cause__ = RemoteTraceback(result.trace)
    return error
