"""Pickles the functions that are called: each when first seen, and again when it has changed.

A function that a runner process can import is sent by name. Any other function is sent by value,
with the globals it uses; assigning one of these globals counts as a change of the function. An
object that is changed in place is not noticed: comparing would cost more than sending.
"""

import importlib.machinery
import io
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from operator import is_
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle
from blake3 import blake3

from dataward.calls.bundles import Pace

FUNCTIONS_MAX = 1000


class Function:
    """A pickled function."""

    __slots__ = ("digest", "name", "pace", "pickled")

    def __init__(self, name: str, pickled: bytes, pace: Pace) -> None:
        self.name = name
        self.pickled = pickled
        self.digest = blake3(pickled).hexdigest()
        self.pace = pace


class FunctionTable:
    """Finds the `Function` of a function. Any thread may ask."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Any, list[Any], Function]] = OrderedDict()
        self._paces: WeakValueDictionary[object, Pace] = WeakValueDictionary()
        self._lock = threading.Lock()

    def find(self, function: Any) -> Function:
        """The pickled function. Raises TypeError if it cannot be called, or PicklingError."""
        known = self._known.get(id(function))
        if known is not None:
            _, held, found = known
            now = _held_by(function)
            if len(held) == len(now) and all(map(is_, held, now)):
                return found
        return self._add(function)

    def _add(self, function: Any) -> Function:
        if not callable(function):
            raise TypeError(f"{function!r} cannot be called")
        held = _held_by(function)
        name = name_of(function)
        dumped = pickled_function(function)
        with self._lock:
            found = Function(name, dumped, self._pace_of(function))
            if type(function) is FunctionType:  # others may change unnoticed: a method's object
                # The table keeps the function, so that no other object gets its id.
                self._known[id(function)] = (function, held, found)
                if len(self._known) > FUNCTIONS_MAX:
                    self._known.popitem(last=False)
        return found

    def _pace_of(self, function: Any) -> Pace:
        """The pace of a function; functions made by the same line of code share one."""
        inner = _unwrapped(function)
        kind = (type(function), name_of(function), getattr(inner, "__code__", type(inner)))
        pace = self._paces.get(kind)
        if pace is None:
            pace = self._paces[kind] = Pace()
        return pace


def name_of(function: Any) -> str:
    inner = _unwrapped(function)
    name: str = getattr(inner, "__qualname__", type(inner).__qualname__)
    return name


def _unwrapped(function: Any) -> Any:
    """The function inside of partial functions and methods."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    return function


def pickled_function(function: Any) -> bytes:
    """The pickled function, for a runner process. Raises PicklingError."""
    inner = _unwrapped(function)
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    if module is not None and not _can_be_imported(module.__name__):
        cloudpickle.register_pickle_by_value(module)
    file = io.BytesIO()
    try:
        cloudpickle.Pickler(file, 5).dump(function)
    except Exception as error:
        raise pickle.PicklingError(
            f"{name_of(function)} cannot be pickled: {error or type(error).__name__}"
        ) from error
    return file.getvalue()


@cache
def _can_be_imported(name: str) -> bool:
    """Whether another process can import this module, from the same file as this process."""
    if name == "__main__":
        return True  # it cannot, but cloudpickle handles that
    path, spec = None, None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:depth]), path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    origin = getattr(sys.modules[name], "__file__", None)
    # A module such as os is frozen into the interpreter, though it names a file.
    return origin is None or spec is None or spec.origin in (origin, "frozen")


def _find_spec(name: str, path: Any) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: importlib.machinery.ModuleSpec | None = find(name, path) if find else None
        if spec is not None:
            return spec
    return None


# --- what a function holds -----------------------------------------------------------------------


def _held_by(function: Any) -> list[Any]:
    """The values that are pickled along with a function and that may be assigned again."""
    if type(function) is not FunctionType or _travels_by_name(function):
        return []
    held: list[Any] = []
    seen = {function}
    stack = [function]
    while stack:
        one = stack.pop()
        start = len(held)
        held += _held_directly(one)
        for value in held[start:]:
            if type(value) is FunctionType and value not in seen and not _travels_by_name(value):
                seen.add(value)
                stack.append(value)
    return held


def _held_directly(function: FunctionType) -> Iterator[Any]:
    yield function.__code__
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet assigned
            yield None
    find = function.__globals__.get
    for name in _names_in(function.__code__):
        yield find(name)


@lru_cache(FUNCTIONS_MAX)
def _names_in(code: CodeType) -> tuple[str, ...]:
    """Every name that may be a global; some are only names of attributes, which does no harm."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(_names_in(constant)))
    return tuple(names)


def _travels_by_name(function: FunctionType) -> bool:
    module = sys.modules.get(function.__module__ or "")
    return (
        module is not None
        and module.__name__ != "__main__"
        and getattr(module, function.__qualname__, None) is function
        and _can_be_imported(module.__name__)
    )
