"""The results of calls, in a file: an index, then each pickled result, so that each result can be
read alone. Every runner process loads this module, so it imports little.
"""

import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Sequence
from struct import Struct as Layout
from typing import Any

import msgspec

# Types whose values cannot be changed, so that several calls may be given the same object.
UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None)})

KEPT_BYTES_MAX = 1 << 20  # a larger file is read one result at a time, and not kept in memory
FILES_MAX = 8  # how many files are kept in memory
_HEAD = Layout("<I")


class Result(msgspec.Struct, frozen=True, array_like=True):
    """The pickled result of one call, or its pickled error with the traceback."""

    value: bytes
    trace: str = ""

    @property
    def is_error(self) -> bool:
        return bool(self.trace)


class _Index(msgspec.Struct, frozen=True, array_like=True):
    sizes: tuple[int, ...]  # of the results, in the order in which they follow
    traces: dict[int, str]  # of the calls that raised, by place
    functions: tuple[tuple[float, int], ...]  # seconds, and number of calls, of each


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Index).decode


def write_results(
    path: str, results: Sequence[Result], functions: Sequence[tuple[float, int]]
) -> None:
    sizes = tuple([len(result.value) for result in results])
    traces = {place: result.trace for place, result in enumerate(results) if result.trace}
    index = _encode(_Index(sizes, traces, tuple(functions)))
    with open(path, "wb") as file:
        file.write(_HEAD.pack(len(index)))
        file.write(index)
        file.writelines(result.value for result in results)


class ResultsFile:
    """Reads results. A small file is kept in memory, so that it is opened only once."""

    __slots__ = ("_content", "_index", "_path", "_starts", "size_bytes")

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as file:
            self.size_bytes = os.fstat(file.fileno()).st_size
            (length,) = _HEAD.unpack(file.read(_HEAD.size))
            self._index = _decode(file.read(length))
            self._content = file.read() if self.size_bytes <= KEPT_BYTES_MAX else None
        start = 0 if self._content is not None else _HEAD.size + length
        self._starts = [start]
        for size in self._index.sizes:
            start += size
            self._starts.append(start)

    @property
    def traces(self) -> dict[int, str]:
        return self._index.traces

    @property
    def functions(self) -> tuple[tuple[float, int], ...]:
        return self._index.functions

    def result(self, place: int) -> Result:
        return Result(self._value(place), self._index.traces.get(place, ""))

    def _value(self, place: int) -> bytes:
        start, end = self._starts[place], self._starts[place + 1]
        if self._content is not None:
            return self._content[start:end]
        with open(self._path, "rb") as file:
            file.seek(start)
            return file.read(end - start)


class RecentFiles:
    """Opens files of results, and remembers the last few. Thread-safe."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, ResultsFile] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, path: str) -> ResultsFile:
        with self._lock:
            found = self._files.get(path)
        if found is not None:
            return found
        found = ResultsFile(path)
        with self._lock:
            self._files[path] = found
            if len(self._files) > FILES_MAX:
                self._files.popitem(last=False)
        return found


def pickled(value: Any) -> bytes:
    """The pickled value; code that the receiver could not import is pickled by value.

    That takes cloudpickle, some ten times slower, so simple values do without.
    """
    if type(value) in UNCHANGING:
        return pickle.dumps(value, 5)
    import cloudpickle

    dumped: bytes = cloudpickle.dumps(value, 5)
    return dumped
