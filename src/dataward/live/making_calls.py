"""Calls of Python functions, as they travel to a runner process and are made there.

A bundle is many small calls that go together: one file of calls in, one file of results out. What
a call needs of another in the same bundle is handed over in memory; what it needs of an earlier
bundle is read from that one's results, which are among the task's inputs.

A call in a workflow travels in the task's command instead, and its result is a file of its own.
This is loaded by every runner process, so it imports little.
"""

import base64
import io
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import msgspec

from dataward.live.call_results import UNCHANGING, Result, ResultsFile, pickled, write_results
from dataward.live.standard_streams import open_python_streams

CALLS = "dataward-calls"  # the first word of the command of a bundle; the second is its file

_FUNCTIONS_MAX = 1000


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One call: which function of its bundle, and the pickled (args, kwargs).

    Other calls' results are persistent ids in the pickle: the numbers of their calls.
    """

    number: int
    function: int
    arguments: bytes
    has_needs: bool


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A result made earlier: in which file of results, at which place."""

    number: int
    file: str
    place: int


class Bundle(msgspec.Struct, frozen=True, array_like=True):
    functions: tuple[tuple[str, bytes], ...]  # each by its digest, and pickled
    calls: tuple[Call, ...]  # in an order in which they can be made
    known: tuple[Known, ...]
    path: tuple[str, ...]  # where the caller finds its modules
    directory: str  # in which the caller is


encode_bundle = msgspec.msgpack.Encoder().encode
_decode_bundle = msgspec.msgpack.Decoder(Bundle).decode
_functions: dict[str, Any] = {}


class _DependencyFailed(BaseException):
    """What a call depends on failed, and so does it. No call can catch it: none is running."""

    def __init__(self, result: Result) -> None:
        self.result = result


def make(command: tuple[str, ...], result: str, limit_seconds: float) -> str:
    """Make what a task's command asks for; ``result`` is the file for what it comes to.

    Why it failed, or nothing.
    """
    kind, what = command
    _open_prints()
    error = (make_calls if kind == CALLS else make_call)(what, result, limit_seconds)
    flush_prints()
    return error


# --- a bundle ------------------------------------------------------------------------------------


def make_calls(calls: str, results: str, limit_seconds: float = 0.0) -> str:
    """Make the calls of a bundle in a file, and write what they came to into another.

    A call that raises is a result like any other. One that runs longer than ``limit_seconds``
    takes this process with it, as only that ends all code.
    """
    here = os.getcwd()
    with open(calls, "rb") as file:
        bundle = _decode_bundle(file.read())
    _go_where_the_caller_is(bundle)
    made = _Made(bundle, here)
    made.load_functions()
    functions = [[0.0, 0] for _ in bundle.functions]  # seconds and calls
    outcomes = []
    with _TimeLimit(limit_seconds) as limit:
        began = perf_counter()
        for call in bundle.calls:
            limit.start()
            outcomes.append(made.make(call))
            ended = perf_counter()
            taken = functions[call.function]
            taken[0] += ended - began
            taken[1] += 1
            began = ended
    write_results(f"{here}/{results}", outcomes, [(s, int(n)) for s, n in functions])
    return ""


def _go_where_the_caller_is(bundle: Bundle) -> None:
    """Its modules are found, and its relative paths lead, where they do for the caller."""
    if sys.path != list(bundle.path):
        sys.path[:] = bundle.path
    with suppress(OSError):  # gone, or not for us: the private directory is as good as any
        os.chdir(bundle.directory)


class _TimeLimit:
    """The system's own alarm, which no code can fail to hear: its default is to kill."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> "_TimeLimit":
        if self._seconds:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return self

    def start(self) -> None:
        """For the next call."""
        if self._seconds:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *problem: object) -> None:
        if self._seconds:
            signal.setitimer(signal.ITIMER_REAL, 0.0)


class _Made:
    """Results so far. A value that could be changed is copied for each call that gets it."""

    def __init__(self, bundle: Bundle, directory: str) -> None:
        self._pickled = bundle.functions
        self._known = {one.number: one for one in bundle.known}
        self._directory = directory
        self._files: dict[str, ResultsFile] = {}
        self._results: dict[int, Result] = {}
        self._values: dict[int, Any] = {}
        self._process = os.getpid()

    def load_functions(self) -> None:
        """Beforehand: importing what they need is not the time of the first call."""
        for digest, function in self._pickled:
            with suppress(BaseException):  # whoever calls it is told
                _function(digest, function)

    def make(self, call: Call) -> Result:
        result = self._result(call)
        if os.getpid() != self._process:
            os._exit(0)  # a fork that came back from the call; the original does the rest
        self._results[call.number] = result
        return result

    def _result(self, call: Call) -> Result:
        try:
            function = _function(*self._pickled[call.function])
            if call.has_needs:
                args, kwargs = load_with(self._value, call.arguments)
            else:
                args, kwargs = pickle.loads(call.arguments)
            value = function(*args, **kwargs)
            if type(value) in UNCHANGING:
                self._values[call.number] = value
                return Result(pickle.dumps(value, 5))
            return Result(_pickled_result(value, function))
        except _DependencyFailed as failed:
            return failed.result
        except BaseException as error:
            return Result(pickled_error(error), _trace_of(error))

    def _value(self, number: int) -> Any:
        if number in self._values:
            return self._values[number]
        result = self._results.get(number) or self._read(number)
        if result.is_error:
            raise _DependencyFailed(result)
        value = pickle.loads(result.value)
        if type(value) in UNCHANGING:
            self._values[number] = value
        return value

    def _read(self, number: int) -> Result:
        known = self._known[number]
        if known.file not in self._files:
            self._files[known.file] = ResultsFile(f"{self._directory}/{known.file}")
        return self._files[known.file].result(known.place)


class _Unpickler(pickle.Unpickler):
    def __init__(self, find: Callable[[Any], Any], data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._find = find
        self._found: dict[Any, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        if pid not in self._found:  # one that is there twice is the same object twice
            self._found[pid] = self._find(pid)
        return self._found[pid]


def load_with(find: Callable[[Any], Any], data: bytes) -> Any:
    """Unpickle; ``find`` gives the results that are only named in it."""
    return _Unpickler(find, data).load()


def _function(digest: str, pickled_function: bytes) -> Any:
    found = _functions.get(digest)
    if found is None:
        if len(_functions) >= _FUNCTIONS_MAX:
            _functions.clear()
        found = _functions[digest] = pickle.loads(pickled_function)
    return found


def _pickled_result(value: Any, function: Any) -> bytes:
    try:
        return pickled(value)
    except Exception as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise pickle.PicklingError(
            f"the result of {name}, a {type(value).__name__}, cannot be pickled: {error}"
        ) from error


def pickled_error(error: BaseException) -> bytes:
    """The error itself if it survives the journey, else one that says what it was."""
    with suppress(Exception):
        dumped = pickled(error)
        if isinstance(pickle.loads(dumped), BaseException):
            return dumped
    return pickle.dumps(RuntimeError(described(error)), 5)


def described(error: BaseException) -> str:
    """What kind of error, and what it says if it can say anything."""
    try:
        text = str(error)
    except Exception:
        text = "(it cannot say why)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _trace_of(error: BaseException) -> str:
    """The traceback from the call on, without the frame here that made it."""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        return f"{described(error)}\n"


# --- one call of a workflow ----------------------------------------------------------------------


def make_call(encoded: str, result: str, limit_seconds: float = 0.0) -> str:
    """Make one call of a workflow; ``result`` is the file for what it returns.

    What it returns is why it failed, or nothing; the traceback is printed.
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
        dumped = _pickled_result(value, function)
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
    """Print line by line: several processes may print to the same place."""
    open_python_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def flush_prints() -> None:
    """Have everything printed that Python still holds back."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed by the call, or replaced by something that cannot
            stream.flush()
