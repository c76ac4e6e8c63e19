"""Invites nodes that have nothing to run to ask for tasks of this node's pool."""

from dataward.model.ids import NodeId
from dataward.model.messages import Ask, Handed, Reserve
from dataward.node.asking import Tell
from dataward.node.choosers import FirstCome
from dataward.node.dispensing import Given, hand_out
from dataward.node.mover import NodeParts


class Inviter:
    """Invites as many nodes as there are tasks; who declines, or says nothing, makes room for more.

    A node's question without a batch says only that it has nothing to run: it is remembered for
    ``patience_seconds``. One with the batch of an invitation is answered at once.
    """

    def __init__(
        self,
        parts: NodeParts,
        tell: Tell,
        chooser: FirstCome,
        patience_seconds: float,
        answer_seconds: float,
    ) -> None:
        self._parts = parts
        self._pool = parts.state.pool
        self._now = parts.world.kernel.now
        self._tell = tell
        self._chooser = chooser
        self._patience_seconds = patience_seconds
        self._answer_seconds = answer_seconds
        self._idle: dict[NodeId, tuple[int, float]] = {}  # tasks, and until when; first come first
        self._invited: dict[int, float] = {}  # invitations by number, and until when they hold
        self._count = 0
        self._questions: list[Ask] = []
        self._is_asked = parts.world.kernel.flag()

    def on_ask(self, question: Ask) -> None:
        if not question.batch:
            until = self._now() + self._patience_seconds
            self._idle[question.node] = (question.tasks, until)
            self._pool.due.set()
            return
        self._invited.pop(question.batch, None)
        if question.tasks:
            self._questions.append(question)
            self._is_asked.set()
        else:
            self._pool.due.set()

    # --- inviting --------------------------------------------------------------------------------

    async def invite(self) -> None:
        """Invite when tasks come, a node has none, an invitation is declined, or none answers."""
        due = self._pool.due
        while True:
            await due.wait(self._answer_seconds if self._idle and self._invited else None)
            due.clear()
            self._invite()

    def _invite(self) -> None:
        now = self._now()
        self._invited = {n: until for n, until in self._invited.items() if until > now}
        while self._idle and len(self._invited) < len(self._pool):
            node, (tasks, until) = next(iter(self._idle.items()))
            del self._idle[node]
            if until > now:
                self._count += 1
                self._invited[self._count] = now + self._answer_seconds
                self._tell(node, Reserve(self._parts.world.node, self._count, tasks))

    # --- answering -------------------------------------------------------------------------------

    async def answer(self) -> None:
        """Give tasks to the nodes that took an invitation up, or tell them that none is left."""
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            questions, self._questions = self._questions, []
            self._chooser.note(self._pool.changes())
            given: Given = {}
            handed = [(question, self._take(question, given)) for question in questions]
            self._pool.changes()  # what was just taken, the chooser knows
            await hand_out(self._parts, given)
            for question, tasks in handed:
                self._tell(question.node, Handed(self._parts.world.node, question.batch, tasks))
            self._pool.due.set()

    def _take(self, question: Ask, given: Given) -> int:
        """How many tasks the node is given."""
        tasks = min(question.tasks, len(self._pool))
        for _ in range(tasks):
            entry = self._pool.take(self._chooser.choose(question.node))
            given.setdefault(question.node, []).append(entry)
        return tasks
