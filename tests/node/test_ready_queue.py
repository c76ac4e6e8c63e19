"""The ready queue against a list that is sorted whenever it is asked."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dataward.kernel import VirtualKernel
from dataward.model.answers import Standing
from dataward.model.operations import QueueEntry, Shelf
from dataward.model.states import TaskState
from dataward.model.workflow import TaskId
from dataward.node.ready_queue import LoadMeasure, ReadyQueue, TakeOrder, entry_for


def a_queue(
    *entries: QueueEntry,
    order: TakeOrder = TakeOrder.URGENCY,
    measure: LoadMeasure = LoadMeasure.SECONDS,
) -> ReadyQueue:
    queue = ReadyQueue(VirtualKernel(), order=order, measure=measure)
    for entry in entries:
        queue.put(entry)
    return queue


def own(task: str, priority: float = 1.0, seconds: float = 1.0, generation: int = 1) -> QueueEntry:
    return QueueEntry(priority, TaskId(task), False, seconds, generation)


def replica(task: str, priority: float = 1.0, seconds: float = 1.0) -> QueueEntry:
    return QueueEntry(priority, TaskId(task), True, seconds)


def kept(task: str, priority: float = 1.0) -> QueueEntry:
    return replace(own(task, priority), shelf=Shelf.KEPT)


def take_all(queue: ReadyQueue) -> list[str]:
    taken = []
    while (entry := queue.take()) is not None:
        taken.append(str(entry.task))
    return taken


def test_the_most_urgent_is_taken_first() -> None:
    assert take_all(a_queue(own("late", 3.0), own("soon", 1.0), own("next", 2.0))) == [
        "soon",
        "next",
        "late",
    ]


def test_equal_urgency_goes_to_the_lowest_id() -> None:
    assert take_all(a_queue(own("b"), own("c"), own("a"))) == ["a", "b", "c"]


def test_own_tasks_are_taken_before_replicas_however_urgent() -> None:
    assert take_all(a_queue(replica("theirs", 0.0), own("mine", 9.0))) == ["mine", "theirs"]


def test_a_task_is_queued_once() -> None:
    queue = a_queue(own("a", 1.0), own("a", 5.0), replica("a"))

    assert len(queue) == 1
    assert queue.load_seconds == 1.0
    assert take_all(queue) == ["a"]


def test_only_own_tasks_are_given_the_least_urgent_first() -> None:
    queue = a_queue(own("a", 1.0), own("b", 3.0), replica("c", 9.0), own("d", 2.0))

    assert [entry.task for entry in queue.least_urgent(2)] == ["b", "d"]
    assert [entry.task for entry in queue.least_urgent(9)] == ["b", "d", "a"]
    assert queue.givable == 3
    assert take_all(queue) == ["a", "d", "b", "c"]  # they were left where they are


def test_a_task_with_all_its_backups_is_offered_no_more() -> None:
    queue = a_queue(own("a", 1.0), own("b", 2.0))

    queue.keep(TaskId("b"))
    assert [entry.task for entry in queue.least_urgent(2)] == ["a"]
    assert queue.offered.is_set()
    queue.keep(TaskId("a"))

    assert queue.least_urgent(2) == []
    assert not queue.offered.is_set()
    assert take_all(queue) == ["a", "b"]


def test_a_task_of_unknown_length_weighs_something() -> None:
    assert a_queue(own("a", seconds=0.0), own("b", seconds=2.5)).load_seconds == 3.5


def test_the_flag_is_up_while_there_is_something_to_take() -> None:
    queue = a_queue()
    assert not queue.grown.is_set()

    queue.put(own("a"))
    assert queue.grown.is_set()
    queue.take()

    assert not queue.grown.is_set()


def test_replicas_and_tasks_given_away_are_shared() -> None:
    queue = a_queue(own("z"), own("kept"), replica("a"))

    queue.share(TaskId("z"))
    queue.share(TaskId("unknown"))

    assert queue.shared() == ["a", "z"]
    queue.remove(TaskId("z"))
    queue.take()
    assert queue.shared() == ["a"]


@pytest.mark.parametrize(("up_to", "gone"), [(None, True), (1, False), (2, True), (3, True)])
def test_a_task_queued_for_a_later_completion_stays(up_to: int | None, gone: bool) -> None:
    queue = a_queue(own("a", generation=2))

    assert queue.remove(TaskId("a"), up_to) is gone
    assert (TaskId("a") in queue) is not gone


def test_an_entry_that_comes_back_is_offered_once() -> None:
    """A failed task goes back into the queue by the very entry it came with."""
    again, other = own("again", 2.0), own("other", 1.0)
    queue = a_queue(again, other)

    queue.remove(again.task)
    queue.put(again)

    assert [entry.task for entry in queue.least_urgent(2)] == ["again", "other"]


def test_an_entry_is_for_the_tasks_next_completion() -> None:
    standing = Standing(
        TaskId("a"), TaskState.READY, 3, priority=2.0, seconds=5.0, spread=0.5, task_type="sort"
    )

    assert entry_for(standing) == QueueEntry(
        2.0, TaskId("a"), False, 5.0, 4, spread=0.5, task_type="sort"
    )
    assert entry_for(standing, Shelf.POOLED).shelf is Shelf.POOLED


# --- tasks that only this node may run -----------------------------------------------------------


def test_tasks_that_only_this_node_may_run_are_taken_first_if_the_order_says_so() -> None:
    entries = own("shared", 1.0), kept("b", 3.0), kept("a", 2.0), replica("theirs", 0.0)

    assert take_all(a_queue(*entries)) == ["shared", "a", "b", "theirs"]
    assert take_all(a_queue(*entries, order=TakeOrder.KEPT_FIRST)) == ["a", "b", "shared", "theirs"]


def test_tasks_that_only_this_node_may_run_are_given_to_nobody() -> None:
    queue = a_queue(own("shared"), kept("a"), kept("b"))

    assert queue.kept == 2
    assert queue.givable == 1
    assert [entry.task for entry in queue.least_urgent(9)] == ["shared"]


def test_the_least_urgent_of_them_can_be_offered_to_others() -> None:
    queue = a_queue(kept("a", 1.0), kept("b", 2.0), kept("c", 3.0), order=TakeOrder.KEPT_FIRST)

    queue.offer_kept(2)

    assert queue.kept == 1
    assert [entry.task for entry in queue.least_urgent(9)] == ["c", "b"]
    assert queue.offered.is_set()
    assert take_all(queue) == ["a", "b", "c"]
    assert not any(queue.loose_ends().values())


def test_a_flag_is_up_while_there_is_such_a_task() -> None:
    queue = a_queue(own("shared"))
    assert not queue.confined.is_set()

    queue.put(kept("a"))
    assert queue.confined.is_set()
    queue.offer_kept(1)

    assert not queue.confined.is_set()


def test_load_may_be_the_number_of_tasks_that_others_may_take() -> None:
    queue = a_queue(
        own("a", seconds=9.0), kept("b"), replica("c"), measure=LoadMeasure.SHARED_TASKS
    )
    assert queue.load_seconds == 1.0

    queue.offer_kept(1)
    assert queue.load_seconds == 2.0
    take_all(queue)

    assert queue.load_seconds == 0.0


# --- any order of events -------------------------------------------------------------------------


@dataclass
class SortedList:
    """What the queue should be, as plainly as it can be said."""

    order: TakeOrder
    measure: LoadMeasure
    entries: list[QueueEntry] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)

    def put(self, entry: QueueEntry) -> None:
        if not any(e.task == entry.task for e in self.entries):
            self.entries.append(entry)
            self.kept.discard(entry.task)

    def take(self) -> QueueEntry | None:
        def part(entry: QueueEntry) -> int:
            kept_first = self.order is TakeOrder.KEPT_FIRST and entry.shelf is Shelf.KEPT
            if entry.replica and self.order is not TakeOrder.REPLICAS_TOO:
                return 2
            return 0 if kept_first and not entry.replica else 1

        order = sorted(self.entries, key=lambda e: (part(e), e.priority, e.task))
        if order:
            self.entries.remove(order[0])
        return order[0] if order else None

    def first(self) -> list[QueueEntry]:
        own = [e for e in self.entries if not e.replica or self.order is TakeOrder.REPLICAS_TOO]
        return sorted(
            [e for e in own if self.order is not TakeOrder.KEPT_FIRST or e.shelf is Shelf.SHARED],
            key=lambda e: (e.priority, e.task),
        )

    def confined(self) -> list[QueueEntry]:
        confined = [e for e in self.entries if not e.replica and e.shelf is Shelf.KEPT]
        return sorted(confined, key=lambda e: (e.priority, e.task), reverse=True)

    def offer(self, count: int) -> None:
        for entry in self.confined()[:count]:
            self.entries.remove(entry)
            self.put(replace(entry, shelf=Shelf.SHARED))

    def load_seconds(self) -> float:
        if self.measure is LoadMeasure.SECONDS:
            return sum(e.seconds or 1.0 for e in self.entries)
        return sum(not e.replica and e.shelf is Shelf.SHARED for e in self.entries)

    def givable(self) -> list[QueueEntry]:
        offered = [
            e
            for e in self.entries
            if not e.replica and e.shelf is Shelf.SHARED and e.task not in self.kept
        ]
        return sorted(offered, key=lambda e: (-e.priority, e.task))

    def remove(self, task: str) -> bool:
        before = len(self.entries)
        self.entries = [e for e in self.entries if e.task != task]
        return len(self.entries) < before


tasks = st.sampled_from("abcdefgh").map(TaskId)
entries = st.builds(
    QueueEntry,
    st.sampled_from([0.0, 1.0, 2.0]),
    tasks,
    st.booleans(),
    st.sampled_from([0.0, 0.1, 10.0]),
    st.just(1),
    st.sampled_from([Shelf.SHARED, Shelf.KEPT]),
)
STEPS = ["put", "put", "take", "remove", "keep", "give", "look", "offer", "clear"]
pools = st.lists(entries, min_size=1, max_size=12)


@given(
    pools,
    st.sampled_from([o for o in TakeOrder if o is not TakeOrder.PROMISED]),
    st.sampled_from(LoadMeasure),
    st.data(),
)
def test_it_is_a_sorted_list_only_faster(
    pool: list[QueueEntry], order: TakeOrder, measure: LoadMeasure, data: st.DataObject
) -> None:
    queue, model = a_queue(order=order, measure=measure), SortedList(order, measure)
    for _ in range(data.draw(st.integers(1, 40), label="steps")):
        step = data.draw(st.sampled_from(STEPS))
        if step == "put":
            entry = replace(data.draw(st.sampled_from(pool)))
            queue.put(entry)
            model.put(entry)
        elif step == "take":
            assert queue.take() == model.take()
        elif step == "remove":
            task = data.draw(tasks)
            assert queue.remove(task) == model.remove(task)
        elif step == "keep":
            task = data.draw(tasks)
            if task in queue:
                queue.keep(task)
                model.kept.add(task)
        elif step == "give":
            count = data.draw(st.integers(1, 5))
            assert queue.least_urgent(count) == model.givable()[:count]
        elif step == "look":
            count = data.draw(st.integers(1, 5))
            assert queue.most_urgent(count) == model.first()[:count]
        elif step == "offer":
            count = data.draw(st.integers(1, 5))
            queue.offer_kept(count)
            model.offer(count)
        else:
            queue.clear()
            model.entries.clear()

        assert len(queue) == len(model.entries)
        assert queue.givable == len(model.givable())
        assert queue.kept == len(model.confined())
        assert queue.load_seconds == pytest.approx(model.load_seconds())
        assert queue.grown.is_set() == bool(model.entries)
        assert queue.offered.is_set() == bool(model.givable())
        assert queue.confined.is_set() == bool(model.confined())


def test_what_has_come_and_gone_is_not_remembered():
    queue = a_queue(own("stays", priority=9.0))
    for number in range(10_000):
        queue.put(own(f"t{number}"))
        assert queue.take() == own(f"t{number}")

    assert len(queue._patient) < 2_000
    assert queue.least_urgent(3) == [own("stays", priority=9.0)]
