"""Reads ``--time-limit``: how long a task may run."""

from dataward.errors import SettingError
from dataward.model.quantities import parse_seconds


def time_limit_seconds(text: str) -> float:
    """The time that a task may take; 0 if nothing is said, which means no limit."""
    seconds = parse_seconds(text) if text else 0.0
    if text and not seconds:
        raise SettingError("--time-limit 0 would leave tasks no time; leave it out for no limit")
    return seconds
