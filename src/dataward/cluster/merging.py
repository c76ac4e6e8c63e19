"""The events of a run from all its hosts as one list, as if one machine had kept it.

Each host keeps its own list, with times by the store's clock as far as it knows that: a little too
early or too late. So events are ordered by time, but no task begins before the tasks that it waits
for have finished: where the times say so, the later event waits for the earlier one and takes its
time. Within one host nothing changes places. An event waits for 2 s of the run at most: the host
that told of the earlier one may be gone, with its list.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge

import msgspec

from dataward.model.events import AttemptBegan, Event, TaskFinished, TaskSkipped
from dataward.model.ids import NodeId
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId

WAIT_SECONDS = 2.0

ParentsOf = Mapping[TaskId, Sequence[TaskId]]


def merged(lists: Mapping[NodeId, Iterable[Event]], parents: ParentsOf) -> Iterator[Event]:
    """All events in one order; ``parents`` says which tasks each task waits for."""
    order = CausalOrder(parents)
    yield from in_order(lists, order)
    yield from order.rest()


def in_order(lists: Mapping[NodeId, Iterable[Event]], order: "CausalOrder") -> Iterator[Event]:
    """These events by time, as far as nothing that must come before them is missing."""
    for _, node, _, event in merge(*(_told_by(node, events) for node, events in lists.items())):
        yield from order.add(node, event)


def _told_by(node: NodeId, events: Iterable[Event]) -> Iterator[tuple[float, NodeId, int, Event]]:
    latest = 0.0
    for number, event in enumerate(events):
        latest = max(latest, event.at)  # an event told late stands where it was told
        yield latest, node, number, event


class CausalOrder:
    """Gives events on, each when what must come before it has come; a host's others wait too."""

    def __init__(self, parents: ParentsOf) -> None:
        self._parents = parents
        self._finished: set[TaskId] = set()
        self._held: dict[NodeId, list[Event]] = {}  # of hosts whose next event waits
        self._now = 0.0

    def add(self, node: NodeId, event: Event) -> Iterator[Event]:
        while late := [n for n, held in self._held.items() if event.at - held[0].at > WAIT_SECONDS]:
            yield from self._let_go(late[0])
        if node in self._held:
            self._held[node].append(event)
        elif self._must_wait(event):
            self._held[node] = [event]
        else:
            yield from self._give(event)

    def rest(self) -> Iterator[Event]:
        """What still waits at the end: what it waits for was told by a host that is gone."""
        while self._held:
            yield from self._let_go(next(iter(self._held)))

    def _let_go(self, node: NodeId) -> Iterator[Event]:
        """The host's next event, which has waited long enough, and those after it that may follow.

        Not all: what a later one waits for may be held, too, by another host.
        """
        first, *others = self._held.pop(node)
        yield from self._give(first)
        yield from self._go_on(node, others)

    def _must_wait(self, event: Event) -> bool:
        if type(event) is not AttemptBegan:
            return False
        return any(parent not in self._finished for parent in self._parents.get(event.task, ()))

    def _give(self, event: Event) -> Iterator[Event]:
        self._now = max(self._now, event.at)
        if event.at < self._now and type(event) is AttemptBegan:
            event = msgspec.structs.replace(event, at=self._now)
        yield event
        is_end = type(event) is TaskFinished and event.state is TaskState.COMPLETE
        if is_end or type(event) is TaskSkipped:
            self._finished.add(event.task)  # type: ignore[union-attr]
            yield from self._release()

    def _release(self) -> Iterator[Event]:
        for node in list(self._held):
            waiting = self._held.get(node)
            if waiting and not self._must_wait(waiting[0]):
                del self._held[node]
                yield from self._go_on(node, waiting)

    def _go_on(self, node: NodeId, events: list[Event]) -> Iterator[Event]:
        """A host's events, up to the first that must wait."""
        for place, event in enumerate(events):
            if self._must_wait(event):
                self._held[node] = events[place:]
                return
            yield from self._give(event)
