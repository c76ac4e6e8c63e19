"""One shard of the store: a state machine that applies operations one at a time.

All the rules of ``docs/node.md`` are here, without waiting, clocks or I/O: the caller says what
time it is. The memory store keeps its shards in the process, the embedded store also writes down
what they were asked, and the simulator charges time for asking.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import islice, starmap
from math import inf
from typing import Any

from dataward.model.operations import (
    AddCopies,
    Advance,
    Answer,
    AttemptId,
    Begin,
    Begun,
    Claim,
    Claimed,
    Commit,
    Committed,
    Copy,
    Delivered,
    DropCopies,
    Enqueue,
    Fail,
    Failing,
    Findings,
    Join,
    LetGo,
    Look,
    Membership,
    NodeId,
    Notify,
    Operation,
    Orphans,
    Page,
    Patrol,
    Postpone,
    Probe,
    Recount,
    Recounted,
    Refused,
    Release,
    Renew,
    Reopen,
    Replicate,
    ReportLoad,
    Restate,
    Seize,
    Standing,
    Submit,
    Suspect,
    TakeOver,
    Undelivered,
    Unfinished,
    incarnation_of,
)
from dataward.model.states import FINAL, PROGRESS, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.stores.node_record import NodeRecord, Stay
from dataward.stores.task_record import Attempt, TaskRecord

SUSPECTS_MAX = 16  # attempts asked after in one patrol
PATROL_HOLD_SECONDS = 5.0  # how long a finder has for itself what a patrol gave it


class Shard:
    """The records of some tasks, nodes and workflow inputs, and the rules that change them."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.epoch = 0
        self.recounted_epoch = 0
        self.complete = 0
        self.failed = 0
        self.tasks: dict[TaskId, TaskRecord] = {}
        self.nodes: dict[NodeId, NodeRecord] = {}
        self.inputs: dict[str, dict[FileId, dict[NodeId, None]]] = {}
        self._submitted: list[TaskId] = []
        self._tickets = 0
        # Finished tasks whose children may not know, and ready ones that may be in no queue, by
        # when that began: oldest first. Those a patrol gave away are kept apart, by until when.
        self.outboxes: OrderedDict[TaskId, float] = OrderedDict()
        self._outboxes_given: OrderedDict[TaskId, float] = OrderedDict()
        self._recount_held_until = 0.0
        # Attempts by when they were last asked after: oldest first. Those over are passed over.
        self._begun: OrderedDict[AttemptId, tuple[TaskId, float]] = OrderedDict()
        # Nodes by when to look after them: when a lease or a patrol's hold ends. A node that renews
        # stays where it is and moves on when found, so that the list is as long as the cluster.
        self._leases: list[tuple[float, NodeId]] = []
        self._lease_listed: dict[NodeId, float] = {}
        self._rules: dict[type, Callable[[Any, float], Answer]] = {
            Submit: self._submit,
            Begin: self._begin,
            Advance: self._advance,
            Commit: self._commit,
            Fail: self._fail,
            Release: self._release,
            Notify: self._notify,
            Delivered: self._delivered,
            Replicate: self._replicate,
            TakeOver: self._take_over,
            Reopen: self._reopen,
            Postpone: self._postpone,
            AddCopies: self._add_copies,
            DropCopies: self._drop_copies,
            Look: self._look,
            Join: self._join,
            Renew: self._renew,
            Enqueue: self._enqueue,
            Claim: self._claim,
            LetGo: self._let_go,
            Restate: self._restate,
            Seize: self._seize,
            ReportLoad: self._report_load,
            Probe: self._probe,
            Patrol: self._patrol,
            Recount: self._recount,
            Recounted: self._recounted,
        }

    def apply(self, operation: Operation, now: float) -> Answer:
        return self._rules[type(operation)](operation, now)

    # --- tasks: from submission to commit --------------------------------------------------------

    def _submit(self, op: Submit, now: float) -> Answer:
        spec = op.spec
        record = self.tasks.get(spec.id)
        if record is None:
            record = TaskRecord(spec, waiting_for=len(spec.parents))
            record.history.append((now, TaskState.WAITING))
            self.tasks[spec.id] = record
            self._submitted.append(spec.id)
            record.settle(now)
        return self._standing(record)

    def _begin(self, op: Begin, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return Refused(op.task, "unknown", TaskState.WAITING)
        if op.attempt not in record.attempts:
            if record.state in FINAL:
                return Refused(op.task, "finished", record.state)
            if record.waiting_for:
                return Refused(op.task, "waiting", record.state)
            if why := record.why_void(op.node, op.attempt):
                return Refused(op.task, why, record.state)
            incarnation = incarnation_of(op.attempt)
            self._forget_past_lives(record, op.node, incarnation)
            if any(attempt.node == op.node for attempt in record.attempts.values()):
                return Refused(op.task, "under way here", record.state)
            if len(record.attempts) > record.spec.backups_max:
                return Refused(op.task, "enough replicas", record.state)
            record.attempts[op.attempt] = Attempt(op.node, incarnation, TaskState.STAGE_IN)
            record.hold(op.node)
            record.settle(now)
            self._begun[op.attempt] = (op.task, now)
            self._empty_outbox(op.task)  # whoever began it had it from a queue
        return Begun(
            spec=record.spec,
            generation=record.generation + 1,
            copies=tuple(starmap(Copy, record.input_copies.items())),
            parents=dict(record.notices),
        )

    def _forget_past_lives(self, record: TaskRecord, node: NodeId, incarnation: int) -> None:
        """An earlier incarnation of a node that begins again is certainly not running."""
        if any(a.node == node and a.incarnation < incarnation for a in record.attempts.values()):
            record.fence(node, incarnation - 1)

    def _advance(self, op: Advance, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        attempt = record.attempts.get(op.attempt)
        if attempt and PROGRESS.get(op.state, 0) > PROGRESS[attempt.state]:
            attempt.state = op.state
            record.settle(min(op.at, now))
        return self._standing(record)

    def _commit(self, op: Commit, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return Refused(op.task, "unknown", TaskState.WAITING)
        if record.winner != op.attempt:
            if record.state in FINAL:
                return Refused(op.task, "finished", record.state)
            if why := record.why_void(op.node, op.attempt):
                return Refused(op.task, why, record.state)
            if op.generation <= record.generation:
                return Refused(op.task, "outdated", record.state)
            self._complete(record, op, now)
        return Committed(
            task=op.task,
            generation=record.generation,
            children=record.spec.children,
            copies=record.known_copies(),
            rivals=tuple(node for node in record.holders if node != op.node),
        )

    def _complete(self, record: TaskRecord, op: Commit, now: float) -> None:
        record.attempts.setdefault(
            op.attempt, Attempt(op.node, incarnation_of(op.attempt), TaskState.STAGE_IN)
        )
        for state, at in op.timeline:
            attempt = record.attempts[op.attempt]
            if PROGRESS.get(state, 0) > PROGRESS[attempt.state]:
                attempt.state = state
                record.settle(min(at, now))
        record.attempts[op.attempt].state = TaskState.STAGE_OUT
        record.settle(now)
        record.hear_of_all_parents()  # it ran, so they had finished, if forgotten since
        record.move(TaskState.COMPLETE, now)
        # Never a number it gave before, not even one it forgot: children may be waiting for more.
        record.generation = max(record.generation, self.epoch << 20) + 1
        record.winner = op.attempt
        self._begun.pop(op.attempt, None)
        record.attempts.clear()
        record.copies = {output.id: {op.node: None} for output in record.spec.outputs}
        self._put_in_outbox(op.task, now)
        self.complete += 1

    def _fail(self, op: Fail, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return Refused(op.task, "unknown", TaskState.WAITING)
        if op.attempt not in record.failures:
            if record.state in FINAL:
                return Refused(op.task, "finished", record.state)
            if op.attempt not in record.attempts:
                return Refused(op.task, "fenced", record.state)
            record.end(op.attempt)
            final = len(record.failures) >= record.spec.retries
            record.failures[op.attempt] = final
            if final:
                record.failed_parent = None
                self._give_up(record, now)
            else:
                self._settle(record, now)
        final = record.failures[op.attempt]
        return Failing(
            task=op.task,
            final=final,
            children=record.spec.children if final else (),
            generation=record.generation,
            rivals=tuple(record.holders) if final else (),
        )

    def _give_up(self, record: TaskRecord, now: float) -> None:
        record.move(TaskState.FAILED, now)
        record.generation += 1  # else word that an earlier end was told would pass for this one
        record.attempts.clear()
        self._put_in_outbox(record.spec.id, now)
        self.failed += 1

    def _settle(self, record: TaskRecord, now: float) -> None:
        """Let a task be what is left of it; one that waits after a parent failed waits in vain."""
        record.settle(now)
        if record.state is TaskState.WAITING and record.failed_parent:
            self._give_up(record, now)

    def _put_in_outbox(self, task: TaskId, now: float) -> None:
        self._empty_outbox(task)  # so that it goes to the end: oldest first
        self.outboxes[task] = now

    def _empty_outbox(self, task: TaskId) -> None:
        self.outboxes.pop(task, None)
        self._outboxes_given.pop(task, None)

    def _has_outbox(self, task: TaskId) -> bool:
        return task in self.outboxes or task in self._outboxes_given

    def _release(self, op: Release, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        if record.end(op.attempt):
            self._settle(record, now)
            if not op.keep:
                self._see_it_placed(record, now)
        return self._standing(record)

    def _see_it_placed(self, record: TaskRecord, now: float) -> None:
        """A task that is ready again is nobody's until somebody says it is in a queue."""
        if record.state is TaskState.READY and not self._has_outbox(record.spec.id):
            record.placement += 1
            self._put_in_outbox(record.spec.id, now)

    # --- tasks: telling children -----------------------------------------------------------------

    def _notify(self, op: Notify, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        if op.failed:
            return self._heed_failure(record, op, now)
        known = record.notices.get(op.parent, 0)
        if op.generation >= known:
            for copy in op.copies:
                record.input_copies[copy.file] = copy.node
        if op.generation > known:
            record.notices[op.parent] = op.generation
            if known < record.required.get(op.parent, 1) <= op.generation:
                record.waiting_for -= 1
            record.settle(now)
        return self._standing(record)

    def _heed_failure(self, record: TaskRecord, op: Notify, now: float) -> Answer:
        """Fail with the parent. An attempt under way has its inputs and may yet succeed."""
        if record.state is not TaskState.FAILED:
            record.failed_parent = record.failed_parent or op.parent
        if record.state in (TaskState.WAITING, TaskState.READY):
            self._give_up(record, now)
        failed = record.state is TaskState.FAILED
        return self._standing(record, granted=failed and record.failed_parent == op.parent)

    def _delivered(self, op: Delivered, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        expected = 0 if record.state in FINAL else record.placement
        if record.generation == op.generation and op.placement == expected:
            self._empty_outbox(op.task)
        return self._standing(record)

    # --- tasks: replicas, take-overs, lost data --------------------------------------------------

    def _replicate(self, op: Replicate, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        granted = (
            record.state not in FINAL
            and op.node not in record.holders
            and record.backups < record.spec.backups_max
        )
        if granted:
            record.hold(op.source)
            record.hold(op.node)
            record.backups += 1
        return self._standing(record, granted=granted)

    def _take_over(self, op: TakeOver, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        record.fence(op.node, op.incarnation)
        is_back = any(attempt.node == op.node for attempt in record.attempts.values())
        if op.node in record.holders and not is_back:
            record.holders.remove(op.node)
        self._settle(record, now)
        self._see_it_placed(record, now)
        return self._standing(record, files=True)

    def _reopen(self, op: Reopen, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        is_it = 0 < op.generation == record.generation and record.state is not TaskState.FAILED
        if is_it and record.state is TaskState.COMPLETE:
            record.winner = ""
            record.copies.clear()
            record.holders.clear()
            record.backups = 0
            self._empty_outbox(op.task)
            record.move(TaskState.READY, now)
            self.complete -= 1
            self._settle(record, now)
            self._see_it_placed(record, now)
        return self._standing(record, granted=is_it, files=True)

    def _postpone(self, op: Postpone, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        record.end(op.attempt)
        known = record.notices.get(op.parent, 0)
        required = record.required.get(op.parent, 1)
        if op.generation >= required and record.state not in FINAL:
            record.required[op.parent] = op.generation + 1
            if required <= known <= op.generation:
                record.waiting_for += 1
        self._settle(record, now)
        self._see_it_placed(record, now)
        in_vain = record.state is TaskState.FAILED and bool(record.failed_parent)
        return self._standing(record, granted=in_vain)

    def _add_copies(self, op: AddCopies, now: float) -> Answer:
        record = self.tasks.get(op.task)
        copies = self.inputs.setdefault(op.task, {}) if record is None else record.copies
        for copy in op.copies:
            copies.setdefault(copy.file, {})[copy.node] = None
        return self._about(op.task, files=False)

    def _drop_copies(self, op: DropCopies, now: float) -> Answer:
        record = self.tasks.get(op.task)
        copies = self.inputs.get(op.task, {}) if record is None else record.copies
        for copy in op.copies:
            copies.get(copy.file, {}).pop(copy.node, None)
        return self._about(op.task, files=False)

    def _look(self, op: Look, now: float) -> Answer:
        return self._about(op.task, files=True)

    def _about(self, owner: TaskId, *, files: bool) -> Answer:
        """Files only if asked for: a popular one is at every node."""
        record = self.tasks.get(owner)
        if record is not None:
            return self._standing(record, files=files)
        held = self.inputs.get(owner)
        if held is None:
            return self._unknown(owner)
        places = held.items() if files else ()
        copies = tuple(Copy(file, node) for file, nodes in places for node in nodes)
        return Standing(owner, TaskState.COMPLETE, 0, copies=copies)

    def _unknown(self, task: TaskId) -> Standing:
        return Standing(task, TaskState.WAITING, 0, unknown=True)

    def _standing(
        self, record: TaskRecord, *, granted: bool = False, files: bool = False
    ) -> Standing:
        spec = record.spec
        return Standing(
            task=spec.id,
            state=record.state,
            generation=record.generation,
            preferred=spec.preferred,
            priority=spec.priority,
            seconds=spec.runtime_seconds,
            granted=granted,
            more_backups=record.backups < spec.backups_max,
            live_attempts=len(record.attempts),
            placement=record.placement,
            children=spec.children if record.state is TaskState.FAILED else (),
            copies=record.known_copies() if files else (),
            inputs=spec.inputs if files else (),
            input_copies=tuple(starmap(Copy, record.input_copies.items())) if files else (),
        )

    # --- nodes -----------------------------------------------------------------------------------

    def _node(self, id: NodeId) -> NodeRecord:
        record = self.nodes.get(id)
        if record is None:
            record = self.nodes[id] = NodeRecord(id)
        return record

    def _next_ticket(self) -> int:
        """Never the same twice, not even after forgetting that it was given out."""
        self._tickets += 1
        return (self.epoch << 40) + self._tickets

    def _list_lease(self, node: NodeRecord) -> None:
        due = max(node.lease_until, node.patrolled_until)
        if due < self._lease_listed.get(node.id, inf):
            self._lease_listed[node.id] = due
            heappush(self._leases, (due, node.id))

    def _join(self, op: Join, now: float) -> Answer:
        node = self._node(op.node)
        if op.incarnation >= node.incarnation:
            node.rejoin(op.incarnation, op.lease_seconds, now)
            self._list_lease(node)
        return node.membership(now, self.epoch, op.incarnation)

    def _renew(self, op: Renew, now: float) -> Answer:
        node = self._node(op.node)
        if node.is_current(op.incarnation):
            node.lease_until = now + node.lease_seconds
            node.load_seconds = op.load_seconds
            self._list_lease(node)
        return node.membership(now, self.epoch, op.incarnation)

    def _enqueue(self, op: Enqueue, now: float) -> Answer:
        node = self._node(op.node)
        for entry in op.entries:
            node.enqueue(entry, self._next_ticket())
        self._list_lease(node)
        return node.membership(now, self.epoch)

    def _claim(self, op: Claim, now: float) -> Answer:
        node = self._node(op.node)
        if not node.is_current(op.incarnation):
            return Claimed(op.node, False, (), (), len(node.queued))
        node.load_seconds = op.load_seconds
        request = (op.incarnation, op.request)
        if node.last_request == request and node.last_answer is not None:
            return node.last_answer
        if node.last_request[0] == op.incarnation and op.request < node.last_request[1]:
            # Long answered: what it took now would be held by a node that does not know.
            return self._claimed(node, ())
        stays: list[Stay] = []
        while len(stays) < op.limit and (stay := node.claim()):
            stays.append(stay)
        node.last_request = request
        node.last_answer = self._claimed(node, stays)
        return node.last_answer

    def _claimed(self, node: NodeRecord, stays: Sequence[Stay]) -> Claimed:
        return Claimed(
            node.id,
            True,
            tuple(stay.entry for stay in stays),
            tuple(stay.ticket for stay in stays),
            len(node.queued),
        )

    def _let_go(self, op: LetGo, now: float) -> Answer:
        node = self._node(op.node)
        if op.incarnation == node.incarnation:
            for task, ticket in op.tasks:
                node.let_go(task, ticket)
        return node.membership(now, self.epoch, op.incarnation)

    def _restate(self, op: Restate, now: float) -> Answer:
        node = self._node(op.node)
        if not node.is_current(op.incarnation):
            return Claimed(op.node, False, (), (), len(node.queued))
        node.hold_only({e.task: Stay(e, self._next_ticket()) for e in op.entries})
        self._list_lease(node)
        return self._claimed(node, list(node.held.values()))

    def _seize(self, op: Seize, now: float) -> Answer:
        node = self._node(op.node)
        if node.is_current(op.incarnation) and node.lease_until < now:
            node.seized = True
        return node.membership(now, self.epoch, op.incarnation)

    def _report_load(self, op: ReportLoad, now: float) -> Answer:
        node = self._node(op.node)
        node.load_seconds = op.load_seconds
        return node.membership(now, self.epoch)

    def _probe(self, op: Probe, now: float) -> Answer:
        node = self.nodes.get(op.node)
        if node is None:
            return Membership(op.node, False, False, -1, 0, 0.0, self.epoch)
        return node.membership(now, self.epoch)

    # --- the shard itself ------------------------------------------------------------------------

    def _patrol(self, op: Patrol, now: float) -> Answer:
        orphans = self._find_orphans(op, now)
        undelivered = self._find_undelivered(op, now)
        due = self.epoch > self.recounted_epoch and now >= self._recount_held_until
        if due:
            self._recount_held_until = now + PATROL_HOLD_SECONDS
        suspects = self._find_suspects(op, now)
        return Findings(
            self.index, tuple(orphans), tuple(undelivered), tuple(suspects), self.epoch, due
        )

    def _find_orphans(self, op: Patrol, now: float) -> list[Orphans]:
        found: list[Orphans] = []
        room = op.limit
        while room > 0 and self._leases and self._leases[0][0] < now:
            due, id = heappop(self._leases)
            if self._lease_listed.get(id) != due:
                continue  # listed for an earlier time since
            del self._lease_listed[id]
            node = self.nodes[id]
            if max(node.lease_until, node.patrolled_until) < now:
                if not (node.held or node.queued):
                    continue
                node.patrolled_until = now + PATROL_HOLD_SECONDS
                node.seized = True
                stays = list(islice(node.stays(), room))
                room -= len(stays)
                found.append(self._orphans(node, stays))
            self._list_lease(node)
        return found

    def _orphans(self, node: NodeRecord, stays: Sequence[Stay]) -> Orphans:
        return Orphans(
            node.id,
            node.incarnation,
            tuple(stay.entry for stay in stays),
            tuple(stay.ticket for stay in stays),
        )

    def _find_undelivered(self, op: Patrol, now: float) -> list[Undelivered]:
        found: list[Undelivered] = []
        while len(found) < op.limit:
            task = self._next_outbox(now, op.stale_seconds)
            if task is None:
                break
            self._empty_outbox(task)
            self._outboxes_given[task] = now + PATROL_HOLD_SECONDS
            record = self.tasks[task]
            found.append(
                Undelivered(
                    task=task,
                    generation=record.generation,
                    failed=record.state is TaskState.FAILED,
                    placement=0 if record.state in FINAL else record.placement,
                    children=record.spec.children,
                    copies=record.known_copies(),
                    winner=record.winner if record.state is TaskState.COMPLETE else "",
                )
            )
        return found

    def _next_outbox(self, now: float, stale_seconds: float) -> TaskId | None:
        """One given away and still full, else one that has gone stale."""
        for outboxes, seconds in ((self._outboxes_given, 0.0), (self.outboxes, stale_seconds)):
            if outboxes:
                task, since = next(iter(outboxes.items()))
                if since + seconds <= now:
                    return task
        return None

    def _find_suspects(self, op: Patrol, now: float) -> list[Suspect]:
        """The attempts longest not asked after. Each goes to the end of the line when asked."""
        found: list[Suspect] = []
        while self._begun and len(found) < SUSPECTS_MAX:
            name, (task, since) = next(iter(self._begun.items()))
            if since + op.suspect_seconds > now:
                break
            del self._begun[name]
            attempt = self.tasks[task].attempts.get(name)
            if attempt is not None:
                self._begun[name] = (task, now)
                found.append(Suspect(task, name, attempt.node, attempt.incarnation))
        return found

    def _recount(self, op: Recount, now: float) -> Answer:
        """A page may be short; only a cursor of -1 ends the count."""
        stop = min(op.cursor + op.limit, len(self._submitted))
        records = (self.tasks[task] for task in self._submitted[op.cursor : stop])
        tasks = tuple(
            Unfinished(record.spec.id, record.missing())
            for record in records
            if record.state not in FINAL
        )
        return Page(self.index, tasks, stop if stop < len(self._submitted) else -1)

    def _recounted(self, op: Recounted, now: float) -> Answer:
        self.recounted_epoch = max(self.recounted_epoch, op.epoch)
        due = self.epoch > self.recounted_epoch
        return Findings(self.index, (), (), (), self.epoch, due)
