"""Reads and prints sizes, bandwidths and durations the way people write them."""

import re
from math import inf

from dataward.errors import SettingError

_UNIT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*")
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40, "pi": 2.0**50}
_SECONDS = {
    "": 1.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def parse_bytes(text: str) -> int:
    """``25MB``, ``1.5 GiB``, ``4096`` as bytes."""
    number, unit = _split(text, "a size such as 25MB or 1GiB")
    lower = unit.lower().removesuffix("b")
    factor = _BINARY.get(lower) or _PREFIX.get(lower)
    if factor is None:
        raise SettingError(f"{text!r} is not a size; write it as 25MB, 1GiB or 4096")
    return round(number * factor)


def parse_bandwidth(text: str) -> float:
    """``1Gbps`` (bits) or ``125MB/s`` (bytes) as bytes per second; a bare number is bytes.

    It is above 0 and finite, since durations are bytes divided by it.
    """
    bytes_per_second = _bytes_per_second(text)
    if not 0 < bytes_per_second < inf:
        raise SettingError(f"a bandwidth must be above 0 and finite, not {text!r}")
    return bytes_per_second


def _bytes_per_second(text: str) -> float:
    number, unit = _split(text, "a bandwidth such as 1Gbps or 125MB/s")
    if unit.endswith(("bps", "bit/s", "b/s")):
        prefix = unit.removesuffix("bps").removesuffix("bit/s").removesuffix("b/s").lower()
        if prefix in _PREFIX:
            return number * _PREFIX[prefix] / 8
    elif unit.endswith(("B/s", "Bps")) or not unit:
        prefix = unit.removesuffix("B/s").removesuffix("Bps").lower()
        factor = _BINARY.get(prefix) or _PREFIX.get(prefix)
        if factor is not None:
            return number * factor
    raise SettingError(f"{text!r} is not a bandwidth; write it as 1Gbps (bits) or 125MB/s (bytes)")


def parse_seconds(text: str) -> float:
    """``1.5``, ``20ms``, ``2h`` as seconds."""
    number, unit = _split(text, "a duration such as 30s, 5min or 2h")
    if unit not in _SECONDS:
        raise SettingError(f"{text!r} is not a duration; write it as 20ms, 30s, 5min or 2h")
    return number * _SECONDS[unit]


def _split(text: str, wanted: str) -> tuple[float, str]:
    match = _UNIT.fullmatch(text)
    if not match:
        raise SettingError(f"{text!r} is not {wanted}")
    return float(match[1]), match[2]


def show_bytes(count: float) -> str:
    """A size such as ``1.21 GB``: three significant digits, decimal prefixes."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if abs(count) < 999.5 or unit == "PB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{_three_digits(count)} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def show_seconds(seconds: float) -> str:
    """A duration such as ``340 ms``, ``12.3 s``, ``4 min 05 s``, ``2 h 10 min``, ``3 d 04 h``."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{_three_digits(seconds * 1e3)} ms"
    if seconds < 99.95:
        return f"{_three_digits(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24:,} d {hours % 24:02d} h"


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
