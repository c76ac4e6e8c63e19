"""Sees to it that results are at as many nodes as were asked for, before a run counts as ended.

Whoever has made a result asks others to bring it in, once. If one of them dies before it has come,
nobody else would know: no task reads a result.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dataward.model.answers import Standing
from dataward.model.ids import NodeId
from dataward.model.messages import Message, Stock
from dataward.model.operations import Copy, InputFile, Look, TaskSpec
from dataward.model.states import TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.node.store_client import StoreClient

BATCH = 1000


class ScarceResult(NamedTuple):
    """A result that too few nodes have, as it was committed, and the nodes that are up with it."""

    file: InputFile
    generation: int
    holders: tuple[NodeId, ...]


def scarce_results(
    standings: Sequence[Standing], wanted: frozenset[FileId], members: Sequence[NodeId], copies: int
) -> list[ScarceResult]:
    """The results of complete tasks that fewer members have than should, in order."""
    enough, found = min(copies, len(members)), []
    for task in standings:
        if task.state is not TaskState.COMPLETE:
            continue
        by_file: dict[FileId, list[Copy]] = {}
        for copy in task.copies:
            if copy.file in wanted:
                by_file.setdefault(copy.file, []).append(copy)
        for file, places in by_file.items():
            known = next((copy for copy in places if copy.digest), places[0])
            up = sorted({copy.node for copy in places} & set(members))
            if len(up) < enough:
                as_input = InputFile(file, known.size_bytes, task.task, known.digest)
                found.append(ScarceResult(as_input, task.generation, tuple(up)))
    return found


@dataclass
class ResultCopies:
    """One keeper's part. ``reopen`` has tasks run again whose results nobody has any more."""

    copies: int
    wanted: frozenset[FileId]
    members: Sequence[NodeId]
    store: StoreClient
    send: Callable[[NodeId, Message], None]
    reopen: Callable[[Mapping[TaskId, int]], Awaitable[object]]
    patience_seconds: float  # for a node that may come back, and for copies to be made
    _since: dict[FileId, float] = field(default_factory=dict)  # when each was first found scarce
    _asked: set[tuple[FileId, NodeId]] = field(default_factory=set)

    async def are_there(self, specs: Sequence[TaskSpec], now: float) -> bool:
        """Whether nothing more can be done; if not, it has been begun: ask again in a while."""
        if self.copies < 2:
            return True
        makers = [s.id for s in specs if any(file.id in self.wanted for file in s.outputs)]
        scarce = scarce_results(await self._look(makers), self.wanted, self.members, self.copies)
        late = [one for one in scarce if self._is_late(one, now)]
        lost = {one.file.producer: one.generation for one in late if not one.holders}
        if lost:
            await self.reopen(lost)
            self._since.clear()
            self._asked.clear()
            return False
        self._have_brought([one for one in scarce if one.holders])
        return len(late) == len(scarce)

    def _is_late(self, one: ScarceResult, now: float) -> bool:
        return now - self._since.setdefault(one.file.id, now) > self.patience_seconds

    async def _look(self, tasks: Sequence[TaskId]) -> list[Standing]:
        found: list[Standing] = []
        for start in range(0, len(tasks), BATCH):
            answers = await self.store.call([Look(task) for task in tasks[start : start + BATCH]])
            found += [answer for answer in answers if isinstance(answer, Standing)]
        return found

    def _have_brought(self, scarce: Sequence[ScarceResult]) -> None:
        """Ask nodes that were not asked yet, each file as many as are missing."""
        by_node: dict[NodeId, list[InputFile]] = {}
        for number, one in enumerate(scarce):
            others = [node for node in self.members if node not in one.holders]
            asked = sum((one.file.id, node) in self._asked for node in others)
            left = [node for node in others if (one.file.id, node) not in self._asked]
            missing = min(self.copies, len(self.members)) - len(one.holders) - asked
            for turn in range(min(max(missing, 0), len(left))):
                node = left[(number + turn) % len(left)]
                self._asked.add((one.file.id, node))
                by_node.setdefault(node, []).append(one.file)
        for node, files in by_node.items():
            self.send(node, Stock(tuple(files), keep=True))
