"""Processes of tasks whose runner process can no longer see to them, found by where they are."""

import os
from contextlib import suppress
from pathlib import Path

import psutil


def kill_processes_in(directory: Path) -> None:
    """Kill whoever has a working directory in this one, or had until it was removed."""
    place = str(directory.resolve())
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            where = process.cwd()
            if where == place or where.startswith((place + os.sep, place + " (deleted)")):
                process.kill()
