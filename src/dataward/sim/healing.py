"""How much of a simulated run was healing: work that patrols, leases and repairs put right.

What heals is invisible in a run's outcome: every task still ends, once. So a broken line in the
node shows only here, as healing that no fault called for. This file counts; `healing_bounds`
judges.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from math import inf

from dataward.model.answers import Answer, Committed, Findings, Standing
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    FaultInjected,
    FileEvicted,
    FileMoved,
    FileStored,
    NodeJoined,
    NodeLeft,
    NodeLost,
    TaskReopened,
    TaskTakenOver,
)
from dataward.model.ids import AttemptId, NodeId
from dataward.model.operations import (
    Claim,
    Commit,
    Look,
    Operation,
    Probe,
    Remove,
    Renew,
    Reopen,
    ReportLoad,
    shard_of,
)
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.sim.simulation import Simulation
from dataward.stores.node_record import NodeRecord
from dataward.stores.shard import Shard

TOLD_SECONDS = 0.1  # after the end of an attempt, the store is told in calls under way
OUTLIVED_SECONDS = 20.0  # more than an outcome, or the word of one, is on its way
LOOK_SECONDS = 1.0  # between two looks at loads and queues: they are not in the event list
_TELL_LOAD = (ReportLoad, Claim, Renew)


@dataclass
class Healing:
    """What one run, or many, had to put right. Everything is 0 in a run that nothing happens to."""

    repeated: int = 0  # attempts begun beyond the first of a task's generation, replicas aside
    doubled: int = 0  # of those: begun while another such attempt was under way
    reopened: int = 0  # complete tasks that had to run again
    needless: int = 0  # of those: with every output on a machine that was up and served
    taken_over: int = 0  # tasks taken from nodes that were taken for dead
    taken_again: int = 0  # of those: from an incarnation they had been taken from before
    leases_lost: int = 0  # incarnations that began without a crash
    undelivered: int = 0  # full outboxes that a patrol found
    mistaken: int = 0  # attempts that a patrol asked after though they were over
    outlived: int = 0  # attempts that went on long after their task was complete or removed
    moved_again_bytes: int = 0  # of files that the node had already
    late_load_seconds: float = 0.0  # that the store had another load than the node
    waited_seconds: float = 0.0  # that work waited for a node that was not busy
    idled_seconds: float = 0.0  # that a ready task was in a pool while a node had nothing to run

    def __add__(self, other: "Healing") -> "Healing":
        return Healing(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Healing)))


@dataclass
class SeenTrouble:
    """What was done to a run: the reasons it may have had to heal."""

    crashes: int = 0
    mutes: int = 0
    partitions: int = 0
    full_disks: int = 0  # for a time, or too small for the workflow from the start
    forgets: int = 0
    spoils: int = 0
    late: int = 0  # nodes that came later than the others
    left: int = 0  # nodes that left on purpose
    deserted: int = 0  # of those: with no other member there to hand anything over to
    lost_messages: int = 0
    failed_calls: int = 0
    died: int = 0  # attempts that went with their node in a crash
    interrupted: int = 0  # attempts, replicas aside, that ended before their task did
    sent_on: int = 0  # attempts that had not started, and whose tasks went to other nodes
    postponed: int = 0  # replicas that had to wait for a parent again
    absent: int = 0  # files of recalled tasks that nobody has, once for each reader
    removals: int = 0  # times that somebody removed a task
    unjoined: int = 0  # nodes that tasks were taken from before they had joined

    @property
    def hindrances(self) -> int:
        """How often an attempt may have been unable to go on, though its node was well."""
        faults = self.mutes + self.partitions + self.full_disks + self.forgets + self.spoils
        return faults + self.absent


_COUNTED = {
    "mute": "mutes",
    "partition": "partitions",
    "disk full": "full_disks",
    "forget": "forgets",
    "spoil": "spoils",
    "late": "late",
    "leave": "left",
}


class HealingTally:
    """Watches a simulation and counts what it heals; looks at nodes and rows only now and then."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.healing = Healing()
        self.reopened: set[TaskId] = set()
        self._trouble = SeenTrouble()
        self._began: dict[tuple[TaskId, int], int] = {}
        self._open: dict[AttemptId, AttemptBegan] = {}
        self._over: dict[AttemptId, float] = {}  # and since when
        self._over_since: dict[TaskId, float] = {}  # tasks that are complete or removed
        self._taken: set[tuple[TaskId, NodeId, int]] = set()
        self._reopenings: set[tuple[TaskId, int]] = set()
        self._booting: set[NodeId] = set(simulation.nodes)
        self._held: set[tuple[FileId, NodeId]] = set()
        # Both loads, and since when they have been so different.
        self._late: dict[NodeId, tuple[tuple[float, float], float]] = {}
        self._waits: set[NodeId] = set()
        self._pooled: set[TaskId] = set()
        self._idle: set[tuple[NodeId, int]] = set()
        settings = simulation.strategy.settings
        # What a committer may wait before it sends, and one look.
        self._late_after_seconds = (
            settings.company_seconds
            + settings.outcome_seconds
            + settings.unawaited_seconds
            + LOOK_SECONDS
        )
        shards = len(simulation.store.shards)
        self._shard_of = {node: shard_of(Probe(node), shards) for node in simulation.nodes}
        workflow = simulation.workflow
        readers = simulation.workflow.consumers.degrees().tolist()
        self._readers = dict(zip(simulation.workflow.file_ids, readers, strict=True))
        self._outputs = {
            workflow.task_ids[task]: [workflow.file_ids[f] for f in files]
            for task, files in enumerate(workflow.outputs.rows())
        }
        size_bytes = int(workflow.size_bytes.sum())
        self._trouble.full_disks = sum(
            machine.capacity_bytes < size_bytes for machine in simulation.platform.machines
        )
        simulation.kernel.call_at(LOOK_SECONDS, self._look)

    @property
    def trouble(self) -> SeenTrouble:
        """What happened so far."""
        interference = self.simulation.interference
        self._trouble.lost_messages = interference.lost_messages
        self._trouble.failed_calls = interference.failed_calls
        return self._trouble

    # --- what happened on the nodes --------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        if isinstance(event, AttemptBegan):
            self._on_began(event)
        elif isinstance(event, AttemptEnded):
            self._on_ended(event)
        elif isinstance(event, FileStored):
            if not event.at:  # an input of the workflow; what tasks write counts once committed
                self._held.add((event.file, event.node))
        elif isinstance(event, FileEvicted):
            self._held.discard((event.file, event.node))
        elif isinstance(event, FileMoved):
            if (event.file, event.target) in self._held:
                self.healing.moved_again_bytes += event.size_bytes
            self._held.add((event.file, event.target))
        elif isinstance(event, TaskTakenOver):
            self._on_taken_over(event)
        elif isinstance(event, TaskReopened):
            self._on_reopened(event)
        elif isinstance(event, NodeJoined):
            self.healing.leases_lost += event.node not in self._booting
            self._booting.discard(event.node)
        elif isinstance(event, NodeLeft):
            self._booting.add(event.node)
        elif isinstance(event, NodeLost):
            self._on_node_lost(event.node)
        elif isinstance(event, FaultInjected) and event.kind in _COUNTED:
            name = _COUNTED[event.kind]
            setattr(self._trouble, name, getattr(self._trouble, name) + 1)
            if name == "left":
                self._trouble.deserted += not self._has_others(event.where)

    def _has_others(self, node: str) -> bool:
        machines = self.simulation.machines
        present = self.simulation.census.present
        return any(machines[other].up for other in present if other != node)

    def _on_began(self, event: AttemptBegan) -> None:
        if not event.replica:
            times = self._began.get((event.task, event.generation), 0)
            self._began[event.task, event.generation] = times + 1
            if times:
                self.healing.repeated += 1
                self.healing.doubled += any(
                    other.task == event.task and not other.replica for other in self._open.values()
                )
        self._open[event.attempt] = event

    def _on_ended(self, event: AttemptEnded) -> None:
        began = self._open.pop(event.attempt, None)
        self._over[event.attempt] = self.simulation.kernel.now()
        over_seconds = self._over_since.get(event.task)
        if over_seconds is not None:
            after_seconds = self.simulation.kernel.now() - over_seconds
            self.healing.outlived += after_seconds > OUTLIVED_SECONDS
        elif event.outcome is AttemptOutcome.SENT_ON and began is not None:
            self._trouble.sent_on += 1
            if not began.replica:
                self._began[began.task, began.generation] -= 1
                if self._began[began.task, began.generation]:
                    self.healing.repeated -= 1  # the one that follows counts in its place
        elif began is not None and not began.replica:
            self._trouble.interrupted += 1
        elif event.outcome is AttemptOutcome.POSTPONED:
            self._trouble.postponed += 1

    def _on_reopened(self, event: TaskReopened) -> None:
        """Every node that misses the files tells of it, replicas too: that is one reopening."""
        key = (event.task, event.generation)
        if key not in self._reopenings:
            self._reopenings.add(key)
            self.healing.reopened += 1
            self.healing.needless += self._is_served(event.task)
        self._over_since.pop(event.task, None)

    def _on_taken_over(self, event: TaskTakenOver) -> None:
        key = (event.task, event.node, event.incarnation)
        self.healing.taken_over += 1
        self.healing.taken_again += key in self._taken
        self._taken.add(key)
        self._trouble.unjoined = len(
            {node for _, node, incarnation in self._taken if incarnation < 0}
        )

    def _on_node_lost(self, node: NodeId) -> None:
        self._trouble.crashes += 1
        self._booting.add(node)
        for attempt, began in list(self._open.items()):
            if began.node == node:
                del self._open[attempt]
                self._over[attempt] = self.simulation.kernel.now()
                self._trouble.died += 1
                self._trouble.interrupted += not began.replica
        stored = self.simulation.machines[node].stored.files  # what was not synced has gone
        self._held = {(file, at) for file, at in self._held if at != node or file in stored}

    def _is_served(self, task: TaskId) -> bool:
        """Whether each output of a task is on a machine from which it could be had."""
        if self.simulation.interference.cuts:
            return False
        serving = [m for m in self.simulation.machines.values() if m.up and m.serves]
        return all(any(file in m.stored.files for m in serving) for file in self._outputs[task])

    # --- what the store was asked ----------------------------------------------------------------

    def on_applied(self, operation: Operation, answer: Answer, shard: Shard) -> None:
        if isinstance(answer, Findings):
            self.healing.undelivered += len(answer.undelivered)
            self.healing.mistaken += sum(self._is_long_over(s.attempt) for s in answer.suspects)
        elif isinstance(answer, Committed):
            self._on_committed(operation, answer)
        elif isinstance(answer, Standing):
            if answer.state is TaskState.REMOVED:
                self._trouble.removals += isinstance(operation, Remove)
                self._over_since.setdefault(answer.task, self.simulation.kernel.now())
            elif isinstance(operation, Reopen) and answer.granted:
                self.reopened.add(operation.task)  # also if the node died before it could tell
        elif isinstance(operation, _TELL_LOAD):
            self._on_load_told(operation.node, operation.load_seconds)

    def _is_long_over(self, attempt: AttemptId) -> bool:
        """Whether the store should know that an attempt is over: the word of it takes a moment."""
        since = self._over.get(attempt, inf)
        return self.simulation.kernel.now() - since > TOLD_SECONDS

    def _on_load_told(self, id: NodeId, said_seconds: float) -> None:
        """Whatever was late before, is not any more: loads that count tasks come back."""
        node = self.simulation.machines[id].node
        if node is not None and not self._differ(node.load_seconds, said_seconds):
            self._late.pop(id, None)

    def _on_committed(self, operation: Operation, answer: Committed) -> None:
        assert isinstance(operation, Commit)
        self._over_since.setdefault(answer.task, self.simulation.kernel.now())
        self._trouble.absent += sum(self._readers[file] for file in operation.absent)
        self._held.update((file.id, operation.node) for file in operation.held)

    # --- what is in no event ---------------------------------------------------------------------

    def _look(self) -> None:
        """Count what has been so since the last look, and longer than it may be."""
        now = self.simulation.kernel.now()
        pooled: set[TaskId] = set()
        idle: set[tuple[NodeId, int]] = set()  # with the number of attempts that it has begun
        for id, machine in self.simulation.machines.items():
            node, row = machine.node, self._row_of(id)
            if node is None or row is None or not row.is_current(node.incarnation):
                self._late.pop(id, None)
                self._waits.discard(id)
                continue
            self._look_at_load(id, node.load_seconds, row.load_seconds, now)
            pooled.update(node.pooled)
            if node.has_no_work:
                idle.add((id, node.attempts_begun))
            if not row.queued and not node.is_missing_work:
                self._waits.discard(id)
            elif id in self._waits:
                self.healing.waited_seconds += LOOK_SECONDS
            else:
                self._waits.add(id)
        pooled = {task for task in pooled if self._is_ready(task)}
        if pooled & self._pooled and idle & self._idle:
            self.healing.idled_seconds += LOOK_SECONDS
        self._pooled, self._idle = pooled, idle
        self.simulation.kernel.call_at(now + LOOK_SECONDS, self._look)

    def _look_at_load(
        self, id: NodeId, true_seconds: float, said_seconds: float, now: float
    ) -> None:
        """A report is late only if neither side has changed all the while."""
        if not self._differ(true_seconds, said_seconds):
            self._late.pop(id, None)
            return
        loads = (true_seconds, said_seconds)
        known, since = self._late.get(id, (loads, now))
        if known != loads:
            since = now
        self._late[id] = (loads, since)
        if now - since > self._late_after_seconds:
            self.healing.late_load_seconds += LOOK_SECONDS

    def _differ(self, true_seconds: float, said_seconds: float) -> bool:
        share = self.simulation.strategy.settings.load_report_share
        return abs(true_seconds - said_seconds) > share * said_seconds + 1e-6

    def _is_ready(self, task: TaskId) -> bool:
        shards = self.simulation.store.shards
        record = shards[shard_of(Look(task), len(shards))].tasks.get(task)
        return record is not None and record.state is TaskState.READY

    def _row_of(self, node: NodeId) -> NodeRecord | None:
        return self.simulation.store.shards[self._shard_of[node]].nodes.get(node)


# --- when all is done ----------------------------------------------------------------------------


def loose_ends(simulation: Simulation) -> dict[str, int]:
    """Everything that nodes and shards still keep though no task is left, by what and where."""
    found: dict[str, int] = {}
    for shard in simulation.store.shards:
        for what, count in shard.loose_ends().items():
            if count:
                found[f"{what} on shard {shard.index}"] = count
    for id, machine in simulation.machines.items():
        if machine.node is not None:
            for what, count in machine.node.loose_ends().items():
                if count:
                    found[f"{what} at {id}"] = count
    return found


def commits_unsaid(simulation: Simulation, forgotten: Mapping[AttemptId, NodeId]) -> list[str]:
    """Commits that a shard forgot and that a node has in its journal, but has not said again."""
    journalled = {
        commit.attempt
        for machine in simulation.machines.values()
        if machine.up
        for commit in machine.stored.commits
    }
    return [attempt for attempt in forgotten if attempt in journalled]


def copies_astray(simulation: Simulation, reopened: Collection[TaskId] = ()) -> list[str]:
    """Where the store and the disks of machines that are up disagree about a file.

    Files of tasks that were ``reopened`` are left out: what was made before no longer counts.
    """
    said: dict[tuple[FileId, NodeId], str] = {}
    for shard in simulation.store.shards:
        places: dict[str, dict[FileId, dict[NodeId, None]]] = dict(shard.inputs)
        places.update((task, record.copies) for task, record in shard.tasks.items())
        for owner, copies in places.items():
            for file, nodes in copies.items():
                said.update(((file, node), owner) for node in nodes)
    stored = {
        (file.id, id): file.owner
        for id, machine in simulation.machines.items()
        if machine.up
        for file in machine.stored.files.values()
    }
    return [
        f"{file} at {node}"
        for file, node in dict.fromkeys((*stored, *said))
        if simulation.machines[node].up
        and stored.get((file, node)) != said.get((file, node))
        and stored.get((file, node), said.get((file, node))) not in reopened
    ]
