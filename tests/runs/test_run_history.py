"""What a run's events come to: which tasks ran, for how long, and why others failed."""

from collections.abc import Iterable

import pytest

from cli.recorded_runs import a_bad_run, a_good_run, a_recorded_run
from dataward.model.events import AttemptEnded, Event
from dataward.model.ids import NOBODY, AttemptId
from dataward.model.states import AttemptOutcome
from dataward.model.workflow import TaskId
from dataward.runs.outcomes import Made, Outcome
from dataward.runs.run_history import RunHistory, history_of
from reports.lives import (
    attempt_of,
    done,
    error,
    failed,
    failed_with_parent,
    measured,
    ran,
    started,
)

T = TaskId("t")


def history(events: Iterable[Event], run: int = 7) -> RunHistory:
    found = RunHistory(run)
    for event in events:
        found.add(event)
    return found


def a_failure(reason: str, *, count: int = 1, run: int = 7) -> Outcome:
    return Outcome("", (), (), run, AttemptId(attempt_of("t", count)), 0.0, reason)


def ended(outcome: AttemptOutcome, *, count: int = 1) -> Event:
    return AttemptEnded(1.0, T, AttemptId(attempt_of("t", count)), "n0", outcome)


def test_a_task_that_ran_is_told_with_its_run_its_attempt_and_how_long_it_took():
    found = history([*ran("t", 4.0, 2.5), *ran("u", 5.0, 0.5)])

    assert found.made == {
        "t": Made(7, attempt_of("t"), 2.5),
        "u": Made(7, attempt_of("u"), 0.5),
    }
    assert found.failed == {}


@pytest.mark.parametrize("outcome", [o for o in AttemptOutcome if o is not AttemptOutcome.WON])
def test_the_attempt_that_was_committed_is_the_one_whose_time_counts(outcome):
    found = history(
        [
            *started("t", 0.0, count=1),
            *started("t", 0.0, count=2),
            measured("t", 1.0, 9.0, count=1),
            ended(outcome, count=1),
            *done("t", 2.0, 3.0, count=2),
        ]
    )

    assert found.made == {"t": Made(7, attempt_of("t", 2), 3.0)}


def test_an_attempt_of_which_nothing_was_measured_took_no_time():
    *_, finished = ran("t", 1.0)

    assert history([finished]).made == {"t": Made(7, attempt_of("t"), 0.0)}


def test_a_task_that_failed_is_told_with_the_reason_of_its_last_attempt():
    found = history(
        [
            *error("t", 1.0, "exit code 1", count=1),
            *error("t", 2.0, "exit code 2", count=2),
            failed("t", 2.0, count=2),
        ]
    )

    assert found.failed == {"t": a_failure("exit code 2", count=2)}
    assert found.made == {}


def test_a_task_that_failed_without_a_word_says_so():
    assert history([failed("t", 1.0)]).failed == {"t": a_failure("no reason was recorded")}


def test_a_task_that_never_ran_since_its_parent_failed_has_neither():
    found = history([failed_with_parent("t", 1.0)])

    assert (found.made, found.failed) == ({}, {})
    assert failed_with_parent("t", 1.0).attempt == NOBODY


def test_a_task_that_succeeds_after_it_failed_has_not_failed():
    """As where a run is resumed: its events go on in the same list."""
    found = history([*error("t", 1.0), failed("t", 1.0), *ran("t", 3.0, 2.0, count=2)])

    assert found.failed == {}
    assert found.made == {"t": Made(7, attempt_of("t", 2), 2.0)}


def test_the_time_of_this_run_goes_before_that_of_an_earlier_one():
    earlier = {name: Outcome("", (), (), seconds=8.0) for name in (T, TaskId("before"))}

    found = history(ran("t", 3.0, 2.0))

    assert found.seconds_of(T, earlier) == 2.0
    assert found.seconds_of(TaskId("before"), earlier) == 8.0
    assert found.seconds_of(TaskId("never"), earlier) == 0.0


def test_the_history_of_a_run_that_is_over_is_in_its_recorded_events():
    good, bad = (a_recorded_run(events, "w.run") for events in (a_good_run(), a_bad_run()))

    made = {task: one.seconds for task, one in history_of(good).made.items()}
    assert made == {"split": 1.0, "left": 2.0, "right": 3.0, "join": 4.0}
    assert history_of(bad).failed.keys() == {"left"}
    assert [history_of(record).run for record in (good, bad)] == [1, 2]
