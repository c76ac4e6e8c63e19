"""Any sequence of operations, in any order, doubled and out of date, against books kept apart."""

from collections import defaultdict
from copy import deepcopy
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from conformance.store_cases import a_task, entry, node_of
from dataward.model.answers import Begun, Committed, Findings, Standing, Tallied
from dataward.model.operations import (
    AddCopies,
    Advance,
    Begin,
    Claim,
    Commit,
    Copy,
    Delivered,
    DropCopies,
    Enqueue,
    Fail,
    Forget,
    Join,
    Leave,
    LetGo,
    Look,
    Notify,
    OutputFile,
    Patrol,
    Postpone,
    Probe,
    Recount,
    Recounted,
    Release,
    Remove,
    Renew,
    Reopen,
    Replicate,
    ReportLoad,
    Restate,
    Seize,
    Submit,
    TakeOver,
    Tally,
)
from dataward.model.states import ALLOWED, FINAL, IN_VAIN, TaskState
from dataward.stores import task_rules
from dataward.stores.patrol_rules import SUSPECTS_MAX
from dataward.stores.shard import Shard
from dataward.stores.task_record import incarnation_of
from dataward.stores.task_rules import TRIM_TASKS

# a -> (b, c) -> d -> e
SPECS = {
    spec.id: spec
    for spec in (
        a_task("a", children=["b", "c"], backups_max=0),
        a_task("b", parents=["a"], children=["d"], retries=1, backups_max=1),
        a_task("c", parents=["a"], children=["d"], retries=3, priority=0.5),
        a_task("d", parents=["b", "c"], children=["e"], seconds=0.25),
        a_task("e", parents=["d"], retries=1, seconds=1000.0),
    )
}
EDGES = [(child.id, parent) for child in SPECS.values() for parent in child.parents]
NODES = ["n0", "n1", "n2", "n3"]

tasks = st.sampled_from(list(SPECS))
edges = st.sampled_from(EDGES)
nodes = st.sampled_from(NODES)
lives = st.integers(1, 3)
generations = st.integers(0, 3)
attempts = st.builds("{}.{}.{}".format, nodes, lives, st.integers(1, 3))
states = st.sampled_from(TaskState)
times = st.floats(0, 500)
files = st.sampled_from([f"{task}.out" for task in SPECS])
sizes = st.integers(-1, 300)
digests = st.sampled_from(["", "d", "0123456789abcdef" * 4, "0123456789ABCDEF" * 4, "f" * 62])
copies = st.lists(st.builds(Copy, files, nodes, sizes, digests), max_size=2).map(tuple)
entries = st.lists(tasks.map(lambda t: entry(t, SPECS[t].priority, SPECS[t].estimated_seconds)))
few_entries = entries.map(lambda found: tuple(found[:3]))
timelines = st.lists(st.tuples(states, times), max_size=3).map(tuple)
stays = st.lists(st.tuples(tasks, st.integers(-1, 20)), max_size=3).map(tuple)

begins = st.builds(lambda t, a: Begin(t, a, node_of(a)), tasks, attempts)
outputs = st.lists(st.builds(OutputFile, files, sizes, digests), max_size=2).map(tuple)
commits = st.builds(
    lambda t, a, steps, g, *files: Commit(t, a, node_of(a), steps, g, *files),
    tasks,
    attempts,
    timelines,
    generations,
    outputs,
    st.booleans(),
    st.lists(files, max_size=1).map(tuple),
)
of_a_task = st.one_of(
    begins,
    begins,
    st.builds(Advance, tasks, attempts, states, times),
    commits,
    st.builds(Fail, tasks, attempts, st.just("an error")),
    st.builds(Release, tasks, attempts, st.booleans()),
    st.builds(lambda e, g, c: Notify(*e, g, False, c), edges, generations, copies),
    st.builds(lambda e, g: Notify(*e, g, True), edges, generations),
    st.builds(lambda e, g: Notify(*e, g, removed=True), edges, generations),
    st.builds(Remove, tasks),
    st.builds(Delivered, tasks, generations, st.integers(0, 3)),
    st.builds(Replicate, tasks, nodes, nodes),
    st.builds(TakeOver, tasks, nodes, st.integers(-1, 3)),
    st.builds(Reopen, tasks, generations),
    st.builds(lambda e, a, g: Postpone(e[0], a, e[1], g), edges, attempts, generations),
    st.builds(AddCopies, tasks, copies),
    st.builds(DropCopies, tasks, copies),
    st.builds(Look, tasks),
)
of_a_node = st.one_of(
    st.builds(Join, nodes, lives, st.sampled_from([5.0, 50.0])),
    st.builds(Renew, nodes, lives, st.floats(0, 9)),
    st.builds(Enqueue, nodes, few_entries),
    st.builds(Claim, nodes, lives, st.integers(1, 5), st.integers(0, 3), st.floats(0, 9)),
    st.builds(LetGo, nodes, lives, stays),
    st.builds(Restate, nodes, lives, few_entries),
    st.builds(Seize, nodes, lives),
    st.builds(Leave, nodes, lives),
    st.builds(ReportLoad, nodes, st.floats(0, 9)),
    st.builds(Probe, nodes),
)
of_the_shard = st.one_of(
    st.builds(
        Patrol, st.just(0), nodes, st.integers(0, 3), st.floats(0, 9), st.sampled_from([1.0, 99.0])
    ),
    st.builds(Recount, st.just(0), st.integers(0, 6), st.integers(1, 3)),
    st.builds(Recounted, st.just(0), st.integers(0, 1)),
    st.just(Tally(0)),
)


class Books:
    """What must follow from the operations alone, by rules as plain as they can be."""

    def __init__(self) -> None:
        self.heard: dict[tuple[str, str], int] = defaultdict(int)
        self.required: dict[tuple[str, str], int] = defaultdict(lambda: 1)
        self.fences: dict[tuple[str, str], int] = defaultdict(lambda: -1)
        self.commits: dict[tuple[str, int], str] = {}
        self.told: dict[str, int] = {}
        self.there: set[tuple[str, str]] = set()

    def on(self, op, answer, before: TaskState | None) -> None:
        """Note an operation, its answer, and the state its task was in before."""
        is_good_news = isinstance(op, Notify) and not (op.failed or op.removed)
        if is_good_news and before is not None:
            edge = (op.task, op.parent)
            self.heard[edge] = max(self.heard[edge], op.generation)
        elif isinstance(op, Postpone) and before is not None and before not in FINAL:
            edge = (op.task, op.parent)
            self.required[edge] = max(self.required[edge], op.generation + 1)
        elif isinstance(op, TakeOver) and before is not None:
            fence = (op.task, op.node)
            self.fences[fence] = max(self.fences[fence], op.incarnation)
        elif isinstance(op, Delivered) and before in FINAL and not op.placement:
            if op.generation == answer.generation:
                self.told[op.task] = op.generation
        elif isinstance(op, Enqueue):
            self.there.update((op.node, queued.task) for queued in op.entries)
        elif isinstance(op, LetGo):
            self.there.difference_update((op.node, task) for task, _ in op.tasks)
        elif isinstance(answer, Committed):
            self._on_commit(op, answer, before)

    def _on_commit(self, op: Commit, answer: Committed, before: TaskState | None) -> None:
        winner = self.commits.setdefault((op.task, answer.generation), op.attempt)
        assert winner == op.attempt, "committed twice"
        if before not in FINAL:
            assert incarnation_of(op.attempt) > self.fences[op.task, op.node], "fenced"
            self.told.pop(op.task, None)
            for parent in self.missing(op.task):
                self.heard[op.task, parent] = max(self.heard[op.task, parent], 1)
                self.required.pop((op.task, parent), None)

    def missing(self, task: str) -> list[str]:
        return [
            parent
            for parent in SPECS[task].parents
            if self.heard[task, parent] < self.required[task, parent]
        ]


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = Shard(0)
        self.now = 0.0
        self.books = Books()
        self.past = []
        self.ends: dict[str, TaskState] = {}
        self.generations: dict[str, int] = {}

    def apply(self, op):
        """Once, and again as one whose answer was lost would."""
        record = self.shard.tasks.get(getattr(op, "task", ""))
        before = record.state if record else None
        answer = self.shard.apply(op, self.now)
        self.books.on(op, answer, before)
        self._compare(op, answer, self.shard.apply(op, self.now))
        self.past.append(op)
        return answer

    def _compare(self, op, answer, again) -> None:
        if isinstance(op, Replicate):
            # Asked again it is refused: a replica lost with an answer is no harm.
            answer, again = (self._ungranted(a) for a in (answer, again))
        if not isinstance(op, Patrol):
            assert answer == again

    def _ungranted(self, answer: Standing) -> Standing:
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        return Standing(**(fields | {"granted": False}))

    # --- what may happen -------------------------------------------------------------------------

    @rule(op=of_a_task)
    def something_of_a_task(self, op):
        self.apply(op)

    @rule(op=of_a_node)
    def something_of_a_node(self, op):
        self.apply(op)

    @rule(op=of_the_shard)
    def something_of_the_shard(self, op):
        self.apply(op)

    @rule(task=tasks)
    def submit(self, task):
        self.apply(Submit(SPECS[task]))

    @rule(seconds=st.sampled_from([0.5, 4.0, 6.0, 60.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(choice=st.integers(0, 10**6))
    def something_comes_again(self, choice):
        if self.past:
            self.apply(self.past[choice % len(self.past)])

    @rule(task=tasks, node=nodes, life=lives)
    def a_run_that_goes_well(self, task, node, life):
        """Often enough that tasks far down the graph get their turn."""
        self.apply(Submit(SPECS[task]))
        for parent in SPECS[task].parents:
            record = self.shard.tasks.get(parent)
            if record is not None and record.state is TaskState.COMPLETE:
                self.apply(Notify(task, parent, record.generation))
        attempt = f"{node}.{life}.{len(self.past) + 10}"
        begun = self.apply(Begin(task, attempt, node))
        if isinstance(begun, Begun):
            self.apply(Commit(task, attempt, node, (), begun.generation))

    @rule(node=nodes)
    def a_patrol_that_is_heeded(self, node):
        found = self.apply(Patrol(0, node, 2, 5.0, 99.0))
        assert isinstance(found, Findings)
        for orphans in found.orphans:
            assert self.now > self.shard.nodes[orphans.node].lease_until
            dropped = tuple(
                (queued.task, ticket)
                for queued, ticket in zip(orphans.entries, orphans.tickets, strict=True)
            )
            for queued in orphans.entries:
                self.apply(TakeOver(queued.task, orphans.node, orphans.incarnation))
            self.apply(LetGo(orphans.node, orphans.incarnation, dropped))

    # --- what must then be true ------------------------------------------------------------------

    @invariant()
    def a_task_waits_for_the_parents_it_has_not_heard_of(self):
        for task, record in self.shard.tasks.items():
            missing = self.books.missing(task)
            assert list(record.missing()) == missing
            assert record.waiting_for == len(missing)
            if record.state in (TaskState.WAITING, TaskState.READY):
                assert record.state is (TaskState.WAITING if missing else TaskState.READY)
                assert not record.attempts

    @invariant()
    def attempts_are_few_and_none_is_fenced(self):
        for task, record in self.shard.tasks.items():
            assert len(record.attempts) <= record.spec.backups_max + 1
            assert record.backups <= record.spec.backups_max
            at = [attempt.node for attempt in record.attempts.values()]
            assert len(at) == len(set(at))
            assert set(at) <= set(record.holders)
            for attempt in record.attempts.values():
                assert attempt.incarnation > self.books.fences[task, attempt.node]

    @invariant()
    def history_is_allowed_and_does_not_go_back(self):
        for record in self.shard.tasks.values():
            when, what = zip(*record.history, strict=True)
            assert what[0] is TaskState.WAITING
            assert what[-1] is record.state
            assert list(when) == sorted(when)
            assert when[-1] <= self.now
            assert all(b in ALLOWED[a] for a, b in pairwise(what))

    @invariant()
    def tasks_are_counted_by_state_and_a_failure_or_removal_is_for_good(self):
        found = [record.state for record in self.shard.tasks.values()]
        counts = {state: found.count(state) for state in TaskState}
        assert self.shard.apply(Tally(0), 0.0) == Tallied(0, counts, self.shard.epoch)
        for task, record in self.shard.tasks.items():
            assert record.generation >= self.generations.get(task, 0)
            self.generations[task] = record.generation
            if task in self.ends:
                assert record.state is self.ends[task]
            elif record.state in IN_VAIN:
                self.ends[task] = record.state
                self.books.told.pop(task, None)

    @invariant()
    def an_end_that_was_not_told_is_in_an_outbox(self):
        for task, record in self.shard.tasks.items():
            if record.state in FINAL and self.books.told.get(task) != record.generation:
                is_told = record.state is TaskState.COMPLETE and not record.spec.children
                assert (task in self.shard.outboxes) is not is_told
        both = self.shard.outboxes.full.keys() & self.shard.outboxes.given.keys()
        assert not both

    @invariant()
    def queues_add_up(self):
        for node in self.shard.nodes.values():
            assert not node.queued.keys() & node.held.keys()
            assert node.again.keys() <= node.held.keys()
            seconds = sum(stay.entry.seconds for stay in node.queued.values())
            assert node.queued_seconds == pytest.approx(seconds, abs=1e-6)
            assert len(node._heap) <= 2 * len(node.queued) + 65

    @invariant()
    def what_was_queued_stays_until_it_is_let_go(self):
        for node, task in self.books.there:
            record = self.shard.nodes[node]
            assert task in record.queued or task in record.held

    @invariant()
    def whoever_has_tasks_is_looked_after(self):
        for id, node in self.shard.nodes.items():
            if node.held or node.queued:
                due = self.shard._lease_listed[id]
                assert due <= max(node.lease_until, node.patrolled_until)
                assert (due, id) in self.shard._leases


AnyOrder.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestAnyOrder = AnyOrder.TestCase


# --- what only the records show ----------------------------------------------------------------


def a_shard(*specs) -> Shard:
    shard = Shard(0)
    for spec in specs or [a_task("a")]:
        shard.apply(Submit(spec), 0.0)
    return shard


def test_history_has_every_step_and_when_it_was_taken():
    shard = a_shard()
    shard.apply(Begin("a", "n1.1.1", "n1"), 1.0)
    shard.apply(Advance("a", "n1.1.1", TaskState.RUNNING, 2.0), 9.0)
    steps = ((TaskState.STAGE_OUT, 7.0),)

    shard.apply(Commit("a", "n1.1.1", "n1", steps, 1), 10.0)

    assert shard.tasks["a"].history == [
        (0.0, TaskState.WAITING),
        (0.0, TaskState.READY),
        (1.0, TaskState.STAGE_IN),
        (2.0, TaskState.RUNNING),
        (7.0, TaskState.STAGE_OUT),
        (10.0, TaskState.COMPLETE),
    ]


def test_steps_that_were_never_reported_are_in_the_history_all_the_same():
    shard = a_shard()

    shard.apply(Commit("a", "n1.1.1", "n1", (), 1), 10.0)

    assert [state for _, state in shard.tasks["a"].history] == [
        TaskState.WAITING,
        TaskState.READY,
        TaskState.STAGE_IN,
        TaskState.RUNNING,
        TaskState.STAGE_OUT,
        TaskState.COMPLETE,
    ]


def test_a_failure_says_how_far_the_attempt_had_come():
    shard = a_shard(a_task("a"))
    shard.apply(Begin("a", "n1.1.1", "n1"), 1.0)

    shard.apply(Fail("a", "n1.1.1", "its own error", ((TaskState.RUNNING, 2.0),)), 9.0)

    assert shard.tasks["a"].history[-2:] == [(2.0, TaskState.RUNNING), (9.0, TaskState.FAILED)]


def test_steps_told_out_of_order_or_not_an_attempts_to_take_are_passed_over():
    shard = a_shard()
    shard.apply(Begin("a", "n1.1.1", "n1"), 1.0)
    told = (
        (TaskState.RUNNING, 2.0),
        (TaskState.COMPLETE, 3.0),
        (TaskState.STAGE_IN, 4.0),
        (TaskState.STAGE_OUT, 5.0),
        (TaskState.RUNNING, 6.0),
    )

    shard.apply(Commit("a", "n1.1.1", "n1", told, 1), 9.0)

    assert shard.tasks["a"].history[-3:] == [
        (2.0, TaskState.RUNNING),
        (5.0, TaskState.STAGE_OUT),
        (9.0, TaskState.COMPLETE),
    ]


@pytest.mark.parametrize(("said", "noted"), [(1.0, 5.0), (99.0, 6.0)], ids=["slow", "fast"])
def test_a_clock_that_is_off_does_not_put_history_out_of_order(said, noted):
    shard = a_shard()
    shard.apply(Begin("a", "n1.1.1", "n1"), 5.0)

    shard.apply(Advance("a", "n1.1.1", TaskState.RUNNING, said), 6.0)

    assert shard.tasks["a"].history[-1] == (noted, TaskState.RUNNING)


def test_a_reopened_task_is_not_counted_as_complete():
    shard = a_shard()
    shard.apply(Commit("a", "n1.1.1", "n1", (), 1), 1.0)
    counted = shard.complete

    shard.apply(Reopen("a", 1), 2.0)

    assert (counted, shard.complete) == (1, 0)


def test_tasks_that_failed_are_counted_also_those_that_failed_with_a_parent():
    shard = a_shard(a_task("a", children=["b"]), a_task("b", parents=["a"]), a_task("c"))
    counts = [shard.failed]
    for failure in (Fail("a", "n1.1.1", "its own error"), Notify("b", "a", 1, True)):
        shard.apply(Begin("a", "n1.1.1", "n1"), 1.0)
        shard.apply(failure, 2.0)
        shard.apply(failure, 3.0)
        counts.append(shard.failed)

    assert counts == [0, 1, 2]


def test_whatever_has_ended_in_any_way_is_counted_once():
    shard = a_shard(*(a_task(task) for task in "abcde"))
    ends = [
        Commit("a", "n1.1.1", "n1", (), 1),
        Fail("b", "n1.1.2", "its own error"),
        Remove("c"),
        Remove("d"),
    ]
    shard.apply(Begin("b", "n1.1.2", "n1"), 1.0)

    for end in (*ends, *ends):
        shard.apply(end, 2.0)

    assert (shard.complete, shard.failed, shard.removed) == (1, 1, 2)
    assert shard.ended == 4


def test_an_attempt_that_committed_is_no_longer_in_line_to_be_asked_after():
    shard = a_shard()
    shard.apply(Begin("a", "n1.1.1", "n1"), 0.0)

    shard.apply(Commit("a", "n1.1.1", "n1", (), 1), 1.0)

    assert not shard._begun


def test_a_patrol_asks_after_so_many_attempts_and_the_next_after_the_others():
    names = [f"t{i}" for i in range(SUSPECTS_MAX + 3)]
    shard = a_shard(*map(a_task, names))
    for name in names:
        shard.apply(Begin(name, f"n1.1.{name[1:]}", "n1"), 0.0)
    patrol = Patrol(0, "n1", 1000, 10.0, 50.0)

    asked = [[each.task for each in shard.apply(patrol, 50.0).suspects] for _ in range(3)]

    assert asked == [names[:SUSPECTS_MAX], names[SUSPECTS_MAX:], []]


def test_the_queue_of_a_dead_node_does_not_fill_up_with_what_was_taken_from_it():
    shard = Shard(0)
    for _ in range(1000):
        shard.apply(Enqueue("dead", (entry("a"),)), 0.0)
        shard.apply(LetGo("dead", -1, (("a", -1),)), 0.0)

    assert len(shard.nodes["dead"]._heap) < 100


def test_a_queue_does_not_fill_up_with_what_is_queued_again_and_again():
    shard = Shard(0)
    for _ in range(1000):
        shard.apply(Enqueue("n1", (entry("a"),)), 0.0)

    assert len(shard.nodes["n1"]._heap) < 100


def test_a_queue_that_is_let_go_of_is_empty():
    shard = Shard(0)
    names = [f"t{i}" for i in range(1000)]
    shard.apply(Enqueue("dead", tuple(map(entry, names))), 0.0)

    shard.apply(LetGo("dead", -1, tuple((name, -1) for name in names)), 0.0)

    assert len(shard.nodes["dead"]._heap) < 100


def test_tasks_are_claimed_by_urgency_after_outdated_entries_were_dropped():
    shard = Shard(0)
    shard.apply(Join("n1", 1, 50.0), 0.0)
    names = [f"t{i:02}" for i in range(50)]
    for round in range(10):
        entries = tuple(entry(name, float(-i)) for i, name in enumerate(names))
        shard.apply(Enqueue("n1", entries), float(round))

    claimed = shard.apply(Claim("n1", 1, 1, 100, 0.0), 10.0)

    assert [each.task for each in claimed.entries] == names[::-1]


def test_renewing_does_not_lengthen_the_list_of_leases():
    shard = Shard(0)
    for node in NODES:
        shard.apply(Join(node, 1, 50.0), 0.0)

    for second in range(1000):
        for node in NODES:
            shard.apply(Renew(node, 1, 0.0), float(second))

    assert len(shard._leases) == len(NODES)


def test_a_shard_that_lost_writes_asks_one_patrol_at_a_time_for_a_recount():
    shard = a_shard()
    shard.epoch = 1
    patrol = Patrol(0, "n1", 10, 10.0, 99.0)

    due = [shard.apply(patrol, at).recount_due for at in (0.0, 1.0, 10.0)]
    shard.apply(Recounted(0, 1), 10.0)

    assert due == [True, False, True]
    assert not shard.apply(patrol, 100.0).recount_due


def test_a_lost_task_that_is_submitted_again_after_a_recount_makes_another_one_due():
    shard = a_shard()
    shard.epoch = 1
    patrol = Patrol(0, "n1", 10, 10.0, 99.0)
    first = shard.apply(patrol, 0.0)
    shard.apply(Submit(a_task("lost"), again=True), 1.0)

    shard.apply(Recounted(0, first.epoch, first.restored), 2.0)
    second = shard.apply(patrol, 10.0)
    shard.apply(Recounted(0, second.epoch, second.restored), 11.0)

    assert second.recount_due
    assert not shard.apply(patrol, 100.0).recount_due


def test_a_task_that_was_not_lost_makes_no_recount_due():
    shard = a_shard()
    shard.apply(Submit(a_task("new")), 0.0)
    shard.apply(Submit(a_task("new"), again=True), 1.0)

    assert not shard.apply(Patrol(0, "n1", 10, 10.0, 99.0), 2.0).recount_due


def test_patrols_that_come_often_do_not_put_a_recount_off():
    shard = a_shard()
    shard.epoch = 1
    patrol = Patrol(0, "n1", 10, 10.0, 99.0)

    due = [shard.apply(patrol, at).recount_due for at in (0.0, 2.0, 4.0, 6.0)]

    assert due == [True, False, False, True]


def test_a_generation_given_after_a_loss_was_never_given_before():
    shard = a_shard()
    first = shard.apply(Commit("a", "n1.1.1", "n1", (), 1), 1.0)
    fresh = a_shard()
    fresh.epoch = 1

    second = fresh.apply(Commit("a", "n2.1.1", "n2", (), 1), 2.0)

    assert second.generation > first.generation


def test_a_ticket_given_after_a_loss_was_never_given_before():
    shard = Shard(0)
    shard.apply(Join("n1", 1, 50.0), 0.0)
    earlier = deepcopy(shard)
    shard.apply(Enqueue("n1", (entry("a"),)), 1.0)
    lost = shard.apply(Claim("n1", 1, 1, 10, 0.0), 1.0)
    earlier.epoch = 1

    earlier.apply(Enqueue("n1", (entry("a"),)), 2.0)
    given = earlier.apply(Claim("n1", 1, 2, 10, 0.0), 2.0)
    stated = earlier.apply(Restate("n1", 1, (entry("b"),)), 2.0)
    late = earlier.apply(LetGo("n1", 1, (("a", lost.tickets[0]), ("b", lost.tickets[0]))), 3.0)

    assert len({*lost.tickets, *given.tickets, *stated.tickets}) == 3
    assert late.queued == 1  # a, which the node did not state
    assert list(earlier.nodes["n1"].held) == ["b"]


def test_a_spec_is_kept_as_it_was_submitted():
    spec = a_task("a", retries=3)
    shard = a_shard(spec)

    begun = shard.apply(Begin("a", "n1.1.1", "n1"), 1.0)

    assert begun.spec == spec


# --- recounts, and what is forgotten -----------------------------------------------------------


def finish_and_forget(shard: Shard, task: str) -> None:
    shard.apply(Commit(task, "n1.1.1", "n1", (), 1), 1.0)
    assert shard.apply(Forget(task), 2.0).unknown


def pages(shard: Shard, limit: int) -> list[list[str]]:
    """What each page of one recount has, first to last."""
    found, cursor = [], 0
    while cursor != -1:
        page = shard.apply(Recount(0, cursor, limit), 3.0)
        found.append([each.task for each in page.tasks])
        assert page.cursor == -1 or page.cursor > cursor
        cursor = page.cursor
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 99])
def test_a_recount_has_every_task_on_one_page_from_the_first_to_the_last(limit):
    names = ["first", "second", "third", "last"]
    shard = a_shard(*map(a_task, names))

    found = pages(shard, limit)

    assert found == [names[start : start + limit] for start in range(0, 4, limit)]


def test_the_names_of_tasks_that_were_forgotten_do_not_pile_up():
    shard = Shard(0)
    kept = []
    for i in range(3 * TRIM_TASKS):
        shard.apply(Submit(a_task(f"t{i}")), 0.0)
        finish_and_forget(shard, f"t{i}")
        kept.append(len(shard._submitted))

    assert max(kept) <= TRIM_TASKS + 1
    assert not any(pages(shard, 10))


def test_names_are_dropped_many_at_once():
    shard = Shard(0)
    kept = []
    for i in range(TRIM_TASKS):
        shard.apply(Submit(a_task(f"t{i}")), 0.0)
        finish_and_forget(shard, f"t{i}")
        kept.append(len(shard._submitted))

    assert kept == list(range(1, TRIM_TASKS + 1))


@pytest.mark.parametrize("place", [0, 1, 2, 500])
def test_no_name_is_dropped_of_a_task_still_known(place):
    gone = [f"t{i}" for i in range(TRIM_TASKS + 100)]
    shard = a_shard(*map(a_task, [*gone[:place], "first", *gone[place:], "last"]))

    for name in gone:
        finish_and_forget(shard, name)

    assert [task for page in pages(shard, 100) for task in page] == ["first", "last"]


@pytest.mark.parametrize("cursor", [0, 10, TRIM_TASKS, TRIM_TASKS + 50, TRIM_TASKS + 90])
def test_a_recount_goes_on_where_it_was_though_names_were_dropped_meanwhile(cursor):
    gone = [f"t{i}" for i in range(TRIM_TASKS + 50)]
    left = [f"u{i}" for i in range(100)]
    shard = a_shard(*map(a_task, gone + left))
    for name in gone[: 3 * len(gone) // 4]:
        finish_and_forget(shard, name)
    before = shard.apply(Recount(0, cursor, 10), 3.0)
    for name in gone[3 * len(gone) // 4 :]:
        finish_and_forget(shard, name)
    for i in range(TRIM_TASKS):
        shard.apply(Submit(a_task(f"v{i}")), 4.0)
        finish_and_forget(shard, f"v{i}")

    rest, at = [], before.cursor
    while at != -1:
        page = shard.apply(Recount(0, at, 10), 5.0)
        rest += [each.task for each in page.tasks]
        at = page.cursor

    assert shard._forgotten == len(gone)
    assert rest == left[max(0, before.cursor - len(gone)) :]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(st.just("submit"), st.just("page"), st.integers(0, 30)), min_size=5, max_size=80
    ),
    st.integers(1, 4),
)
def test_whatever_ends_or_comes_meanwhile_a_recount_has_each_that_stays_once(steps, limit):
    shard, stays, cursor, found = Shard(0), {}, 0, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_rules, "TRIM_TASKS", 2)
        for number, step in enumerate(["submit"] * 8 + steps + ["page"] * 100):
            if step == "submit":
                stays[f"t{number}"] = None
                shard.apply(Submit(a_task(f"t{number}")), 0.0)
            elif step == "page" and cursor != -1:
                page = shard.apply(Recount(0, cursor, limit), 0.0)
                found += [each.task for each in page.tasks]
                cursor = page.cursor
            elif step != "page" and stays:
                task = list(stays)[step % len(stays)]
                del stays[task]
                finish_and_forget(shard, task)
            if cursor == -1 and step == "page":
                break
    known = set(stays)

    assert cursor == -1
    assert len(found) == len(set(found))
    assert known <= set(found)
