"""Follows the events of a run from all its hosts as they are written."""

from collections.abc import AsyncIterator, Iterator

import msgspec

from dataward.cluster.merging import CausalOrder, ParentsOf, in_order
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.model.events import Event, TaskFinished
from dataward.model.ids import NodeId
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId

_DECODER = msgspec.json.Decoder(Event)


class EventTail:
    """``new_events`` gives what has been written since the last time, in one order."""

    def __init__(self, visitor: Visitor, run: str, parents: ParentsOf) -> None:
        self._visitor = visitor
        self._run = run
        self._read: dict[NodeId, int] = {}  # bytes
        self._order = CausalOrder(parents)
        self.complete: set[TaskId] = set()  # those of which a host that answers has told it

    async def new_events(self) -> list[Event]:
        """Events of the hosts that answer; those of others come when they answer again."""
        lists: dict[NodeId, list[Event]] = {}
        for node in list(self._visitor.members):
            try:
                lists[node] = [event async for event in self._of(node)]
            except ClusterError:
                continue  # it is down, or has just left
        return list(in_order(lists, self._order))

    def rest(self) -> list[Event]:
        """What still waited for events that never came."""
        return list(self._order.rest())

    async def _of(self, node: NodeId) -> AsyncIterator[Event]:
        while True:
            first = self._read.get(node, 0)
            content = await self._visitor.events(self._run, node, first)
            if not content:
                return
            self._read[node] = first + len(content)
            for event in events_in(content, is_start=first == 0):
                if type(event) is TaskFinished and event.state is TaskState.COMPLETE:
                    self.complete.add(event.task)
                yield event


def events_in(content: bytes, *, is_start: bool) -> Iterator[Event]:
    """The events of whole lines of a host's list, which begins with a line of its own."""
    lines = content.splitlines()
    for line in lines[1:] if is_start else lines:
        yield _DECODER.decode(line)
