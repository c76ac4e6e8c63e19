"""Replicating: a node that has run all its tasks is given replicas of tasks planned for others.

For plans that assign all tasks before the run. A keeper (see `keeper_homes`) has the tasks in its
pool, in a line for each node, and gives each node the tasks of that node's line when it asks. Who
has none left is given a replica of a task that waits in another line, or that other nodes run. The
first run to end wins, and the others are stopped, as always.

The keeper holds a task for as long as it waits in a line, also while a replica runs. Once it is
given to the node it was planned for, that node holds it, and the keeper only remembers it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import msgspec

from dataward.errors import SettingError
from dataward.model.answers import Answer, Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Look, QueueEntry, Replicate, Shelf
from dataward.model.states import FINAL, TaskState
from dataward.model.workflow import TaskId
from dataward.node.affinity_chooser import AffinityChooser
from dataward.node.data_choosers import BATCH
from dataward.node.dispensing import Dispenser, Given, hand_out
from dataward.node.mover import NodeParts
from dataward.node.pool import Changes
from dataward.node.pulling import Pulling
from dataward.node.ready_queue import entry_for

ENDED_MAX = 256  # tasks that may have ended unheard of, before the store is asked


@dataclass(frozen=True, slots=True)
class Replicating(Pulling):
    """Storage affinity's second phase, and how nodes get at the tasks of the first."""

    idle_seconds: float = 0.25  # ours: until idle nodes are given replicas while tasks are coming

    def __post_init__(self) -> None:
        Pulling.__post_init__(self)
        if not self.idle_seconds >= 0:
            raise SettingError("idle_seconds is a time, so it cannot be negative")

    def dispenser(self, parts: NodeParts) -> Dispenser:
        chooser = AffinityChooser(parts.store)
        patience_seconds = 2 * self.ask_seconds_max
        return ReplicatingDispenser(
            parts, chooser, patience_seconds, idle_seconds=self.idle_seconds,
            lost_seconds=self.ask_seconds_max,
        )  # fmt: skip


@dataclass
class ReplicatingDispenser(Dispenser):
    """Gives the tasks of a node's line, and replicas to who has none."""

    chooser: AffinityChooser
    idle_seconds: float = 0.0
    lost_seconds: float = 0.0  # between two looks at whether a task's replicas are lost
    _came_seconds: float = -inf
    _sated: set[NodeId] = field(default_factory=set)  # they were given all that there is
    _known_max: int = ENDED_MAX
    _looked_seconds: float = -inf
    _unrun: set[TaskId] = field(default_factory=set)  # of the last look

    async def dispense(self) -> None:
        await super().dispense()
        await self._forget_ended()
        if await self._replicate():
            await self._give_lost()

    # --- replicas --------------------------------------------------------------------------------

    async def note(self, changes: Changes) -> None:
        if changes.came:
            self._came_seconds = self.parts.world.kernel.now()
            self._sated.clear()
        await super().note(changes)

    def _idle(self) -> list[NodeId]:
        """The nodes that are given replicas now, first come first.

        While tasks are coming, a node that has asked just now may soon have one of its own.
        """
        now = self.parts.world.kernel.now()
        came = self._came_seconds + self.idle_seconds > now
        return [
            node
            for node, question in self._asked.items()
            if now <= question.until and not (came and question.since + self.idle_seconds > now)
        ]

    async def _replicate(self) -> bool:
        """Whether there are idle nodes left for which there is nothing to replicate."""
        granted: Given = {}
        while picks := await self._picks(granted):
            await self._take_own(picks)
            for node, entry in (await self._granted(picks)).items():
                granted.setdefault(node, []).append(entry)
        for node in granted:
            self._asked.pop(node, None)
        await self.parts.placer.send(granted, Occasion.ASKED_FOR)
        return bool(self._idle())

    async def _picks(self, granted: Given) -> dict[NodeId, TaskId]:
        """A task to replicate for each idle node that wants more than it was granted."""
        await self.catch_up()
        picks: dict[NodeId, TaskId] = {}
        for node in self._idle():
            if node in self._sated or len(granted.get(node, ())) >= self._asked[node].tasks:
                continue
            task = self.chooser.replica(node)
            if task is None:
                self._sated.add(node)
            else:
                self.chooser.give(task, node)
                picks[node] = task
        return picks

    async def _take_own(self, picks: dict[NodeId, TaskId]) -> None:
        """A task of the pool that this node picked just leaves the pool: this node holds it."""
        here = self.parts.world.node
        if picks.get(here) in self.parts.state.pool.tasks():
            await self._give_for_good({here: picks.pop(here)})

    async def _granted(self, picks: Mapping[NodeId, TaskId]) -> dict[NodeId, QueueEntry]:
        """The replicas that the store grants, of those that were picked for nodes."""
        asks = [Replicate(task, self._holder_of(task), node) for node, task in picks.items()]
        granted: dict[NodeId, QueueEntry] = {}
        for node, answer in zip(picks, await self._heeded(asks), strict=True):
            if answer is None:
                continue
            if answer.granted:
                entry = entry_for(answer, Shelf.KEPT)
                granted[node] = msgspec.structs.replace(entry, replica=True)
            if not answer.more_backups:
                self.chooser.close(answer.task)
        return granted

    def _holder_of(self, task: TaskId) -> NodeId:
        is_here = task in self.parts.state.pool
        return self.parts.world.node if is_here else self.chooser.runner_of(task)

    async def _give_for_good(self, tasks: Mapping[NodeId, TaskId]) -> None:
        """Give nodes tasks of the pool that were planned for others, and let go of them here.

        The chooser must know what is in the pool.
        """
        given: Given = {}
        for node, task in tasks.items():
            self.chooser.leave(task)
            given[node] = [self.parts.state.pool.take(task)]
            self._asked.pop(node, None)
        self.parts.state.pool.changes()  # these, which the chooser knows
        await hand_out(self.parts, given)

    # --- tasks that have ended, and replicas that are lost ---------------------------------------

    async def _heeded(self, questions: Sequence[Replicate | Look]) -> list[Standing | None]:
        """How tasks stand; None for one that has ended, or waits for parents again: it is dropped.

        Who tells a task that its parents have ended, places it anew. What the store has forgotten
        seems to wait too; the client submits it once more.
        """
        tickets = {question.task: self._ticket_of(question.task) for question in questions}
        answers: list[Answer] = []
        for start in range(0, len(questions), BATCH):
            answers += await self.parts.store.call(questions[start : start + BATCH])
        standings: list[Standing | None] = []
        for task in answers:
            assert isinstance(task, Standing)
            is_over = task.state in FINAL or task.state is TaskState.WAITING
            standings.append(None if is_over else task)
            if is_over:
                self._drop(task.task, tickets[task.task])
        return standings

    def _ticket_of(self, task: TaskId) -> int | None:
        holding = self.parts.state.identity.holdings.get(task)
        return None if holding is None else holding.ticket

    def _drop(self, task: TaskId, ticket: int | None) -> None:
        """Drop a task, unless it has come anew since it was held with this ticket."""
        self.chooser.forget(task)
        is_same = ticket is not None and ticket == self._ticket_of(task)
        if is_same and self.parts.state.pool.remove(task):
            self.parts.state.outbox.let_go(task)

    async def _forget_ended(self) -> None:
        """Ask after the tasks that nodes were given, when many may have ended."""
        if len(self.chooser.given) > self._known_max:
            await self._heeded([Look(task) for task in self.chooser.given])
            self._known_max = 2 * len(self.chooser.given) + ENDED_MAX

    async def _give_lost(self) -> None:
        """Give idle nodes what waits for another node though its replicas are lost.

        The nodes that ran them have died. So it is if nobody ran the task at the last look either.
        """
        now, pool = self.parts.world.kernel.now(), self.parts.state.pool
        if now < self._looked_seconds + self.lost_seconds:
            return
        self._looked_seconds = now
        looks = [Look(task) for task in self.chooser.given if task in pool]
        found = await self._heeded(looks)
        unrun = [task.task for task in found if task is not None and task.needs_node]
        await self.catch_up()
        lost = [task for task in unrun if task in self._unrun and task in pool]
        self._unrun = set(unrun)
        await self._give_for_good(dict(zip(self._idle(), lost, strict=False)))
