"""How long a slot stays lent while others wait for it."""

from dataward.cluster.loan import TURN_SECONDS, TURN_SECONDS_MIN, turn_seconds


def test_a_turn_is_shorter_for_who_has_had_more_time_than_the_one_who_waits() -> None:
    assert turn_seconds(0.0) == TURN_SECONDS
    assert turn_seconds(-10.0) == TURN_SECONDS
    assert turn_seconds(0.25) == TURN_SECONDS - 0.25
    assert turn_seconds(10.0) == TURN_SECONDS_MIN


def test_turns_against_short_tasks_come_to_the_same_time_for_both() -> None:
    calls = tasks = 0.0
    for _ in range(1000):
        calls += turn_seconds(calls - tasks)
        tasks += 0.1

    assert abs(calls - tasks) <= TURN_SECONDS
