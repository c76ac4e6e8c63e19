"""What is said to a deadline."""

from datetime import datetime, timedelta

from dataward.deadlines.admission import RefusedDeadline
from dataward.model.deadline import WantedDeadline
from dataward.runs.deadline_answer import DeadlineAnswer

NOW = datetime(2026, 11, 18, 12, 0).astimezone()
WANTED = WantedDeadline(NOW, NOW + timedelta(hours=1), False)


def test_a_refusal_tells_the_earliest_that_can_be_promised() -> None:
    sentence = DeadlineAnswer(WANTED, RefusedDeadline(7200.0)).sentence

    assert sentence == "refused: the earliest that can be promised is 14:00 (in 2 h 00 min)"


def test_a_refusal_says_so_if_no_time_was_found() -> None:
    sentence = DeadlineAnswer(WANTED, RefusedDeadline()).sentence

    assert sentence.startswith("refused: no time was found by which it could be promised")


def test_a_refusal_without_an_earliest_finish_can_be_told_to_programs() -> None:
    told = DeadlineAnswer(WANTED, RefusedDeadline()).as_json()

    assert told["earliest"] is None
    assert told["earliest_seconds"] is None
