"""Has files written through to the disk, so that they survive a power cut."""

import os
from collections.abc import Sequence
from contextlib import suppress

from dataward.live.libc import libc

# Measured on ext4: a file 0.2 ms, the whole file system with fifty new ones 0.6 ms. But that also
# waits for what others are writing, so a few files are synced one by one.
SYNC_ALL_FILES = 8


def sync_path(path: str) -> None:
    """Write a file, or a directory's list of names, through to the disk. Raises OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_files(paths: Sequence[str]) -> None:
    """Write these files of one file system through to the disk. Raises OSError.

    One that has been removed since is passed over: nobody needs it on the disk. The directories
    that list the files are left to the caller, unless the whole file system is synced.
    """
    if len(paths) >= SYNC_ALL_FILES and _sync_file_system_of(os.path.dirname(paths[0])):
        return
    for path in paths:
        with suppress(FileNotFoundError):
            sync_path(path)


def _sync_file_system_of(directory: str) -> bool:
    """Sync everything on the file system that holds this. False if the system cannot do that."""
    file = os.open(directory, os.O_RDONLY)
    try:
        return bool(libc().syncfs(file) == 0)
    finally:
        os.close(file)
