"""Calls of Python functions, as they are sent to a runner process and made there.

A bundle is many small calls that go together; `call_pipes` brings bundles, and takes each result
back. A small result that another call needs is handed over in memory or, if it is from an earlier
bundle, comes with the bundle; a large one is read from its file.

A call in a workflow is sent in the task's command instead, and its result is a file of its own.
Runner processes load this module, so it imports little.
"""

import base64
import io
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

import msgspec

from dataward.live.call_pipes import RunnerPipes
from dataward.live.call_results import UNCHANGING, InFile, Result, pickled, result_of
from dataward.live.orders import CALLS
from dataward.live.standard_streams import open_python_streams
from dataward.live.value_files import load_value

_FUNCTIONS_MAX = 1000


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One call: the index of its function in the bundle, and the pickled (args, kwargs).

    The result of another call stands in the pickle as a persistent id: the number of that call.
    """

    number: int
    function: int
    arguments: bytes
    has_needs: bool


class Known(msgspec.Struct, frozen=True, array_like=True):
    """The result of an earlier call: the pickled value, or where it is."""

    number: int
    value: bytes
    file: InFile | None = None


class Bundle(msgspec.Struct, frozen=True, array_like=True):
    functions: tuple[tuple[str, bytes], ...]  # the digest and the pickle of each
    calls: tuple[Call, ...]  # in an order in which they can be made
    known: tuple[Known, ...]
    path: tuple[str, ...]  # the caller's sys.path
    directory: str  # the caller's working directory
    initializer: bytes = b""  # a pickled function without arguments, called once in each process
    is_elsewhere: bool = False  # perhaps the caller is on another machine


encode_bundle = msgspec.msgpack.Encoder().encode
_decode_bundle = msgspec.msgpack.Decoder(Bundle).decode
_functions: dict[str, Any] = {}
_initialized: set[bytes] = set()
_OWN_PATH = tuple(sys.path)


class _DependencyFailed(BaseException):
    """A call that this call depends on failed. No user code can catch this: none is running."""

    def __init__(self, result: Result) -> None:
        self.result = result


def make(
    command: tuple[str, ...],
    outputs: tuple[str, ...],
    limit_seconds: float,
    restore: Callable[[], None],
) -> str:
    """Returns an error sentence, or '' on success.

    Makes calls as long as the caller sends some, or makes the one call of a workflow's task, whose
    result is the task's output. ``restore`` undoes what a function has done to the process.
    """
    kind, what = command[:2]
    _open_prints()
    if kind == CALLS:
        return make_calls(what, limit_seconds, restore)
    error = make_call(what, outputs[0], limit_seconds)
    flush_prints()
    return error


# --- bundles -------------------------------------------------------------------------------------


def make_calls(stem: str, limit_seconds: float, restore: Callable[[], None]) -> str:
    """Returns an error sentence if no calls can be made, or ''; an error of a call is its result.

    Makes the calls that it finds tickets for. A call that runs longer than ``limit_seconds`` ends
    this process: nothing else ends any code for sure.
    """
    pipes = RunnerPipes(stem)
    directory = os.path.dirname(stem)
    made: _Made | None = None
    try:
        with _TimeLimit(limit_seconds) as limit:
            while ticket := pipes.take_ticket():
                number, place = ticket
                if made is None or made.number != number:
                    bundle = _decode_bundle(pipes.bundle(number))
                    restore()
                    _open_prints()
                    _go_where_the_caller_is(bundle)
                    error = _initialize(bundle.initializer)
                    if error:
                        return error
                    made = _Made(number, bundle, pipes, directory)
                made.make(place, limit)
    finally:
        pipes.close()
    return ""


def _initialize(initializer: bytes) -> str:
    """Returns an error sentence, or '' on success. Calls the initializer, if not called before."""
    if initializer and initializer not in _initialized:
        process = os.getpid()
        try:
            pickle.loads(initializer)()
        except BaseException as error:
            return _failed("the initializer raised", error)
        finally:
            if os.getpid() != process:
                os._exit(0)
        _initialized.add(initializer)
    return ""


def _go_where_the_caller_is(bundle: Bundle) -> None:
    """Set the caller's sys.path and working directory, so that imports and relative paths work."""
    path = list(bundle.path)
    if bundle.is_elsewhere:
        # Python itself may be elsewhere here, so this machine's own places come first.
        own = set(_OWN_PATH)
        path = [*_OWN_PATH, *(p for p in path if p not in own and os.path.exists(p))]
    if sys.path != path:
        sys.path[:] = path
    with suppress(OSError):  # gone or forbidden: then stay in the private directory
        os.chdir(bundle.directory)


class _TimeLimit:
    """The system's alarm signal, which no code can block by being busy: its default is to kill."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> "_TimeLimit":
        if self._seconds:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return self

    def start(self) -> None:
        """Start the time of a call."""
        if self._seconds:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def stop(self) -> None:
        """The call has ended in time."""
        if self._seconds:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def __exit__(self, *problem: object) -> None:
        self.stop()


class _Made:
    """The results so far. A value that could be changed is copied for each call that gets it."""

    def __init__(self, number: int, bundle: Bundle, pipes: RunnerPipes, directory: str) -> None:
        """``directory`` has the files that the bundle names without one."""
        self._directory = directory
        self.number = number
        self._calls = bundle.calls
        self._functions = bundle.functions
        self._pipes = pipes
        self._known = {one.number: one for one in bundle.known}
        self._failed: dict[int, Result] = {}
        self._values: dict[int, Any] = {}
        self._process = os.getpid()

    def make(self, place: int, limit: _TimeLimit) -> None:
        """Make the call at this place, and answer with its result."""
        call = self._calls[place]
        began = perf_counter()
        try:
            function = _function(*self._functions[call.function])
            limit.start()
            began = perf_counter()  # so that the call's time includes no imports
            result = self._result(call, function)
        except BaseException as error:
            result = Result(pickled_error(error), _trace_of(error))
        limit.stop()
        if os.getpid() != self._process:
            os._exit(0)  # a fork that the call made and that returned; the original goes on
        flush_prints()
        self._keep(call.number, place, result, perf_counter() - began)

    def _result(self, call: Call, function: Any) -> Result:
        try:
            if call.has_needs:
                args, kwargs = load_with(self._value, call.arguments)
            else:
                args, kwargs = pickle.loads(call.arguments)
            value = function(*args, **kwargs)
            if type(value) in UNCHANGING:
                self._values[call.number] = value
                return Result(pickle.dumps(value, 5))
            with _naming(value, function):
                return result_of(value)
        except _DependencyFailed as failed:
            return failed.result
        except BaseException as error:
            return Result(pickled_error(error), _trace_of(error))

    def _keep(self, number: int, place: int, result: Result, seconds: float) -> None:
        try:
            path = self._pipes.answer(self.number, place, result, seconds)
        except OSError as error:  # the disk is full
            self._values.pop(number, None)
            result = Result(pickled_error(error), f"{described(error)}\n")
            path = self._pipes.answer(self.number, place, result, seconds)
        if result.is_error:
            self._failed[number] = result
        else:
            value = b"" if path else result.value
            self._known[number] = Known(number, value, InFile(path) if path else None)

    def _value(self, number: int) -> Any:
        if number in self._values:
            return self._values[number]
        if number in self._failed:
            raise _DependencyFailed(self._failed[number])
        known = self._known[number]
        if known.file is not None:
            value = load_value(known.file.within(self._directory).path)
        else:
            value = pickle.loads(known.value)
        if type(value) in UNCHANGING:
            self._values[number] = value
        return value


class _Unpickler(pickle.Unpickler):
    def __init__(self, find: Callable[[Any], Any], data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._find = find
        self._found: dict[Any, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        if pid not in self._found:  # an id that occurs twice is the same object twice
            self._found[pid] = self._find(pid)
        return self._found[pid]


def load_with(find: Callable[[Any], Any], data: bytes) -> Any:
    """The unpickled data; ``find`` returns the value for each persistent id in it."""
    return _Unpickler(find, data).load()


def _function(digest: str, pickled_function: bytes) -> Any:
    found = _functions.get(digest)
    if found is None:
        if len(_functions) >= _FUNCTIONS_MAX:
            _functions.clear()
        found = _functions[digest] = pickle.loads(pickled_function)
    return found


@contextmanager
def _naming(value: Any, function: Any) -> Iterator[None]:
    """Raise an error that names the function if its value cannot be pickled."""
    try:
        yield
    except Exception as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise pickle.PicklingError(
            f"the result of {name}, a {type(value).__name__}, cannot be pickled: {error}"
        ) from error


def pickled_error(error: BaseException) -> bytes:
    """The pickled error, or, if the error cannot be pickled, a RuntimeError that describes it."""
    with suppress(Exception):
        dumped = pickled(error)
        if isinstance(pickle.loads(dumped), BaseException):
            return dumped
    return pickle.dumps(RuntimeError(described(error)), 5)


def described(error: BaseException) -> str:
    """The error's type, and its text if it has one."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _trace_of(error: BaseException) -> str:
    """The traceback from the called function on, without this module's frame."""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        return f"{described(error)}\n"


# --- one call of a workflow ----------------------------------------------------------------------


def make_call(encoded: str, result: str, limit_seconds: float = 0.0) -> str:
    """Returns an error sentence, or '' on success.

    Makes one call of a workflow, and writes its pickled value to the file ``result``. If the call
    fails, the traceback is printed.
    """
    here, process = os.getcwd(), os.getpid()
    try:
        function, args, kwargs = load_with(_load_result, base64.b85decode(encoded))
    except BaseException as error:
        return _failed("its function or arguments cannot be loaded:", error)
    try:
        with _TimeLimit(limit_seconds) as limit:
            limit.start()
            value = function(*args, **kwargs)
    except BaseException as error:
        return _failed("it raised", error)
    finally:
        if os.getpid() != process:
            os._exit(0)
    try:
        with _naming(value, function):
            dumped = pickled(value)
    except pickle.PicklingError as error:
        return _failed("", error)
    with open(f"{here}/{result}", "wb") as file:
        file.write(dumped)
    return ""


def _load_result(file: str) -> Any:
    with open(file, "rb") as stored:
        return pickle.load(stored)


def _failed(what: str, error: BaseException) -> str:
    sys.stderr.write(_trace_of(error))
    return f"{what} {described(error)}" if what else str(error)


def _open_prints() -> None:
    """Make Python print line by line: several processes may print to the same place."""
    open_python_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def flush_prints() -> None:
    """Write out everything that Python's streams still hold back."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed by the call, or replaced by an object without flush
            stream.flush()
