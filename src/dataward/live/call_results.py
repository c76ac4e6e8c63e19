"""The pickled results of calls. Every runner process loads this module, so it imports little."""

import os
import pickle
from typing import Any

import msgspec

from dataward.live.value_files import value_parts

# Types whose values cannot be changed, so that several calls may be given the same object.
UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None)})


class Result(msgspec.Struct, frozen=True, array_like=True):
    """The pickled result of one call, or its pickled error with the traceback.

    ``rest`` is what follows the value in its file; see `value_files`.
    """

    value: bytes
    trace: str = ""
    rest: tuple[Any, ...] = ()

    @property
    def is_error(self) -> bool:
        return bool(self.trace)


class InFile(msgspec.Struct, frozen=True, array_like=True):
    """A large pickled result, which has a file of its own."""

    path: str

    def within(self, directory: str) -> "InFile":
        """The file, if its path is one from this directory."""
        return InFile(os.path.join(directory, self.path))

    def read(self) -> bytes:
        with open(self.path, "rb", buffering=0) as file:
            return file.read()


def pickled(value: Any) -> bytes:
    """The pickled value; code that the receiver could not import is pickled by value.

    That takes cloudpickle, some ten times slower, so simple values do without.
    """
    if type(value) in UNCHANGING:
        return pickle.dumps(value, 5)
    import cloudpickle

    dumped: bytes = cloudpickle.dumps(value, 5)
    return dumped


def result_of(value: Any) -> Result:
    """The pickled value, as `pickled`; large buffers in it are not copied."""
    if type(value) in UNCHANGING:
        return Result(pickle.dumps(value, 5))
    import cloudpickle

    first, *rest = value_parts(value, cloudpickle.dumps)
    assert isinstance(first, bytes)
    return Result(first, rest=tuple(rest))
