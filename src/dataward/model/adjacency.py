"""A graph's edges as two arrays instead of an object per edge.

A million tasks with three million edges fit in some 20 MB this way.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int32]
Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """Row i has edges to ``targets[starts[i]:starts[i + 1]]``, in the order they were given."""

    starts: Offsets
    targets: Indices

    @classmethod
    def from_pairs(cls, rows: Indices, targets: Indices, row_count: int) -> "Adjacency":
        """Group pairs by row; within a row, pairs keep the order they came in."""
        starts = np.zeros(row_count + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=row_count), out=starts[1:])
        if rows.size and np.any(rows[1:] < rows[:-1]):
            targets = targets[np.argsort(rows, kind="stable")]
        return cls(starts, np.ascontiguousarray(targets, dtype=np.int32))

    @classmethod
    def from_edges(cls, rows: Indices, targets: Indices, row_count: int) -> "Adjacency":
        """Group pairs by row, sorted, each pair once."""
        span = max(int(targets.max(initial=-1)) + 1, 1)
        keys = np.sort(rows.astype(np.int64) * span + targets)  # np.unique hashes: 5 times slower
        keys = keys[np.diff(keys, prepend=-1) != 0]
        return cls.from_pairs(
            (keys // span).astype(np.int32), (keys % span).astype(np.int32), row_count
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Adjacency):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(
            self.targets, other.targets
        )

    __hash__ = None  # type: ignore[assignment]

    def row(self, index: int) -> Indices:
        return self.targets[self.starts[index] : self.starts[index + 1]]

    def lister(self) -> Callable[[int], list[int]]:
        """A faster ``row`` that returns a list; all rows as lists would take a gigabyte."""
        starts, targets = self.starts.tolist(), self.targets
        return lambda row: targets[starts[row] : starts[row + 1]].tolist()

    def rows(self) -> Iterator[list[int]]:
        """Every row as a plain list; faster than ``row`` for a Python loop over all edges."""
        starts = self.starts.tolist()
        targets = self.targets.tolist()
        for i in range(len(starts) - 1):
            yield targets[starts[i] : starts[i + 1]]

    def degrees(self) -> Offsets:
        return np.diff(self.starts)

    def owners(self) -> Indices:
        """For every entry of ``targets``, the row it belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.degrees())

    def transposed(self, row_count: int) -> "Adjacency":
        """The same pairs with rows and targets swapped; each row comes out sorted."""
        return Adjacency.from_pairs(self.targets, self.owners(), row_count)

    def gather(self, rows: Indices) -> tuple[Indices, Offsets]:
        """The targets of many rows in one array, and where each row's part starts in it."""
        begins = self.starts[rows]
        counts = self.starts[rows + 1] - begins
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        flat = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], counts)
        return self.targets[flat], offsets
