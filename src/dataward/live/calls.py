"""Calls of Python functions, as they travel to a runner process and their results back.

A bundle is many small calls that go together: one file of calls in, one file of results out. What
a call needs of another in the same bundle is handed over in memory; what it needs of an earlier
bundle is read from that one's results, which are among the task's inputs.

A call in a workflow travels in the task's command instead, and its result is a file of its own.
"""

import base64
import pickle
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import msgspec

CALLS = "dataward-calls"  # the first word of the command of a bundle; the second is its file
CALL = "dataward-call"  # the first word of the command of one call; the second is the call

# Values that nobody can change, so that several calls may be given the same one.
UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None)})

_FUNCTIONS_MAX = 1000


Path = tuple[int | str, ...]
"""To a place among the arguments: a number for a positional argument or a name for one by keyword,
then the indices and keys of containers."""


class Hole(msgspec.Struct, frozen=True, array_like=True):
    """Where in a call's arguments the result of another belongs, the call ``source``."""

    path: Path
    source: int


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One call: which function of its bundle, and the pickled (args, kwargs)."""

    number: int
    function: int
    arguments: bytes
    holes: tuple[Hole, ...] = ()
    tuples: tuple[Path, ...] = ()  # what are lists only until their holes are filled


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


class Result(msgspec.Struct, frozen=True, array_like=True):
    """What one call came to: pickled, with the traceback if it raised."""

    value: bytes
    trace: str = ""

    @property
    def is_error(self) -> bool:
        return bool(self.trace)


class Results(msgspec.Struct, frozen=True, array_like=True):
    results: tuple[Result, ...]  # as the calls of the bundle
    seconds: float  # making the calls, without reading and writing


_encode = msgspec.msgpack.Encoder().encode
_decode_bundle = msgspec.msgpack.Decoder(Bundle).decode
_decode_results = msgspec.msgpack.Decoder(Results).decode
_functions: dict[str, Any] = {}


def encode_bundle(bundle: Bundle) -> bytes:
    return _encode(bundle)


def read_results(path: str) -> Results:
    with open(path, "rb") as file:
        return _decode_results(file.read())


# --- in the runner process -----------------------------------------------------------------------


def make_calls(calls: str, results: str) -> str:
    """Make the calls of a bundle in a file, and write what they came to into another.

    A call that raises is a result like any other: only a bundle that cannot be made sense of is
    an error.
    """
    with open(calls, "rb") as file:
        bundle = _decode_bundle(file.read())
    _find_modules_at(bundle.path)
    try:
        functions = [_function(digest, pickled) for digest, pickled in bundle.functions]
    except Exception as error:
        return f"a function cannot be loaded ({error!r})"
    made = _Made(bundle.known)
    from time import perf_counter

    began = perf_counter()
    outcomes = tuple([made.make(call, functions[call.function]) for call in bundle.calls])
    seconds = perf_counter() - began
    with open(results, "wb") as file:
        file.write(_encode(Results(outcomes, seconds)))
    return ""


def make_call(encoded: str, result: str) -> str:
    """Make one call of a workflow; ``result`` is the file for what it returns."""
    function, args, kwargs, holes, tuples = pickle.loads(base64.b85decode(encoded))
    for path, file in holes:
        with open(file, "rb") as stored:
            put(args, kwargs, path, pickle.load(stored))
    for path in tuples:
        put(args, kwargs, path, tuple(get(args, kwargs, path)))
    try:
        value = function(*args, **kwargs)
    except Exception as error:
        traceback.print_exc()
        return f"it raised {type(error).__name__}: {error}"
    with open(result, "wb") as file:
        file.write(pickled(value))
    return ""


class _Made:
    """Results so far. A value that could be changed is copied for each call that gets it."""

    def __init__(self, known: Sequence[Known]) -> None:
        self._known = {one.number: one for one in known}
        self._read: dict[str, Results] = {}
        self._results: dict[int, Result] = {}
        self._values: dict[int, Any] = {}

    def make(self, call: Call, function: Any) -> Result:
        result = self._result(call, function)
        self._results[call.number] = result
        return result

    def _result(self, call: Call, function: Any) -> Result:
        try:
            args, kwargs = pickle.loads(call.arguments)
            if call.holes:
                args = list(args)
                for hole in call.holes:
                    source = self._find(hole.source)
                    if source.is_error:
                        return source  # what it depends on failed, and so does it
                    put(args, kwargs, hole.path, self._value(hole.source, source))
                for path in call.tuples:
                    put(args, kwargs, path, tuple(get(args, kwargs, path)))
            value = function(*args, **kwargs)
            if type(value) in UNCHANGING:
                self._values[call.number] = value
            return Result(pickled(value))
        except Exception as error:
            return Result(pickled_error(error), traceback.format_exc())

    def _find(self, number: int) -> Result:
        result = self._results.get(number)
        if result is None:
            known = self._known[number]
            if known.file not in self._read:
                self._read[known.file] = read_results(known.file)
            result = self._results[number] = self._read[known.file].results[known.place]
        return result

    def _value(self, number: int, result: Result) -> Any:
        if number in self._values:
            return self._values[number]
        value = pickle.loads(result.value)
        if type(value) in UNCHANGING:
            self._values[number] = value
        return value


def get(args: list[Any], kwargs: dict[str, Any], path: Path) -> Any:
    found: Any = kwargs if isinstance(path[0], str) else args
    for step in path:
        found = found[step]
    return found


def put(args: list[Any], kwargs: dict[str, Any], path: Path, value: Any) -> None:
    """Fill a hole. Containers with holes in them travel as lists and dictionaries."""
    holder: Any = kwargs if isinstance(path[0], str) else args
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value


def _function(digest: str, pickled_function: bytes) -> Any:
    found = _functions.get(digest)
    if found is None:
        if len(_functions) >= _FUNCTIONS_MAX:
            _functions.clear()
        found = _functions[digest] = pickle.loads(pickled_function)
    return found


def _find_modules_at(path: Sequence[str]) -> None:
    """Where the caller looks for modules; in its own order, and first."""
    missing = [place for place in path if place not in sys.path]
    if missing:
        sys.path[:0] = missing


def pickled(value: Any) -> bytes:
    """By value where the receiver could not import it; that is some ten times slower."""
    if type(value) in UNCHANGING:
        return pickle.dumps(value, 5)
    import cloudpickle

    dumped: bytes = cloudpickle.dumps(value, 5)
    return dumped


def pickled_error(error: BaseException) -> bytes:
    """The error itself if it survives the journey, else one that says what it was."""
    try:
        dumped = pickled(error)
        pickle.loads(dumped)
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"), 5)
    return dumped
