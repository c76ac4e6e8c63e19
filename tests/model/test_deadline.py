from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.errors import SettingError
from dataward.model.deadline import (
    SECONDS_MAX,
    moment_after,
    parse_deadline,
    rounded_up,
    show_moment,
    wanted_deadline,
)
from dataward.model.quantities import show_seconds

NOW = datetime(2026, 11, 18, 14, 19, tzinfo=UTC)


def seconds_until(text: str, now: datetime = NOW) -> float:
    return (parse_deadline(text, now, UTC) - now).total_seconds()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90m", 5400),
        ("90min", 5400),
        ("45s", 45),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("1d", 86400),
        ("1d2h3m4s", 93784),
        ("0.5s", 0.5),
        ("17:30", 3 * 3600 + 11 * 60),
        ("14:19:30", 30),
        ("2026-11-18T17:30", 3 * 3600 + 11 * 60),
        ("2026-11-18 17:30", 3 * 3600 + 11 * 60),
        ("2026-11-18T17:30+02:00", 3600 + 11 * 60),
        ("2026-11-19T14:19Z", 86400),
    ],
)
def test_a_deadline_is_a_duration_a_time_of_day_or_a_date_and_time(
    text: str, seconds: float
) -> None:
    assert seconds_until(text) == seconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("09:00", "in the past: it is 14:19 now; tomorrow's is 2026-11-19T09:00"),
        ("9:00", "tomorrow's is 2026-11-19T09:00"),
        ("14:19", "in the past"),
        ("2026-11-18T14:00", "in the past: it is 2026-11-18T14:19 now"),
        ("0s", "leaves no time at all"),
        ("0h0m", "leaves no time at all"),
        ("-2h", "is negative"),
        ("soon", "is not a time: write a duration as 2h"),
        ("", "is not a time"),
        ("90", "is not a time"),
        ("30m1h", "is not a time"),
        ("25:00", "is not a time"),
        ("2026-11-18", "is not a time"),
        ("2026-13-18T10:00", "is not a time"),
        ("999999999999d", "more than a year away"),
        ("2031-01-01T00:00", "more than a year away"),
    ],
)
def test_each_bad_deadline_is_told_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(SettingError) as told:
        seconds_until(text)

    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_best_effort_needs_a_deadline() -> None:
    with pytest.raises(SettingError, match="--best-effort says what to do"):
        wanted_deadline(None, True, NOW)

    assert wanted_deadline(None, False, NOW) is None


def test_a_deadline_may_be_given_in_seconds_or_as_a_moment() -> None:
    in_seconds = wanted_deadline(90, False, NOW)
    as_moment = wanted_deadline(NOW + timedelta(seconds=90), False, NOW)

    assert in_seconds is not None
    assert in_seconds == as_moment
    assert in_seconds.seconds == 90


@given(st.text(max_size=12) | st.from_regex(r"[0-9.:dhmsT+\- ]{0,12}", fullmatch=True))
def test_any_text_is_a_later_moment_or_a_setting_error(text: str) -> None:
    try:
        moment = parse_deadline(text, NOW, UTC)
    except SettingError:
        return

    assert 0 < (moment - NOW).total_seconds() <= SECONDS_MAX


@given(st.integers(0, 20), st.integers(0, 47), st.integers(0, 99), st.integers(1, 99))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, mins: int, secs: int) -> None:
    text = f"{days}d{hours}h{mins}m{secs}s"

    assert seconds_until(text) == days * 86400 + hours * 3600 + mins * 60 + secs


@given(st.floats(0.1, SECONDS_MAX - 61), st.integers(-12, 12), st.integers(0, 86400 * 10**6))
def test_a_moment_as_it_is_shown_can_be_asked_for(
    seconds: float, offset: int, microseconds: int
) -> None:
    zone = timezone(timedelta(hours=offset))
    now = NOW.astimezone(zone) + timedelta(microseconds=microseconds)
    moment = moment_after(now, seconds)

    read = parse_deadline(show_moment(moment, now), now, zone)

    assert read == moment
    assert (read - now).total_seconds() >= seconds - 1e-6


@given(st.floats(0.1, SECONDS_MAX - 3601))
def test_a_duration_as_it_is_shown_can_be_asked_for(seconds: float) -> None:
    rounded = rounded_up(seconds)

    assert rounded >= seconds
    assert seconds_until(show_seconds(rounded)) == rounded


def test_a_deadline_that_was_read_before_stays_though_it_has_passed_meanwhile() -> None:
    read = wanted_deadline("0.001s", False, NOW)

    assert wanted_deadline(read, False, NOW + timedelta(seconds=1)) is read
