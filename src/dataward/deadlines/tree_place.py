"""A peer's place in the tree: its leaf, and the groups that it hosts.

`receive` and `tick` take what happens and return what to send. The place knows nothing of promises:
the summary that it reports is made by its peer.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dataward.deadlines.group import (
    PERIOD_SECONDS,
    SILENCE_SECONDS,
    ChildRecord,
    HostedGroup,
    ParentLink,
    accepts,
)
from dataward.deadlines.planting import planted
from dataward.deadlines.summary import HoleCounts
from dataward.deadlines.tree_messages import (
    LOWEST,
    Address,
    Appoint,
    BranchChild,
    BranchReport,
    Crown,
    Crowned,
    Dissolve,
    GroupId,
    GroupView,
    JoinTree,
    LeaveTree,
    ProbeTree,
    Send,
    Stamp,
    Superseded,
    TreeMessage,
    Unlisted,
)

CONTACTS_MAX = 64
JOIN_HOPS_MAX = 64
PROBE_SHARE = 0.1  # of the periods, in which a leaf looks for other trees
UNKNOWN_LEAVES = -1  # in a probe of somebody who does not host the root
ALONE_SECONDS = 12 * SILENCE_SECONDS  # after that an orphan begins a tree of its own


@dataclass
class TreePlace:
    """One peer's place.

    ``contacts`` are peers that it has heard of, by which it finds the tree again; ``summary`` tells
    which holes the peer has at a time.
    """

    address: Address
    random: Random
    summary: Callable[[float], HoleCounts]
    contacts: list[Address] = field(default_factory=list)
    groups: dict[GroupId, HostedGroup] = field(default_factory=dict)
    link: ParentLink | None = None
    orphan_since: float = 0.0
    _turn: int = 0
    _made: int = 0

    def __post_init__(self) -> None:
        self._handlers: dict[type[Any], Callable[[Any, float], list[Send]]] = {
            GroupView: self._on_view, BranchReport: self._on_report, Unlisted: self._on_unlisted,
            Superseded: self._on_superseded, Appoint: self._on_appoint,
            Dissolve: self._on_dissolve, Crown: self._on_crown, Crowned: self._on_crowned,
            JoinTree: self._on_join, LeaveTree: self._on_leave, ProbeTree: self._on_probe,
        }  # fmt: skip

    def receive(self, message: TreeMessage, now: float) -> list[Send]:
        """What follows from a message that is about the tree."""
        return self._handlers[type(message)](message, now)

    def found_tree(self, now: float) -> None:
        """Begin a tree with this peer alone."""
        leaf = ChildRecord(self._as_child(), now, Stamp(0, self.address), leaves=1)
        group = HostedGroup(self._new_id(), 1, self.address, 1, [leaf], True, now, self._new_id)
        self.groups[group.id] = group

    def plant_tree(self, addresses: Collection[Address]) -> list[Send]:
        """Begin a tree with all these peers, of which this one need not be one."""
        first, self._made = self._made + 1, self._made + 2 * len(addresses)
        return planted(addresses, self.address, first)

    def tick(self, now: float) -> list[Send]:
        """What is said in every period."""
        sends = []
        for group in list(self.groups.values()):
            sends += self._tick_group(group, now)
        return sends + self._tick_leaf(now)

    def meet(self, address: Address) -> None:
        """Hear of another peer from outside the tree, as from a list of members."""
        self._know(address)

    def leave(self, now: float, also: Collection[Address] = ()) -> list[Send]:
        """Leave on purpose: give away what this peer hosts, and say goodbye.

        Others that leave with it, ``also``, are given nothing.
        """
        sends = []
        for group in self.groups.values():
            spare = [address for record in group.records for address in record.spare]
            spare += [record.child.host for record in group.records]
            spare = [a for a in spare if a != self.address and a not in also]
            if spare:
                sends.append(Send(spare[0], _given(group)))
        if self.link is not None:
            sends.append(Send(self.link.ref.host, LeaveTree(self.address)))
        return sends

    def leave_place(self, now: float) -> None:
        """Be in no tree, and host nothing; promises stay."""
        self.groups.clear()
        self._lose_place(now)

    def on_lost(self, addresses: Collection[Address], now: float) -> None:
        """These peers are known to be gone: act now as after a long silence of theirs.

        A child that this host has not heard of yet may have been given to another host just now.
        """
        long_ago = now - 2 * SILENCE_SECONDS
        self.contacts = [address for address in self.contacts if address not in addresses]
        for group in self.groups.values():
            for record in group.records:
                if record.child.host in addresses and record.has_reported:
                    record.heard = min(record.heard, long_ago)
            if group.link is not None and group.link.ref.host in addresses:
                group.link.heard = min(group.link.heard, long_ago)
        if self.link is not None and self.link.ref.host in addresses:
            self.link.heard = min(self.link.heard, long_ago)

    def was_stopped(self, seconds: float, now: float) -> None:
        """This peer's process has not run for so long: that was no silence of others."""

        def later(heard: float) -> float:
            return min(heard + seconds, now)

        self.orphan_since = later(self.orphan_since)
        if self.link is not None:
            self.link.heard = later(self.link.heard)
        for group in self.groups.values():
            group.since = later(group.since)
            if group.link is not None:
                group.link.heard = later(group.link.heard)
            for record in group.records:
                record.heard = later(record.heard)

    # --- the leaf ---

    def _as_child(self) -> BranchChild:
        return BranchChild(self.address, self.address, self.address)

    def _tick_leaf(self, now: float) -> list[Send]:
        if self.link is not None and self.link.is_silent(now):
            self._take_over(self.link, self.address, now)
            if now - self.link.heard > 6 * SILENCE_SECONDS:
                self._lose_place(now)
        if self.link is None:
            return self._look_for_tree(now)
        return [*self._look_for_other_trees(self.link.view), *self.report(now)]

    def report(self, now: float) -> list[Send]:
        """What the group above must know of this leaf."""
        if self.link is None:
            return []
        self._turn += 1
        ref = self.link.ref
        spare = () if self.groups else (self.address,)
        return [
            Send(
                ref.host,
                BranchReport(
                    ref.group, self._as_child(), Stamp(0, self.address), self._turn, (), 1,
                    self.summary(now), spare,
                ),
            )
        ]  # fmt: skip

    def _look_for_other_trees(self, view: GroupView) -> list[Send]:
        """Now and then ask somebody for the root, on behalf of the own one.

        The root's host cannot know everybody: a peer that begins a tree of its own, because all it
        knew are gone, may be known to a leaf only.
        """
        if not self.contacts or self.random.random() >= PROBE_SHARE:
            return []
        probe = ProbeTree(view.root, view.root_host, UNKNOWN_LEAVES)
        return [Send(self.random.choice(self.contacts), probe)]

    def _look_for_tree(self, now: float) -> list[Send]:
        if now - self.orphan_since > ALONE_SECONDS and not self.groups:
            self.found_tree(now)
            return []
        if not self.contacts:
            return []
        return [Send(self.random.choice(self.contacts), JoinTree(self.address))]

    def _lose_place(self, now: float) -> None:
        self.link, self.orphan_since = None, now

    # --- the groups that this peer hosts ---

    def _tick_group(self, group: HostedGroup, now: float) -> list[Send]:
        sends = group.drop_silent(now)
        if not group.records and group.is_root:
            del self.groups[group.id]
            return sends
        if not group.is_root:
            if group.link is not None and group.link.is_silent(now):
                self._take_over(group.link, group.id, now)
            heard = group.link.heard if group.link else group.since
            if now - heard > 4 * SILENCE_SECONDS:
                return sends + self._dissolved(group, LOWEST, now)
            if group.parent is not None:
                sends.append(group.report(group.parent))
        for leaf in group.misplaced():
            if group.parent is not None:
                sends.append(Send(group.parent.host, JoinTree(leaf)))
        crown = group.crown_only_child()
        if crown:  # without a view after it, by which the new root would have a parent again
            return sends + crown
        sends += group.balance(now) + group.rise(now)
        if _is_settled_root(group, now) and self.contacts:
            probe = ProbeTree(group.id, self.address, group.leaves)
            sends.append(Send(self.random.choice(self.contacts), probe))
        return sends + group.views()

    def _take_over(self, link: ParentLink, key: Address | GroupId, now: float) -> None:
        """Host the silent group above, if nobody else is there to give it a new host.

        The members of a root do that one after the other; those of another group only when the
        group above it should long have appointed somebody.
        """
        view = link.view
        keys = [child.key for child in view.children if child.host != view.stamp.host]
        if key not in keys or view.group in self.groups:
            return
        patience = SILENCE_SECONDS * (1 if view.above is None else 2)
        if now - link.heard <= patience + 2 * PERIOD_SECONDS * keys.index(key):
            return
        records = [ChildRecord(child, now, Stamp(0, LOWEST)) for child in view.children]
        self.groups[view.group] = HostedGroup(
            view.group, view.level, self.address, view.stamp.version + 1, records,
            view.above is None, now, self._new_id, None, view.above,
        )  # fmt: skip

    def _dissolved(self, group: HostedGroup, contact: Address, now: float) -> list[Send]:
        """Give a group up: groups below dissolve too, and leaves join again."""
        del self.groups[group.id]
        sends: list[Send] = []
        for record in group.records:
            key, host = record.child.key, record.child.host
            if isinstance(key, tuple):
                sends.append(Send(host, Dissolve(key, 1 << 60, contact)))
            else:
                sends.append(Send(host, Unlisted(group.id, self.address, key, contact)))
        return sends

    def _new_id(self) -> GroupId:
        self._made += 1
        return (self.address, self._made)

    def _know(self, *addresses: Address) -> None:
        for address in addresses:
            if address not in self.contacts and address not in (self.address, LOWEST):
                self.contacts.append(address)
        del self.contacts[:-CONTACTS_MAX]

    # --- the tree's messages ---

    def _on_view(self, view: GroupView, now: float) -> list[Send]:
        self._know(view.root_host, view.stamp.host, *(child.host for child in view.children))
        if isinstance(view.child, tuple):
            group = self.groups.get(view.child)
            if group is None or view.level != group.level + 1:
                return []
            if not accepts(group.link, view, now):
                return _objection(group.link, view)
            is_first = group.link is None
            group.link, group.is_root, group.rising = ParentLink(view, now), False, None
            return group.views() if is_first else []
        if view.level != 1:
            return []
        if not accepts(self.link, view, now):
            return _objection(self.link, view)
        self.link = ParentLink(view, now)
        return []

    def _on_report(self, report: BranchReport, now: float) -> list[Send]:
        group = self.groups.get(report.group)
        if group is None:
            unlisted = Unlisted(report.group, self.address, report.child.key)
            return [Send(report.child.host, unlisted)]
        return group.on_report(report, now)

    def _on_unlisted(self, message: Unlisted, now: float) -> list[Send]:
        self._know(message.contact)
        if isinstance(message.child, tuple):
            group = self.groups.get(message.child)
            if group is None:
                return []
            if group.above == (message.group, message.host):
                group.above = None
            if group.link is not None and group.link.ref == (message.group, message.host):
                group.link, group.since = None, now - 2 * SILENCE_SECONDS
            return []
        if self.link is not None and self.link.ref == (message.group, message.host):
            self._lose_place(now)
            if message.contact != LOWEST:
                return [Send(message.contact, JoinTree(self.address))]
        return []

    def _on_superseded(self, message: Superseded, now: float) -> list[Send]:
        group = self.groups.get(message.group)
        if group is not None and message.stamp > group.stamp:
            del self.groups[message.group]
        return []

    def _on_appoint(self, message: Appoint, now: float) -> list[Send]:
        group = self.groups.get(message.group)
        if group is not None and group.version > message.base:
            return []
        known = {r.child.key: r for r in group.records} if group else {}
        records = [
            known.get(child.key) or ChildRecord(child, now, Stamp(0, LOWEST))
            for child in message.children
        ]
        if group is None:
            group = self.groups[message.group] = HostedGroup(
                message.group, message.level, self.address, message.version, records,
                message.parent is None, now, self._new_id, None, message.parent,
            )  # fmt: skip
        else:
            group.records, group.version = records, message.version
        return group.views()

    def _on_dissolve(self, message: Dissolve, now: float) -> list[Send]:
        self._know(message.contact)
        group = self.groups.get(message.group)
        if group is None or group.version > message.version:
            return []
        if message.contact == LOWEST:  # what was below has another place already
            del self.groups[message.group]
            return []
        return self._dissolved(group, message.contact, now)

    def _on_crown(self, message: Crown, now: float) -> list[Send]:
        group = self.groups.get(message.group)
        # A group that was just appointed may have seen no view, and a root that crowns sends none.
        if group is None or group.parent is None or group.parent.group != message.root:
            return []
        host = group.parent.host
        group.link, group.above, group.is_root, group.since = None, None, True, now
        group.version += 1
        return [Send(host, Crowned(message.root))]

    def _on_crowned(self, message: Crowned, now: float) -> list[Send]:
        self.groups.pop(message.root, None)
        return []

    def _on_join(self, message: JoinTree, now: float) -> list[Send]:
        self._know(message.leaf)
        if message.hops > JOIN_HOPS_MAX:
            return []
        onward = JoinTree(message.leaf, message.hops + 1)
        covering = [g for g in self.groups.values() if g.low <= message.leaf < g.high]
        if covering:
            group = min(covering, key=lambda g: g.level)
            if group.level == 1:
                leaf = BranchChild(message.leaf, message.leaf, message.leaf)
                group.add(leaf, now)
                return group.views()
            below = group.child_for(message.leaf)
            return [Send(below.child.host, onward)] if below is not None else []
        parents = [g.parent for g in self.groups.values() if g.parent is not None]
        if not parents and self.link is not None:
            parents = [self.link.ref]
        return [Send(parents[0].host, onward)] if parents else []

    def _on_leave(self, message: LeaveTree, now: float) -> list[Send]:
        for group in self.groups.values():
            record = group.record_of(message.leaf)
            if record is not None:
                group.remove(record)
        return []

    def _on_probe(self, probe: ProbeTree, now: float) -> list[Send]:
        """Two trees have met: the smaller one dissolves, and its leaves join the other.

        After a partition both trees may have a root of the same name, at different hosts.
        """
        self._know(probe.host)
        own = next((g for g in self.groups.values() if _is_settled_root(g, now)), None)
        if own is None:
            if self.link is None:
                return []
            root, host = self.link.view.root, self.link.view.root_host
            if (root, host) == (probe.root, probe.host) or host == self.address:
                return []
            return [Send(host, probe)]
        if probe.host == self.address:
            return []
        if (own.leaves, own.id, own.host) < (probe.leaves, probe.root, probe.host):
            return self._dissolved(own, probe.host, now)
        return [Send(probe.host, ProbeTree(own.id, self.address, own.leaves))]


def _is_settled_root(group: HostedGroup, now: float) -> bool:
    """While a root gets another one above, there are two in one tree."""
    return group.is_root and now - group.since > 2 * SILENCE_SECONDS


def _objection(link: ParentLink | None, view: GroupView) -> list[Send]:
    """Tell a host whose group has another host by now."""
    if link is None or link.view.group != view.group or link.view.stamp <= view.stamp:
        return []
    return [Send(view.stamp.host, Superseded(view.group, link.view.stamp))]


def _given(group: HostedGroup) -> Appoint:
    """A group that its host gives away."""
    parent = None if group.is_root else group.parent
    return Appoint(group.id, group.level, group.version, group.version + 1, group.children, parent)
