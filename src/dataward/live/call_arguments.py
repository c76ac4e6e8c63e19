"""Functions and arguments on their way to a runner process: pickled, with holes for results.

A future among the arguments, also within lists, tuples and dictionaries, leaves a hole that the
result of its call will fill.
"""

import pickle
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import cloudpickle
from blake3 import blake3

from dataward.live.call_future import CallFuture
from dataward.live.calls import UNCHANGING, Hole, Path, pickled

FUNCTIONS_MAX = 1000


class Arguments:
    """What a call is given: pickled, and which other calls' results it waits for."""

    __slots__ = ("holes", "needs", "pickled", "tuples")

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.holes: tuple[Hole, ...] = ()
        self.tuples: tuple[Path, ...] = ()
        self.needs: tuple[CallFuture[Any], ...] = ()
        if not kwargs and all(type(value) in UNCHANGING for value in args):
            self.pickled = pickle.dumps((args, kwargs), 5)
            return
        digging = _Digging()
        args = tuple([digging.dig(value, (i,)) for i, value in enumerate(args)])
        kwargs = {name: digging.dig(value, (name,)) for name, value in kwargs.items()}
        self.pickled = (
            pickle.dumps((args, kwargs), 5) if digging.is_plain else pickled((args, kwargs))
        )
        if digging.holes:
            self.holes = tuple(digging.holes)
            self.tuples = tuple(digging.tuples)
            self.needs = tuple(digging.needs.values())


class _Digging:
    """Takes futures out of arguments and notes where they were."""

    def __init__(self) -> None:
        self.holes: list[Hole] = []
        self.tuples: list[Path] = []  # travelling as lists, to be filled; innermost first
        self.needs: dict[int, CallFuture[Any]] = {}
        self.is_plain = True  # nothing that must be pickled by value

    def dig(self, value: Any, path: Path) -> Any:
        kind = type(value)
        if kind in UNCHANGING:
            return value
        if kind is CallFuture:
            self.holes.append(Hole(path, value.number))
            self.needs[value.number] = value
            return None
        if kind is list:
            return [self.dig(item, (*path, i)) for i, item in enumerate(value)]
        if kind is tuple:
            before = len(self.holes)
            items = [self.dig(item, (*path, i)) for i, item in enumerate(value)]
            if len(self.holes) == before:
                return value
            self.tuples.append(path)
            return items
        if kind is dict and all(type(key) in (str, int) for key in value):
            return {key: self.dig(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, Future):
            raise TypeError("a future of another executor cannot be an argument; pass its result()")
        self.is_plain = False
        return value


class FunctionTable:
    """Functions by number, each pickled when first seen.

    A function is told by what it is, not by what it holds: one whose globals or defaults change
    later is still the one that was pickled.
    """

    def __init__(self) -> None:
        self._numbers: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self.pickled: list[tuple[str, bytes]] = []
        self._lock = threading.Lock()

    def number_of(self, function: Any) -> int:
        known = self._numbers.get(id(function))
        return known[1] if known is not None else self._add(function)

    def _add(self, function: Any) -> int:
        if not callable(function):
            raise TypeError(f"{function!r} cannot be called")
        dumped = cloudpickle.dumps(function, 5)
        with self._lock:
            number = len(self.pickled)
            self.pickled.append((blake3(dumped).hexdigest(), dumped))
            self._numbers[id(function)] = (function, number)  # kept: nobody else gets its id
            if len(self._numbers) > FUNCTIONS_MAX:
                self._numbers.popitem(last=False)
        return number
