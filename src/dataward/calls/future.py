"""The future of a call: its result stays in the depot until somebody asks for it."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, PENDING, RUNNING
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dataward.live.call_results import Result, ResultsFile

if TYPE_CHECKING:
    from dataward.calls.arguments import PendingCall

T = TypeVar("T")
Read = Callable[[str], ResultsFile]


class RemoteTraceback(Exception):  # noqa: N818 - shown as the cause of the error itself
    """The traceback of a call's error, from the runner process."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        super().__init__(trace)

    def __str__(self) -> str:
        return f'\n"""\n{self.trace}"""'


class StoredResults:
    """A file of results; when the last future that refers to it is gone, ``on_gone`` is called."""

    __slots__ = ("_on_gone", "_read", "directory", "path", "size_bytes", "source")

    def __init__(
        self,
        source: str,
        path: str,
        size_bytes: int,
        read: Read,
        directory: object,
        on_gone: Callable[[str], None],
    ) -> None:
        self.source = source  # the bundle it came from
        self.path = path
        self.size_bytes = size_bytes
        self.directory = directory  # a reference, which keeps the directory from being removed
        self._read = read
        self._on_gone = on_gone

    def value(self, place: int) -> Any:
        return pickle.loads(self._read(self.path).result(place).value)

    def __del__(self) -> None:
        self._on_gone(self.source)


class InDepot:
    """Stands for a result in its future until somebody asks for it."""

    __slots__ = ("place", "stored")

    def __init__(self, stored: StoredResults, place: int) -> None:
        self.stored = stored
        self.place = place


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
        "in_depot",
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
        self.in_depot: InDepot | None = None

    @property
    def _condition(self) -> Any:  # type: ignore[override]
        return _Turn(self)

    def result(self, timeout: float | None = None) -> T:
        """What the call returned. It is read from the disk when it is first asked for."""
        value: Any = super().result(timeout)
        if type(value) is InDepot:
            value = self._result = value.stored.value(value.place)
        found: T = value
        return found

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
