"""What a submitter asks of the cluster for a deadline, and how sure the answer is.

Run times are known with a spread: each task is reserved for what it takes in nine futures of ten
(`deadlines/reserving.py`). How often the whole would end in time, where it was promised, is told
too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

import msgspec
import numpy as np

from dataward.cluster.description import PlacedFile, PromisedTask, RunPromises
from dataward.cluster.exchange import PlacedPromise, PromiseAnswer, PromiseAsked, ReadBytes
from dataward.cluster.visitor import Visitor
from dataward.deadlines.admission import (
    AcceptedDeadline,
    RefusedDeadline,
    WantedPromise,
    unknown_types,
)
from dataward.deadlines.promising import NodeSchedule
from dataward.deadlines.reserving import ReservedTimes, TaskPlace, reserved_times
from dataward.model.deadline import WantedDeadline
from dataward.model.ids import NodeId
from dataward.model.members import Member, RunPromise
from dataward.model.remaining import before_the_run
from dataward.model.workflow import Seconds, TaskId, Workflow
from dataward.plan.adage import Plan
from dataward.plan.estimates import Estimated
from dataward.runs.deadline_answer import DeadlineAnswer
from dataward.runs.known_times import DECLARED_SPREAD

# A task takes its slot for so much longer than it runs: inputs are linked, a process is started,
# outputs are hashed and committed.
OVERHEAD_SECONDS = 0.25
KNOWN_SECONDS = 5.0  # surely enough to submit a workflow again whose outcomes are known
LATE_SECONDS = 1e-3  # asked for when the deadline has come: refused, with the earliest finish


@dataclass(frozen=True, slots=True, eq=False)
class ReservedWorkflow:
    """A workflow, and what is to be reserved for each of its tasks."""

    workflow: Workflow
    times: ReservedTimes

    def asked(self, within_seconds: float, placed: Sequence[PlacedFile]) -> PromiseAsked:
        parents = tuple(tuple(row) for row in self.times.work.parents)
        reads, cores = reads_of(self.workflow, placed), tuple(self.workflow.cores.tolist())
        return PromiseAsked(tuple(self.times.seconds), parents, within_seconds, reads, cores)

    def path_seconds(self, members: Iterable[Member]) -> float:
        """The length of the critical path on the fastest host, in the middle of the futures."""
        hosts = [NodeSchedule(member.node, speed=member.speed) for member in members]
        return self.times.path_seconds(hosts)

    def ends(self, answer: PromiseAnswer) -> Seconds:
        """When the workflow ends in each future, as it was promised."""
        slots = sorted({(one.node, n) for one in answer.tasks for n in (one.slot, *one.beside)})
        number = {slot: place for place, slot in enumerate(slots)}
        placed = [
            TaskPlace(
                tuple(number[one.node, n] for n in (one.slot, *one.beside)),
                one.deadline,
                one.seconds,
            )
            for one in answer.tasks
        ]
        return self.times.ends(placed, answer.now)


@dataclass(frozen=True, slots=True)
class RunPromised:
    """What the cluster has promised for a run; no ``placed`` tasks if it runs by best effort."""

    promise: RunPromise
    answer: DeadlineAnswer
    placed: PromiseAnswer | None = None


async def promise_for(
    visitor: Visitor, known: Estimated, placed: Sequence[PlacedFile], wanted: WantedDeadline
) -> RunPromised:
    """What the cluster promises for a workflow.

    Raises DeadlineRefusedError if that is nothing, unless best effort will do.
    """
    now = (await visitor.cluster()).now
    left = (wanted.at - datetime.now(wanted.at.tzinfo)).total_seconds()
    reserved = reserved_workflow(known)
    if isinstance(reserved, tuple):
        return _refused(wanted, RefusedDeadline(unknown=reserved), RunPromise(now + left, 0.0))
    within = max(left, LATE_SECONDS)
    given = await visitor.promise(reserved.asked(within, placed))
    deadline = given.deadline + left - within
    passed = given.now - (deadline - wanted.seconds)  # since the deadline was asked for
    if not given.tasks:
        earliest = passed + given.earliest - given.now if given.earliest else inf
        effort = RunPromise(deadline, given.earliest)
        path = reserved.path_seconds(visitor.members.values())
        return _refused(wanted, RefusedDeadline(earliest, path if left < path else 0.0), effort)
    finish = max(one.deadline for one in given.tasks)
    ends = reserved.ends(given)
    promise = RunPromise(
        given.deadline,
        finish,
        reserved.times.sure(ends, given.deadline),
        float(np.median(ends)),
    )
    found = AcceptedDeadline(
        {},
        passed + finish - given.now,
        passed + promise.expected - given.now,
        promise.sure,
    )
    tasks, declared = len(known.workflow), int((known.spread >= DECLARED_SPREAD).sum())
    return RunPromised(promise, DeadlineAnswer(wanted, found, tasks, declared), given)


def answer_if_known(wanted: WantedDeadline) -> DeadlineAnswer:
    """The answer for a workflow of which nothing has to run.

    Raises DeadlineRefusedError if the deadline has come, unless best effort will do.
    """
    passed = (datetime.now(wanted.asked.tzinfo) - wanted.asked).total_seconds()
    if passed < wanted.seconds:
        found = AcceptedDeadline({}, wanted.seconds, passed, 1.0)
        return DeadlineAnswer(wanted, found)
    late = RefusedDeadline(passed + KNOWN_SECONDS)
    return _refused(wanted, late, RunPromise(0.0, 0.0)).answer


def _refused(wanted: WantedDeadline, found: RefusedDeadline, effort: RunPromise) -> RunPromised:
    answer = DeadlineAnswer(wanted, found)
    if not wanted.best_effort:
        raise answer.error()
    return RunPromised(msgspec.structs.replace(effort, broken="nobody promises it"), answer)


def reserved_workflow(known: Estimated) -> ReservedWorkflow | tuple[str, ...]:
    """What to ask for, or the types of tasks whose run times nobody knows."""
    workflow = known.workflow
    wanted = WantedPromise(known, before_the_run(workflow), OVERHEAD_SECONDS)
    unknown = unknown_types(wanted)
    if unknown:
        return unknown
    return ReservedWorkflow(workflow, reserved_times(wanted))


def reads_of(workflow: Workflow, placed: Sequence[PlacedFile]) -> dict[int, ReadBytes]:
    """What each task reads: inputs of the workflow, and who has them; and what its parents make."""
    known = {file.id: file for file in placed}
    sizes = workflow.size_bytes.tolist()
    found: dict[int, ReadBytes] = {}
    for task in range(len(workflow)):
        total, held, made = 0.0, dict[NodeId, float](), dict[int, float]()
        for index in workflow.inputs.row(task).tolist():
            makers = workflow.producers.row(index).tolist()
            file = known.get(workflow.file_ids[index])
            size = float(file.size_bytes if file is not None else sizes[index])
            if makers:
                made[makers[0]] = made.get(makers[0], 0.0) + size
                continue
            total += size
            for node in file.nodes if file is not None else ():
                held[node] = held.get(node, 0.0) + size
        if total or made:
            found[task] = ReadBytes(total, held, made)
    return found


def plan_of(answer: PromiseAnswer, nodes: Sequence[NodeId]) -> Plan:
    """Every task at the host that has promised it, the earliest deadline first."""
    number = {node: place for place, node in enumerate(nodes)}
    deadlines = np.array([one.deadline - answer.now for one in answer.tasks])
    preferred = np.array([number.get(one.node, 0) for one in answer.tasks], dtype=np.int32)
    return Plan(deadlines, preferred, float(deadlines.max(initial=0.0)))


def promised_task(id: TaskId, one: PlacedPromise) -> PromisedTask:
    return PromisedTask(id, one.node, one.slot, one.deadline, one.seconds, one.beside)


def promises_of(
    number: int, workflow: Workflow, promised: Mapping[int, PlacedPromise]
) -> RunPromises:
    """The promises as the cluster keeps them."""
    return RunPromises(
        number,
        tuple(promised_task(workflow.task_ids[task], one) for task, one in promised.items()),
    )
