"""Events that the disk refuses are written when it has room again, each once and in order."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataward.cluster.event_log import EventLog
from dataward.model.events import Event, NodeJoined
from dataward.model.ids import NodeId
from dataward.reports.event_file import EventFileReader


def some(first: int, count: int) -> list[Event]:
    return [NodeJoined(float(n), NodeId("n1"), n) for n in range(first, first + count)]


@contextmanager
def files_no_larger_than(size_bytes: int) -> Iterator[None]:
    """The system refuses to write more to any file, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room_bytes", [0, 10, 300, 1000])
def test_nothing_is_lost_or_torn_while_the_disk_is_full(room_bytes: int, tmp_path: Path) -> None:
    events = EventLog(tmp_path / "events")
    events.write(some(0, 5))
    size_bytes = os.stat(tmp_path / "events").st_size

    with files_no_larger_than(size_bytes + room_bytes):
        events.write(some(5, 100))
        while_full = list(EventFileReader(tmp_path / "events"))
        events.write(some(105, 3))
    events.write(some(108, 2))
    events.close()

    assert while_full == some(0, 5)
    assert list(EventFileReader(tmp_path / "events")) == some(0, 110)


def test_a_list_that_could_not_be_begun_is_begun_later(tmp_path: Path) -> None:
    events = EventLog(tmp_path / "events")

    with files_no_larger_than(7):
        events.write(some(0, 3))
    events.write([])
    events.close()

    assert list(EventFileReader(tmp_path / "events")) == some(0, 3)


def test_a_list_is_continued(tmp_path: Path) -> None:
    for first in (0, 3):
        events = EventLog(tmp_path / "events")
        events.write(some(first, 3))
        events.close()

    assert list(EventFileReader(tmp_path / "events")) == some(0, 6)
