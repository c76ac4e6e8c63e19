"""What peers of the tree tell each other. Every message can be lost, late or repeated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dataward.deadlines.reservations import Promise, WantedSlots
from dataward.deadlines.submission import AskKey, BookingRef
from dataward.deadlines.summary import HoleCounts

Address = int
"""A peer's address; leaves are ordered by it."""

GroupId = tuple[Address, int]
"""Who made the group, and that peer's how-manieth group it is."""

LOWEST, HIGHEST = -1, 1 << 62
PLANTED = 1  # the version of a group in a planted tree; other ways begin with higher ones


class Stamp(NamedTuple):
    """Orders what is said of a group by different hosts: the higher one counts."""

    version: int
    host: Address


class ParentRef(NamedTuple):
    """A group and the peer that hosts it."""

    group: GroupId
    host: Address


class BranchChild(NamedTuple):
    """A child of a group: a leaf, whose key is its address, or a group, and the peer to talk to."""

    key: Address | GroupId
    host: Address
    low: Address  # the lowest address below


@dataclass(frozen=True, slots=True)
class GroupView:
    """A host tells a child what its group looks like. The addresses of all below are in a range."""

    group: GroupId
    level: int
    stamp: Stamp
    turn: int  # later ones of the same host have higher turns
    children: Sequence[BranchChild]
    child: Address | GroupId  # whom this is for
    low: Address
    high: Address
    above: ParentRef | None  # of the group itself; None: it is the root
    root: GroupId
    root_host: Address


@dataclass(frozen=True, slots=True)
class BranchReport:
    """A child tells its group's host what is below: who, and which holes."""

    group: GroupId  # the parent
    child: BranchChild
    stamp: Stamp
    turn: int
    members: Sequence[BranchChild]  # of the child, if it is a group
    leaves: int
    summary: HoleCounts
    spare: Sequence[Address]  # peers below without a routing role


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A host tells a child that reports to it that it is no child of the group."""

    group: GroupId
    host: Address  # who says so
    child: Address | GroupId
    contact: Address = LOWEST  # a peer of the tree to join instead, if one is known


@dataclass(frozen=True, slots=True)
class Superseded:
    """A child tells a host that another one has its group, with a higher stamp."""

    group: GroupId
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Appoint:
    """The parent's host gives a group to a peer, with these children.

    A peer that has the group already in a version above ``base`` has seen more, and ignores this.
    """

    group: GroupId
    level: int
    base: int
    version: int
    children: Sequence[BranchChild]
    parent: ParentRef | None  # None: it is the root


@dataclass(frozen=True, slots=True)
class Dissolve:
    """The group is no more; what was below goes elsewhere or joins again."""

    group: GroupId
    version: int  # a host that has a higher one ignores this
    contact: Address = LOWEST


@dataclass(frozen=True, slots=True)
class Crown:
    """The root tells its only child that it is the root now."""

    group: GroupId
    root: GroupId


@dataclass(frozen=True, slots=True)
class Crowned:
    root: GroupId


@dataclass(frozen=True, slots=True)
class JoinTree:
    """A leaf wants to be in the tree; routed by address to the group that it belongs to."""

    leaf: Address
    hops: int = 0


@dataclass(frozen=True, slots=True)
class LeaveTree:
    """A leaf leaves on purpose."""

    leaf: Address


@dataclass(frozen=True, slots=True)
class ProbeTree:
    """A root's host looks for other trees."""

    root: GroupId
    host: Address
    leaves: int


@dataclass(frozen=True, slots=True)
class HoleRequest:
    """A request on its way to an execution node."""

    key: AskKey
    owner: Address
    wanted: WantedSlots
    came_from: Address | GroupId | None  # the child that passed it up; None on its way down
    group: GroupId | None  # the group that should deal with it; None: the leaf itself
    is_sure: bool  # whether only holes are looked for that surely serve
    falls: int  # how often it may still come down in vain
    hops: int = 0
    tried: Sequence[Address] = ()  # leaves that had no hole for it
    tries: int = 0  # at leaves that are tried one by one, whatever is known of their holes


@dataclass(frozen=True, slots=True)
class Reserved:
    key: AskKey
    booking: BookingRef
    promises: Sequence[Promise]


@dataclass(frozen=True, slots=True)
class NoHole:
    key: AskKey
    is_certain: bool = False  # every leaf of the tree was tried


@dataclass(frozen=True, slots=True)
class ConfirmBooking:
    key: AskKey
    booking: BookingRef
    owner: Address


@dataclass(frozen=True, slots=True)
class BookingConfirmed:
    key: AskKey
    booking: BookingRef
    is_confirmed: bool  # False: it had expired


@dataclass(frozen=True, slots=True)
class ReleaseBooking:
    key: AskKey
    owner: Address


@dataclass(frozen=True, slots=True)
class BookingReleased:
    key: AskKey
    node: Address


TreeMessage = (
    GroupView | BranchReport | Unlisted | Superseded | Appoint | Dissolve | Crown | Crowned
    | JoinTree | LeaveTree | ProbeTree
    | HoleRequest | Reserved | NoHole | ConfirmBooking | BookingConfirmed | ReleaseBooking
    | BookingReleased
)  # fmt: skip


class Send(NamedTuple):
    to: Address
    message: TreeMessage
