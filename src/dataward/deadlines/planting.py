"""A whole tree at once, for peers that somebody knows by a list: nobody has to join one by one.

Who plants a tree appoints the host of every group; these send views to their children, and from
then on the tree lives like any other. Peers of the list that are not there are found to be silent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dataward.deadlines.tree_messages import (
    PLANTED,
    Address,
    Appoint,
    BranchChild,
    GroupId,
    ParentRef,
    Send,
)

CHILDREN = 3  # of most groups: so neither a newcomer nor a loss changes the tree's shape


@dataclass(frozen=True, slots=True)
class _Planned:
    """A leaf or a group to be, and peers below without a routing role, to host groups above."""

    child: BranchChild
    id: GroupId  # of a leaf: nothing
    children: Sequence[BranchChild]
    spare: Sequence[Address]


def planted(addresses: Iterable[Address], gardener: Address, first_number: int) -> list[Send]:
    """The messages by which these peers become one balanced tree.

    Its groups are the ``gardener``'s, and numbered from ``first_number`` on.
    """
    leaves = sorted(set(addresses))
    level = [_Planned(BranchChild(a, a, a), (0, 0), (), (a,)) for a in leaves]
    levels: list[list[_Planned]] = []
    number = first_number
    while len(level) > 1 or not levels:
        above = []
        for part in _parts(level):
            spare = [address for one in part for address in one.spare]
            id: GroupId = (gardener, number)
            number += 1
            child = BranchChild(id, spare[0], part[0].child.low)
            above.append(_Planned(child, id, [one.child for one in part], spare[1:] or spare))
        levels.append(above)
        level = above
    sends: list[Send] = []
    parents: dict[Address | GroupId, ParentRef] = {}
    for height in range(len(levels), 0, -1):
        for group in levels[height - 1]:
            for child in group.children:
                parents[child.key] = ParentRef(group.id, group.child.host)
            parent = parents.get(group.id)
            appoint = Appoint(group.id, height, 0, PLANTED, group.children, parent)
            sends.append(Send(group.child.host, appoint))
    return sends


def _parts(level: Sequence[_Planned]) -> list[Sequence[_Planned]]:
    """Neighbours together, in parts of nearly equal size."""
    count = max(round(len(level) / CHILDREN), 1)
    edges = [len(level) * place // count for place in range(count + 1)]
    return [level[low:high] for low, high in pairwise(edges)]
