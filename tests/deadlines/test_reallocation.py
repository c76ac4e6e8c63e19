"""What is asked for anew when a node that had promised tasks is lost."""

from dataward.deadlines.frames import frames_of_stage
from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.reallocation import overtaken, rest_of_workflow
from dataward.deadlines.reservations import Promise

# 0 and 1 before 2, 2 before 3
PARENTS = [[], [], [0, 1], [2]]
WORK = [10.0, 10.0, 20.0, 5.0]


def test_a_lost_task_must_end_before_those_start_that_are_still_promised() -> None:
    kept = {2: Promise(80.0, 100.0), 3: Promise(100.0, 105.0)}

    rest = rest_of_workflow(WORK, PARENTS, kept, {1}, 40.0, 105.0)

    assert [list(tasks) for tasks in rest.outline.sequences] == [[1]]
    assert frames_of_stage(rest, 0) == [Frame(40.0, 80.0)]
    assert not rest.is_complete


def test_tasks_that_wait_for_each_other_are_asked_for_one_after_the_other() -> None:
    rest = rest_of_workflow(WORK, PARENTS, {3: Promise(100.0, 105.0)}, {1, 2}, 40.0, 105.0)

    assert rest.outline.stages == [[0], [1]]
    (first,) = frames_of_stage(rest, 0)
    rest.promise(1, first.deadline - 10.0, first.deadline)
    assert first.startline == 40.0
    assert first.deadline < 80.0  # the one after it needs 20 s, and a share of the slack
    assert frames_of_stage(rest, 1) == [Frame(first.deadline, 100.0)]


def test_a_task_may_start_when_what_is_complete_is_known_to_all() -> None:
    rest = rest_of_workflow(WORK, PARENTS, {}, {2, 3}, 40.0, 105.0, lag_seconds=1.0)

    assert frames_of_stage(rest, 0)[0].startline == 41.0
    assert rest.outline.minimum_length_seconds == 25.0


def test_what_is_asked_for_anew_takes_as_many_cores_as_before() -> None:
    rest = rest_of_workflow(WORK, PARENTS, {}, {2, 3}, 40.0, 105.0, cores=[1, 1, 4, 1])

    assert [rest.outline.width_of(task) for task in (2, 3)] == [4, 1]


def test_tasks_are_overtaken_that_cannot_start_in_time_after_a_late_one() -> None:
    parents = [[], [0], [1], [0], []]
    promises = {
        0: Promise(0.0, 20.0),  # late: it should have ended by 10
        1: Promise(15.0, 20.0),
        2: Promise(24.0, 30.0),  # task 1 cannot end before 25.5
        3: Promise(40.0, 50.0),
        4: Promise(0.0, 5.0),
    }

    assert overtaken(parents, promises, 0.5) == {1, 2}
    assert overtaken(parents, promises | {0: Promise(0.0, 14.0)}, 0.5) == set()
