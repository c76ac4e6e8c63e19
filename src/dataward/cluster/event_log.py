"""A host's list of events of one run, in a file; what the disk refuses waits in memory."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dataward.errors import OutputError
from dataward.model.events import Event
from dataward.reports.event_file import EventFileWriter

log = logging.getLogger(__name__)

WAITING_MAX = 100_000  # events; the oldest are dropped


class EventLog:
    """Continues the file if there is one. No run ends because its events cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: EventFileWriter | None = None
        self._size_bytes = 0  # of what is surely whole
        self._waiting: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        """Hand these events to the system, and those that are still waiting."""
        self._waiting += events
        if not self._waiting:
            return
        try:
            file = self._file or self._open()
            file.add_all(self._waiting)
            file.flush()
        except OutputError as error:
            log.warning("%s", error)
            self._cut_off()
            del self._waiting[:-WAITING_MAX]
        else:
            self._size_bytes = self._path.stat().st_size
            self._waiting.clear()

    def close(self) -> None:
        if self._file is not None:
            with suppress(OutputError):
                self._file.close()

    def _open(self) -> EventFileWriter:
        is_begun = self._path.exists() and self._path.stat().st_size > 0
        self._file = EventFileWriter(self._path, append=is_begun)
        self._size_bytes = self._path.stat().st_size
        return self._file

    def _cut_off(self) -> None:
        """Remove what was written in part: it is written again."""
        self.close()
        if self._file is not None or not self._size_bytes:
            with suppress(OSError):
                os.truncate(self._path, self._size_bytes)
        self._file = None
