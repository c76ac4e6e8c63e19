"""Which node a task goes to: whoever has a task that needs a node asks `Homes`.

A strategy supplies the rule. The rule is a plain function of the task, the occasion, and a view of
the nodes; `Homes` makes that view.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from dataward.model.answers import Membership, Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Copy, InputFile, Probe
from dataward.model.workflow import FileId
from dataward.node.depot import as_committed
from dataward.node.ready_queue import ReadyQueue
from dataward.node.store_client import StoreClient

STRANGERS = 4  # nodes considered beyond those that hold some of a task's inputs


@dataclass(frozen=True, slots=True)
class View:
    """What a rule is told of the nodes.

    ``here`` is the node that asks. ``loads_seconds`` has the nodes that were asked and are up, and
    ``here``; it is empty if no node was asked.
    """

    here: NodeId
    nodes: Sequence[NodeId]
    loads_seconds: Mapping[NodeId, float]
    random: Random


class Home(NamedTuple):
    """The node that was chosen, and the candidates that were compared, if any were."""

    node: NodeId
    weighed: tuple[tuple[NodeId, float], ...] = ()


Rule = Callable[[Standing, Occasion, View], Home]


@dataclass(frozen=True, slots=True)
class HomeRule:
    """``choose`` decides; on the occasions in ``asks``, its view has loads of nodes that are up."""

    choose: Rule
    asks: frozenset[Occasion] = frozenset({Occasion.ORPHANED, Occasion.REOPENED})


# --- ADAGE ---------------------------------------------------------------------------------------


def preferred_or_nearest(task: Standing, occasion: Occasion, view: View) -> Home:
    """The node that the plan prefers; if that is down, the one that lacks the fewest input bytes.

    A task that became ready goes to its preferred node even if that is down: a patrol that finds
    the node dead finds the task in its queue. A task for which this node has no room goes to any
    other node.
    """
    if occasion is Occasion.NO_ROOM:
        return Home(view.random.choice([node for node in view.nodes if node != view.here]))
    if occasion is Occasion.READY or task.preferred in view.loads_seconds:
        return Home(task.preferred)
    candidates = candidates_for(task.inputs, task.input_copies, view.loads_seconds)
    if not candidates:
        return Home(task.preferred)
    weighed = tuple((c.node, float(c.missing_bytes)) for c in candidates)
    return Home(best_node(candidates), weighed)


ADAGE_HOME = HomeRule(preferred_or_nearest)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that might take a task."""

    node: NodeId
    missing_bytes: int
    load_seconds: float


def missing_bytes(inputs: Iterable[InputFile], held: Collection[FileId]) -> int:
    """How many bytes of these inputs a node that holds the files ``held`` would have to fetch."""
    return sum(file.size_bytes for file in inputs if file.id not in held)


def candidates_for(
    inputs: Sequence[InputFile], copies: Sequence[Copy], loads_seconds: Mapping[NodeId, float]
) -> list[Candidate]:
    """Each of the nodes whose load is known, with the bytes it would have to fetch.

    A file that was committed counts with the size that its copies tell, not with the estimate.
    """
    inputs = as_committed(inputs, copies)
    held: dict[NodeId, set[FileId]] = {}
    for copy in copies:
        held.setdefault(copy.node, set()).add(copy.file)
    return [
        Candidate(node, missing_bytes(inputs, held.get(node, ())), load)
        for node, load in loads_seconds.items()
    ]


def best_node(candidates: Sequence[Candidate]) -> NodeId:
    """The node that would wait least for the files it does not hold.

    ADAGE's Listing 3 prints this comparison inverted; the paper's text is followed. All nodes of a
    cluster have equal links, so bytes stand for seconds. Equal waits go to the less loaded node,
    then to the lowest id, so that a run replays exactly.
    """
    return min(candidates, key=lambda c: (c.missing_bytes, c.load_seconds, c.node)).node


def receiver(load_seconds: float, neighbours: Mapping[NodeId, float]) -> NodeId | None:
    """The least loaded neighbour, if this node has more load than all of them; else None.

    The load balancer queues the least urgent half of its tasks there: as replicas, so that they
    stay here as well, unless replication is off. Of equally loaded neighbours the lowest id is
    taken.
    """
    if not neighbours or load_seconds <= max(neighbours.values()):
        return None
    return min(neighbours, key=lambda node: (neighbours[node], node))


# --- asking --------------------------------------------------------------------------------------


@dataclass
class Homes:
    """Asks the store for the loads that the rule needs, then asks the rule.

    ``queue`` is the ready queue of the node that asks; a client has none.
    """

    here: NodeId
    nodes: Sequence[NodeId]
    random: Random
    store: StoreClient
    rule: HomeRule
    queue: ReadyQueue | None = None

    @property
    def is_alone(self) -> bool:
        """Whether there is no other node to send a task to."""
        return all(node == self.here for node in self.nodes)

    async def find(
        self, tasks: Sequence[Standing], occasion: Occasion, avoid: Collection[NodeId] = ()
    ) -> list[Home]:
        """A home for each task. Nodes to ``avoid`` count as down, except this node itself."""
        loads: dict[NodeId, float] = {}
        if tasks and occasion in self.rule.asks:
            loads = await self._loads_of_nodes_up(tasks)
            loads = {n: load for n, load in loads.items() if n not in avoid or n == self.here}
        view = View(self.here, self.nodes, loads, self.random)
        homes = []
        for task in tasks:
            home = self.rule.choose(task, occasion, view)
            if home.node in loads:
                loads[home.node] += task.seconds
            homes.append(home)
        return homes

    async def _loads_of_nodes_up(self, tasks: Sequence[Standing]) -> dict[NodeId, float]:
        """The loads of the nodes worth asking, as far as they are up.

        These are preferred nodes, holders of inputs, a few others drawn at random, and this node.
        """
        asked: dict[NodeId, None] = {}
        for task in tasks:
            asked[task.preferred] = None
            asked.update((copy.node, None) for copy in task.input_copies)
        for _ in range(min(STRANGERS, len(self.nodes))):
            asked[self.random.choice(self.nodes)] = None
        known = set(self.nodes)
        probes = [Probe(node) for node in asked if node in known and node != self.here]
        loads = {self.here: self.queue.load_seconds} if self.queue is not None else {}
        for answer in await self.store.call(probes):
            assert isinstance(answer, Membership)
            if answer.up:
                loads[answer.node] = answer.load_seconds
        return loads
