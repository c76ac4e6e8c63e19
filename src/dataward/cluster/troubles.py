"""What was done to a cluster while a run went on, and what may follow from each of these troubles.

Every question here is about one event of a run's history: could this trouble be the reason for it?
What no trouble explains is a broken promise. The times are seconds since the run was submitted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from dataward.model.ids import NodeId
from dataward.model.workflow import FileId

SKEW_SECONDS = 0.5  # by which two clocks may differ
# A host writes its events four times a second; a busy one comes to it later.
UNWRITTEN_SECONDS = 2.0
REACH_SECONDS = 30.0  # for which a node may try to fetch a file before it takes it for lost
FAILS_SECONDS = 15.0  # after which no task fails any more because a process or a disk was hurt
ASKED_SECONDS = 3.0  # after which nobody waits any more for an answer of a node that was silent
NOTICED_LEASES = 4  # after which everybody has heard that a node was gone for longer than its lease


class TroubleKind(Enum):
    KILLED = "killed"  # the node's process; it comes back as another incarnation, or not
    SILENT = "silent"  # the node was stopped, or cut off from all others
    PROCESS = "process"  # a process of the node that runs tasks was killed
    FILE = "file"  # a file in the node's depot was removed, or its content changed
    FULL = "full"  # the node's disk
    STORE = "store"  # was away, or lost its last writes
    BUSY = "busy"  # the machine: nobody had time


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that was done to a node, or to all if none is named, from one time to another."""

    kind: TroubleKind
    begin: float
    end: float = inf
    node: NodeId | None = None
    files: frozenset[FileId] = frozenset()  # what is gone from the node: these, or all
    is_emptied: bool = False  # a killed node, which comes back without its files

    def concerns(self, node: NodeId) -> bool:
        return self.node is None or self.node == node

    def is_within(self, begin: float, end: float) -> bool:
        """Whether any of it was between these times, as far as clocks can tell."""
        return self.begin <= end + SKEW_SECONDS and self.end >= begin - SKEW_SECONDS


_MUTE = {TroubleKind.KILLED, TroubleKind.SILENT, TroubleKind.STORE, TroubleKind.BUSY}
_FAILING = {TroubleKind.PROCESS, TroubleKind.FILE, TroubleKind.FULL}


@dataclass(frozen=True, slots=True)
class Troubles:
    """All that was done, with the lease of the nodes."""

    all: Sequence[Trouble] = ()
    lease_seconds: float = 10.0
    _kills: dict[NodeId, list[float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for trouble in self._of({TroubleKind.KILLED}):
            if trouble.node is not None:
                self._kills.setdefault(trouble.node, []).append(trouble.begin)

    def _of(self, kinds: Iterable[TroubleKind], node: NodeId | None = None) -> list[Trouble]:
        wanted = set(kinds)
        return [
            trouble
            for trouble in self.all
            if trouble.kind in wanted and (node is None or trouble.concerns(node))
        ]

    # --- events that were never written ----------------------------------------------------------

    def killed_after(self, node: NodeId, at: float) -> float:
        """When the node was killed next after this time; infinity if it was not."""
        later = [kill for kill in self._kills.get(node, ()) if kill >= at - SKEW_SECONDS]
        return min(later, default=inf)

    def kills(self, begin: float = -inf, end: float = inf) -> list[tuple[NodeId, float]]:
        """The nodes that were killed between these times, and when."""
        return [
            (node, kill)
            for node, kills in self._kills.items()
            for kill in kills
            if begin - SKEW_SECONDS <= kill <= end + SKEW_SECONDS
        ]

    def may_be_unwritten(self, begin: float, end: float) -> bool:
        """Whether an event of some node between these times may be missing."""
        return bool(self.kills(begin, end + UNWRITTEN_SECONDS))

    # --- what may follow -------------------------------------------------------------------------

    def may_be_given_up(self, node: NodeId, joined: float, at: float) -> bool:
        """Whether others may take over, at this time, what a node has that joined at that time.

        A node that was silent may have been asked whether it lives just before it came back, and
        join again before the one who asks stops waiting.
        """
        for trouble in self._of(_MUTE, node):
            until, last_join = inf, trouble.end
            if trouble.kind is not TroubleKind.KILLED:
                until = trouble.end + NOTICED_LEASES * self.lease_seconds
            if trouble.kind is TroubleKind.SILENT and at <= trouble.end + ASKED_SECONDS:
                last_join = at
            if trouble.begin <= at + SKEW_SECONDS and at <= until and last_join >= joined:
                return True
        return False

    def may_fail(self, node: NodeId, at: float) -> bool:
        """Whether a task may fail at this node, though not by its own fault."""
        return any(
            trouble.begin <= at + SKEW_SECONDS
            and (trouble.kind is TroubleKind.FILE or at <= trouble.end + FAILS_SECONDS)
            for trouble in self._of(_FAILING, node)
        )

    def may_be_out_of_reach(self, file: FileId, node: NodeId, at: float) -> bool:
        """Whether this node may have failed to serve a file that it had, at about this time."""
        if any(t.is_within(at - REACH_SECONDS, at) for t in self._of(_MUTE, node)):
            return True
        return any(
            trouble.begin <= at + SKEW_SECONDS and (file in trouble.files or trouble.is_emptied)
            for trouble in self._of({TroubleKind.FILE, TroubleKind.KILLED}, node)
        )

    def may_not_reach(self, node: NodeId, at: float) -> bool:
        """Whether this node may have failed to reach anybody, at about this time."""
        return any(t.is_within(at - REACH_SECONDS, at) for t in self._of(_MUTE, node))

    def may_not_hear(self, node: NodeId, at: float) -> bool:
        """Whether this node may not know what became of its last commits, at this time."""
        return any(trouble.begin <= at + SKEW_SECONDS for trouble in self._of(_MUTE, node))

    def store_may_forget(self, at: float) -> bool:
        return any(t.begin <= at + SKEW_SECONDS for t in self._of({TroubleKind.STORE}))
