"""Kills what tasks left running when their runner process died, found by working directory."""

import os
from contextlib import suppress
from pathlib import Path

from dataward.live.trees import remove_tree

PASSES_MAX = 10  # more would not help against a process that starts others faster than this


def end_leftovers(work: Path) -> None:
    """Kill the processes a killed run has left running, and remove its private directories."""
    if work.exists():
        kill_processes_in(work)
        with suppress(OSError):
            remove_tree(work)


def kill_processes_in(directory: Path) -> None:
    """Kill every process whose working directory is in this one, or was until it was removed.

    Repeats, for processes started meanwhile, until none is found.
    """
    place = str(directory.resolve())
    for _ in range(PASSES_MAX):
        if not _kill_in(place):
            return


def _kill_in(place: str) -> int:
    import psutil

    found = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            where = process.cwd()
            if where == place or where.startswith((place + os.sep, place + " (deleted)")):
                process.kill()
                found += 1
    return found
