"""Which node a task goes to: whoever has a task that needs a node asks `Homes`.

1. Before the run, the strategy's plan says which node each task prefers (`TaskSpec.preferred`); for
   ADAGE that is the node where the task would end first (`plan/adage.py`).
2. When a task is submitted ready, becomes ready, has lost its node, is reopened or finds no room,
   `Homes.find` asks the strategy's home rule: a plain function of the task, the occasion, and a
   view of the nodes, which `Homes` makes. The task is then queued at that node.
3. A task that waits may still go to another node: the strategy's mover takes it there. ADAGE's
   mover gives tasks to the node that `receiver` names.

ADAGE's rule is here; strategies with a static plan, like HEFT's, follow it too. Which rule another
strategy follows is in the strategy's file; those rules are in the files ``..._home`` and
``..._homes`` of this room.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, NamedTuple, Protocol
from zlib import crc32

import msgspec

from dataward.model.answers import Membership, Standing
from dataward.model.events import Occasion
from dataward.model.ids import NodeId
from dataward.model.operations import Copy, InputFile, Look, Probe, Shelf
from dataward.model.workflow import FileId, TaskId
from dataward.node.depot import as_committed
from dataward.node.learned import Learned
from dataward.node.ready_queue import ReadyQueue
from dataward.node.store_client import StoreClient
from dataward.world import Members

STRANGERS = 4  # nodes considered beyond those that hold some of a task's inputs
ASKED_MAX = 32  # nodes asked whether any is up


@dataclass(frozen=True, slots=True)
class View:
    """What a rule is told of the nodes.

    ``here`` is the node that asks, or the name of a client. ``loads_seconds`` has the nodes that
    were asked and are up, and the node that asks; it is empty if no node was asked.
    ``learned`` is what the node that asks has learned.
    """

    here: NodeId
    nodes: Sequence[NodeId]
    loads_seconds: Mapping[NodeId, float]
    random: Random
    learned: Learned = field(default_factory=Learned)
    is_client: bool = False


class Home(NamedTuple):
    """The node that was chosen, the candidates that were compared, if any, and the task's shelf."""

    node: NodeId
    weighed: tuple[tuple[NodeId, float], ...] = ()
    shelf: Shelf = Shelf.SHARED


class HomeRule(Protocol):
    """A rule is a value; its fields are its settings.

    On the occasions in ``asks``, the view has loads of nodes that are up. With ``needs_inputs`` the
    task comes with its inputs and their places on every occasion. Such a rule says itself which of
    the nodes that hold inputs are worth asking: a popular file is at every node.
    """

    asks: ClassVar[frozenset[Occasion]]
    needs_inputs: ClassVar[bool]

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        """The node that the task goes to."""
        ...

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        """Nodes whose loads the view should have.

        For rules without ``needs_inputs``, known holders of the task's inputs are asked as well.
        """
        ...


# --- ADAGE ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdageHome:
    """The node that the plan prefers; if that is down, the one that lacks the fewest input bytes.

    A task that became ready goes to its preferred node even if that is down: a patrol that finds
    the node dead finds the task in its queue. A task for which this node has no room goes to any
    other node.
    """

    asks: ClassVar = frozenset({Occasion.ORPHANED, Occasion.REOPENED, Occasion.LEFT})
    needs_inputs: ClassVar = False

    def candidates(self, task: Standing, nodes: Sequence[NodeId]) -> Iterable[NodeId]:
        return (task.preferred,)

    def choose(self, task: Standing, occasion: Occasion, view: View) -> Home:
        if occasion is Occasion.NO_ROOM:
            return Home(any_other_node(view))
        if occasion is Occasion.READY or task.preferred in view.loads_seconds:
            return Home(task.preferred)
        return nearest(task, view)


def any_other_node(view: View) -> NodeId:
    """A node other than the one that asks, drawn at random; if all others have left, this one."""
    others = [node for node in view.nodes if node != view.here]
    return view.random.choice(others) if others else view.here


def nearest(task: Standing, view: View) -> Home:
    """The node of the view that lacks the fewest input bytes; if all are down, the preferred."""
    candidates = candidates_for(task.inputs, task.input_copies, view.loads_seconds)
    if not candidates:
        return Home(task.preferred)
    weighed = tuple((c.node, float(c.missing_bytes)) for c in candidates)
    return Home(best_node(candidates), weighed)


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


def stand_in(task: TaskId, nodes: Sequence[NodeId]) -> NodeId:
    """The node to which a task goes whose preferred node has left: the same for every asker."""
    return nodes[crc32(task.encode()) % len(nodes)]


# --- asking --------------------------------------------------------------------------------------


@dataclass
class Homes:
    """Asks the store for the loads that the rule needs, then asks the rule.

    ``queue`` is the ready queue of the node that asks, and ``learned`` what that node has learned;
    a client has neither.
    """

    here: NodeId
    nodes: Members
    random: Random
    store: StoreClient
    rule: HomeRule
    queue: ReadyQueue | None = None
    learned: Learned = field(default_factory=Learned)

    @property
    def is_alone(self) -> bool:
        """Whether there is no other node to send a task to."""
        return all(node == self.here for node in self.nodes)

    async def has_any_up(self) -> bool:
        """Whether a task can go to a node that is up: to this one, unless it leaves, or another."""
        if self.here in self.nodes:
            return True
        asked = self.random.sample(self.nodes, min(ASKED_MAX, len(self.nodes)))
        answers = await self.store.call([Probe(node) for node in asked])
        return any(isinstance(answer, Membership) and answer.up for answer in answers)

    async def find(
        self, tasks: Sequence[Standing], occasion: Occasion, avoid: Collection[NodeId] = ()
    ) -> list[Home]:
        """A home for each task. Nodes to ``avoid`` count as down, except this node itself.

        To the rules it seems that a task whose preferred node has left prefers its stand-in: in the
        queue of a node that has left, the task would wait for a patrol.
        """
        tasks = [self.with_stand_in(task) for task in tasks]
        if tasks and self.rule.needs_inputs:
            tasks = await self._with_inputs(tasks)
        loads: dict[NodeId, float] = {}
        if tasks and occasion in self.rule.asks:
            loads = await self._loads_of_nodes_up(tasks)
            loads = {n: load for n, load in loads.items() if n not in avoid or n == self.here}
        is_client = self.queue is None
        view = View(self.here, self.nodes, loads, self.random, self.learned, is_client)
        homes = []
        for task in tasks:
            home = self.rule.choose(task, occasion, view)
            if home.node in loads:
                loads[home.node] += task.seconds
            homes.append(home)
        return homes

    def with_stand_in(self, task: Standing) -> Standing:
        """The task; it prefers its stand-in if the node that it prefers has left."""
        if task.preferred in self.nodes or not task.preferred:
            return task
        return msgspec.structs.replace(task, preferred=stand_in(task.task, self.nodes))

    async def _with_inputs(self, tasks: Sequence[Standing]) -> list[Standing]:
        """The tasks with their inputs, and with all places of these that the store knows of.

        The notice of a parent's end tells where the parent's files were then. Inputs of the whole
        workflow have no such notice, so the store is asked for them.
        """
        looks = await self.store.call([Look(task.task) for task in tasks])
        known = [look for look in looks if isinstance(look, Standing)]
        outside = {file.id for task in known for file in task.inputs if not file.producer}
        wanted = sorted(outside)
        answers = await self.store.call([Look(TaskId(file)) for file in wanted]) if wanted else []
        places: dict[FileId, tuple[Copy, ...]] = {
            file: answer.copies
            for file, answer in zip(wanted, answers, strict=True)
            if isinstance(answer, Standing)
        }
        return [
            msgspec.structs.replace(
                task,
                inputs=look.inputs,
                input_copies=look.input_copies
                + tuple(copy for file in look.inputs for copy in places.get(file.id, ())),
            )
            for task, look in zip(tasks, known, strict=True)
        ]

    async def _loads_of_nodes_up(self, tasks: Sequence[Standing]) -> dict[NodeId, float]:
        """The loads of the nodes worth asking, as far as they are up.

        These are the rule's candidates, maybe holders of inputs, a few others drawn at random, and
        this node.
        """
        asked: dict[NodeId, None] = {}
        for task in tasks:
            asked.update((node, None) for node in self.rule.candidates(task, self.nodes))
            if not self.rule.needs_inputs:
                asked.update((copy.node, None) for copy in task.input_copies)
        strangers = min(STRANGERS, len(self.nodes))
        if self.queue is None or self.here in self.nodes:
            asked.update((self.random.choice(self.nodes), None) for _ in range(strangers))
        else:  # a node that leaves has not itself to fall back on, should the same be drawn twice
            asked.update(dict.fromkeys(self.random.sample(self.nodes, strangers)))
        probes = [Probe(node) for node in asked if node in self.nodes and node != self.here]
        loads = {}
        if self.queue is not None and self.here in self.nodes:  # else this node leaves
            loads[self.here] = self.queue.load_seconds
        for answer in await self.store.call(probes):
            assert isinstance(answer, Membership)
            if answer.up:
                loads[answer.node] = answer.load_seconds
        return loads
