"""The history checker is content with a good history, and finds each way to spoil one."""

import re
from collections.abc import Callable

import pytest

from dataward.cluster.history import Cut, FinalState, broken_promises
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    RunEnded,
    TaskFinished,
    TaskReopened,
    TaskSkipped,
)
from dataward.model.ids import NOBODY, AttemptId, NodeId, node_of
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId

A, B, C = TaskId("a"), TaskId("b"), TaskId("c")
N1, N2 = NodeId("n1"), NodeId("n2")
PARENTS = {B: [A], C: [A, B]}
Lists = dict[NodeId, list[Event]]


def began(at: float, task: TaskId, attempt: str, generation: int = 1) -> AttemptBegan:
    name = AttemptId(attempt)
    return AttemptBegan(at, task, name, node_of(name), False, generation)


def finished(at: float, task: TaskId, attempt: str, generation: int = 1) -> TaskFinished:
    name = AttemptId(attempt)
    node = node_of(name) if name != NOBODY else N1
    return TaskFinished(at, task, name, node, TaskState.COMPLETE, generation)


def ended(at: float, task: TaskId, attempt: str, outcome: AttemptOutcome) -> AttemptEnded:
    return AttemptEnded(at, task, AttemptId(attempt), node_of(AttemptId(attempt)), outcome)


def a_history() -> Lists:
    """Three tasks on two nodes, each after the other; a replica of the last one loses."""
    return {
        N1: [
            began(0, A, "n1.1.1"),
            finished(1, A, "n1.1.1"),
            began(3.1, C, "n1.1.2"),
            finished(4, C, "n1.1.2"),
            RunEnded(5, 3, 0, 0, 0),
        ],
        N2: [
            began(1.5, B, "n2.1.1"),
            finished(3, B, "n2.1.1"),
            began(3.2, C, "n2.1.2"),
            ended(4.1, C, "n2.1.2", AttemptOutcome.LOST),
        ],
    }


def an_end(**changed: object) -> FinalState:
    facts: dict[str, object] = {
        "states": dict.fromkeys((A, B, C), TaskState.COMPLETE),
        "generations": dict.fromkeys((A, B, C), 1),
        "committed": {FileId("out"): "aa"},
        "fetched": {FileId("out"): "aa"},
        "expected": {FileId("out"): "aa"},
    }
    return FinalState(**{**facts, **changed})  # type: ignore[arg-type]


def test_a_good_history_keeps_all_promises() -> None:
    assert broken_promises(a_history(), PARENTS, an_end()) == []


def test_hosts_whose_clocks_differ_a_little_break_no_promise() -> None:
    lists = a_history()
    lists[N2] = [type(e)(e.at - 0.6, *_rest(e)) for e in lists[N2]]

    assert broken_promises(lists, PARENTS, an_end()) == []


def _rest(event: Event) -> list[object]:
    return [getattr(event, name) for name in event.__struct_fields__[1:]]


def _two_winners(lists: Lists) -> None:
    lists[N2][3:] = [finished(4.1, C, "n2.1.2")]


def _wins_twice(lists: Lists) -> None:
    lists[N1].insert(4, finished(4.2, C, "n1.1.2", 2))


def _wins_two_tasks(lists: Lists) -> None:
    lists[N1][3] = finished(4, C, "n1.1.1")


def _began_two_tasks(lists: Lists) -> None:
    lists[N1][2:4] = [began(3.1, C, "n1.1.1")]


def _too_early(lists: Lists) -> None:
    lists[N1].insert(1, began(0.5, C, "n1.1.9"))


def _never_began(lists: Lists) -> None:
    del lists[N1][0]


def _by_nobody(lists: Lists) -> None:
    lists[N1][1] = finished(1, A, "")


def _failed_yet_won(lists: Lists) -> None:
    lists[N1].insert(1, ended(0.9, A, "n1.1.1", AttemptOutcome.FAILED))


def _again_though_complete(lists: Lists) -> None:
    lists[N2].append(began(9.0, A, "n2.1.7"))


def _no_end(lists: Lists) -> None:
    del lists[N1][-1]


def _wrong_count(lists: Lists) -> None:
    lists[N1][-1] = RunEnded(5, 2, 1, 0, 0)


def _silent_end(lists: Lists) -> None:
    del lists[N1][3]
    lists[N2][3] = ended(4.1, C, "n2.1.2", AttemptOutcome.CANCELLED)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_two_winners, "generation 1 of 'c' was won by n1.1.2 and by n2.1.2"),
        (_wins_twice, r"n1.1.2 won 'c' \(1\) and 'c' \(2\)"),
        (_wins_two_tasks, r"n1.1.1 won 'a' \(1\) and 'c' \(1\)"),
        (_began_two_tasks, "n1.1.1 began both 'a' and 'c'"),
        (_too_early, "began 'c' at .* before its parent 'a' had finished"),
        (_never_began, "'a' is complete by n1.1.1, which never began"),
        (_by_nobody, "'a' is complete by no attempt"),
        (_failed_yet_won, "n1.1.1 failed, yet 'a' is complete by it"),
        (_again_though_complete, "for generation 1, which was complete at 1.000 s"),
        (_no_end, "no host told of the run's end"),
        (_wrong_count, "2 of 3 tasks were complete in the end"),
        (_silent_end, "'c' is complete in the end, yet no host told of it"),
    ],
)
def test_a_spoiled_history_is_found_out(spoil: Callable[[Lists], None], said: str) -> None:
    lists = a_history()
    spoil(lists)

    problems = broken_promises(lists, PARENTS, an_end())

    assert any(_matches(said, problem) for problem in problems), problems


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"states": {A: TaskState.COMPLETE, B: TaskState.COMPLETE, C: TaskState.FAILED}},
         "'c' is failed in the end"),
        ({"generations": {C: 2}}, "'c' ran 2 times, though nobody reopened it"),
        ({"committed": {}}, "result 'out' was not committed"),
        ({"committed": {FileId("out"): "bb"}}, "result 'out' was committed wrong"),
        ({"fetched": {}}, "result 'out' could not be fetched"),
        ({"fetched": {FileId("out"): "bb"}}, "result 'out' was fetched with other contents"),
        ({"fetched": {FileId("out"): "aa", FileId("more"): "cc"}}, "'more' was fetched, which"),
    ],
)  # fmt: skip
def test_an_end_that_is_wrong_is_found_out(changed: dict[str, object], said: str) -> None:
    problems = broken_promises(a_history(), PARENTS, an_end(**changed))

    assert len(problems) == 1
    assert _matches(said, problems[0])


def test_a_commit_that_a_shard_forgot_may_be_told_again() -> None:
    lists = a_history()
    lists[N1].insert(2, finished(2.9, A, "n1.1.1", (1 << 20) + 1))

    assert broken_promises(lists, PARENTS, an_end(generations={A: (1 << 20) + 1})) == []


def test_an_attempt_that_its_node_calls_lost_may_have_won() -> None:
    lists = a_history()
    lists[N2][1] = ended(3, B, "n2.1.1", AttemptOutcome.LOST)

    assert broken_promises(lists, PARENTS, an_end()) == []


def test_an_attempt_that_was_cancelled_has_not_won() -> None:
    lists = a_history()
    lists[N2][1] = ended(3, B, "n2.1.1", AttemptOutcome.CANCELLED)

    assert _matches("before its parent 'b'", broken_promises(lists, PARENTS, an_end())[0])


def test_a_task_whose_outputs_were_lost_may_run_again() -> None:
    lists = a_history()
    lists[N1][4:4] = [
        TaskReopened(4.2, A, 1),
        began(4.3, A, "n1.1.3", 2),
        finished(4.9, A, "n1.1.3", 2),
    ]

    assert broken_promises(lists, PARENTS, an_end(generations={A: 2, B: 1, C: 1})) == []


def test_a_skipped_parent_has_finished() -> None:
    lists = a_history()
    lists[N1][:2] = [TaskSkipped(0, A)]

    assert broken_promises(lists, PARENTS, an_end()) == []


def test_only_a_host_that_was_cut_off_at_that_time_may_leave_events_out() -> None:
    lists = a_history()
    lists[N2] = []
    in_time, too_late = [Cut(N2, 3.3)], [Cut(N2, 6.0)]

    assert broken_promises(lists, PARENTS, an_end(), in_time) == []
    assert _matches("before its parent 'b'", broken_promises(lists, PARENTS, an_end(), too_late)[0])
    assert broken_promises(lists, PARENTS, an_end(), [Cut(N2, 6.0, is_removed=True)]) == []
