"""Work on files that nobody waits for, done in order by one thread.

Removing a file takes microseconds, or milliseconds while the disk is being synced: too long for the
event loop.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Backlog:
    """Does pieces of work in the order they were added; after an error, none that is left.

    So a file that could not be published is not removed. With ``on_error``, which is told of
    errors, the pieces do not depend on each other, and those that are left are done.
    """

    def __init__(self, on_error: Callable[[Exception], None] | None = None) -> None:
        self._on_error = on_error
        self._pieces: deque[Callable[[], None]] = deque()
        self._thread = ThreadPoolExecutor(1, "dataward-files")
        self._lock = threading.Lock()
        self._is_at_work = False
        self.error: Exception | None = None

    def add(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._pieces.append(work)
            if self._is_at_work:
                return
            self._is_at_work = True
        self._thread.submit(self._work_off)

    def _work_off(self) -> None:
        while True:
            with self._lock:
                if not self._pieces:
                    self._is_at_work = False
                    return
                work = self._pieces.popleft()
            try:
                if self.error is None:
                    work()
            except Exception as error:
                if self._on_error is None:
                    self.error = error
                else:
                    self._on_error(error)

    def close(self) -> None:
        """Wait until all pieces of work are done."""
        self._thread.shutdown()
