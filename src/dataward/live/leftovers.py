"""Processes of tasks whose runner process can no longer see to them, found by where they are."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import psutil

PASSES_MAX = 10  # whoever starts processes faster than that is not ended by looking for them


def end_leftovers(work: Path) -> None:
    """Kill what a run that was killed has left running, and remove its private directories."""
    if work.exists():
        kill_processes_in(work)
        shutil.rmtree(work, ignore_errors=True)


def kill_processes_in(directory: Path) -> None:
    """Kill whoever has a working directory in this one, or had until it was removed.

    And then those they had started meanwhile, until nobody is found.
    """
    place = str(directory.resolve())
    for _ in range(PASSES_MAX):
        if not _kill_in(place):
            return


def _kill_in(place: str) -> int:
    found = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            where = process.cwd()
            if where == place or where.startswith((place + os.sep, place + " (deleted)")):
                process.kill()
                found += 1
    return found
