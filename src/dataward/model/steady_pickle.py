"""Pickles of functions that come out the same whenever their code is the same.

cloudpickle marks every class that travels by value with a random word, by which a process knows
it again, and writes sets in the order of the process's hash seed. A workflow made twice by one
script would then never be the same. Here the word is made from what the class is.
"""

import io
from collections.abc import Callable
from hashlib import blake2b
from types import CodeType
from typing import Any

import cloudpickle

_CLASS_MAKERS = ("_make_skeleton_class", "_make_skeleton_enum")  # the word is last but one


class SteadyPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """``name_of`` gives a name for what is to be only named, None for all else."""

    def __init__(
        self, file: io.BytesIO, name_of: Callable[[Any], str | None], marks_classes: bool = True
    ) -> None:
        super().__init__(file, 5)
        self._name_of = name_of
        self._marks_classes = marks_classes

    def persistent_id(self, value: Any) -> str | None:
        return self._name_of(value)

    def reducer_override(self, value: Any) -> Any:
        if type(value) is CodeType:
            maker, parts = self.dispatch_table[CodeType](value)
            return maker, tuple(_with_sorted_sets(part) for part in parts)
        reduced = super().reducer_override(value)
        if isinstance(value, type) and isinstance(reduced, tuple):
            maker, parts, *rest = reduced
            if maker.__name__ in _CLASS_MAKERS:
                mark = self._mark_of(value) if self._marks_classes else None
                return maker, (*parts[:-2], mark, parts[-1]), *rest
        return reduced

    def _mark_of(self, value: type) -> str:
        file = io.BytesIO()
        SteadyPickler(file, self._name_of, marks_classes=False).dump(value)
        return blake2b(file.getvalue(), digest_size=16).hexdigest()


class _SortedSet:
    """Loaded as the frozen set it was made from."""

    def __init__(self, members: frozenset[Any]) -> None:
        self._members = members

    def __reduce__(self) -> Any:
        return frozenset, (sorted(self._members, key=repr),)


def _with_sorted_sets(part: Any) -> Any:
    """The constants of code: tuples, maybe with tuples and frozen sets in them."""
    if type(part) is frozenset:
        return _SortedSet(part)
    if type(part) is tuple and any(type(item) in (frozenset, tuple) for item in part):
        return tuple(_with_sorted_sets(item) for item in part)
    return part
