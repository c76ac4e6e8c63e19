"""The history checker is content with a good history, and finds each way to spoil one."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import TypeGuard

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from dataward.cluster.history import FinalState, broken_promises
from dataward.cluster.troubles import Trouble, TroubleKind, Troubles
from dataward.model.events import (
    AttemptBegan,
    AttemptEnded,
    Event,
    FileEvicted,
    FileStored,
    NodeJoined,
    Occasion,
    RunEnded,
    TaskFinished,
    TaskPlaced,
    TaskReopened,
    TaskSkipped,
    TaskTakenOver,
)
from dataward.model.ids import NOBODY, AttemptId, NodeId, node_of
from dataward.model.states import AttemptOutcome, TaskState
from dataward.model.workflow import FileId, TaskId

A, B, C = TaskId("a"), TaskId("b"), TaskId("c")
N1, N2 = NodeId("n1"), NodeId("n2")
PARENTS = {B: [A], C: [A, B]}
Lists = dict[NodeId, list[Event]]


def began(
    at: float, task: TaskId, attempt: str, generation: int = 1, *, replica: bool = False
) -> AttemptBegan:
    name = AttemptId(attempt)
    return AttemptBegan(at, task, name, node_of(name), replica, generation)


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
            began(3.2, C, "n2.1.2", replica=True),
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
        ({"generations": {C: 2}}, "'c' ran 2 times, though it was reopened 0 times"),
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


def test_an_attempt_that_its_node_calls_lost_may_have_won_if_the_node_did_not_hear_so() -> None:
    lists = a_history()
    lists[N2][1] = ended(3, B, "n2.1.1", AttemptOutcome.LOST)
    silent = troubled(Trouble(TroubleKind.SILENT, 2.5, 2.9, N2))

    assert broken_promises(lists, PARENTS, an_end(), silent) == []
    assert _matches("before its parent 'b'", broken_promises(lists, PARENTS, an_end())[0])


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


# --- what a trouble excuses, and what it does not ------------------------------------------------


def troubled(*troubles: Trouble) -> Troubles:
    return Troubles(troubles, lease_seconds=2.0)


def killed(node: NodeId, at: float, **more: object) -> Troubles:
    return troubled(Trouble(TroubleKind.KILLED, at, node=node, **more))  # type: ignore[arg-type]


OUTPUTS = {A: [FileId("a.out")], B: [FileId("b.out")], C: [FileId("out")]}


def judged(lists: Lists, troubles: Troubles | None = None, **changed: object) -> list[str]:
    return broken_promises(lists, PARENTS, an_end(**changed), troubles, OUTPUTS)


def test_a_killed_node_may_leave_out_what_it_had_not_written() -> None:
    lists = a_history()
    lists[N2] = lists[N2][:1]  # b began there, and nothing more is known

    assert judged(lists, killed(N2, 3.1)) == []
    assert judged(lists, killed(N2, 0.5)) != []  # it was killed before that
    assert judged(lists, killed(N1, 3.1)) != []  # another was


def test_a_short_task_may_be_left_out_wholly_but_not_one_that_ran_long_before() -> None:
    lists = a_history()
    lists[N2] = []

    assert judged(lists, killed(N2, 3.1)) == []
    assert judged(lists, killed(N2, 0.2)) != []  # its parent had not finished then


def test_a_reopening_may_be_left_out_by_a_killed_node_though_the_first_end_is_left_out_too() -> (
    None
):
    lists = a_history()
    lists[N1][2:4] = [began(3.1, C, "n1.1.2")]
    lists[N2].append(began(8, C, "n2.1.3", 2))
    lists[N2].append(finished(9, C, "n2.1.3", 2))
    lists[N1].append(RunEnded(10, 3, 0, 0, 0))
    again = {"generations": {A: 1, B: 1, C: 2}}

    assert judged(lists, killed(N1, 4.2), **again) == []
    assert any("ran 2 times" in told for told in judged(lists, killed(N1, 15), **again))


def test_a_task_that_somebody_began_later_had_not_finished_before() -> None:
    lists = a_history()
    lists[N2] = [began(9.0, B, "n2.2.1"), finished(9.5, B, "n2.2.1")]

    assert _matches("before its parent 'b'", judged(lists, killed(N2, 1.4))[0])


def test_an_attempt_has_an_end_unless_its_node_was_killed() -> None:
    lists = a_history()
    del lists[N2][3]

    assert judged(lists, killed(N2, 3.9)) == []
    assert _matches("n2.1.2 of 'c' has no end", judged(lists)[0])
    assert _matches("n2.1.2 of 'c' has no end", judged(lists, killed(N1, 3.9))[0])


def test_only_what_a_killed_node_had_begun_may_be_begun_by_others() -> None:
    lists = a_history()
    lists[N1].insert(2, began(2.0, B, "n1.1.8"))
    lists[N1].insert(4, ended(2.5, B, "n1.1.8", AttemptOutcome.CANCELLED))

    assert _matches("n1.1.8 began 'b' at 2.000 s, while n2.1.1 was at it", judged(lists)[0])
    assert judged(lists, killed(N2, 1.8)) == []  # though it goes on, others do not know
    assert judged(lists, killed(N1, 1.8)) != []


def test_two_nodes_that_were_killed_while_one_gave_the_other_a_task_may_both_have_it() -> None:
    lists = a_history()
    lists[N1].insert(2, began(1.2, B, "n1.1.7"))  # n2 had it until then, and nobody wrote that down
    lists[N2][:2] = [began(1.9, B, "n2.2.1"), finished(3, B, "n2.2.1")]
    lists[N1].insert(3, began(2.0, B, "n1.2.1"))
    lists[N1].insert(4, ended(2.5, B, "n1.2.1", AttemptOutcome.CANCELLED))
    both = [Trouble(TroubleKind.KILLED, 1.4, 1.6, node) for node in (N1, N2)]

    assert judged(lists, troubled(*both)) == []
    assert _matches("n1.2.1 began 'b' at 2.000 s", judged(lists, troubled(both[0]))[0])


def test_each_takeover_of_a_task_may_find_it_one_more_node() -> None:
    lists = a_history()
    lists[N1].insert(2, began(2.0, B, "n1.1.8"))
    lists[N1].insert(3, ended(2.9, B, "n1.1.8", AttemptOutcome.CANCELLED))
    lists[N1].insert(1, TaskTakenOver(0.6, B, N2, 0))
    lists[N2].insert(0, NodeJoined(1.1, N2, 1))

    assert judged(lists) == []  # n2 is there, and has it still
    lists[N1].insert(4, began(2.2, B, "n1.2.1"))
    lists[N1].insert(5, ended(2.4, B, "n1.2.1", AttemptOutcome.CANCELLED))
    assert _matches("n1.2.1 began 'b' at 2.200 s, while n2.1.1 was at it", judged(lists)[0])


@pytest.mark.parametrize(("placed_at", "is_excused"), [(2.0, True), (1.6, False)])
def test_a_task_that_is_sent_on_slowly_may_be_placed_once_more(
    placed_at: float, is_excused: bool
) -> None:
    lists = a_history()
    lists[N1].insert(2, ended(1.3, B, "n1.1.7", AttemptOutcome.SENT_ON))
    lists[N1].insert(2, began(1.2, B, "n1.1.7"))
    lists[N1].insert(4, TaskPlaced(placed_at, B, N1, Occasion.GIVEN, ()))
    lists[N1].insert(5, began(2.1, B, "n1.1.8"))
    lists[N1].insert(6, ended(2.5, B, "n1.1.8", AttemptOutcome.CANCELLED))

    assert (judged(lists) == []) == is_excused


def test_tasks_are_taken_over_only_from_nodes_that_were_hurt() -> None:
    lists = a_history()
    lists[N1].insert(4, TaskTakenOver(4.5, C, N2, 1))
    silent = troubled(Trouble(TroubleKind.SILENT, 1.0, 3.5, N2))
    long_ago = troubled(Trouble(TroubleKind.SILENT, -30.0, -20.0, N2))

    assert _matches("'c' was taken over from n2 at 4.500 s, though", judged(lists)[0])
    assert judged(lists, silent) == []
    assert judged(lists, long_ago) != []
    assert judged(lists, killed(N1, 3.0)) != []


def test_tasks_are_taken_over_from_a_node_that_has_not_joined_yet() -> None:
    lists = a_history()
    lists[N2].insert(0, NodeJoined(1.2, N2, 1))
    lists[N1].insert(1, TaskTakenOver(0.6, B, N2, 0))

    assert judged(lists) == []
    lists[N2][0] = NodeJoined(0.0, N2, 1)
    assert _matches("taken over from n2", judged(lists)[0])


def test_a_node_that_came_back_is_not_given_up_for_what_happened_before() -> None:
    lists = a_history()
    lists[N2].insert(0, NodeJoined(1.4, N2, 2))
    lists[N1].insert(4, TaskTakenOver(4.5, C, N2, 2))
    before = troubled(Trouble(TroubleKind.KILLED, 0.2, 1.2, N2))

    assert _matches("taken over from n2", judged(lists, before)[0])


def test_a_node_that_was_asked_before_it_came_back_may_be_given_up_once_more() -> None:
    lists = a_history()
    lists[N2].insert(0, NodeJoined(1.4, N2, 2))
    lists[N1].insert(4, TaskTakenOver(3.5, C, N2, 2))
    just_before = troubled(Trouble(TroubleKind.SILENT, -1.5, 1.3, N2))
    long_before = troubled(Trouble(TroubleKind.SILENT, -2.5, 0.3, N2))

    assert judged(lists, just_before) == []
    assert _matches("taken over from n2", judged(lists, long_before)[0])


def a_reopening() -> Lists:
    """What a wrote is made again, though n1 has it."""
    lists = a_history()
    lists[N1][1:1] = [FileStored(0.9, FileId("a.out"), N1, 10)]
    lists[N2].append(TaskReopened(4.2, A, 1))
    lists[N2] += [began(4.3, A, "n2.1.3", 2), finished(4.9, A, "n2.1.3", 2)]
    return lists


def test_a_task_is_reopened_only_if_nobody_could_serve_what_it_wrote() -> None:
    ends = {"generations": {A: 2, B: 1, C: 1}}
    file = Trouble(TroubleKind.FILE, 2.0, node=N1, files=frozenset({FileId("a.out")}))
    other = Trouble(TroubleKind.FILE, 2.0, node=N1, files=frozenset({FileId("b.out")}))

    assert _matches(
        "'a' was reopened at 4.200 s by n2, though n1", judged(a_reopening(), **ends)[0]
    )
    assert judged(a_reopening(), killed(N1, 4.0), **ends) == []
    assert judged(a_reopening(), troubled(file), **ends) == []
    assert judged(a_reopening(), troubled(other), **ends) != []


def test_what_was_evicted_is_served_by_nobody() -> None:
    lists = a_reopening()
    lists[N1].insert(3, FileEvicted(3.0, FileId("a.out"), N1, 10))

    assert judged(lists, generations={A: 2, B: 1, C: 1}) == []


def test_attempts_fail_only_where_something_was_wrong() -> None:
    lists = a_history()
    lists[N2][3] = ended(4.1, C, "n2.1.2", AttemptOutcome.FAILED)
    here, there = (Trouble(TroubleKind.PROCESS, 4.0, 4.0, node) for node in (N2, N1))

    assert _matches("n2.1.2 of 'c' failed, though nothing was wrong at n2", judged(lists)[0])
    assert judged(lists, troubled(here)) == []
    assert judged(lists, troubled(there)) != []


def test_the_end_of_a_run_may_be_left_out_only_if_somebody_was_killed_after_the_last_task() -> None:
    lists = a_history()
    del lists[N1][-1]

    assert judged(lists, killed(N1, 4.1)) == []
    assert judged(lists, killed(N1, 2.0)) != []


# --- any event that is missing or changed is found, unless a trouble explains just that ----------


@st.composite
def histories(draw: st.DrawFn) -> Lists:
    """A chain of tasks, each at a node of its own choice, a second or more after the other."""
    nodes = [NodeId(f"n{number}") for number in range(1, 4)]
    lists: Lists = {node: [NodeJoined(0.0, node, 1)] for node in nodes}
    at, counts = 1.0, dict.fromkeys(nodes, 0)
    for number in range(draw(st.integers(3, 6))):
        node = draw(st.sampled_from(nodes))
        counts[node] += 1
        name = f"{node}.1.{counts[node]}"
        at += draw(st.floats(3.0, 6.0))
        lists[node] += [began(at, TaskId(f"t{number}"), name)]
        at += draw(st.floats(3.0, 6.0))
        lists[node] += [
            ended(at, TaskId(f"t{number}"), name, AttemptOutcome.WON),
            finished(at, TaskId(f"t{number}"), name),
        ]
    count = sum(counts.values())
    lists[nodes[0]].append(RunEnded(at + 1, count, 0, 0, 0))
    return lists


def judged_chain(lists: Lists, troubles: Troubles, tasks: int) -> list[str]:
    ids = [TaskId(f"t{number}") for number in range(tasks)]
    parents = {later: [earlier] for earlier, later in pairwise(ids)}
    none: dict[FileId, str] = {}
    states = dict.fromkeys(ids, TaskState.COMPLETE)
    final = FinalState(states, dict.fromkeys(ids, 1), none, none, none)
    return broken_promises(lists, parents, final, troubles)


def tasks_in(lists: Lists) -> int:
    return len({event.task for events in lists.values() for event in events if has_task(event)})


def has_task(event: Event) -> TypeGuard[AttemptBegan]:
    return isinstance(event, AttemptBegan)


@given(histories(), st.data())
def test_no_event_can_be_missing_though_another_node_was_killed(
    lists: Lists, data: st.DataObject
) -> None:
    tasks = tasks_in(lists)
    kills = data.draw(st.floats(0.0, 40.0))
    victim, other = data.draw(st.permutations(sorted(lists)))[:2]
    first = {node: list(events) for node, events in lists.items()}
    places = [p for p, e in enumerate(lists[other]) if isinstance(e, AttemptBegan | TaskFinished)]
    assume(places)
    place = data.draw(st.sampled_from(places))
    gone = lists[other].pop(place)
    ready = [e for events in first.values() for e in events if isinstance(e, TaskFinished)]
    # A whole task may be short enough to be left out by the killed node; half of one is not.
    assume(isinstance(gone, AttemptBegan) or ready)
    if isinstance(gone, TaskFinished):
        lists[other] = [
            e for e in lists[other] if not (isinstance(e, AttemptEnded) and e.task == gone.task)
        ]

    troubles = killed(victim, kills)

    assert judged_chain(first, Troubles(), tasks) == []
    assert judged_chain(lists, troubles, tasks) != []


@given(histories(), st.data())
def test_a_killed_node_excuses_only_what_was_not_written_yet(
    lists: Lists, data: st.DataObject
) -> None:
    tasks = tasks_in(lists)
    node = data.draw(st.sampled_from([n for n in sorted(lists) if len(lists[n]) > 2]))
    began_at = data.draw(st.sampled_from([e for e in lists[node] if isinstance(e, AttemptBegan)]))
    end = next(e for e in lists[node] if isinstance(e, TaskFinished) and e.task == began_at.task)
    kept = [e for e in lists[node] if e.at <= began_at.at]
    rest = [e for e in lists[node] if e.at > end.at]  # of the next incarnation
    lists[node] = [*kept, *rest]

    assert judged_chain(lists, killed(node, end.at), tasks) == []
    assert judged_chain(lists, killed(node, began_at.at - 1.0), tasks) != []


CHANGES: list[Callable[[TaskFinished], Event]] = [
    lambda e: structs.replace(e, attempt=AttemptId("n9.1.1")),
    lambda e: structs.replace(e, attempt=NOBODY),
    lambda e: structs.replace(e, task=TaskId("other")),
    lambda e: structs.replace(e, state=TaskState.FAILED),
]


@given(histories(), st.data())
def test_no_end_can_be_changed(lists: Lists, data: st.DataObject) -> None:
    tasks = tasks_in(lists)
    ends = [
        (node, place)
        for node, events in lists.items()
        for place, event in enumerate(events)
        if isinstance(event, TaskFinished)
    ]
    node, place = data.draw(st.sampled_from(ends))
    event = lists[node][place]
    assert isinstance(event, TaskFinished)
    lists[node][place] = data.draw(st.sampled_from(CHANGES))(event)

    assert judged_chain(lists, killed(NodeId("n3"), 0.5), tasks) != []


@given(histories(), st.data())
def test_no_task_can_be_won_twice_or_begin_early(lists: Lists, data: st.DataObject) -> None:
    tasks = tasks_in(lists)
    begins = [e for events in lists.values() for e in events if isinstance(e, AttemptBegan)]
    begins.sort(key=lambda event: event.at)
    chosen = data.draw(st.sampled_from(begins[1:]))
    rival = NodeId("n7")
    if data.draw(st.booleans()):
        lists[rival] = [
            began(chosen.at + 20, chosen.task, "n7.1.1"),
            finished(chosen.at + 21, chosen.task, "n7.1.1"),
        ]
    else:
        lists[rival] = [
            began(0.5, chosen.task, "n7.1.1"),
            ended(0.6, chosen.task, "n7.1.1", AttemptOutcome.CANCELLED),
        ]

    assert judged_chain(lists, killed(NodeId("n3"), 60.0), tasks) != []
