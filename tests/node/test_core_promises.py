from collections.abc import Mapping, Sequence
from math import inf

from hypothesis import example, given
from hypothesis import strategies as st

from builders import workflows
from dataward.deadlines.core_plan import core_plan, open_work
from dataward.deadlines.promising import NodeSchedule
from dataward.model.builder import WorkflowBuilder
from dataward.model.ids import NodeId
from dataward.model.messages import PromisedSlot
from dataward.model.operations import QueueEntry
from dataward.model.workflow import TaskId, Workflow
from dataward.node.core_promises import CorePromises, ReadyTasks
from dataward.world import CoresForUs, OurSlot, TheirSlot


def slot(task: str, deadline: float, seconds: float, core: int = 0) -> PromisedSlot:
    return PromisedSlot(TaskId(task), core, deadline, seconds)


def ready(**deadlines: float) -> ReadyTasks:
    return {
        TaskId(task): (QueueEntry(at, TaskId(task), False, 2.0), 1)
        for task, at in deadlines.items()
    }


def promises(*slots: PromisedSlot, cores: int = 1) -> CorePromises:
    found = CorePromises(cores)
    found.promise(slots)
    return found


def test_the_earliest_deadline_goes_first() -> None:
    made = promises(slot("late", 20, 2), slot("soon", 10, 2))

    assert made.choose(ready(late=20, soon=10), 0.0) == "soon"
    assert made.choose(ready(late=20), 0.0) is None  # the core is busy
    made.end(TaskId("soon"))
    assert made.choose(ready(late=20), 2.0) == "late"


def test_a_task_that_would_make_another_late_is_held_back() -> None:
    made = promises(slot("first", 10, 4), slot("second", 20, 7))

    assert made.choose(ready(second=20), 0.0) is None
    assert made.held_until == 6.0  # then the first can only be late
    assert made.choose(ready(second=20), 6.1) == "second"


def test_a_task_that_ends_before_another_must_start_may_overtake_it() -> None:
    made = promises(slot("first", 10, 4), slot("second", 20, 5))

    assert made.choose(ready(second=20), 0.0) == "second"


def test_a_task_that_nobody_promised_takes_an_idle_core() -> None:
    made = promises(slot("first", 10, 9))

    assert made.choose(ready(stray=5), 0.0) is None  # 2 s would make the first late
    assert promises().choose(ready(stray=5, other=3), 0.0) == "other"


def test_an_idle_core_takes_what_a_busy_core_has_promised() -> None:
    made = promises(slot("a", 5, 5), slot("b", 10, 5), slot("c", 30, 5, core=1), cores=2)

    assert made.choose(ready(a=5, b=10), 0.0) == "a"
    assert made.choose(ready(b=10), 0.0) == "b"
    made.end(TaskId("a"))
    assert made.choose(ready(c=30), 1.0) == "c"


def test_a_wide_task_waits_for_all_its_cores() -> None:
    made = promises(slot("one", 5, 5), slot("wide", 9, 2), slot("wide", 9, 2, core=1), cores=2)

    assert made.choose(ready(one=5, wide=9), 0.0) == "one"
    assert made.choose(ready(wide=9), 0.0) is None
    made.end(TaskId("one"))
    assert made.choose(ready(wide=9), 5.0) == "wide"
    assert made.choose(ready(stray=50), 5.0) is None


def test_a_wide_task_makes_nobody_late_on_any_of_its_cores() -> None:
    made = promises(slot("soon", 5, 4), slot("wide", 9, 4), slot("wide", 9, 4, core=1), cores=2)

    assert made.choose(ready(wide=9), 0.0) is None  # asked by core 1, which has nothing before it
    assert made.choose(ready(wide=9), 1.1) == "wide"


class Neighbours(CoresForUs):
    """One core, shared with somebody."""

    def __init__(self, *theirs: TheirSlot, is_taken: bool = False) -> None:
        self.theirs = theirs
        self.is_taken = is_taken
        self.wanted: Mapping[int, float] = {}

    @property
    def has_others(self) -> bool:
        return True

    def promised(self, core: int) -> Sequence[TheirSlot]:
        return self.theirs

    def take(self, core: int, until: float) -> bool:
        return not self.is_taken

    def tell(self, queues: Sequence[Sequence[OurSlot]], wanted: Mapping[int, float]) -> None:
        self.wanted = wanted


def shared(neighbours: Neighbours, *slots: PromisedSlot) -> CorePromises:
    made = CorePromises(1, neighbours)
    made.promise(slots)
    return made


def test_a_tighter_task_of_somebody_else_goes_first_if_it_is_ready() -> None:
    ours = slot("ours", 100, 5)
    waiting, absent = TheirSlot(10, 2, True), TheirSlot(10, 2, False)

    assert shared(Neighbours(waiting), ours).choose(ready(ours=100), 0.0) is None
    assert shared(Neighbours(absent), ours).choose(ready(ours=100), 0.0) == "ours"
    assert shared(Neighbours(absent), ours).choose(ready(ours=100), 4.0) is None


def test_what_waits_for_a_core_that_somebody_else_uses_is_told() -> None:
    neighbours = Neighbours(is_taken=True)

    made = shared(neighbours, slot("b", 20, 5), slot("a", 10, 5))

    assert made.choose(ready(a=10, b=20), 0.0) is None
    assert neighbours.wanted == {0: 10}


def run_as_promised(workflow: Workflow, cores: int, slack: float) -> tuple[float, float]:
    """The deadline, and when the last task ends if cores keep their promises."""
    work = open_work(workflow, [True] * len(workflow))
    schedules = [NodeSchedule(NodeId("n0"))] * cores
    plan = core_plan(work, schedules, workflow.runtime_seconds.tolist(), 0.0)
    deadline, ids = plan.finish + slack, workflow.task_ids
    queues = plan.queues(deadline)
    made = promises(
        *[
            slot(ids[q.task], q.deadline, q.seconds, core)
            for core, queue in queues.items()
            for q in queue
        ],
        cores=cores,
    )
    urgency = {q.task: q.deadline for queue in queues.values() for q in queue}
    waiting, running, ended, now = set(range(len(workflow))), {}, set(), 0.0
    while waiting or running:
        open_tasks = {
            ids[task]: (QueueEntry(urgency[task], ids[task], False, 1.0), 1)
            for task in sorted(waiting)
            if ended.issuperset(workflow.parents.row(task).tolist())
        }
        chosen = made.choose(open_tasks, now) if open_tasks else None
        if chosen is not None:
            task = workflow.index_of[chosen]
            waiting.discard(task)
            running[task] = now + float(workflow.runtime_seconds[task])
            continue
        held = made.held_until if open_tasks else inf
        now = min([*running.values(), max(held, now) + 1e-3])
        for task in [task for task, end in running.items() if end <= now]:
            del running[task]
            ended.add(task)
            made.end(ids[task])
    return deadline, now


def ties_beside_wide_tasks() -> Workflow:
    """Found by hypothesis: t1, on two cores, must start at once, and shares a core with t9."""
    workflow = WorkflowBuilder("ties")
    seconds, cores = [0, 0, 0.5, 0, 0, 0.25, 0, 0, 0, 0.25], [1, 2, 1, 1, 1, 1, 1, 1, 1, 2]
    after = {1: ["t0"], 2: ["t1"], 5: ["t0"]}
    for n, (length, width) in enumerate(zip(seconds, cores, strict=True)):
        workflow.task(f"t{n}", runtime_seconds=length, cores=width, after=after.get(n, []))
    return workflow.build()


@example(ties_beside_wide_tasks(), 3, 0.0)
@given(workflows(max_cores=2), st.integers(2, 3), st.sampled_from([0.0, 1.0, 30.0]))
def test_what_was_promised_is_kept_if_run_times_are_as_estimated(
    workflow: Workflow, cores: int, slack: float
) -> None:
    deadline, end = run_as_promised(workflow, cores, slack)

    assert end <= deadline + 1e-6
