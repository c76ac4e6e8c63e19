"""Pickles functions so that equal code gives equal bytes.

cloudpickle gives every class that it pickles by value a random mark, by which a process recognizes
the class, and writes sets in an order that depends on the process's hash seed; one script would
never make the same workflow twice. Here the mark is a digest of the class, and sets are sorted.

A pickle also shows which equal strings are one object. A module's code and its ``__file__`` share
the file's name if Python has just compiled the module, but not if it was compiled earlier. Here
they never share it.
"""

import io
from collections.abc import Callable
from hashlib import blake2b
from types import CodeType
from typing import Any

import cloudpickle

_CLASS_MAKERS = ("_make_skeleton_class", "_make_skeleton_enum")  # last argument but one: the mark


class SteadyPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles a value as a name where ``name_of`` returns one, in full where it returns None.

    Without lines, code is pickled as if it were nowhere in particular: good only for comparing.
    """

    def __init__(
        self,
        file: io.BytesIO,
        name_of: Callable[[Any], str | None],
        *,
        marks_classes: bool = True,
        has_lines: bool = True,
    ) -> None:
        super().__init__(file, 5)
        self._name_of = name_of
        self._marks_classes = marks_classes
        self._has_lines = has_lines
        self._file_names: dict[str, str] = {}

    def persistent_id(self, value: Any) -> str | None:
        return self._name_of(value)

    def reducer_override(self, value: Any) -> Any:
        if type(value) is CodeType:
            if not self._has_lines:
                value = value.replace(co_firstlineno=1, co_linetable=b"", co_filename="")
            maker, parts = self.dispatch_table[CodeType](value)
            return maker, tuple(
                self._own_file_name(part) if part is value.co_filename else _with_sorted_sets(part)
                for part in parts
            )
        reduced = super().reducer_override(value)
        if isinstance(value, type) and isinstance(reduced, tuple):
            maker, parts, *rest = reduced
            if maker.__name__ in _CLASS_MAKERS:
                mark = self._mark_of(value) if self._marks_classes else None
                return maker, (*parts[:-2], mark, parts[-1]), *rest
        return reduced

    def _own_file_name(self, name: str) -> str:
        """An equal string that is nobody else's: one for all code of a file."""
        return self._file_names.setdefault(name, "".join((name[:1], name[1:])))

    def _mark_of(self, value: type) -> str:
        file = io.BytesIO()
        with_lines = self._has_lines
        SteadyPickler(file, self._name_of, marks_classes=False, has_lines=with_lines).dump(value)
        return blake2b(file.getvalue(), digest_size=16).hexdigest()


class _SortedSet:
    """Pickles a frozenset in sorted order; loading gives back a frozenset."""

    def __init__(self, members: frozenset[Any]) -> None:
        self._members = members

    def __reduce__(self) -> Any:
        return frozenset, (sorted(self._members, key=repr),)


def _with_sorted_sets(part: Any) -> Any:
    """A part of a code object, with each frozenset in it, at any depth of tuples, made sortable."""
    if type(part) is frozenset:
        return _SortedSet(part)
    if type(part) is tuple and any(type(item) in (frozenset, tuple) for item in part):
        return tuple(_with_sorted_sets(item) for item in part)
    return part
