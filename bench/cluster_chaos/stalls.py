"""Notices when this machine had no time for its processes: then leases end for no other reason."""

import time
from threading import Event, Thread

PAUSE_SECONDS = 0.05
STALL_SECONDS = 0.5  # a quarter of the campaign's leases, as between two renewals


class StallMeter:
    """``stalls`` has when each began and ended, by the wall clock."""

    def __init__(self) -> None:
        self.stalls: list[tuple[float, float]] = []
        self._over = Event()
        self._thread = Thread(target=self._measure, name="stalls", daemon=True)

    def __enter__(self) -> "StallMeter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _measure(self) -> None:
        before = time.time()
        while not self._over.wait(PAUSE_SECONDS):
            now = time.time()
            if now - before > STALL_SECONDS:
                self.stalls.append((before, now))
            before = now
