"""The load of a queue against the sum of what each of its tasks is expected to take."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model.estimate import UNKNOWN_SECONDS, estimate_of
from dataward.model.operations import QueueEntry
from dataward.node.learned_times import LearnedTimes
from dataward.node.waiting_load import WaitingLoad

CERTAIN, ROUGH, UNKNOWN = 0.0, 0.5, inf
TYPES = ("sort", "join", "")


def entry(
    task: str = "t", seconds: float = 2.0, spread: float = CERTAIN, task_type: str = "sort"
) -> QueueEntry:
    return QueueEntry(1.0, task, False, seconds, spread=spread, task_type=task_type)


def a_load(*entries: QueueEntry, times: LearnedTimes | None = None) -> WaitingLoad:
    load = WaitingLoad(times or LearnedTimes())
    for one in entries:
        load.add(one)
    return load


def test_tasks_of_which_nothing_is_known_are_no_load_of_0() -> None:
    unknown = [
        entry(seconds=UNKNOWN_SECONDS, spread=UNKNOWN),
        entry(seconds=0.0),
        QueueEntry(1, ""),
    ]

    assert a_load(*unknown).seconds == 3 * UNKNOWN_SECONDS > 0


def test_what_was_learned_counts_for_tasks_that_came_before() -> None:
    times = LearnedTimes()
    load = a_load(entry(spread=UNKNOWN), entry("u", spread=UNKNOWN), times=times)

    times.learn("sort", 30.0)

    load.weigh_again()
    assert load.seconds == 60.0


def test_what_was_learned_corrects_estimates_and_leaves_what_is_certain() -> None:
    times = LearnedTimes()
    load = a_load(entry("a", 10.0, ROUGH), entry("b", 10.0, CERTAIN), times=times)

    times.learn("sort", 30.0, 10.0)
    load.weigh_again()

    assert load.seconds == pytest.approx(10.0 + 10.0 * times.factor("sort"))


def test_where_all_is_certain_learning_changes_nothing() -> None:
    times = LearnedTimes()
    load = a_load(entry("a", 10.0, CERTAIN), times=times)

    times.learn("sort", 30.0, 10.0)

    load.weigh_again()

    assert load.seconds == 10.0


def test_tasks_are_not_weighed_again_before_a_tenth_more_is_learned() -> None:
    times = LearnedTimes()
    for _ in range(100):
        times.learn("sort", 1.0)
    load = a_load(entry(spread=UNKNOWN), times=times)
    load.weigh_again()

    loads = [load.seconds]
    for _ in range(30):
        times.learn("sort", 5.0)
        load.weigh_again()
        loads.append(load.seconds)

    assert [i for i in range(1, 31) if loads[i] != loads[i - 1]] == [10, 21]


def test_an_empty_queue_has_no_load_not_even_by_rounding() -> None:
    entries = [entry(str(i), 0.1 * i, spread) for i in range(9) for spread in (CERTAIN, ROUGH)]
    load = a_load(*entries)

    for one in entries:
        load.remove(one)

    assert load.seconds == 0.0


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.floats(0.0, 1e3),
            st.sampled_from((CERTAIN, ROUGH, UNKNOWN)),
            st.sampled_from(TYPES),
        ),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("learn"), st.sampled_from(TYPES), st.floats(0.0, 1e3), st.floats(0, 1e3)),
    )
)


@given(steps)
def test_just_after_weighing_the_load_is_the_sum_of_what_is_expected(steps: list) -> None:
    times = LearnedTimes()
    load = WaitingLoad(times)
    waiting: list[QueueEntry] = []
    for step in steps:
        match step:
            case "add", seconds, spread, task_type:
                waiting.append(entry("t", seconds, spread, task_type))
                load.add(waiting[-1])
            case "remove", place if waiting:
                load.remove(waiting.pop(place % len(waiting)))
            case "learn", task_type, seconds, estimated:
                times.learn(task_type, seconds, estimated)
                load.weigh_again()
    for _ in range(times.runs // 10 + 1):
        times.learn("sort", 1.0)
    load.weigh_again()

    expected = [
        times.expected_seconds(estimate_of(one.seconds, one.spread), one.task_type)
        for one in waiting
    ]
    assert load.seconds == pytest.approx(sum(expected), rel=1e-6, abs=1e-6)


def test_weighing_looks_only_at_types_that_have_run_and_wait() -> None:
    """There may be as many types as tasks: each task that ends would cost a look at all others."""

    class Counting(LearnedTimes):
        asked = 0

        def factor(self, task_type: str | None) -> float:
            self.asked += 1
            return super().factor(task_type)

    times = Counting()
    load = a_load(*(entry(str(i), 2.0, ROUGH, f"type{i}") for i in range(1000)), times=times)
    times.asked = 0

    times.learn("type7", 8.0, 2.0)
    load.weigh_again()

    assert times.asked == 2  # type7, and all others together
    expected = 2.0 * times.factor("type7") + 999 * 2.0 * times.factor("type8")
    assert load.seconds == pytest.approx(expected)


@pytest.mark.parametrize("spread", [CERTAIN, ROUGH])
def test_on_a_slow_machine_the_same_tasks_are_more_load(spread: float) -> None:
    tasks = [entry(seconds=2.0, spread=spread), entry(task="u", seconds=3.0, spread=spread)]

    load = a_load(*tasks, times=LearnedTimes(speed=0.5))
    assert load.seconds == 10.0

    load.remove(tasks[1])
    assert load.seconds == 4.0
