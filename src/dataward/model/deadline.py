"""Reads deadlines the way people write them: a duration, a time of day, or a date and a time."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from math import ceil

from dataward.errors import SettingError

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_DURATION = re.compile(
    rf"(?:{_NUMBER}\s*d)?\s*(?:{_NUMBER}\s*h)?\s*(?:{_NUMBER}\s*m(?:in)?)?\s*(?:{_NUMBER}\s*s)?"
)
_TIME_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FORMS = "write a duration as 2h, 90m or 1h30m, a time as 17:30, or both as 2026-11-18T17:30"
SECONDS_MAX = 366 * 86400.0  # nobody promises what is further away
FINE_SECONDS = 600.0  # what is nearer than this is told to the second, other things to the minute
COARSE_SECONDS = 47 * 3600.0  # and durations from here on to the hour


@dataclass(frozen=True, slots=True)
class WantedDeadline:
    """By when a workflow is to end, and when that was asked, both with their zone.

    With ``best_effort`` the workflow runs even if that cannot be promised.
    """

    asked: datetime
    at: datetime
    best_effort: bool = False

    @property
    def seconds(self) -> float:
        """How much time there was when the deadline was asked for."""
        return (self.at - self.asked).total_seconds()


def wanted_deadline(
    deadline: str | float | datetime | WantedDeadline | None, best_effort: bool, now: datetime
) -> WantedDeadline | None:
    """The deadline that somebody gave as text, in seconds or as a moment; None if nobody did.

    One that was read already stays as it is, also if it has passed since. Raises SettingError.
    """
    if isinstance(deadline, WantedDeadline):
        return deadline
    if deadline is None:
        if best_effort:
            raise SettingError("--best-effort says what to do if a --deadline cannot be promised")
        return None
    if isinstance(deadline, datetime):
        deadline = deadline.isoformat()
    elif not isinstance(deadline, str):
        deadline = f"{deadline:f}s"
    return WantedDeadline(now, parse_deadline(deadline, now), best_effort)


def parse_deadline(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """The moment that a text means, in the zone of ``now``, which knows its zone.

    A time of day is today's. Times without a zone are of ``zone``, or else of this machine's.
    Raises SettingError if the text is no time, or the moment is not after ``now``.
    """
    words = text.strip()
    if words.startswith(("-", "\N{MINUS SIGN}")):
        raise SettingError(f"the deadline {text!r} is negative: {_FORMS}")
    duration = _duration_seconds(words)
    if duration is not None:
        return _after(text, now, duration)
    moment = _moment(text, words, now, zone).astimezone(now.tzinfo)
    if moment <= now:
        raise SettingError(f"the deadline {text!r} is in the past{_instead(words, now)}")
    if (moment - now).total_seconds() > SECONDS_MAX:
        raise SettingError(f"the deadline {text!r} is more than a year away")
    return moment


def _duration_seconds(words: str) -> float | None:
    """How long a text such as ``1h30m`` is; None if it is no duration."""
    match = _DURATION.fullmatch(words)
    if not match or not any(match.groups()):
        return None
    amounts = [float(amount or 0) for amount in match.groups()]
    return sum(a * u for a, u in zip(amounts, (86400.0, 3600.0, 60.0, 1.0), strict=True))


def _after(text: str, now: datetime, seconds: float) -> datetime:
    if not seconds:
        raise SettingError(f"the deadline {text!r} leaves no time at all: {_FORMS}")
    if seconds > SECONDS_MAX:
        raise SettingError(f"the deadline {text!r} is more than a year away")
    return now + timedelta(seconds=seconds)


def _moment(text: str, words: str, now: datetime, zone: tzinfo | None) -> datetime:
    here = now.astimezone(zone)
    try:
        if match := _TIME_OF_DAY.fullmatch(words):
            hour, minute, second = (int(part or 0) for part in match.groups())
            naive = datetime(here.year, here.month, here.day, hour, minute, second)
        elif _DATE.match(words) and len(words) > len("2026-11-18"):
            naive = datetime.fromisoformat(words)
        else:
            raise ValueError
        return naive if naive.tzinfo else _in_zone(naive, zone)
    except (ValueError, OverflowError):
        raise SettingError(f"the deadline {text!r} is not a time: {_FORMS}") from None


def _in_zone(naive: datetime, zone: tzinfo | None) -> datetime:
    return naive.astimezone() if zone is None else naive.replace(tzinfo=zone)


def _instead(words: str, now: datetime) -> str:
    """How to write the same time of tomorrow, if the text was a time of day."""
    match = _TIME_OF_DAY.fullmatch(words)
    if not match:
        return f": it is {now:%Y-%m-%dT%H:%M} now"
    tomorrow = now + timedelta(days=1)
    hour = f"{int(match[1]):02d}:{match[2]}"
    return f": it is {now:%H:%M} now; tomorrow's is {tomorrow:%Y-%m-%d}T{hour}"


def show_moment(moment: datetime, now: datetime) -> str:
    """A moment such as ``17:12``, ``17:12:30`` if it is near, ``2026-11-19T09:00`` if not today."""
    is_near = abs((moment - now).total_seconds()) < FINE_SECONDS
    clock = f"{moment:%H:%M:%S}" if is_near else f"{moment:%H:%M}"
    return clock if moment.date() == now.date() else f"{moment:%Y-%m-%d}T{clock}"


def rounded_up(seconds: float) -> float:
    """A duration that `show_seconds` shows in full: to the second, or coarser if it is long."""
    step = 1.0 if seconds < FINE_SECONDS else 60.0 if seconds < COARSE_SECONDS else 3600.0
    return ceil(seconds / step) * step


def moment_after(now: datetime, seconds: float) -> datetime:
    """A moment that `show_moment` shows in full, and that is at least so many seconds away."""
    step = 1 if seconds < FINE_SECONDS - 60 else 60
    moment = now + timedelta(seconds=seconds)
    whole = moment.replace(second=moment.second // step * step, microsecond=0)
    return whole if whole == moment else whole + timedelta(seconds=step)
