"""A routing node: a group of two to four children in the tree, and how it stays balanced.

After VBI-Tree, with the invariants of a B-tree: all leaves are equally deep and ordered by address,
and every group but the root has two to four children, so the depth is logarithmic. Each group is
hosted by some peer. A group's parent divides it when it has too many children, joins it with a
neighbour when it has too few, and appoints another host when its host is silent. Everything is said
again in every period and stamped, so lost, late and repeated messages do no lasting harm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dataward.deadlines.summary import HoleCounts, summary_of, summed
from dataward.deadlines.tree_messages import (
    HIGHEST,
    LOWEST,
    PLANTED,
    Address,
    Appoint,
    BranchChild,
    BranchReport,
    Crown,
    Dissolve,
    GroupId,
    GroupView,
    ParentRef,
    Send,
    Stamp,
    Superseded,
    Unlisted,
)

LEAST, MOST = 2, 4  # children of a group
PERIOD_SECONDS = 1.0  # between two reports, and between two views
SILENCE_SECONDS = 5 * PERIOD_SECONDS  # after that nobody is believed to be there


@dataclass(slots=True)
class ChildRecord:
    """What a host knows of a child."""

    child: BranchChild
    heard: float
    stamp: Stamp
    turn: int = -1  # of the last report; -1: none yet
    members: Sequence[BranchChild] = ()
    leaves: int = 0
    summary: HoleCounts = field(default_factory=lambda: summary_of(()))
    spare: Sequence[Address] = ()
    hosts_tried: int = 0

    @property
    def has_reported(self) -> bool:
        return self.turn >= 0


@dataclass(slots=True)
class ParentLink:
    """The last view of the group above, by which a leaf or a group knows its place."""

    view: GroupView
    heard: float

    @property
    def ref(self) -> ParentRef:
        return ParentRef(self.view.group, self.view.stamp.host)

    def is_silent(self, now: float) -> bool:
        return now - self.heard > SILENCE_SECONDS


def accepts(link: ParentLink | None, view: GroupView, now: float) -> bool:
    """Whether a child follows this view: of the same group a newer one, else a later group's."""
    if link is None or link.is_silent(now):
        return True
    if link.view.group == view.group:
        return (view.stamp, view.turn) > (link.view.stamp, link.view.turn)
    return view.stamp.version > link.view.stamp.version


@dataclass(slots=True)
class HostedGroup:
    """A group at its host. ``link`` is to the group above; a root has none."""

    id: GroupId
    level: int  # 1: the children are leaves
    host: Address
    version: int
    records: list[ChildRecord]
    is_root: bool
    since: float
    new_id: Callable[[], GroupId]
    link: ParentLink | None = None
    above: ParentRef | None = None  # told when the group was given to this host
    turn: int = 0
    rising: tuple[GroupId, Address, float] | None = None  # a root to be made above this one

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.version, self.host)

    @property
    def low(self) -> Address:
        if self.is_root:
            return LOWEST
        return self.link.view.low if self.link else self._lowest

    @property
    def high(self) -> Address:
        if self.is_root:
            return HIGHEST
        return self.link.view.high if self.link else self._lowest

    @property
    def _lowest(self) -> Address:
        """The lowest address below; a group that has lost all its children keeps its place."""
        below = [record.child.low for record in self.records]
        return min(below) if below else self.link.view.low if self.link else LOWEST

    @property
    def root(self) -> ParentRef:
        """The root, as far as this group knows."""
        if self.is_root or self.link is None:
            return ParentRef(self.id, self.host)
        return ParentRef(self.link.view.root, self.link.view.root_host)

    @property
    def parent(self) -> ParentRef | None:
        return self.link.ref if self.link else self.above

    @property
    def children(self) -> list[BranchChild]:
        return [record.child for record in self.records]

    @property
    def leaves(self) -> int:
        return sum(record.leaves for record in self.records)

    def summary(self) -> HoleCounts:
        return summed(record.summary for record in self.records)

    def record_of(self, key: Address | GroupId) -> ChildRecord | None:
        return next((r for r in self.records if r.child.key == key), None)

    def child_for(self, address: Address) -> ChildRecord | None:
        """The child whose branch an address belongs to."""
        below = [record for record in self.records if record.child.low <= address]
        return next(iter([*below[-1:], *self.records]), None)

    def add(self, child: BranchChild, now: float) -> None:
        """Have one more child, unless it is there already."""
        if self.record_of(child.key) is None:
            self.records.append(ChildRecord(child, now, Stamp(0, child.host), leaves=1))
            self.changed()

    def remove(self, record: ChildRecord) -> None:
        self.records.remove(record)
        self.changed()

    def changed(self) -> None:
        self.records.sort(key=lambda record: record.child.low)
        self.version += 1

    def views(self) -> list[Send]:
        """A view for each child.

        A group in a planted tree that has no place yet does not know the range of its addresses.
        """
        if self.link is None and not self.is_root and self.version == PLANTED:
            return []
        self.turn += 1
        lows = [self.low, *(record.child.low for record in self.records[1:]), self.high]
        children, root, above = self.children, self.root, None if self.is_root else self.parent
        return [
            Send(
                record.child.host,
                GroupView(
                    self.id, self.level, self.stamp, self.turn, children, record.child.key,
                    lows[place], lows[place + 1], above, root.group, root.host,
                ),
            )
            for place, record in enumerate(self.records)
        ]  # fmt: skip

    def report(self, to: ParentRef) -> Send:
        """What is below, for the group above."""
        spare = [address for record in self.records for address in record.spare][:MOST]
        child = BranchChild(self.id, self.host, self._lowest)
        return Send(
            to.host,
            BranchReport(
                to.group, child, self.stamp, self.turn, self.children, self.leaves,
                self.summary(), spare,
            ),
        )  # fmt: skip

    def on_report(self, report: BranchReport, now: float) -> list[Send]:
        record = self.record_of(report.child.key)
        sender = report.child.host
        if record is None:
            return [Send(sender, Unlisted(self.id, self.host, report.child.key))]
        if report.stamp < record.stamp:
            return [Send(sender, Superseded(self.id, record.stamp))] if self.level > 1 else []
        if report.stamp == record.stamp and report.turn <= record.turn:
            return []
        record.heard, record.hosts_tried = now, 0
        record.stamp, record.turn = report.stamp, report.turn
        record.members, record.leaves = report.members, report.leaves
        record.summary, record.spare = report.summary, report.spare
        if record.child != report.child:
            record.child = report.child
            self.changed()
        return []

    # --- keeping it balanced: what the host does in each period ---

    def drop_silent(self, now: float) -> list[Send]:
        """Remove leaves that are gone, and give groups without a host to another one."""
        sends: list[Send] = []
        for record in list(self.records):
            if now - record.heard <= SILENCE_SECONDS:
                continue
            hosts = [m.host for m in record.members if m.host != record.child.host]
            if self.level == 1 or record.hosts_tried >= len(hosts):
                self.remove(record)
                continue
            host = hosts[record.hosts_tried]
            record.hosts_tried += 1
            record.heard = now  # the new host has time to report
            sends.append(self._appoint(record, host, record.members, record.stamp.version))
        return sends

    def misplaced(self) -> list[Address]:
        """Remove leaves that belong elsewhere: they came while a group was being divided.

        Not before they have reported: of a lower leaf that has just come, the group above does not
        know yet, which gives this group its range by its lowest leaf.
        """
        if self.level > 1 or self.is_root or self.link is None:
            return []
        wrong = [
            r for r in self.records if r.has_reported and not self.low <= r.child.low < self.high
        ]
        for record in wrong:
            self.remove(record)
        return [record.child.low for record in wrong]

    def balance(self, now: float) -> list[Send]:
        """Divide a child with too many children, or join one with too few to its neighbour.

        One change at a time: what follows from it is seen in the next reports.
        """
        if self.level == 1 or not all(record.has_reported for record in self.records):
            return self._repeated(now)
        for place, record in enumerate(self.records):
            keys = {member.key for member in record.members}
            for other in self.records[:place] + self.records[place + 1 :]:
                theirs = {member.key for member in other.members}
                if keys & theirs and len(keys) >= len(theirs):
                    return self._disentangled(record, other)
            if not keys:
                self.remove(record)
                return [Send(record.child.host, Dissolve(self._name(record), record.stamp.version))]
        for place, record in enumerate(self.records):
            if len(record.members) > MOST:
                return self._divided(record, now)
            if len(record.members) < LEAST and len(self.records) > 1:
                neighbour = self.records[place - 1 if place else 1]
                together = sorted([*neighbour.members, *record.members], key=lambda m: m.low)
                base = neighbour.stamp.version
                version = max(base, record.stamp.version)
                host = neighbour.child.host
                return [self._appoint(neighbour, host, together, base, version)]
        return []

    def crown_only_child(self) -> list[Send]:
        """A root above a single group is one level too many, if it is not there to divide it."""
        if not self.is_root or self.level == 1 or len(self.records) != 1:
            return []
        record = self.records[0]
        if record.has_reported and len(record.members) <= MOST:
            child = record.child
            assert isinstance(child.key, tuple)
            return [Send(child.host, Crown(child.key, self.id))]
        return []

    def rise(self, now: float) -> list[Send]:
        """A root with too many children gets a root above it, which will divide it."""
        if not self.is_root or len(self.records) <= MOST:
            return []
        if self.rising is None or now - self.rising[2] > SILENCE_SECONDS:
            spare = [address for record in self.records for address in record.spare]
            host = next((a for a in spare if a != self.host), self.host)
            self.rising = (self.new_id(), host, now)
        group, host, _ = self.rising
        child = BranchChild(self.id, self.host, self._lowest)
        return [Send(host, Appoint(group, self.level + 1, 0, self.version + 1, [child], None))]

    def _disentangled(self, more: ChildRecord, less: ChildRecord) -> list[Send]:
        """Two children have members in common: the smaller goes, or the larger lets them go."""
        theirs = {member.key for member in less.members}
        if len(theirs) < LEAST:
            self.remove(less)
            return [Send(less.child.host, Dissolve(self._name(less), less.stamp.version))]
        kept = [member for member in more.members if member.key not in theirs]
        if not kept:
            self.remove(less)
            return [Send(less.child.host, Dissolve(self._name(less), less.stamp.version))]
        return [self._appoint(more, more.child.host, kept, more.stamp.version)]

    def _divided(self, record: ChildRecord, now: float) -> list[Send]:
        """Make a new group of the upper half; the old one lets go when the new one has reported."""
        half = len(record.members) // 2
        upper = list(record.members[half:])
        busy = {self.host, record.child.host}
        hosts = [a for a in record.spare if a not in busy] or [m.host for m in upper]
        child = BranchChild(self.new_id(), hosts[0], upper[0].low)
        new = ChildRecord(child, now, Stamp(record.stamp.version, LOWEST), members=upper)
        self.records.append(new)
        self.changed()
        return self._repeated(now)

    def _repeated(self, now: float) -> list[Send]:
        """Say again who hosts the groups that have not reported yet."""
        return [
            self._appoint(r, r.child.host, r.members, r.stamp.version)
            for r in self.records
            if not r.has_reported and r.members and now - r.heard <= SILENCE_SECONDS
        ]

    def _appoint(
        self,
        record: ChildRecord,
        host: Address,
        members: Sequence[BranchChild],
        base: int,
        version: int = 0,
    ) -> Send:
        return Send(
            host,
            Appoint(
                self._name(record), self.level - 1, base, max(version, base) + 1, members,
                ParentRef(self.id, self.host),
            ),
        )  # fmt: skip

    def _name(self, record: ChildRecord) -> GroupId:
        assert isinstance(record.child.key, tuple)
        return record.child.key
