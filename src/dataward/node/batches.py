"""Schedules batches: tasks that came into a node's pool together, and who may ask for them.

For each batch the scheduler reserves places at random nodes. A node that asks is given tasks of the
batch, or hears that none is left; so do the others with reservations as soon as the last task is
out.
"""

from math import ceil

from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Handed, Reserve
from dataward.model.operations import QueueEntry
from dataward.node.asking import Tell
from dataward.node.dispensing import Given, hand_out
from dataward.node.mover import NodeParts
from dataward.node.pool import Pool


class _Batch:
    """Tasks of a pool that came together, and the nodes that have reservations for them."""

    def __init__(self, entries: list[QueueEntry], pool: Pool) -> None:
        self._pool = pool
        self._tasks = [entry.task for entry in sorted(entries, reverse=True)]  # most urgent last
        self._is_asked_for = False  # since this was last asked
        self.nodes: dict[NodeId, None] = {}

    def left(self) -> int:
        """How many of the tasks are still in the pool."""
        self._tasks = [task for task in self._tasks if task in self._pool]
        return len(self._tasks)

    def is_empty(self) -> bool:
        """Whether none of the tasks is in the pool any more."""
        while self._tasks and self._tasks[-1] not in self._pool:
            self._tasks.pop()
        return not self._tasks

    def take(self, node: NodeId, count: int) -> list[QueueEntry]:
        """The most urgent tasks, which leave the pool, for a node that has used its reservation."""
        self._is_asked_for = True
        self.nodes.pop(node, None)
        entries: list[QueueEntry] = []
        while len(entries) < count and not self.is_empty():
            entries.append(self._pool.take(self._tasks.pop()))
        return entries

    def was_asked_for(self) -> bool:
        """Whether a node asked for tasks since this was last called."""
        was, self._is_asked_for = self._is_asked_for, False
        return was


class BatchScheduler:
    """``ratio`` reservations are made for each task, and again after ever longer ``pauses``.

    Reservations may be lost, or be at nodes that died. A scheduler cannot tell these from nodes
    that are busy for long, so it reserves anew for batches that nobody asks for.
    """

    def __init__(
        self, parts: NodeParts, tell: Tell, ratio: float, pauses: tuple[float, float]
    ) -> None:
        self._world = parts.world
        self._parts = parts
        self._pool = parts.state.pool
        self._tell = tell
        self._ratio = ratio
        self._pauses = pauses
        self._batches: dict[int, _Batch] = {}
        self._count = 0
        self._questions: list[Ask] = []
        self._is_asked = parts.world.kernel.flag()

    def __len__(self) -> int:
        return len(self._batches)

    # --- reserving -------------------------------------------------------------------------------

    async def reserve(self) -> None:
        """Reserve for every batch that comes, and again for those that nobody asks for."""
        shortest, longest = self._pauses
        pause = shortest
        while True:
            if await self._pool.due.wait(pause if self._batches else None):
                self._pool.due.clear()
                self._reserve_for_new()
                pause = shortest
            else:
                self._reserve_again()
                pause = min(2 * pause, longest)

    def _reserve_for_new(self) -> None:
        came = self._pool.changes().came
        if came:
            self._count += 1
            self._batches[self._count] = _Batch(came, self._pool)
            self._reserve(self._count)

    def _reserve_again(self) -> None:
        for number, batch in list(self._batches.items()):
            if not batch.left():
                self._cancel(number)
            elif not batch.was_asked_for():
                self._reserve(number)

    def _reserve(self, number: int) -> None:
        """Reserve places at nodes drawn at random, the same number at each, or one more."""
        batch, nodes = self._batches[number], self._world.nodes
        laps, more = divmod(ceil(self._ratio * batch.left()), len(nodes))
        one_more = set(drawn := self._world.random.sample(nodes, more))
        for node in nodes if laps else drawn:
            batch.nodes[node] = None
            places = laps + (node in one_more)
            self._tell(node, Reserve(self._world.node, number, places))

    # --- answering -------------------------------------------------------------------------------

    def on_ask(self, question: Ask) -> None:
        self._questions.append(question)
        self._is_asked.set()

    async def answer(self) -> None:
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            questions, self._questions = self._questions, []
            answers = [(question, self._taken(question)) for question in questions]
            given: Given = {}
            for question, entries in answers:
                given.setdefault(question.node, []).extend(entries)
            await hand_out(self._parts, {node: tasks for node, tasks in given.items() if tasks})
            for question, entries in answers:
                handed = Handed(self._world.node, question.batch, len(entries))
                self._tell(question.node, handed)

    def _taken(self, question: Ask) -> list[QueueEntry]:
        """The tasks for the node that asks, which leave the pool and the batch."""
        batch = self._batches.get(question.batch)
        if batch is None:
            return []
        entries = batch.take(question.node, question.tasks)
        if batch.is_empty():
            self._cancel(question.batch)
        return entries

    def _cancel(self, number: int) -> None:
        """All tasks of a batch are out: those who still have reservations need not ask."""
        for node in self._batches.pop(number).nodes:
            self._tell(node, Handed(self._world.node, number, 0))
