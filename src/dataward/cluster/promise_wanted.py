"""What a submitter asks of the cluster for a deadline, and how sure the answer is.

Run times are known with a spread: of futures that are drawn, each task is reserved for what it
takes in nine of ten. How often the whole would end in time, where it was promised, is told too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

import msgspec
import numpy as np
from numpy.typing import NDArray

from dataward.cluster.description import PlacedFile, PromisedTask, RunPromises
from dataward.cluster.exchange import PlacedPromise, PromiseAnswer, PromiseAsked, ReadBytes
from dataward.cluster.visitor import Visitor
from dataward.deadlines.admission import (
    SURE,
    SURE_MAX,
    WantedPromise,
    futures_of,
    unknown_types,
)
from dataward.deadlines.core_plan import CorePlan, OpenWork, PlannedSlot
from dataward.deadlines.local_schedule import TimeHole
from dataward.errors import DatawardError, SettingError
from dataward.model.deadline import WantedDeadline, rounded_up
from dataward.model.ids import NodeId
from dataward.model.members import RunPromise
from dataward.model.quantities import show_seconds
from dataward.model.remaining import before_the_run
from dataward.model.workflow import Workflow
from dataward.plan.adage import Plan
from dataward.plan.estimates import Estimated

# A task takes its slot for so much longer than it runs: inputs are linked, a process is started,
# outputs are hashed and committed.
OVERHEAD_SECONDS = 0.25


class DeadlineRefusedError(DatawardError):
    """The cluster does not promise a run by its deadline, and nothing was submitted.

    ``earliest_seconds`` is within how many seconds it could promise the run, infinite if nobody
    knows; ``unknown`` are types of tasks whose run times nobody knows.
    """

    def __init__(
        self, wanted: WantedDeadline, earliest_seconds: float = inf, unknown: Sequence[str] = ()
    ) -> None:
        self.wanted = wanted
        self.earliest_seconds = earliest_seconds
        self.unknown = tuple(unknown)
        super().__init__(f"the deadline is refused: {self._why()}")

    def _why(self) -> str:
        if self.unknown:
            return (
                f"nothing is known of how long {self.unknown[0]!r} takes; run it once without, "
                "or give run times in the workflow"
            )
        if self.earliest_seconds == inf:
            return "no later one was found that could be promised"
        seconds = rounded_up(self.earliest_seconds)
        return f"{show_seconds(seconds)} from now is the earliest that could be promised"


@dataclass(frozen=True, slots=True, eq=False)
class ReservedWorkflow:
    """A workflow with what is to be reserved for each task, and futures: rows of run times."""

    workflow: Workflow
    work: OpenWork
    seconds: Sequence[float]
    futures: NDArray[np.float64]
    is_exact: bool

    def asked(self, within_seconds: float, placed: Sequence[PlacedFile]) -> PromiseAsked:
        parents = tuple(tuple(row) for row in self.work.parents)
        reads = reads_of(self.workflow, placed)
        return PromiseAsked(tuple(self.seconds), parents, within_seconds, reads)

    def sure(self, answer: PromiseAnswer) -> float:
        """How often the workflow ends by its deadline, in the futures, as it was promised."""
        slots = sorted({(one.node, one.slot) for one in answer.tasks})
        number = {slot: place for place, slot in enumerate(slots)}
        whole = TimeHole(answer.now, inf)
        planned = [
            PlannedSlot(
                (number[one.node, one.slot],), one.deadline - one.seconds, one.seconds, whole
            )
            for one in answer.tasks
        ]
        speeds = [
            max(reserved / one.seconds, 1e-9) if one.seconds else 1.0
            for reserved, one in zip(self.seconds, answer.tasks, strict=True)
        ]
        order = sorted(range(len(planned)), key=lambda task: (planned[task].end, task))
        extra = [0.0] * len(planned)
        plan = CorePlan(self.work, planned, extra, speeds, order, answer.now)
        kept = float((plan.ends_if(self.futures) <= answer.deadline).mean())
        return kept if self.is_exact else min(kept, SURE_MAX)


async def promise_for(
    visitor: Visitor, known: Estimated, placed: Sequence[PlacedFile], wanted: WantedDeadline
) -> tuple[PromiseAnswer | None, RunPromise]:
    """What the cluster promises for a workflow.

    Raises DeadlineRefusedError if that is nothing, unless best effort will do.
    """
    if (known.workflow.cores > 1).any():
        raise SettingError("a cluster promises only tasks of one core each, so far")
    now = (await visitor.cluster()).now
    left = (wanted.at - datetime.now(wanted.at.tzinfo)).total_seconds()
    effort = RunPromise(now + left, 0.0, broken="it was not promised")
    reserved = reserved_workflow(known)
    if isinstance(reserved, tuple):
        if wanted.best_effort:
            return None, effort
        raise DeadlineRefusedError(wanted, unknown=reserved)
    if left <= 0:
        raise DeadlineRefusedError(wanted)
    answer = await visitor.promise(reserved.asked(left, placed))
    if not answer.tasks:
        if wanted.best_effort:
            return None, msgspec.structs.replace(effort, finish=answer.earliest)
        seconds = answer.earliest - answer.now if answer.earliest else inf
        raise DeadlineRefusedError(wanted, seconds)
    finish = max(one.deadline for one in answer.tasks)
    return answer, RunPromise(answer.deadline, finish, reserved.sure(answer))


def reserved_workflow(known: Estimated) -> ReservedWorkflow | tuple[str, ...]:
    """What to ask for, or the types of tasks whose run times nobody knows."""
    workflow = known.workflow
    wanted = WantedPromise(known, before_the_run(workflow), OVERHEAD_SECONDS)
    unknown = unknown_types(wanted)
    if unknown:
        return unknown
    work = wanted.work()
    futures, is_exact = futures_of(wanted, work)
    seconds = np.quantile(futures, SURE, axis=0, method="higher").tolist()
    return ReservedWorkflow(workflow, work, seconds, futures, is_exact)


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


def promises_of(
    number: int, workflow: Workflow, promised: Mapping[int, PlacedPromise]
) -> RunPromises:
    """The promises as the cluster keeps them."""
    return RunPromises(
        number,
        tuple(
            PromisedTask(workflow.task_ids[task], one.node, one.slot, one.deadline, one.seconds)
            for task, one in promised.items()
        ),
    )
