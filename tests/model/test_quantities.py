import pytest

from dataward.errors import SettingError
from dataward.model.quantities import (
    parse_bandwidth,
    parse_bytes,
    parse_seconds,
    show_bytes,
    show_seconds,
)


@pytest.mark.parametrize(
    ("text", "value"), [("25MB", 25_000_000), ("1 GiB", 2**30), ("4096", 4096), ("1.5kB", 1500)]
)
def test_sizes_are_read(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1Gbps", 125e6), ("10 Mbit/s", 1.25e6), ("125MB/s", 125e6), ("1MiB/s", 2**20), ("7", 7.0)],
)
def test_bits_and_bytes_a_second_are_told_apart(text: str, value: float) -> None:
    assert parse_bandwidth(text) == value


@pytest.mark.parametrize("text", ["0", "0Gbps", "1e-400MB/s", "1e400"])
def test_a_link_that_moves_nothing_or_all_at_once_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=f"bandwidth must be above 0 and finite, not '{text}'"):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), ("20ms", 0.02), ("5min", 300.0), ("2h", 7200.0)]
)
def test_durations_are_read(text: str, value: float) -> None:
    assert parse_seconds(text) == value


@pytest.mark.parametrize("parse", [parse_bytes, parse_bandwidth, parse_seconds])
@pytest.mark.parametrize("text", ["", "fast", "-1MB", "1 parsec", "nan", "12XB"])
def test_nonsense_is_refused_with_an_example(parse, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SettingError, match=r"such as|write it as"):
        parse(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (1.234e9, "1.23 GB")]
)
def test_sizes_are_shown_with_three_digits(count: float, text: str) -> None:
    assert show_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.34, "340 ms"),
        (12.34, "12.3 s"),
        (245, "4 min 05 s"),
        (7800, "2 h 10 min"),
        (273600, "3 d 04 h"),
    ],
)
def test_durations_are_shown_in_the_unit_people_use(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text
