"""How many nodes tell their parents of their holes, in rounds, and when reference points change."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataward.deadlines.reference_points import CHANGE_SECONDS, reference_points
from dataward.deadlines.search import NONE
from dataward.sim.deadline_gauges import DeadlineGauges
from dataward.sim.deadline_post import CLASS_BYTES, HEADER_BYTES
from dataward.sim.flying_request import FlyingRequest
from dataward.sim.static_tree import HOLES_TOLD, StaticTree
from dataward.sim.tick_calendar import TICKS_PER_SECOND, TickCalendar

ROUND_TICKS = 5  # updates are sent and arrive in rounds of 50 ms
REFRESH_SECONDS = 60.0  # within which all leaves tell their holes anew when points have changed


class SummaryUpdates:
    """Rounds in which leaves and routing nodes speak; their parents hear it in the next round.

    ``classes_of_leaf`` gives the classes of a leaf's holes, by the reference points in use.
    """

    def __init__(
        self,
        tree: StaticTree,
        calendar: TickCalendar[FlyingRequest],
        gauges: DeadlineGauges,
        update_seconds: float,
        classes_of_leaf: Callable[[int], list[int]],
    ) -> None:
        self.points = reference_points(0.0)
        self._created = 0.0
        self._tree = tree
        self._calendar = calendar
        self._gauges = gauges
        self._period = round(update_seconds * TICKS_PER_SECOND)
        self._classes_of_leaf = classes_of_leaf
        self._due: dict[int, list[NDArray[np.int64]]] = {}
        self._due_leaves: dict[int, list[int]] = {}
        self._rounds: set[int] = set()
        self._is_due = np.zeros(tree.routers, dtype=bool)
        self._spoke = np.full(tree.routers, -(10**6), dtype=np.int64)
        self._leaf_spoke: dict[int, int] = {}
        self._leaf_due: set[int] = set()
        self._told: dict[int, list[int]] = {}

    def fill(self) -> None:
        """Let everybody know what all leaves have, as if they had just told it."""
        classes = np.full((self._tree.leaves, HOLES_TOLD), NONE, dtype=np.int16)
        for node in range(self._tree.leaves):
            found = self._classes_of_leaf(node)
            classes[node, : len(found)] = found
            self._told[node] = found
        self._tree.fill(classes)

    def begin(self) -> None:
        """Have reference points change from now on."""
        self._calendar.after(CHANGE_SECONDS, self._on_new_points, None)

    def tell_if_changed(self, node: int) -> None:
        """Have a leaf tell its parent of its holes, not sooner than it may."""
        if node in self._leaf_due:
            return
        last = self._leaf_spoke.get(node, -self._period)
        due = max(self._calendar.tick, last + self._period)
        self._leaf_due.add(node)
        tick = self._round(-(-due // ROUND_TICKS) * ROUND_TICKS)
        self._due_leaves.setdefault(tick, []).append(node)

    def _round(self, tick: int) -> int:
        """Have a round in which somebody speaks."""
        if tick not in self._rounds:
            self._rounds.add(tick)
            self._calendar.at(tick, self._on_round, None)
        return tick

    def _on_round(self, _: None) -> None:
        """Leaves and routing nodes whose time it is speak; parents hear in the next round."""
        tick = self._calendar.tick
        self._rounds.discard(tick)
        leaves = self._due_leaves.pop(tick, None)
        if leaves:
            self._speak_leaves(leaves)
        due = self._due.pop(tick, None)
        if due:
            self._speak_routers(np.concatenate(due))

    def _speak_leaves(self, leaves: list[int]) -> None:
        nodes, rows = [], []
        for node in leaves:
            self._leaf_due.discard(node)
            classes = self._classes_of_leaf(node)
            if classes == self._told.get(node):
                continue
            self._told[node] = classes
            self._leaf_spoke[node] = self._calendar.tick
            nodes.append(node)
            rows.append(classes + [NONE] * (HOLES_TOLD - len(classes)))
        if not nodes:
            return
        ids = np.array(nodes, dtype=np.int64)
        told = np.array(rows, dtype=np.int16)
        parents = self._tree.leaf_parent[ids]
        self._count_updates(ids, self._tree.host[parents], (told >= 0).sum(axis=1))
        self._next_round(self._hear_leaves, (ids, told, parents))

    def _hear_leaves(self, update: tuple[Any, Any, Any]) -> None:
        ids, told, parents = update
        self._tree.known_leaves[ids] = told
        self._changed(parents)

    def _speak_routers(self, ids: NDArray[np.int64]) -> None:
        self._is_due[ids] = False
        self._spoke[ids] = self._calendar.tick
        rows = self._tree.summaries(ids)
        parents = self._tree.parent[ids]
        sources, targets = self._tree.host[ids], self._tree.host[parents]
        self._count_updates(sources, targets, np.count_nonzero(rows, axis=1))
        self._next_round(self._hear_routers, (ids, rows, parents))

    def _hear_routers(self, update: tuple[Any, Any, Any]) -> None:
        ids, rows, parents = update
        self._tree.known[ids] = rows
        self._changed(parents)

    def _next_round(self, hear: Callable[[Any], None], update: tuple[Any, Any, Any]) -> None:
        self._calendar.at(self._calendar.tick + ROUND_TICKS, hear, update)

    def _count_updates(self, sources: Any, targets: Any, classes: Any) -> None:
        gauges, sizes = self._gauges, HEADER_BYTES + CLASS_BYTES * classes.astype(np.float64)
        gauges.updates += len(sources)
        gauges.sent.add_many(sources, sizes)
        gauges.received.add_many(targets, sizes)
        gauges.events.add_many(targets, 1.0)

    def _changed(self, routers: NDArray[np.int64]) -> None:
        """Have routing nodes tell their parents, each not sooner than it may."""
        fresh = np.unique(routers[~self._is_due[routers]])
        fresh = fresh[fresh != self._tree.root]
        if not len(fresh):
            return
        self._is_due[fresh] = True
        due = np.maximum(self._spoke[fresh] + self._period, self._calendar.tick + ROUND_TICKS)
        due = -(-due // ROUND_TICKS) * ROUND_TICKS
        order = np.argsort(due, kind="stable")
        fresh, due = fresh[order], due[order]
        starts = np.flatnonzero(np.diff(due, prepend=-1))
        for part, tick in zip(np.split(fresh, starts[1:]), due[starts].tolist(), strict=True):
            self._due.setdefault(self._round(tick), []).append(part)

    def _on_new_points(self, _: None) -> None:
        """Reference points change: what is known moves to the new ones, and leaves tell anew."""
        now = self._calendar.now
        before, self.points = (self._created, self.points), reference_points(now + 1e-3)
        self._created = now
        self._tree.move_to_new_points(before, (self._created, self.points))
        self._calendar.after(CHANGE_SECONDS, self._on_new_points, None)
        rounds = round(REFRESH_SECONDS * TICKS_PER_SECOND / ROUND_TICKS)
        first = -(-self._calendar.tick // ROUND_TICKS) * ROUND_TICKS
        for number in range(min(rounds, self._tree.leaves)):
            tick = self._round(first + (number + 1) * ROUND_TICKS)
            nodes = range(number, self._tree.leaves, rounds)
            self._due_leaves.setdefault(tick, []).extend(nodes)
