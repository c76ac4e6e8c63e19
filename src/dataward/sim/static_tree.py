"""The tree of up to a million simulated nodes: what every routing node knows, in arrays.

The tree does not change while it is simulated: groups of two, or three at the end of a level, so
that all leaves are equally deep, as in the tree of `deadlines/group.py`. Routing nodes are numbered
from the lowest level up; the last one is the root. All decisions are those of
`deadlines/search.py`, made for thousands of requests at once.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataward.deadlines.reference_points import ReferencePoints
from dataward.deadlines.search import NONE, Mask, best_class, largest_class
from dataward.deadlines.summary import CLASSES, carried_over, with_new_points

Ids = NDArray[np.int64]

HOLES_TOLD = 6  # of a leaf; the largest, if there are more
COUNT_MAX = 32_000  # a count only has to be above 0; higher ones are kept as this
CHUNK = 50_000  # rows that are worked on at once


class StaticTree:
    """Shape of the tree, and what parents know of their children."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        sizes = [leaves]
        while sizes[-1] > 1 or len(sizes) == 1:
            sizes.append(max(sizes[-1] // 2, 1))
        self.levels = len(sizes) - 1
        self.routers = sum(sizes[1:])
        self.first_router = np.cumsum([0, *sizes[1:-1]])  # of each level, from level 1 on
        self.level = np.repeat(np.arange(1, len(sizes)), sizes[1:]).astype(np.int8)
        self.leaf_parent = np.minimum(np.arange(leaves) // 2, sizes[1] - 1)
        self.parent = np.full(self.routers, NONE, dtype=np.int64)
        self.first_child = np.zeros(self.routers, dtype=np.int64)
        self.child_count = np.full(self.routers, 2, dtype=np.int8)
        for level, size in enumerate(sizes[1:]):
            own = self.first_router[level] + np.arange(size)
            below = 0 if level == 0 else int(self.first_router[level - 1])
            self.first_child[own] = below + 2 * np.arange(size)
            self.child_count[own[-1]] = sizes[level] - 2 * (size - 1)
            if level + 2 < len(sizes):
                above = np.minimum(np.arange(size) // 2, sizes[level + 2] - 1)
                self.parent[own] = self.first_router[level + 1] + above
        self.root = self.routers - 1
        self.host = self._hosts(sizes)
        self.known = np.zeros((self.routers, CLASSES), dtype=np.int16)  # by each one's parent
        self.known_leaves = np.full((leaves, HOLES_TOLD), NONE, dtype=np.int16)

    def _hosts(self, sizes: Sequence[int]) -> Ids:
        """The peer that plays each routing role: the first leaf of the second child's branch.

        No leaf is that for two routing nodes, so no peer has more than one routing role.
        """
        lowest = np.arange(sizes[0])  # the first leaf below each node of a level
        hosts = []
        for size in sizes[1:]:
            second = np.minimum(2 * np.arange(size) + 1, len(lowest) - 1)
            hosts.append(lowest[second])
            lowest = lowest[2 * np.arange(size)]
        return np.concatenate(hosts).astype(np.int64)

    def fill(self, classes: NDArray[np.int16]) -> None:
        """Let everybody know what leaves have, as if all had just told it."""
        self.known_leaves[:] = classes
        for level in range(1, self.levels):
            first = int(self.first_router[level - 1])
            last = int(self.first_router[level])
            for start in range(first, last, CHUNK):
                ids = np.arange(start, min(start + CHUNK, last))
                self.known[ids] = self.summaries(ids)

    def summaries(self, ids: Ids) -> NDArray[np.int16]:
        """What each of these routing nodes would tell its parent: the sum over its children."""
        first, count = self.first_child[ids], self.child_count[ids]
        total = np.zeros((len(ids), CLASSES), dtype=np.int32)
        low = self.level[ids] == 1
        for place in range(3):
            there = np.flatnonzero(~low & (count > place))
            if len(there) == len(ids):
                total += self.known[first + place]
            elif len(there):
                total[there] += self.known[first[there] + place]
        at = np.flatnonzero(low)
        for place in range(3):
            there = at[count[at] > place]
            told = self.known_leaves[first[there] + place]
            for column in range(HOLES_TOLD):
                has = told[:, column] >= 0
                np.add.at(total, (there[has], told[has, column]), 1)
        return np.minimum(total, COUNT_MAX).astype(np.int16)

    def chosen(self, ids: Ids, mask: Mask, *, is_sure: bool) -> tuple[Ids, Ids]:
        """For each request at a routing node: the child to go to and the class, or `NONE`.

        The child with the smallest class that serves. Where none surely does, the largest that
        possibly does; of leaves, the children of level 1, the smallest even then. Among equal ones
        the child with more such holes, then the first.
        """
        best_number = np.full(len(ids), NONE, dtype=np.int64)
        best_child = np.full(len(ids), NONE, dtype=np.int64)
        best_key = np.full(len(ids), np.iinfo(np.int64).max)
        first, count = self.first_child[ids], self.child_count[ids]
        low = self.level[ids] == 1
        for place in range(int(count.max())):
            for is_low in (False, True):
                there = np.flatnonzero((low == is_low) & (count > place))
                if not len(there):
                    continue
                children = first[there] + place
                if is_low:
                    number, holes = self._of_leaves(children, mask[there])
                else:
                    number, holes = self._of_routers(children, mask[there], is_sure)
                is_smallest = is_sure or is_low
                key = np.where(is_smallest, number, CLASSES - number) * (COUNT_MAX + 1) - holes
                better = (number != NONE) & (key < best_key[there])
                at = there[better]
                best_key[at], best_number[at] = key[better], number[better]
                best_child[at] = children[better]
        return best_child, best_number

    def _of_routers(self, children: Ids, mask: Mask, is_sure: bool) -> tuple[Ids, Ids]:
        rows = self.known[children]
        number = (best_class if is_sure else largest_class)(rows, mask)
        return number.astype(np.int64), rows[np.arange(len(rows)), number].astype(np.int64)

    def _of_leaves(self, children: Ids, mask: Mask) -> tuple[Ids, Ids]:
        told = self.known_leaves[children].astype(np.int64)
        serves = (told >= 0) & np.take_along_axis(mask, np.maximum(told, 0), axis=1)
        number = np.where(serves, told, CLASSES).min(axis=1)
        number = np.where(number == CLASSES, NONE, number)
        return number, np.ones(len(children), dtype=np.int64)

    def take_hole(self, router: int, child: int, number: int) -> None:
        """Offer a hole to nobody else until its branch is heard of again."""
        if self.level[router] > 1:
            self.known[child, number] = max(self.known[child, number] - 1, 0)
            return
        told = self.known_leaves[child]
        told[np.flatnonzero(told == number)[:1]] = NONE

    def move_to_new_points(
        self, before: tuple[float, ReferencePoints], after: tuple[float, ReferencePoints]
    ) -> None:
        """Have every routing node read what it knows by new reference points."""
        kinds = carried_over(before, after)
        for start in range(0, self.routers, CHUNK):
            rows = self.known[start : start + CHUNK]
            rows[:] = np.minimum(with_new_points(rows.astype(np.int32), kinds), COUNT_MAX)
        told = self.known_leaves
        told[:] = np.where(told >= 0, kinds[told], NONE)
