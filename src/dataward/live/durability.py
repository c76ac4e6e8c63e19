"""Writes files through to the disk, so that they survive a power cut."""

import os
from collections.abc import Sequence
from contextlib import suppress

from dataward.live.libc import libc

# Measured on ext4: syncing a file takes 0.2 ms, the whole file system with fifty new files 0.6 ms.
# But the latter also waits for what other programs write, so a few files are synced one by one.
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

    A file that has been removed since is skipped: nobody needs it on the disk. The directories
    that list the files are left to the caller, unless the whole file system is synced.
    """
    if len(paths) >= SYNC_ALL_FILES and _sync_file_system_of(os.path.dirname(paths[0])):
        return
    for path in paths:
        with suppress(FileNotFoundError):
            sync_path(path)


def _sync_file_system_of(directory: str) -> bool:
    """Whether the directory's whole file system was synced. False if the system cannot do that."""
    file = os.open(directory, os.O_RDONLY)
    try:
        return bool(libc().syncfs(file) == 0)
    finally:
        os.close(file)
