"""Processes of tasks whose runner process can no longer see to them, found by where they are."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import psutil


def end_leftovers(work: Path) -> None:
    """Kill what a run that was killed has left running, and remove its private directories."""
    if work.exists():
        kill_processes_in(work)
        shutil.rmtree(work, ignore_errors=True)


def kill_processes_in(directory: Path) -> None:
    """Kill whoever has a working directory in this one, or had until it was removed."""
    place = str(directory.resolve())
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            where = process.cwd()
            if where == place or where.startswith((place + os.sep, place + " (deleted)")):
                process.kill()
