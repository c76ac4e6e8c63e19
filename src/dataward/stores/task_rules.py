"""A shard's rules about tasks: from submission to commit, and everything that can go wrong.

How a task is taken away from a dead node is left to ``patrol_rules``.
"""

from collections import OrderedDict

import msgspec

from dataward.model.answers import (
    Answer,
    Begun,
    Committed,
    Failing,
    Page,
    Refusal,
    Refused,
    Standing,
    Unfinished,
)
from dataward.model.estimate import GUESS
from dataward.model.ids import NOBODY, AttemptId, NodeId, incarnation_of
from dataward.model.operations import (
    AddCopies,
    Advance,
    Begin,
    Commit,
    Copy,
    Delivered,
    DropCopies,
    Fail,
    Forget,
    Look,
    Notify,
    Postpone,
    Recount,
    Release,
    Remove,
    Reopen,
    Replicate,
    Submit,
)
from dataward.model.states import FINAL, IN_VAIN, PROGRESS, TaskState
from dataward.model.workflow import FileId, TaskId
from dataward.stores.outboxes import Outboxes
from dataward.stores.task_record import AttemptRecord, StateCounts, TaskRecord

TRIM_TASKS = 1000  # this many names of forgotten tasks may stay listed


class TaskRules:
    """The tasks and workflow inputs of a shard."""

    def __init__(self) -> None:
        self.epoch = 0  # grows when acknowledged writes are lost
        self.restored = 0  # tasks that were lost, and have been submitted again
        self.counts: StateCounts = dict.fromkeys(TaskState, 0)
        self.tasks: dict[TaskId, TaskRecord] = {}
        self.inputs: dict[str, dict[FileId, dict[NodeId, None]]] = {}
        self._submitted: list[TaskId] = []  # in order, without the first `_forgotten` ones
        self._forgotten = 0
        self.outboxes = Outboxes()
        # Attempts with the time they were last given to a patrol (at first: begun), oldest first.
        # Ended attempts may still be listed; a patrol skips them.
        self._begun: OrderedDict[AttemptId, tuple[TaskId, float]] = OrderedDict()

    @property
    def complete(self) -> int:
        return self.counts[TaskState.COMPLETE]

    @property
    def failed(self) -> int:
        return self.counts[TaskState.FAILED]

    @property
    def removed(self) -> int:
        return self.counts[TaskState.REMOVED]

    @property
    def ended(self) -> int:
        """How many tasks have ended, in any way."""
        counts = self.counts
        return counts[TaskState.COMPLETE] + counts[TaskState.FAILED] + counts[TaskState.REMOVED]

    # --- tasks: from submission to commit --------------------------------------------------------

    def _submit(self, op: Submit, now: float) -> Answer:
        spec = op.spec
        record = self.tasks.get(spec.id)
        if record is None:
            record = TaskRecord(spec, waiting_for=len(spec.parents))
            record.history.append((now, TaskState.WAITING))
            self.tasks[spec.id] = record
            self._submitted.append(spec.id)
            self.restored += op.again
            self.counts[TaskState.WAITING] += 1
            record.settle(now, self.counts)
        return self._standing(record)

    def _begin(self, op: Begin, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return Refused(op.task, Refusal.UNKNOWN, TaskState.WAITING)
        if op.attempt not in record.attempts:
            if record.state in FINAL:
                return Refused(op.task, Refusal.FINISHED, record.state)
            if record.waiting_for:
                return Refused(op.task, Refusal.WAITING, record.state)
            if why := record.why_void(op.node, op.attempt):
                return Refused(op.task, why, record.state)
            incarnation = incarnation_of(op.attempt)
            if record.attempts:
                self._forget_past_incarnations(record, op.node, incarnation)
                if any(attempt.node == op.node for attempt in record.attempts.values()):
                    return Refused(op.task, Refusal.UNDER_WAY_HERE, record.state)
                if len(record.attempts) > record.spec.backups_max:
                    return Refused(op.task, Refusal.ENOUGH_REPLICAS, record.state)
            record.attempts[op.attempt] = AttemptRecord(op.node, incarnation, TaskState.STAGE_IN)
            record.hold(op.node)
            record.settle(now, self.counts)
            self._begun.pop(op.attempt, None)  # so that it goes to the end: oldest first
            self._begun[op.attempt] = (op.task, now)
            self.outboxes.empty(op.task)  # the node that begins it took it from a queue
        return Begun(
            spec=record.spec,
            generation=record.generation + 1,
            copies=tuple(record.input_copies.values()),
            parents=dict(record.notices),
        )

    def _forget_past_incarnations(self, record: TaskRecord, node: NodeId, incarnation: int) -> None:
        """End attempts of the node's earlier incarnations: those no longer run."""
        if any(a.node == node and a.incarnation < incarnation for a in record.attempts.values()):
            record.fence(node, incarnation - 1)

    def _advance(self, op: Advance, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        attempt = record.attempts.get(op.attempt)
        if attempt and PROGRESS.get(op.state, 0) > PROGRESS[attempt.state]:
            attempt.state = op.state
            record.settle(min(op.at, now), self.counts)
        return self._standing(record)

    def _commit(self, op: Commit, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return Refused(op.task, Refusal.UNKNOWN, TaskState.WAITING)
        if record.winner != op.attempt:
            if record.state in FINAL:
                return Refused(op.task, Refusal.FINISHED, record.state)
            if why := record.why_void(op.node, op.attempt):
                return Refused(op.task, why, record.state)
            if op.generation <= record.generation:
                return Refused(op.task, Refusal.OUTDATED, record.state)
            self._complete(record, op, now)
        return Committed(
            task=op.task,
            generation=record.generation,
            children=record.spec.children,
            copies=record.known_copies(),
            rivals=tuple(node for node in record.holders if node != op.node),
        )

    def _complete(self, record: TaskRecord, op: Commit, now: float) -> None:
        """The only place where a task becomes complete. `_reopen` takes it back.

        A store on a disk answers the `Commit` only once this is on the disk.
        """
        record.attempts.setdefault(
            op.attempt, AttemptRecord(op.node, incarnation_of(op.attempt), TaskState.STAGE_IN)
        )
        self._catch_up(record, op, now)
        record.attempts[op.attempt].state = TaskState.STAGE_OUT
        record.settle(now, self.counts)
        record.hear_of_all_parents()  # it ran, so they had finished, even if that was forgotten
        record.move(TaskState.COMPLETE, now, self.counts)
        # Never a number given before, not even one the shard forgot: children may require more.
        record.generation = max(record.generation, self.epoch << 20) + 1
        record.winner = op.attempt
        self._begun.pop(op.attempt, None)
        record.attempts.clear()
        record.forget_contents_of_inputs()
        record.written = {output.id: output for output in op.outputs}
        record.was_recalled = op.recalled
        record.copies = {
            output.id: {} if output.id in op.absent else {op.node: None}
            for output in record.spec.outputs
        }
        self._see_children_told(record, now)

    def _catch_up(self, record: TaskRecord, op: Commit | Fail, now: float) -> None:
        """Note the states that the attempt passed through and that no `Advance` reported."""
        attempt = record.attempts[op.attempt]
        for state, at in op.timeline:
            if PROGRESS.get(state, 0) > PROGRESS[attempt.state]:
                attempt.state = state
                record.settle(min(at, now), self.counts)

    def _fail(self, op: Fail, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return Refused(op.task, Refusal.UNKNOWN, TaskState.WAITING)
        if op.attempt not in record.failures:
            if record.state in FINAL:
                return Refused(op.task, Refusal.FINISHED, record.state)
            if op.attempt not in record.attempts:
                return Refused(op.task, Refusal.FENCED, record.state)
            self._catch_up(record, op, now)
            record.end(op.attempt)
            final = len(record.failures) >= record.spec.retries
            record.failures[op.attempt] = final
            if final:
                record.failed_parent = None
                self._end_in_vain(record, TaskState.FAILED, now)
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

    def _end_in_vain(self, record: TaskRecord, end: TaskState, now: float) -> None:
        """The only place where a task fails or is removed, which nothing takes back."""
        record.move(end, now, self.counts)
        # Otherwise a late `Delivered` for the previous end would clear this outbox.
        record.generation += 1
        record.attempts.clear()
        record.forget_contents_of_inputs()
        self.outboxes.fill(record.spec.id, now)

    def _remove(self, op: Remove, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        self._remove_unless_final(record, now)
        return self._standing(record, granted=record.state is TaskState.REMOVED)

    def _remove_unless_final(self, record: TaskRecord, now: float) -> None:
        if record.state in FINAL:
            return
        if record.state is not TaskState.WAITING:
            record.hold(record.spec.preferred)  # where the task waits, unless a rule sent it away
        self._end_in_vain(record, TaskState.REMOVED, now)

    def _settle(self, record: TaskRecord, now: float) -> None:
        """Recompute the state from the remaining attempts.

        A task that would have to wait though a parent has failed, fails. So it is removed if a
        parent was.
        """
        record.settle(now, self.counts)
        if record.state is TaskState.WAITING:
            self.outboxes.empty(record.spec.id)  # whoever sends the last notice will queue the task
            if record.failed_parent:
                self._end_in_vain(record, TaskState.FAILED, now)
            elif record.removed_parent:
                self._end_in_vain(record, TaskState.REMOVED, now)

    def _see_children_told(self, record: TaskRecord, now: float) -> None:
        """Put a task that has ended in the outbox, unless there is no child to be told of it."""
        if record.spec.children:
            self.outboxes.fill(record.spec.id, now)
        else:
            self.outboxes.empty(record.spec.id)

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
        """Put a task that is ready again in the outbox, until some node says it is in a queue."""
        if record.state is TaskState.READY and record.spec.id not in self.outboxes:
            record.placement += 1
            self.outboxes.fill(record.spec.id, now)

    # --- tasks: telling children -----------------------------------------------------------------

    def _notify(self, op: Notify, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        if op.failed:
            return self._heed_failure(record, op, now)
        if op.removed:
            return self._heed_removal(record, op, now)
        known = record.notices.get(op.parent, 0)
        if op.generation >= known:
            for copy in op.copies:
                is_over = record.state in FINAL
                record.input_copies[copy.file] = Copy(copy.file, copy.node) if is_over else copy
        if op.generation > known:
            record.notices[op.parent] = op.generation
            if known < record.required.get(op.parent, 1) <= op.generation:
                record.waiting_for -= 1
                assert record.waiting_for >= 0, f"{op.task} was told by {op.parent}, no parent"
            record.settle(now, self.counts)
        return self._standing(record)

    def _heed_failure(self, record: TaskRecord, op: Notify, now: float) -> Answer:
        """Fail with the parent, unless an attempt is under way: that one may yet succeed."""
        if record.state not in IN_VAIN:
            record.failed_parent = record.failed_parent or op.parent
        if record.state in (TaskState.WAITING, TaskState.READY):
            self._end_in_vain(record, TaskState.FAILED, now)
        failed = record.state is TaskState.FAILED
        return self._standing(record, granted=failed and record.failed_parent == op.parent)

    def _heed_removal(self, record: TaskRecord, op: Notify, now: float) -> Answer:
        """Be removed with the parent, unless the task is complete: then if it has to wait again."""
        if record.state not in IN_VAIN:
            record.removed_parent = record.removed_parent or op.parent
        self._remove_unless_final(record, now)
        removed = record.state is TaskState.REMOVED
        return self._standing(record, granted=removed and record.removed_parent == op.parent)

    def _delivered(self, op: Delivered, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        expected = 0 if record.state in FINAL else record.placement
        if record.generation == op.generation and op.placement == expected:
            self.outboxes.empty(op.task)
        return self._standing(record)

    def _forget(self, op: Forget, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        if record.state not in FINAL:
            return self._standing(record)
        del self.tasks[op.task]
        self.counts[record.state] -= 1
        self.outboxes.empty(op.task)
        self._trim_submitted()
        return self._unknown(op.task)

    def _trim_submitted(self) -> None:
        """Drop forgotten names from the front of the list, many at once.

        That is enough: tasks are forgotten in about the order they were submitted in.
        """
        if len(self._submitted) > 2 * len(self.tasks) + TRIM_TASKS:
            gone = 0
            while gone < len(self._submitted) and self._submitted[gone] not in self.tasks:
                gone += 1
            del self._submitted[:gone]
            self._forgotten += gone

    # --- tasks: replicas, lost data --------------------------------------------------------------

    def _replicate(self, op: Replicate, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        if op.spare:
            nodes = [attempt.node for attempt in record.attempts.values()]
            may_have = len(nodes) == 1 and op.node not in nodes and record.spec.backups_max > 0
        else:
            may_have = op.node not in record.holders and record.backups < record.spec.backups_max
        granted = may_have and record.state not in FINAL
        if granted:
            record.hold(op.source)
            record.hold(op.node)
            record.backups += not op.spare
        return self._standing(record, granted=granted)

    def _reopen(self, op: Reopen, now: float) -> Answer:
        record = self.tasks.get(op.task)
        if record is None:
            return self._unknown(op.task)
        is_it = 0 < op.generation == record.generation and record.state not in IN_VAIN
        if is_it and record.state is TaskState.COMPLETE:
            record.winner = NOBODY
            record.copies.clear()
            record.holders.clear()
            record.backups = 0
            self.outboxes.empty(op.task)
            record.move(TaskState.READY, now, self.counts)
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
        failed = record.state is TaskState.FAILED and record.failed_parent is not None
        removed = record.state is TaskState.REMOVED and record.removed_parent is not None
        return self._standing(record, granted=failed or removed)

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
        if record is None and not any(copies.values()):
            self.inputs.pop(op.task, None)
        return self._about(op.task, files=False)

    def _look(self, op: Look, now: float) -> Answer:
        answer = self._about(op.task, files=True)
        record = self.tasks.get(op.task) if op.children else None
        return (
            answer
            if record is None
            else msgspec.structs.replace(answer, children=record.spec.children)
        )

    def _about(self, owner: TaskId, *, files: bool) -> Standing:
        """The standing of a task or a workflow's input.

        Places of files are left out unless asked for: a popular file is at every node.
        """
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
        spec, state = record.spec, record.state
        is_known = spec.estimated_seconds > 0
        return Standing(  # by position: one is made for most operations, and names take time
            spec.id,
            state,
            record.generation,
            spec.preferred,
            spec.priority,
            spec.estimated_seconds if is_known else GUESS.seconds,
            spec.estimated_spread if is_known else GUESS.spread,
            spec.type,
            granted,
            record.backups < spec.backups_max,
            len(record.attempts),
            record.placement,
            spec.children if state in IN_VAIN else (),
            tuple(record.holders) if state is TaskState.REMOVED else (),
            record.known_copies() if files else (),
            spec.inputs if files else (),
            tuple(record.input_copies.values()) if files else (),
        )

    def _loose_ends_of_tasks(self) -> dict[str, int]:
        return {
            "full outboxes": len(self.outboxes),
            "attempts to ask after": len(self._begun),
            "attempts of tasks": sum(len(record.attempts) for record in self.tasks.values()),
            "names of forgotten tasks": max(
                len(self._submitted) - 2 * len(self.tasks) - TRIM_TASKS, 0
            ),
        }

    def _recount(self, op: Recount, now: float) -> Answer:
        """The unfinished tasks of one page. A page may be short: only the cursor -1 is the end."""
        end = self._forgotten + len(self._submitted)
        start = max(op.cursor, self._forgotten)
        stop = min(start + op.limit, end)
        page = self._submitted[start - self._forgotten : stop - self._forgotten]
        records = (self.tasks.get(task) for task in page)
        tasks = tuple(
            Unfinished(record.spec.id, record.missing())
            for record in records
            if record is not None and record.state not in FINAL
        )
        return Page(op.shard, tasks, stop if stop < end else -1)
